"""Event hubs: nodes that distribute events over partitions; each partition is a stream of the broker.

They know no link. The stream gives readers their events; this module admits readers, and puts them out.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Final

from ....errors import DecodeError
from ....messaging import Error, Message
from ....types import Symbol, Timestamp, decode, encode
from ..._errors import Refused
from ..._queues.arguments import QueueDeclaration
from ..._queues.journal import QueueJournal
from ..._queues.message import QueuedMessage
from ..._queues.node import Node, QueueConsumer
from ..._queues.stream import Retention, Stream
from ..._queues.stream_offsets import StreamPosition
from .._busy import AzureNode
from .._conditions import ARGUMENT_ERROR, NOT_ALLOWED
from .._messages import BATCH_FORMAT, checked, parts_of_batch, timestamp
from .partition_keys import partition_of

if TYPE_CHECKING:
    from ..._queues.journal import Records
    from ..._queues.node import Producer
    from ..._virtual_host_core import Journal, VirtualHostCore
    from .._config import EventHubConfig
    from .positions import Position

LINK_STOLEN: Final = "amqp:link:stolen"

MAX_SIZE: Final = 1_048_576
"""The most octets of an event, and of a batch."""
MAX_IN_BATCH: Final = 50_000
"""The most events of a batch; the samples of SDKs fill one with 43,690. Other peers wait about a second meanwhile."""
MAX_READERS: Final = 5
"""The most readers of a partition, in one consumer group, that have no owner level."""
OFFSET_STEP: Final = 64
"""The distance between offsets, so that a program that takes an offset for a sequence number fails."""
NO_TIME: Final = Timestamp(-62_135_596_800_000)
"""The year 1: the time of the last event in a partition that never had one."""

_SEQUENCE: Final = Symbol("x-opt-sequence-number")
_OFFSET: Final = Symbol("x-opt-offset")
_ENQUEUED: Final = Symbol("x-opt-enqueued-time")
_KEY: Final = Symbol("x-opt-partition-key")
_PUBLISHER: Final = Symbol("x-opt-publisher")
_MAX_KEY_LENGTH: Final = 128
_CREATED, _END, _EVENT = "created", "#", "m"
"""The keys of records: the creation of a hub; the end of a partition; the first letter for an event."""


class Reader(QueueConsumer):
    """A reader of a partition.

    Attributes:
        group: its consumer group.
        epoch: its owner level; None: it shares the partition.
        name: the name it gives itself, for errors of other readers.
    """

    copies = True
    settles = True
    group: str
    epoch: int | None
    name: str

    @abstractmethod
    def steal(self, error: Error) -> None:
        """End, because another reader has the partition."""


class Hub(AzureNode):
    """Takes events, and puts each into one of its partitions: by its key, or in turn.

    Attributes:
        partitions: in the order of their ids, which are "0" and so on.
        groups: its consumer groups, by names in lowercase.
        created: when it was created, in seconds since 1970.
        largest: the most octets of a message.
        sent: when each connection last sent something, by the numbers of those that are entered here.
    """

    largest: int = MAX_SIZE

    def __init__(self, config: EventHubConfig, clock: Callable[[], float], vhost: VirtualHostCore) -> None:
        super().__init__(config.name, limits=vhost.limits, touch=vhost.touch)
        self.created: float = clock()
        self.sent: dict[int, float] = {}
        self._clock = clock
        self.groups: dict[str, str] = {name.casefold(): name for name in config.consumer_groups}
        self._vhost = vhost
        self._turn = count()
        self._publishers: dict[str, Publisher] = {}
        self.partitions: list[Partition] = [
            Partition(self, str(number), config.retention, clock, vhost) for number in range(config.partitions)
        ]

    def keep_in(self, store: Journal) -> None:
        """Keep its creation time and all events in a store from now on."""
        store.records(self.name.casefold()).put(_CREATED, lambda: encode(self.created))
        for partition in self.partitions:
            partition.keep_in(store)

    def restore_record(self, key: str, content: bytes) -> None:
        """Restore a record of a store.

        Raises:
            Exception: the record is invalid.
        """
        if key != _CREATED:
            raise ValueError(f"the key of a record of a hub must be {_CREATED!r}, not {key!r:.60}")
        self.created = float(decode(content))

    @property
    def free(self) -> int:
        return min(partition.free for partition in self.partitions)

    def put(self, entry: QueuedMessage) -> None:
        self.publish(entry, None)

    insert = put

    def reserve(self, entry: QueuedMessage, *, restored: bool = False) -> None:
        raise Refused(NOT_ALLOWED, f"{self.name!r} is an event hub, which does not support transactions")

    def publish(self, entry: QueuedMessage, publisher: str | None) -> None:
        """Take a message from a publisher, whose name is the key of all its events; None: from any other sender.

        Raises:
            Refused: the hub is busy, or the message is not an event, or has another key than its publisher.
        """
        events, key = self.read(entry)
        if publisher is not None:
            if key not in (None, publisher):
                reason = f"the partition key of a publisher must be its name {publisher!r}, not {key!r}"
                raise Refused(NOT_ALLOWED, reason)
            for event in events:
                event.annotate({_KEY: publisher, _PUBLISHER: publisher})
            key = publisher
        number = next(self._turn) if key is None else partition_of(key, len(self.partitions))
        self.partitions[number % len(self.partitions)].append(events)

    def read(self, entry: QueuedMessage) -> tuple[list[QueuedMessage], str | None]:
        """Return the events of a message and the key of all of them, or None.

        Raises:
            Refused: the hub is busy, or the message is neither an event nor a batch of events.
        """
        if entry.origin in self.sent:
            self.sent[entry.origin] = self._clock()
        self.check_busy()
        if entry.size > MAX_SIZE:
            reason = f"an event or a batch must have at most {MAX_SIZE} octets, not {entry.size}"
            raise Refused("amqp:link:message-size-exceeded", reason)
        try:
            if entry.message_format == 0:
                entry.payload, event = checked(entry.payload)
                entry.size = len(entry.payload)
                return [entry], _key_in(event)
            if entry.message_format != BATCH_FORMAT:
                return [self._event(entry.payload, None, entry)], _key_in(checked(entry.payload)[1])
            key = _key_in(Message.decode(entry.payload))
            return [self._event(part, key, entry) for part in parts_of_batch(entry.payload, MAX_IN_BATCH)], key
        except DecodeError as error:
            raise Refused("amqp:decode-error", str(error)) from None

    def _event(self, payload: bytes, key: str | None, batch: QueuedMessage) -> QueuedMessage:
        """Return one event of a batch, with the key of the batch in place of its own."""
        ordered, message = checked(payload)
        own = _key_in(message)
        # Event Hubs keeps delivery annotations behind the body, and no others: azure-sdk-for-go#19154.
        event = QueuedMessage.read(ordered, 0, self._vhost.clock(), keep_annotations=ordered is not payload)
        event.origin, event.account = batch.origin, batch.account
        if key is not None and own != key:
            event.annotate({_KEY: key})
        return event

    def delete(self, error: Error) -> None:
        self.deleted = True
        self._end_links((), error)

    @property
    def senders(self) -> Iterable[Node]:
        """The nodes through which events come."""
        return (self, *self._publishers.values())

    def publisher(self, name: str) -> Publisher:
        """Return the node of a publisher, which exists as long as somebody sends to it.

        Raises:
            Refused: the peer has made too many nodes, or the name is too long.
        """
        publisher = self._publishers.get(name)
        if publisher is None:
            last = next(reversed(self._publishers.values()), None)
            if last is not None and not last.producers:
                self._forget(last)  # its link was not attached after all
            address = f"{self.name}/Publishers/{name}"
            self._vhost.make_room(address)
            publisher = Publisher(self, name, address, self._vhost, self._forget)
            self._vhost.adopt(publisher)
            self._publishers[name] = publisher
        return publisher

    def _forget(self, publisher: Publisher) -> None:
        del self._publishers[publisher.publisher]
        self._vhost.delete(publisher)


class Publisher(AzureNode):
    """The node that one publisher sends to; see `Hub.publish`.

    Attributes:
        publisher: the name of the publisher.
    """

    largest: int = MAX_SIZE

    def __init__(
        self, hub: Hub, publisher: str, address: str, vhost: VirtualHostCore, forget: Callable[[Publisher], None]
    ) -> None:
        super().__init__(address, limits=vhost.limits, touch=vhost.touch)
        self.hub = hub
        self.publisher = publisher
        self._forget = forget

    @property
    def free(self) -> int:
        return self.hub.free

    def put(self, entry: QueuedMessage) -> None:
        self.hub.publish(entry, self.publisher)

    insert = put

    def reserve(self, entry: QueuedMessage, *, restored: bool = False) -> None:
        self.hub.reserve(entry)

    def remove_producer(self, producer: Producer) -> None:
        super().remove_producer(producer)
        if not self.producers and not self.deleted:
            self._forget(self)

    def delete(self, error: Error) -> None:
        self.deleted = True


class _EventJournal(QueueJournal):
    """Keeps the events of a partition as records."""

    __slots__ = ("_records", "dropped", "number")

    def __init__(self, records: Records) -> None:
        self._records = records
        self.number = 0
        self.dropped = False

    def record(self, entry: QueuedMessage) -> None:
        entry.row = entry.position + 1
        key = f"{_EVENT}{entry.position:020}"
        if entry.gone:
            self._records.remove(key)
        else:
            self._records.put(key, lambda: encode([entry.payload, entry.message_format, entry.arrived]))

    rewritten = record

    def record_lazily(self, entry: QueuedMessage) -> None:
        """Do nothing: readers do not take events away."""

    came_back = record_lazily

    def drop(self) -> None:
        self._records.drop()


class Partition(AzureNode, Stream):
    """One partition of a hub; the offset of an event in the stream is its sequence number.

    Attributes:
        hub: the hub of the partition.
        id: its number as text.
        readers: its readers, by consumer group.
    """

    largest: int = MAX_SIZE
    min_depth = 0
    journal: QueueJournal | None

    def __init__(
        self, hub: Hub, number: str, retention: float | None, clock: Callable[[], float], vhost: VirtualHostCore
    ) -> None:
        super().__init__(
            f"{hub.name}/Partitions/{number}",
            vhost.queue_settings,
            QueueDeclaration(arguments={"x-queue-type": "stream"}),
            Retention(age=retention),
            wall=lambda: math.floor(clock() * 1000) / 1000,  # annotations give the time of an event in milliseconds
            ages=clock,
        )
        self.hub = hub
        self.id = number
        self.readers: dict[str, dict[Reader, None]] = {}
        self._records: Records | None = None
        self._restored_end: tuple[int, float] | None = None

    # In the store

    def keep_in(self, store: Journal) -> None:
        """Keep events in a store from now on, and the number of the next one if no event is left."""
        self._records = store.records(self.name.casefold())
        self.journal = _EventJournal(self._records)
        if self._restored_end is not None and not self.depth:
            following, latest = self._restored_end
            self._move(following - self.enqueued)
            self._begin_earlier(latest)

    def restore_record(self, key: str, content: bytes) -> None:
        """Restore a record of a store, before anything else happens.

        Raises:
            Exception: the record is invalid.
        """
        if key == _END:
            following, latest = decode(content)
            self._restored_end = int(following), float(latest)
        elif key[:1] == _EVENT:
            payload, message_format, arrived = decode(content)
            entry = QueuedMessage(bytes(payload), int(message_format))
            entry.position, entry.arrived = int(key[1:]), float(arrived)
            entry.row = entry.position + 1
            self.restore(entry, was_held=False)
        else:
            raise ValueError(f"the key of a record of a partition must not be {key!r:.60}")

    # Coming in

    def put(self, entry: QueuedMessage) -> None:
        self.append(self.hub.read(entry)[0])

    insert = put

    def reserve(self, entry: QueuedMessage, *, restored: bool = False) -> None:
        self.hub.reserve(entry)

    def append(self, events: Iterable[QueuedMessage]) -> None:
        """Take events, in order."""
        for event in events:
            super().insert(event)
        if self._records is not None:
            self._records.put(_END, lambda: encode([self.enqueued, self.latest or 0.0]))

    def _stamp(self, entry: QueuedMessage) -> None:
        """Write the annotations of the service into an event."""
        arrived = timestamp(entry.arrived or 0.0)
        entry.annotate({_SEQUENCE: self.enqueued, _OFFSET: offset_of(self.enqueued), _ENQUEUED: arrived})

    def run(self) -> None:
        super().run()
        for node in self.hub.senders:
            if node.rationing:
                node.touch()  # its senders may wait for room here

    # Properties

    @property
    def last(self) -> int:
        """The sequence number of the last event; -1: there was never one."""
        return self.enqueued - 1

    @property
    def last_time(self) -> Timestamp:
        """The time of the last event."""
        return NO_TIME if self.latest is None else timestamp(self.latest)

    # Readers

    def begin(self, reader: Reader, position: Position) -> None:
        """Admit a reader at a position; one with an owner level puts out readers with the same or a lower level, or
        without one.

        Raises:
            Refused: the position is behind the last event, or other readers keep it out.
        """
        place = self._place(position)
        readers = self.readers.setdefault(reader.group, {})
        holder = next((each for each in readers if each.epoch is not None), None)
        if reader.epoch is None:
            if holder is not None:
                reason = (
                    f"a reader of {self.name!r} has the owner level {holder.epoch}: one without a level is kept out"
                )
                raise Refused(LINK_STOLEN, f"{reason}; use a higher level, or close that reader")
            if len(readers) >= MAX_READERS:
                names = ", ".join(each.name for each in readers)
                reason = f"{self.name!r} has {MAX_READERS} readers of the consumer group {reader.group!r} already"
                raise Refused("amqp:resource-limit-exceeded", f"{reason}: {names}")
        elif holder is not None and holder.epoch is not None and holder.epoch > reader.epoch:
            reason = f"the reader {holder.name} of {self.name!r} has the higher owner level {holder.epoch}"
            raise Refused(LINK_STOLEN, f"{reason}: {reader.name} with {reader.epoch} is kept out")
        else:
            reason = f"the reader {reader.name} with the owner level {reader.epoch} has {self.name!r} now"
            for each in list(readers):
                each.steal(Error(LINK_STOLEN, reason))
        reader.place = place
        readers = self.readers.setdefault(reader.group, {})
        readers[reader] = None
        self.add_consumer(reader)

    def end(self, reader: Reader) -> None:
        """Remove a reader."""
        readers = self.readers.get(reader.group, {})
        readers.pop(reader, None)
        if not readers:
            self.readers.pop(reader.group, None)
        if self.consumers.get(reader.key) is reader:
            self.remove_consumer(reader)

    def reads(self, reader: Reader) -> bool:
        """Return whether a reader was admitted and not put out since."""
        return reader.key in self.consumers

    def _place(self, position: Position) -> StreamPosition:
        """Return the place in the stream of a position."""
        match position.kind:
            case "first":
                return StreamPosition("first")
            case "last":
                return StreamPosition("next")
            case "time":
                return StreamPosition("moment", moment=(position.value + (not position.inclusive)) / 1000)
            case "sequence":
                kind, first, last = "sequence number", position.value + (not position.inclusive), self.last
            case "offset":
                kind, last = "offset", self.last * OFFSET_STEP if self.enqueued else -1
                step = OFFSET_STEP
                first = -(-position.value // step) if position.inclusive else position.value // step + 1
        if first > self.enqueued:
            reason = f"the {kind} {position.value} is beyond the last one in {self.name!r}, which is {last}"
            raise Refused(ARGUMENT_ERROR, reason)
        return StreamPosition(offset=max(0, first))


def offset_of(sequence: int) -> str:
    """Return the offset of the event with this sequence number."""
    return str(sequence * OFFSET_STEP)


def _key_in(event: Message) -> str | None:
    """Return the partition key of an event; None: it has none, or an empty one.

    Raises:
        DecodeError: the annotations are malformed, or the key is invalid.
    """
    key = event.message_annotations.get(_KEY)
    if key is None or key == "":
        return None
    if not isinstance(key, str) or len(key) > _MAX_KEY_LENGTH:
        raise DecodeError(f"{_KEY} must be a string of at most {_MAX_KEY_LENGTH} characters, not {key!r:.200}")
    return str(key)

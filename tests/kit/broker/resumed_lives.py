"""A producer and a consumer of one queue whose connections break at any octet, and what each of them may believe.

Both are client engines with an owner that does what an application would; the broker is its own `Peer` and
`VirtualHostCore`. Octets cross when the test says, and a connection that is lost loses those that have not. Nothing
here knows how links are resumed: it counts messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from amqp10.engine import (
    ConnectionEnded,
    DeliveriesUnresumed,
    Event,
    IncomingDelivery,
    LinkAttached,
    LinkEnded,
    LinkIncomplete,
    LinkTerms,
    OutcomesReceived,
    OutgoingDelivery,
    ReceiverLink,
    SenderLink,
    SettlementsReceived,
)
from amqp10.messaging import ACCEPTED, RELEASED, Accepted, Message, Source, Target

from ..clock import Clock
from ..inside.broker import Limits, Queue, QueuedMessage, VirtualHostCore, VirtualHostSettings
from .line import LASTING, TIMEOUT, Line, Setting, no_faults


class End(ABC):
    """A client with one link.

    Attributes:
        line: its connection; None while it has none.
        link: of the last attachment.
        ghosts: connections that it has lost, and the broker has not noticed.
    """

    def __init__(self, life: Life) -> None:
        self.life = life
        self.line: Line | None = None
        self.link: Any = None
        self.ghosts: list[Line] = []
        self.unresumed = 0

    name: str

    def connect(self) -> None:
        """Connect anew and resume."""
        if self.line is None:
            self.line = Line(self.life.vhost, self.life.setting, self.name)
            self.attach()

    @abstractmethod
    def attach(self) -> None: ...

    def cut(self, there: int, back: int, heard: bool) -> None:
        """Lose the connection when so many octets have crossed."""
        line = self.line
        if line is None:
            return
        line.carry(there, back)
        self.act()
        line.client.receive_eof()
        line.events += line.client.events()
        self.act()
        self.line = None
        if heard:
            line.hear()
        else:
            self.ghosts.append(line)

    def detach(self) -> None:
        """Detach, to attach again when the broker has answered."""
        if self.link is not None and self.link.attached:
            self.link.detach(closed=False)

    def hear(self) -> None:
        """The broker notices what was lost."""
        for line in self.ghosts:
            line.hear()
        self.ghosts.clear()

    def carry(self, there: int, back: int) -> bool:
        """Let octets cross, and act on what came."""
        moved = self.line is not None and self.line.carry(there, back)
        self.act()
        return moved

    def act(self) -> None:
        """What an application does about what it is told."""
        if self.line is None:
            return
        events, self.line.events = self.line.events, []
        no_faults(events)
        for event in events:
            if isinstance(event, LinkIncomplete):
                event.link.detach(closed=False)
            elif isinstance(event, LinkEnded) and event.error is None and self.line.session.begun:
                self.attach()
            elif isinstance(event, ConnectionEnded | LinkAttached):
                pass
            else:
                self.on(event)

    @abstractmethod
    def on(self, event: Event) -> None: ...


class Producer(End):
    """Sends numbered messages and wants each of them accepted, whatever it takes.

    Attributes:
        sent: how often each was given to the engine as a new delivery.
        confirmed: those that it knows to be accepted.
    """

    name = "producer"

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        self.sent: Counter[int] = Counter()
        self.confirmed: Counter[int] = Counter()
        self.numbers: dict[OutgoingDelivery, int] = {}
        self.unsent: list[tuple[int, int]] = []
        self.streamed: tuple[OutgoingDelivery, bytes] | None = None
        self._next = 0

    @property
    def sender(self) -> SenderLink:
        assert isinstance(self.link, SenderLink)
        return self.link

    def attach(self) -> None:
        terms = LinkTerms("s", Source(), Target("q", **LASTING), receiver_settle_mode=self.life.setting.mode)
        resuming = self.sender.suspended() if self.link is not None else None
        if self.streamed is not None:  # it was cut off: the application begins again
            lost = self.streamed[0]
            self.unsent.insert(0, (self.numbers.pop(lost), len(self.streamed[1])))
            self.streamed = None
        lost_streams = [each for each in self.numbers if resuming is not None and each not in resuming]
        for each in lost_streams:
            self.unsent.insert(0, (self.numbers.pop(each), 600))
        assert self.line is not None
        self.link = self.line.session.attach_sender(terms, resuming=resuming)

    def produce(self, size: int) -> None:
        """One more message is to be sent."""
        self.unsent.append((self._next, size))
        self._next += 1
        self.pump()

    def pump(self) -> None:
        """Send what there is credit for."""
        if self.line is None or self.link is None:
            return
        if self.streamed is not None and self.sender.attached:
            delivery, rest = self.streamed
            self.streamed = (delivery, rest[700:]) if len(rest) > 700 else None
            self.sender.send_more(delivery, rest[:700], more=self.streamed is not None)
        while self.unsent and self.sender.attached and self.sender.credit > 0 and self.streamed is None:
            number, size = self.unsent.pop(0)
            payload = Message(b"%d:" % number + b"x" * size).encode()
            stream = size > 500 and self.life.setting.streams
            tag = b"%032d" % self.sent.total() if self.life.setting.many else None
            delivery = self.sender.send(payload[:300] if stream else payload, more=stream, tag=tag)
            if stream:
                self.streamed = delivery, payload[300:]
            self.sent[number] += 1
            self.numbers[delivery] = number

    def abort(self) -> None:
        """Begin a message that is sent in parts all over again."""
        if self.streamed is not None and self.sender.attached:
            delivery, rest = self.streamed
            self.streamed = None
            self.sender.abort(delivery)
            self.unsent.insert(0, (self.numbers.pop(delivery), len(rest)))

    def act(self) -> None:
        super().act()
        self.pump()

    def on(self, event: Event) -> None:
        if isinstance(event, OutcomesReceived):
            for delivery in event.deliveries:
                assert isinstance(delivery.remote_state, Accepted)
                number = self.numbers.pop(delivery)
                assert number in self.life.enqueued, "a message is confirmed that the broker does not have"
                self.confirmed[number] += 1
        elif isinstance(event, DeliveriesUnresumed):
            for each in event.deliveries:
                assert isinstance(each, OutgoingDelivery)
                self.unresumed += 1
                if each.streamed:
                    self.sender.forget(each)
                    self.unsent.insert(0, (self.numbers.pop(each), 600))
                else:
                    self.sent[self.numbers[each]] += 1
                    self.sender.resend(each)


class Consumer(End):
    """Takes messages and wants each of them once.

    Attributes:
        received: how often each came as a new delivery; `warned`: how often with a delivery-count.
        accepted, released: what it said of them.
    """

    name = "consumer"

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        self.received: Counter[int] = Counter()
        self.warned: Counter[int] = Counter()
        self.accepted: Counter[int] = Counter()
        self.released: Counter[int] = Counter()
        self.held: dict[IncomingDelivery, int] = {}
        self.coming: dict[IncomingDelivery, bytes] = {}

    @property
    def receiver(self) -> ReceiverLink:
        assert isinstance(self.link, ReceiverLink)
        return self.link

    def attach(self) -> None:
        terms = LinkTerms("r", Source("q", **LASTING), Target(), receiver_settle_mode=self.life.setting.mode)
        resuming = self.receiver.suspended() if self.link is not None else None
        assert self.line is not None
        self.link = self.line.session.attach_receiver(terms, resuming=resuming)
        self.link.streaming = self.life.setting.streams
        self.grant(3)

    def grant(self, credit: int) -> None:
        """Let some messages come."""
        if self.line is not None and self.link is not None and not self.link.detach_sent:
            self.receiver.flow(credit)

    def act(self) -> None:
        super().act()
        if self.link is not None:
            self.take()

    def take(self) -> None:
        """Look at what came."""
        link = self.receiver
        while link.incoming:
            delivery = link.incoming.popleft()
            if self.life.setting.streams:
                self.coming[delivery] = b""
            else:
                self.look(delivery, delivery.payload)
        for delivery in list(self.coming):
            while (part := delivery.link.read(delivery)) is not None:
                self.coming[delivery] += part
            if delivery.stream.whole:
                self.look(delivery, self.coming.pop(delivery))
            elif delivery.stream.aborted:
                del self.coming[delivery]

    def look(self, delivery: IncomingDelivery, payload: bytes) -> None:
        """A whole message."""
        message = Message.decode(payload)
        head, _, rest = bytes(message.body).partition(b":")
        assert set(rest) <= {ord("x")}
        number = int(head)
        self.received[number] += 1
        self.warned[number] += bool(message.delivery_count)
        self.held[delivery] = number

    def settle(self, which: int, release: bool) -> None:
        """Say something of one of the messages that are held."""
        waiting = [delivery for delivery in self.held if delivery.state is None]
        if not waiting:
            return
        delivery = waiting[which % len(waiting)]
        outcome = RELEASED if release else ACCEPTED
        (self.released if release else self.accepted)[self.held[delivery]] += 1
        link: Any = delivery.link
        if self.line is None or link.detach_sent:
            delivery.state = outcome  # the map of the next attach says it
            return
        link.settle(delivery, outcome)
        if delivery.local_settled:
            del self.held[delivery]

    def on(self, event: Event) -> None:
        if isinstance(event, SettlementsReceived | DeliveriesUnresumed):
            for each in event.deliveries:
                assert isinstance(each, IncomingDelivery)
                if isinstance(event, DeliveriesUnresumed):
                    self.unresumed += 1
                self.held.pop(each, None)
                self.coming.pop(each, None)


def number_of(entry: QueuedMessage) -> int:
    """The number of a message, with which its body begins."""
    return int(bytes(Message.decode(entry.payload).body).partition(b":")[0])


@dataclass
class Life:
    """One queue, one producer, one consumer."""

    setting: Setting
    expired: bool = False
    enqueued: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.vhost = VirtualHostCore(VirtualHostSettings(limits=Limits(credit=40)), clock=self.clock)
        queue = self.vhost.resolve("q")
        assert isinstance(queue, Queue)
        self.queue = queue
        put, take_run = queue.put, queue.take_run

        def watched(entry: QueuedMessage) -> None:
            self.enqueued[number_of(entry)] += 1
            put(entry)

        def watched_run(entries: Sequence[QueuedMessage]) -> None:
            self.enqueued.update(map(number_of, entries))
            take_run(entries)

        queue.put = watched  # type: ignore[method-assign]
        queue.take_run = watched_run  # type: ignore[method-assign]
        self.producer, self.consumer = Producer(self), Consumer(self)
        self.ends: tuple[End, End] = (self.producer, self.consumer)
        for end in self.ends:
            end.connect()

    def step(self, what: int, first: int, second: int) -> None:
        """One step, chosen by number."""
        end = self.ends[first % 2]
        if what < 20:
            for _ in range(12 if self.setting.many else 1):
                self.producer.produce((5, 5, 700, 2500)[first % 4])
        elif what < 40:
            end.carry(second, 1 << 30)
        elif what < 60:
            end.carry(1 << 30, second)
        elif what < 75:
            self.consumer.settle(first, second % 5 == 0)
        elif what < 80:
            self.consumer.grant(60 if self.setting.many else first % 7)
        elif what < 82:
            end.detach()
        elif what < 83:
            self.producer.abort()
        elif what < 91:
            end.cut(second, (second * 7919) % 1500, first % 4 < 2)
        elif what < 97:
            end.connect()
        elif what < 98:
            end.hear()
        else:
            self.wait(first % 3 == 0)

    def wait(self, long: bool) -> None:
        """Time passes; too much of it, for what is away."""
        self.clock.now += TIMEOUT + 1 if long else TIMEOUT / 3
        before = len(self.vhost.links._all)
        self.vhost.expire()
        self.vhost.flush()
        self.expired = self.expired or len(self.vhost.links._all) < before

    def rest(self) -> None:
        """Everybody connects, and says all that is to be said."""
        for _ in range(2000):
            moved = False
            for end in self.ends:
                end.connect()
                moved |= end.carry(1 << 30, 1 << 30)
            if self.consumer.link.attached and self.consumer.receiver.credit < 3:
                self.consumer.grant(10)
                moved = True
            while any(delivery.state is None for delivery in self.consumer.held):
                self.consumer.settle(0, False)
                moved = True
            if not moved and not self.producer.unsent:
                break
        else:
            raise AssertionError("it does not come to rest")
        for end in self.ends:
            end.hear()

    def check(self) -> None:
        """At rest, every message has been accepted; exactly once where that was asked for and no time ran out."""
        self.rest()
        producer, consumer = self.producer, self.consumer
        every = set(range(producer._next))
        assert set(producer.confirmed) == every, "not confirmed"
        assert set(+consumer.accepted) == every, "lost"
        assert not producer.sender.unsettled
        assert not consumer.receiver.unsettled
        assert (self.queue.depth, self.queue.unsettled) == (0, 0)
        for end in self.ends:
            assert end.line is not None
            links: list[Any] = [*end.line.peer.links.producers, *end.line.peer.links.consumers]
            assert not any(link.unsettled for link in links)
        for number in every:
            copies = self.enqueued[number]
            assert copies <= producer.sent[number], "made more by the broker"
            # Each time that it came after the first has its reason, and a sign where it may be a duplicate.
            assert consumer.received[number] <= copies + consumer.released[number] + consumer.warned[number]
        if not self.expired:
            assert consumer.unresumed == 0
        if self.setting.mode == "second" and not self.expired:
            assert producer.unresumed == 0 or self.setting.streams
            for number in every:
                assert self.enqueued[number] == 1, "sent twice"
                assert consumer.accepted[number] == 1, "accepted twice"
                assert consumer.received[number] == 1 + consumer.released[number], "received twice"

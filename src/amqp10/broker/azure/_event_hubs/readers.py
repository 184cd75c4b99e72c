"""Links on which a partition of a hub sends its events."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from ....engine import LinkTerms
from ....messaging import Error, Source, patch_header
from ....types import Symbol
from ..._errors import Refused
from ..._peer import LinkTaker
from .._conditions import ARGUMENT_ERROR
from .._messages import timestamp
from .hub import Reader, offset_of
from .positions import position_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from ....engine import SenderLink
    from ..._peer import Peer
    from ..._queues.message import QueuedMessage
    from .hub import Partition

_EPOCH: Final = Symbol("com.microsoft:epoch")
_NAME: Final = Symbol("com.microsoft:receiver-name")
_RUNTIME_METRIC: Final = Symbol("com.microsoft:enable-receiver-runtime-metric")
_MAX_NAME_LENGTH: Final = 64
_MAX_EPOCH: Final = (1 << 63) - 1

_LAST_SEQUENCE: Final = Symbol("last_enqueued_sequence_number")
_LAST_OFFSET: Final = Symbol("last_enqueued_offset")
_LAST_TIME: Final = Symbol("last_enqueued_time_utc")
_TOLD: Final = Symbol("runtime_info_retrieval_time_utc")

_keys = count(1)


class PartitionReader(LinkTaker, Reader):
    """A link that reads a partition, subject to owner levels.

    Attributes:
        used: when the link was last used, in seconds since 1970.
    """

    def __init__(
        self,
        peer: Peer,
        link: SenderLink,
        partition: Partition,
        group: str,
        clock: Callable[[], float],
    ) -> None:
        assert link.remote is not None
        super().__init__(peer, link)
        self.key = next(_keys)
        self.partition = partition
        self.group = group
        self.epoch, self.name = _epoch_in(link.remote), _name_in(link.remote)
        self._clock = clock
        self.used = clock()
        self._tells_last = _RUNTIME_METRIC in link.remote.desired_capabilities

    def begin(self) -> None:
        """Attach the link, and begin to read.

        Raises:
            Refused: see `Partition.begin`, or the filter is not that of a position.
        """
        link, remote = self._link, self._link.remote
        assert remote is not None
        assert isinstance(remote.source, Source)
        position, filters = position_in(remote.source)
        self.partition.begin(self, position)
        link.attach(
            LinkTerms(
                name=link.name,
                source=Source(address=remote.source.address, outcomes=remote.source.outcomes, filter=filters),
                target=remote.target,
                # SDKs leave the choice to the service, and settle nothing.
                settle_mode="unsettled" if remote.settle_mode == "unsettled" else "settled",
                offered_capabilities=(_RUNTIME_METRIC,) if self._tells_last else (),
                properties={} if self.epoch is None else {_EPOCH: self.epoch},
            )
        )
        self.credit_changed()

    @property
    def waits(self) -> bool:
        """Whether the link could be sent an event."""
        return self._link.credit > 0

    def credit_changed(self) -> None:
        if self.partition.reads(self) and (self._link.credit > 0 or self._link.drain):
            self.partition.in_line(self, drain=self._link.drain)

    def end(self) -> None:
        """Leave the partition, because the link ended."""
        self.partition.end(self)
        self._peer.held_up.remove(self._link)

    def detach(self, error: Error) -> None:
        """Detach the link with an error."""
        self.partition.end(self)
        self._peer.end_link(self._link, error)

    steal = node_deleted = detach

    # For the stream

    def deliver(self, entry: QueuedMessage, payload: bytes) -> bool:
        self.used = self._clock()
        if self._tells_last:
            payload = patch_header(payload, delivery_annotations=self._last())
        if self._is_too_large(payload):
            return False
        self._link.send(payload, settled=self._link.terms is None or self._link.terms.settle_mode == "settled")
        return True

    def _last(self) -> dict[Symbol, Any]:
        """Return the annotations with the last event, which the reader asked for."""
        partition = self.partition
        return {
            _LAST_SEQUENCE: partition.last,
            _LAST_OFFSET: offset_of(partition.last),
            _LAST_TIME: partition.last_time,
            _TOLD: timestamp(self._clock()),
        }

    # From the peer

    def on_credit(self) -> None:
        self.used = self._clock()
        self.credit_changed()


def _epoch_in(remote: LinkTerms) -> int | None:
    """Return the owner level of a reader, or None.

    Raises:
        Refused: it is not a number of 0 or more.
    """
    epoch = remote.properties.get(_EPOCH)
    if epoch is None:
        return None
    if not isinstance(epoch, int) or isinstance(epoch, bool) or not 0 <= epoch <= _MAX_EPOCH:
        raise Refused(ARGUMENT_ERROR, f"{_EPOCH} must be a number of 0 or more, not {epoch!r:.60}")
    return int(epoch)


def _name_in(remote: LinkTerms) -> str:
    name = remote.properties.get(_NAME)
    return repr(name[:_MAX_NAME_LENGTH]) if isinstance(name, str) else "without a name"

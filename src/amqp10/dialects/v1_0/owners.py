"""What endpoints use of those above them: links of their session, sessions of the connection, all of the engine."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from ...engine import Session
from .._kit.timers import TimedEngine

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Sequence

    from ...engine import (
        Event,
        IncomingDelivery,
        OutcomeCounter,
        OutgoingDelivery,
        ReceiverLink,
        SessionTerms,
        Unsettled,
    )
    from ...errors import AmqpError
    from ...messaging import DeliveryState, Error
    from ...types import Composite
    from .window import SessionWindow

LinkName = tuple[str, bool]
"""The key of a link between two containers: its name, and whether this side sends (§2.6.1)."""


class EngineCore(TimedEngine):
    """The engine, as its endpoints see it: they write frames and emit events.

    Attributes:
        output: the buffers to write, in order; `output_size` has their octets.
        partial: octets of deliveries that are not whole.
        spare: octets of each frame that are not to be filled.
    """

    output: list[bytes | memoryview]
    partial: int
    spare = 0

    @property
    @abstractmethod
    def over(self) -> bool:
        """Return whether nothing more is read."""

    @property
    @abstractmethod
    def frame_limit(self) -> int:
        """The size of the largest frame that the peer takes."""

    @abstractmethod
    def emit(self, event: Event) -> None:
        """Tell the owner of `event`."""

    @abstractmethod
    def write(self, data: bytes | memoryview) -> None:
        """Queue bytes, which must not be changed afterwards. Frames must be complete and not interleaved."""

    @abstractmethod
    def write_frame(self, channel: int, performative: Composite, payload: bytes = b"") -> None:
        """Queue a frame. The error of a detach, end or close is shortened to fit: ending must never fail.

        Raises:
            LocalProtocolError: the frame is larger than the peer takes; nothing was queued.
        """

    @abstractmethod
    def write_delayed(self) -> None:
        """Write the frames that waited for our open."""

    @abstractmethod
    def check_state(self, state: DeliveryState, room: int = 64) -> int:
        """Return the encoded size of a delivery state; the rest of its frame needs `room` bytes.

        Raises:
            LocalProtocolError: the state does not fit a frame that the peer takes.
        """

    @abstractmethod
    def flush_later(self, session: SessionCore) -> None:
        """Merge and write the session's dispositions with the next output."""

    @abstractmethod
    def take_large_frames(self) -> None:
        """Take frames up to the size in our open, now that the peer's open was received."""

    @abstractmethod
    def finish(self, error: AmqpError | None) -> None:
        """End the connection, which both sides have closed, or the peer has and its answer is written."""


class ConnectionCore:
    """The connection, as its sessions see it.

    Attributes:
        links_by_name: the links of all sessions that the peer has attached, and that were not stolen from it.
    """

    engine: EngineCore
    links_by_name: dict[LinkName, dict[Any, None]]

    @abstractmethod
    def answer_channel(self, session: Any) -> None:
        """Assign our channel to a session that the peer began."""

    @abstractmethod
    def map_local(self, session: Any) -> None:
        """Enter a session under our channel, because its begin is sent."""

    @abstractmethod
    def unmap(self, session: Any) -> None:
        """Free the channels of a session whose ends are both exchanged."""


class SessionCore(Session):
    """The session, as its links see it.

    Attributes:
        channel: our channel; -1 until it is known.
        ended_locally: nothing more is written on this session: our end or close was sent, or the transport is lost.
        window: the session's windows.
        pending_parts: what waits for the peer's window, in order (`resumption.sender.OutgoingPart`).
        outgoing, incoming: unsettled deliveries, by delivery-id.
        parts: incoming deliveries that are not whole yet, by delivery-id.
        lazy_receivers: links that may have incoming deliveries that are not objects yet.
        next_delivery_id: the id of our next delivery.
        last_outcome, last_ids: see `SettlingSession`.
    """

    engine: EngineCore
    channel: int
    ended_locally: bool
    window: SessionWindow
    pending_parts: deque[Any]
    outgoing: dict[int, OutgoingDelivery]
    incoming: dict[int, IncomingDelivery]
    parts: dict[Any, Any]
    lazy_receivers: set[ReceiverLink]
    next_delivery_id: int
    last_outcome: object
    last_ids: list[int]

    @abstractmethod
    def begin(self, terms: SessionTerms | None = None) -> None: ...

    @abstractmethod
    def end(self, error: Error | None = None) -> None: ...

    @abstractmethod
    def write(self, frame: Composite) -> None:
        """Queue a frame on our channel; do nothing once the session has ended locally (§2.5.2, §2.4.3)."""

    @abstractmethod
    def flush(self) -> None:
        """Write the dispositions that wait to be merged."""

    @abstractmethod
    def give_handle(self, link: Any) -> None:
        """Assign a handle of ours to a link.

        Raises:
            LocalProtocolError: the peer takes no more links.
        """

    @abstractmethod
    def release_handle(self, link: Any) -> None:
        """Free the handle of a link, if it has one."""

    @abstractmethod
    def forget(self, link: Any, *, lingers: bool) -> None:
        """Free the handle of a detached link and, unless it `lingers`, drop its deliveries without a disposition."""

    @abstractmethod
    def transmit(self, part: Any) -> None:
        """Send what the window allows now; hold the rest back, in order."""

    @abstractmethod
    def new_delivery_id(self, delivery: OutgoingDelivery) -> int:
        """Give a delivery its id, with its first frame."""

    @abstractmethod
    def keep_untracked(self, link: Any, payload: bytes, waiter: OutcomeCounter, number: int, tag: int) -> None:
        """Keep a delivery that was sent without an object, under its delivery-id."""

    @abstractmethod
    def keep_run(self, link: Any, payloads: Sequence[bytes], waiters: Sequence[object], number: int, tag: int) -> None:
        """Keep deliveries that were sent in one call without objects, from their first delivery-id on."""

    @abstractmethod
    def count_untracked(self, link: Any, made: Unsettled) -> Unsettled:
        """Return the numbers of a link's unsettled deliveries; `made`: those of the deliveries that are objects."""

    @abstractmethod
    def materialize_untracked(self) -> None:
        """Make objects of all untracked deliveries, because one gets another outcome or `unsettled` is read."""

    @abstractmethod
    def dispose(self, as_receiver: bool, number: int, settled: bool, state: DeliveryState | None) -> None:
        """Say the state of a delivery, merged with others, with the next output."""

    @abstractmethod
    def accept_run(self, numbers: Sequence[int]) -> None:
        """Say that received deliveries are accepted and settled, as `dispose` does one after the other."""

    @abstractmethod
    def let_go(self, count: int, starved: bool) -> None:
        """Stop counting `count` transfers that a link held for its reader, and tell our window if there is room."""

    @abstractmethod
    def send_flow(self, link: Any = None, *, echo: bool = False, properties: Any = None) -> None:
        """Send a flow with our session state, and the link's if given; it refreshes the incoming window (§2.7.4)."""

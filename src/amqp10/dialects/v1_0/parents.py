"""Protocols by which a link sees its session, and a session its engine and its links.

The files of all of these import this one, so it imports none of them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from ...engine import Link, ReceiverLink, SenderLink, Session, SessionEngine

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ...engine import (
        ConnectionTerms,
        Event,
        IncomingDelivery,
        LinkTerms,
        OutcomeCounter,
        OutgoingDelivery,
        UnsettledCount,
    )
    from ...errors import AmqpError
    from ...messaging import DeliveryState
    from ...messaging.payloads import SplitPayload
    from ...types import Composite
    from .credit import ReceiverCredit, SenderCredit
    from .partial import OutgoingPart, PartialDelivery
    from .states import LinkState
    from .window import SessionWindow
    from .wire.frames import Alike
    from .wire.performatives import Flow, Transfer

LinkName = tuple[str, bool]
"""The key of a link between two containers: its name, and whether this side sends (§2.6.1)."""

LinksByName = dict[LinkName, tuple["LinkCore", ...]]
"""Links by that key: one that was detached may still be here when the next one of its name attaches."""


class EngineCore(SessionEngine, Protocol):
    """The engine, as its endpoints see it: they write frames and emit events.

    Attributes:
        output: the buffers to write, in order; `output_size` has their octets.
        partial: octets of deliveries that are not whole.
        spare: octets of each frame that are not to be filled.
        left: how many deliveries a disposition may change in this portion of the input (`Engine.portion`).
    """

    remote: ConnectionTerms | None
    opened: bool
    output: list[bytes | memoryview]
    output_size: int
    partial: int
    spare: int
    left: float

    @property
    def over(self) -> bool:
        """Return whether nothing more is read."""

    @property
    def frame_limit(self) -> int:
        """The size of the largest frame that the peer takes."""

    def emit(self, event: Event) -> None:
        """Tell the owner of `event`."""

    def write(self, data: bytes | memoryview) -> None:
        """Queue bytes, which must not be changed afterwards. Frames must be complete and not interleaved."""

    def write_frame(self, channel: int, performative: Composite, payload: bytes = b"") -> None:
        """Queue a frame. The error of a detach, end or close is shortened to fit: ending must never fail.

        Raises:
            LocalProtocolError: the frame is larger than the peer takes; nothing was queued.
        """

    def write_delayed(self) -> None:
        """Write the frames that waited for our open."""

    def check_state(self, state: DeliveryState, room: int = 64) -> int:
        """Return the encoded size of a delivery state; the rest of its frame needs `room` bytes.

        Raises:
            LocalProtocolError: the state does not fit a frame that the peer takes.
        """

    def flush_later(self, dispositions: DispositionsCore) -> None:
        """Merge and write a session's dispositions with the next output."""

    def count_partial(self, change: int) -> bool:
        """See `Engine`."""

    def put_off(self, rest: Callable[[], None]) -> None:
        """End the portion of the input; the next one begins with a call of `rest`."""

    def take_large_frames(self) -> None:
        """Take frames up to the size in our open, now that the peer's open was received."""

    def finish(self, error: AmqpError | None) -> None:
        """End the connection, which both sides have closed, or the peer has and its answer is written."""


class DispositionsCore(Protocol):
    """The dispositions of a session, as its links see them.

    Attributes:
        last_outcome: the outcome of the last disposition if it settled a received delivery; else no outcome.
        last_ids: the delivery-ids that are settled with it, and not written yet.
    """

    last_outcome: object
    last_ids: list[int]

    def dispose(self, as_receiver: bool, number: int, settled: bool, state: DeliveryState | None) -> None:
        """Say the state of a delivery, merged with others, with the next output."""

    def accept_run(self, numbers: Sequence[int]) -> None:
        """Say that received deliveries are accepted and settled, as `dispose` does one after the other."""

    def flush(self) -> None:
        """Write the dispositions that wait to be merged."""


class RunCore(Protocol):
    """Unsettled deliveries that were sent one after the other without objects.

    Attributes:
        number: the delivery-id of the first delivery that is left.
        payloads: the payloads of the deliveries that are left.
    """

    link: SenderCore
    number: int
    payloads: list[bytes]

    @property
    def waiters(self) -> Sequence[Any]:
        """The waiter of each delivery that is left."""

    def deliveries(self) -> Iterator[OutgoingDelivery]:
        """Make the objects that `send` would have made."""


class UntrackedCore(Protocol):
    """The deliveries of a session that were sent without objects, as its links see them."""

    def keep(self, link: SenderCore, payload: bytes, waiter: OutcomeCounter, number: int, tag: int) -> None:
        """Keep a delivery that was sent without an object, under its delivery-id."""

    def keep_run(
        self, link: SenderCore, payloads: Sequence[bytes], waiters: Sequence[object], number: int, tag: int
    ) -> None:
        """Keep deliveries that were sent in one call without objects, from their first delivery-id on."""

    def count(self, link: SenderCore, made: UnsettledCount) -> UnsettledCount:
        """Return the numbers of a link's unsettled deliveries; `made`: those of the deliveries that are objects."""

    def materialize(self, link: SenderCore) -> None:
        """Make objects of the untracked deliveries of a link, because `unsettled` is read."""

    def leave(self, link: SenderCore) -> None:
        """Forget the runs of a link that is over; the link still has them."""

    def take(self, link: SenderCore) -> list[Any]:
        """Forget the untracked deliveries of a link; return their waiters."""


class SessionCore(Session):
    """The session, as its links and its parts see it.

    Attributes:
        channel: our channel; -1 until it is known.
        ended_locally: nothing more is written on this session: our end or close was sent, or the transport is lost.
        window: the session's windows.
        pending_parts: what waits for the peer's window, in order.
        outgoing, incoming: unsettled deliveries, by delivery-id.
        parts: incoming deliveries that are not whole yet, by delivery-id, on links that do not stream.
        lazy_receivers: links that may have incoming deliveries that are not objects yet.
        next_delivery_id: the id of our next delivery.
        dispositions: what is sent and received of the states of deliveries.
        untracked: the outgoing deliveries that are not objects.
    """

    engine: EngineCore
    channel: int
    ended_locally: bool
    window: SessionWindow
    pending_parts: deque[OutgoingPart]
    outgoing: dict[int, OutgoingDelivery]
    incoming: dict[int, IncomingDelivery]
    parts: dict[int, PartialDelivery]
    lazy_receivers: dict[ReceiverLink, None]
    next_delivery_id: int
    dispositions: DispositionsCore
    untracked: UntrackedCore

    @abstractmethod
    def receive(self, frame: Composite, payload: bytes | SplitPayload) -> None:
        """Receive one frame on this session."""

    @abstractmethod
    def write(self, frame: Composite) -> None:
        """Queue a frame on our channel; do nothing once the session has ended locally (§2.5.2, §2.4.3)."""

    @abstractmethod
    def give_handle(self, link: LinkCore) -> None:
        """Assign a handle of ours to a link.

        Raises:
            LocalProtocolError: the peer takes no more links.
        """

    @abstractmethod
    def release_handle(self, link: LinkCore) -> None:
        """Free the handle of a link, if it has one."""

    @abstractmethod
    def forget(self, link: LinkCore, *, lingers: bool) -> None:
        """Free the handle of a detached link and, unless it `lingers`, drop its deliveries without a disposition."""

    @abstractmethod
    def transmit(self, part: OutgoingPart) -> None:
        """Send what the window allows now; hold the rest back, in order."""

    @abstractmethod
    def new_delivery_id(self, delivery: OutgoingDelivery) -> int:
        """Give a delivery its id, with its first frame."""

    @abstractmethod
    def let_go(self, count: int, starved: bool) -> None:
        """Stop counting `count` transfers that a link held for its reader, and tell our window if there is room."""

    @abstractmethod
    def send_flow(
        self, link: LinkCore | None = None, *, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        """Send a flow with our session state, and the link's if given; it refreshes the incoming window (§2.7.4)."""


class LinkCore(Link):
    """The link, as its session and its resumption see it. Handles are -1 until they are known.

    Attributes:
        detach_sent: our detach is sent, or never will be; further input for the link is dropped.
        errant: our detach told a fault of the peer: any further input but its detach ends the session (§2.6.5).
    """

    session: SessionCore
    state: LinkState
    handle: int
    remote_handle: int
    detach_sent: bool
    errant: bool

    @abstractmethod
    def entered(self, state: LinkState) -> None:
        """Set what follows from the link's state, and from that of its session."""

    @abstractmethod
    def send_attach(self, terms: LinkTerms, resuming: Iterable[Any] | None = None) -> None:
        """Write our attach."""

    @abstractmethod
    def receive_attach(self, remote: LinkTerms) -> bool:
        """Take the peer's attach; return False if it refuses ours, with a null terminus and a detach to follow."""

    @abstractmethod
    def compare(self) -> None:
        """Find out what became of the deliveries that were taken over, if both attaches are exchanged (§2.6.13)."""

    @abstractmethod
    def become_incomplete(self) -> None:
        """Note that this attachment can only resume, because one side's unsettled map was not sent whole."""

    @abstractmethod
    def leave_tables(self, *, lingers: bool) -> None:
        """Remove what is the link's from the session's tables; if it `lingers`, its deliveries stay there."""

    @abstractmethod
    def receive_detach(self, closed: bool, cause: AmqpError | None) -> None:
        """Take the peer's detach, and answer it."""

    @abstractmethod
    def fail(self, condition: str, description: str) -> None:
        """Detach the link with an error, because the peer broke a rule that costs it the link (§2.6.5)."""

    @abstractmethod
    def over(self, cause: AmqpError | None) -> None:
        """End the link, because its session or connection is over."""

    # Frames in

    def continues(self, number: int) -> bool:
        """Return whether a transfer with the delivery-id `number` continues a delivery that has begun."""
        return False

    @abstractmethod
    def fill_flow(self, frame: Flow) -> None:
        """Add the link's state to a flow of ours (§2.7.4)."""

    @abstractmethod
    def receive_flow(self, frame: Flow) -> None: ...

    @abstractmethod
    def receive_transfer(self, frame: Transfer, payload: bytes | SplitPayload) -> None: ...

    def room_for_messages(self) -> int:
        """Return how many transfers of whole messages may come now without any effect but their count."""
        return 0

    def receive_messages(self, like: Transfer, run: list[Alike], expected: int) -> bool:
        """Receive whole messages from the id `expected` on; return False, and do nothing, if one is out of order."""
        return False

    def receive_message(self, like: Transfer, number: int, tag: bytes, payload: bytes) -> bool:
        """Receive a whole message; return False, and do nothing, if it would have any other effect than to arrive."""
        return False

    @abstractmethod
    def receive_states(self, deliveries: Sequence[Any], state: DeliveryState | None, settled: bool) -> Sequence[Any]:
        """Apply the peer's disposition to `deliveries`; return those that the owner should hear of."""


class SenderCore(LinkCore, SenderLink):
    """The sending end, as its resumption and its untracked deliveries see it.

    Attributes:
        flow_state: its credit.
        resumption: the part that resumes, if any.
        untracked: how many deliveries are unsettled that were not made into objects (`endpoints.untracked`).
        runs: the runs that these are in, the oldest first.
        made: the other unsettled deliveries, which are objects, by delivery-tag.
        disordered: `made` may not be in the order of sending, because objects were made of a run.
        drain_owed: see `PartSender`.
    """

    flow_state: SenderCredit
    untracked: int
    runs: dict[RunCore, None]
    made: dict[bytes, OutgoingDelivery]
    disordered: bool
    drain_owed: bool

    @property
    @abstractmethod
    def within_delivery(self) -> bool:
        """Return whether a delivery that is sent in parts has begun and is not complete."""

    @property
    @abstractmethod
    def state_room(self) -> int:
        """The octets of a transfer with a state, beside the state and the payload."""

    @abstractmethod
    def spare_tag(self, tag: bytes) -> None:
        """Leave out a tag that another delivery has: no tag like it is made from now on."""

    @abstractmethod
    def drop(self, delivery: OutgoingDelivery) -> None:
        """Settle a delivery on this side, and tell the receiver nothing."""

    @abstractmethod
    def write_frame_of(self, part: OutgoingPart) -> None:
        """See `PartSender`."""

    @abstractmethod
    def held_part_sent(self) -> None:
        """See `PartSender`."""

    @abstractmethod
    def end_resumption(self) -> None:
        """Go on without the part that resumes: everything is sent that it had to send."""


class ReceiverCore(LinkCore, ReceiverLink):
    """The receiving end, as its resumption sees it."""

    flow_state: ReceiverCredit

    @abstractmethod
    def hold_parts(self, delivery: IncomingDelivery) -> None:
        """Count parts not read in an earlier attachment against this session's window."""

    @abstractmethod
    def note_settle_mode(self, first: Transfer) -> None:
        """Note the delivery's own rcv-settle-mode, if it is not the link's."""

    @abstractmethod
    def settled_by_transfer(self, delivery: IncomingDelivery, *, reported: bool = True) -> None:
        """Settle a delivery that the sender settled by a transfer. `reported`: the owner knows the delivery."""

    @abstractmethod
    def end_resumption(self) -> None:
        """Go on without the part that resumes: no delivery is left that the sender could resume."""

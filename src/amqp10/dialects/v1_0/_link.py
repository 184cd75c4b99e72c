"""What both link endpoints share: attach, refusal, detach, and how they end (§2.6.3 to §2.6.6, §2.7.3, §2.7.7)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...engine import Link, LinkEnded, LinkIncomplete, LinkTerms
from ...errors import AmqpError, LocalProtocolError, RemoteProtocolError
from ...messaging import Error, outlives_link
from ._frames import encode_frame
from ._performatives import Attach, Detach, Flow, Transfer
from ._resume import cut, well_formed
from ._states import LINK, LinkState

if TYPE_CHECKING:
    from ...messaging import DeliveryState
    from ...messaging._pieces import Pieces
    from ._frames import Alike
    from ._session import SessionEndpoint

# Octets that a map adds to an attach beyond its entries: its own head, and the wider head of the list it is in.
MAP_HEAD = 16
# What every peer takes before it has said what it takes (§2.8.19).
LEAST_FRAME = 512
SENDER_MODES = ("unsettled", "settled", "mixed")
RECEIVER_MODES = ("first", "second")


LinkName = tuple[str, bool]
"""What tells links apart between two containers: the name, and whether this side sends (§2.6.1)."""


class SessionFault(Exception):
    """The peer broke a rule whose price is the session (§2.5.4); the session ends itself with this condition."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.condition = condition
        self.description = description


def attach_terms(frame: Attach) -> LinkTerms:
    """What an attach says, in the engine's words."""
    if frame.snd_settle_mode > 2 or frame.rcv_settle_mode > 1:
        raise SessionFault("amqp:invalid-field", "a settle mode that does not exist")
    if not well_formed(frame.unsettled):
        raise SessionFault("amqp:invalid-field", "an unsettled map with a key that is no delivery-tag")
    return LinkTerms(
        name=frame.name,
        source=frame.source,
        target=frame.target,
        settle_mode=SENDER_MODES[frame.snd_settle_mode],  # type: ignore[arg-type]
        receiver_settle_mode=RECEIVER_MODES[frame.rcv_settle_mode],  # type: ignore[arg-type]
        unsettled=frame.unsettled,
        incomplete_unsettled=frame.incomplete_unsettled,
        initial_delivery_count=frame.initial_delivery_count or 0,
        max_message_size=frame.max_message_size or None,
        offered_capabilities=frame.offered_capabilities,
        desired_capabilities=frame.desired_capabilities,
        properties=frame.properties or {},
    )


def drop_name(links: dict[LinkName, dict[LinkEndpoint, None]], link: LinkEndpoint) -> None:
    """Take a link out of those that are looked up by their names."""
    key = link.name, link.is_sender
    named = links.get(key)
    if named is not None and link in named:
        del named[link]
        if not named:
            del links[key]


class LinkEndpoint(Link):
    """One end of a link. Handles are -1 until they are known.

    Attributes:
        detach_sent: our detach is out; what still comes for the link is dropped.
        gone: it is closed, or its session is over: nothing more can be said of its deliveries.
        resumes: this side has said which deliveries it holds unsettled, if only that there are none (§2.6.13).
        errant: that detach told of a fault of the peer's: any further input but its detach ends the session (§2.6.5).
    """

    session: SessionEndpoint
    # Of the class, until they are true: an object of more than thirty attributes is slower in each of them.
    errant = False
    gone = False
    incomplete = False
    lingers = False
    resumes = False
    _told_reduced = False
    _numbers: list[tuple[Any, int]] | None = None  # of deliveries in attachments before: the table, and the number

    def __init__(self, session: SessionEndpoint, name: str) -> None:
        self.session = session
        self._name = name
        self.handle = -1
        self.remote_handle = -1
        self.terms: LinkTerms | None = None
        self.remote: LinkTerms | None = None
        self.attached = False
        self.context: Any = None
        self.properties: Any = {}
        self.state = LinkState.DETACHED
        self.detach_sent = False
        self._ended = False

    @property
    def name(self) -> str:
        return self._name

    # Attaching

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        if self.terms is not None or self.remote is None:
            raise LocalProtocolError(f"the link {self._name!r} does not wait for an answer")
        if terms.name != self._name:
            raise LocalProtocolError(f"the answer to link {self._name!r} must have its name, not {terms.name!r}")
        if self._ended:
            return  # it ended while the answer was on its way: `LinkEnded` is among the same events
        if self.session.terms is None:
            raise LocalProtocolError(f"the session of the link {self._name!r} is to be answered first")
        self._answer(terms, resuming)
        self.compare()

    def _answer(self, terms: LinkTerms, resuming: Iterable[Any] | None = None) -> None:
        before = self.state
        self.session.give_handle(self)
        try:
            self.send_attach(terms, resuming)
        except Exception:  # the answer cannot be said, it is too large for the peer's frames: nothing was done
            self.state = before
            self.session.release_handle(self)
            raise
        self.attached = not self.session.muted

    def refuse(self, error: Error) -> None:
        if self._ended:
            return
        if self.remote is None or self.terms is not None or self.session.terms is None:
            raise LocalProtocolError(f"the link {self._name!r} does not wait for an answer")
        # The terminus that would be ours is null: that is how the peer knows before the detach comes (§2.6.3).
        ours = "source" if self.is_sender else "target"
        try:
            said = replace(self.remote, initial_delivery_count=0, unsettled=None, incomplete_unsettled=False)
            self.attach(replace(said, **{ours: None}))  # type: ignore[arg-type]
        except LocalProtocolError:
            try:  # what the peer said is larger than what it takes: leave it all out
                self.attach(LinkTerms(self._name))
            except LocalProtocolError as unspeakable:  # its name alone is, or it takes no handle more
                self.session.end(Error(unspeakable.condition or "amqp:not-allowed", str(unspeakable)))
                return
        self.detach(closed=True, error=error)

    def send_attach(self, terms: LinkTerms, resuming: Iterable[Any] | None = None) -> None:
        """Write our attach; the state it sets up is the subclass's."""
        self._advance("S:ATTACH")
        frame = Attach(
            name=self._name,
            handle=self.handle,
            role=not self.is_sender,
            snd_settle_mode=SENDER_MODES.index(terms.settle_mode),
            rcv_settle_mode=RECEIVER_MODES.index(terms.receiver_settle_mode),
            source=terms.source,
            target=terms.target,
            unsettled=dict(terms.unsettled) if terms.unsettled is not None else None,
            incomplete_unsettled=terms.incomplete_unsettled,
            initial_delivery_count=terms.initial_delivery_count if self.is_sender else None,
            max_message_size=terms.max_message_size,
            offered_capabilities=terms.offered_capabilities,
            desired_capabilities=terms.desired_capabilities,
            properties=dict(terms.properties) or None,
        )
        deliveries = None if resuming is None else [each for each in resuming if not each.local_settled]
        if deliveries is not None:
            frame.unsettled, frame.incomplete_unsettled = None, True  # as large as it gets, but for the map
            room = self.session.engine.frame_limit - len(encode_frame(0, frame)) - MAP_HEAD
            frame.unsettled, frame.incomplete_unsettled = cut(self.states_of(deliveries), room)
            terms = replace(terms, unsettled=frame.unsettled, incomplete_unsettled=frame.incomplete_unsettled)
        self.session.write(frame)
        self.terms = terms
        self.begin_counting()
        if deliveries is not None:
            self.resumes = True
            for delivery in deliveries:
                self._take_over(delivery)
            self.adopt(deliveries)

    def _take_over(self, delivery: Any) -> None:
        """Make a delivery one of this attachment.

        What comes by its number of before counts until the peer has attached; on another connection it does not.
        """
        before, number = delivery.link, delivery.delivery_id
        if isinstance(before, LinkEndpoint) and number is not None:
            table = before.session.outgoing if self.is_sender else before.session.incoming
            if self._numbers is None:
                self._numbers = []
            self._numbers.append((table, number))
            if before.session.engine is not self.session.engine:
                self._drop_numbers()

    def _drop_numbers(self) -> None:
        """Hear nothing more by the numbers that deliveries had in attachments before."""
        if self._numbers is not None:
            for table, number in self._numbers:
                table.pop(number, None)
            self._numbers = None

    def receive_attach(self, remote: LinkTerms) -> bool:
        """Take the peer's attach; False when it refuses ours, with a null terminus and a detach to follow."""
        self._advance("R:ATTACH")
        self.remote = remote
        self.begin_counting()
        if self.terms is None:
            return True
        if self.is_sender:
            refused = remote.target is None and self.terms.target is not None
        else:
            refused = remote.source is None and self.terms.source is not None
        self.attached = not refused and not self.detach_sent
        return self.attached

    def _advance(self, step: str) -> None:
        state = LINK.get((self.state, step))
        if state is None:
            what = f"{step[2:].lower()} in link state {self.state.name}"
            if step.startswith("R:"):
                raise SessionFault("amqp:illegal-state", f"the peer sent {what}")
            raise LocalProtocolError(f"{what} is not possible")
        self.state = state

    @abstractmethod
    def begin_counting(self) -> None:
        """Either attach is known now: set up what depends on it."""

    # Resuming (§2.6.13)

    @abstractmethod
    def states_of(self, deliveries: Sequence[Any]) -> Iterable[tuple[bytes, DeliveryState | None]]:
        """What our map is to say of these."""

    @abstractmethod
    def adopt(self, deliveries: Sequence[Any]) -> None:
        """Take over the deliveries of an earlier attachment."""

    def compare(self) -> None:
        """Both attaches are exchanged: find out what became of the deliveries that were taken over."""
        self._drop_numbers()
        if not self.resumes or not self.attached or self.terms is None or self.remote is None:
            return
        theirs = self.remote.unsettled
        self.incomplete = theirs is not None and (self.terms.incomplete_unsettled or self.remote.incomplete_unsettled)
        self.reconcile(theirs)
        if self.incomplete:
            self.check_reduced()

    def goes_on(self, number: int) -> bool:
        """A transfer that names this delivery may go on with one that has begun."""
        return False

    @abstractmethod
    def reconcile(self, theirs: Mapping[bytes, DeliveryState | None] | None) -> None:
        """Decide on each delivery that was taken over, by the peer's map; None: the peer does not resume."""

    @property
    @abstractmethod
    def reduced(self) -> bool:
        """All is settled that an incomplete link could resume."""

    def check_reduced(self) -> None:
        """Called on a link that is incomplete, whenever something was settled or went out."""
        if self.incomplete and self.attached and not self._told_reduced and self.reduced:
            self._told_reduced = True
            self.session.engine.emit(LinkIncomplete(self))

    def looking(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method that settles, for a link that is incomplete; the others need not look."""

        def look(*args: Any, **options: Any) -> Any:
            result = method(*args, **options)
            self.check_reduced()
            return result

        return look

    # Frames in

    @abstractmethod
    def fill_flow(self, frame: Flow) -> None:
        """Add the link's state to a flow of ours (§2.7.4)."""

    @abstractmethod
    def receive_flow(self, frame: Flow) -> None: ...

    @abstractmethod
    def receive_transfer(self, frame: Transfer, payload: bytes | Pieces) -> None: ...

    def room_for_messages(self) -> int:
        """How many transfers, whole messages with nothing else to say, may come now and be no more than that."""
        return 0

    def receive_messages(self, like: Transfer, run: list[Alike], expected: int) -> bool:
        """Receive whole messages, the first with that delivery-id; False, and nothing done, if one is out of order."""
        return False

    @abstractmethod
    def receive_states(self, deliveries: Sequence[Any], state: DeliveryState | None, settled: bool) -> Sequence[Any]:
        """The peer's disposition of these; returns those whose owner should know."""

    def receive_settled_part(self, first: int, count: int, state: DeliveryState | None) -> None:
        """The sender has settled this range of delivery-ids; what is half received here may be among it."""

    def check_errant(self, what: str) -> None:
        if self.errant:
            raise SessionFault("amqp:session:errant-link", f"a {what} for a link that was detached with an error")

    # Detaching

    @abstractmethod
    def abandon(self) -> None:
        """Before a detach: abort what is half on the wire, drop what is half received."""

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if self.detach_sent or self._ended:
            return
        if self.terms is None:
            raise LocalProtocolError(f"the link {self._name!r} was not attached")
        self.abandon()
        self.session.flush()
        self._advance("S:DETACH")
        self.detach_sent = True
        self.gone = closed
        self.attached = False
        self.session.write(Detach(handle=self.handle, closed=closed, error=error))

    def receive_detach(self, closed: bool, cause: AmqpError | None) -> None:
        self._advance("R:DETACH")
        if not self.detach_sent:
            if self.terms is None:
                self._answer_to_end()
            self.detach(closed=closed)
        self.gone = self.gone or closed
        self.session.forget(self, lingers=self.lingers and not self.gone)
        self._end(closed, cause)

    def _answer_to_end(self) -> None:
        """Attach, so that we may detach: in few words, for the peer's own may be more than it takes."""
        try:
            self._answer(LinkTerms(self._name))
        except LocalProtocolError as unspeakable:
            raise SessionFault(unspeakable.condition or "amqp:not-allowed", str(unspeakable)) from unspeakable

    def fail(self, condition: str, description: str) -> None:
        """The peer broke a rule whose price is the link: detach it with the error, and end it here (§2.6.5).

        Closing would end a durable terminus, too, and what waits there.
        """
        if self.terms is None:
            self._answer_to_end()
        lasts = self.terms is not None and outlives_link(self.terms.source, self.terms.target)
        self.detach(closed=not lasts, error=Error(condition, description))
        self.errant = True
        self._end(True, RemoteProtocolError(description, condition))

    def over(self, cause: AmqpError | None) -> None:
        """The session or the connection is over, and this link with it."""
        self.gone = True
        self._end(False, cause)

    def _end(self, closed: bool, cause: AmqpError | None) -> None:
        self.attached = False
        self._drop_numbers()
        if not self._ended:
            self._ended = True
            self.session.engine.emit(LinkEnded(self, closed, cause))

"""What both link endpoints share: attach, refusal, detach, and how they end (§2.6.3 to §2.6.6, §2.7.3, §2.7.7)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..._machine import RECEIVED, Machine
from ..._machine import Step as AnyStep
from ...engine import LinkEnded, LinkTerms
from ...errors import AmqpError, LocalProtocolError, RemoteProtocolError
from ...messaging import Error, outlives_link
from .parents import LinkCore
from .resumption.link import Resumption
from .states import LINK, LINK_ENDS, LinkState, Step
from .unsettled_map import cut, well_formed
from .wire.frames import encode_frame
from .wire.performatives import Attach, Detach

if TYPE_CHECKING:
    from .parents import LinksByName, SessionCore

# Octets that a map adds to an attach beyond its entries: its own head, and the wider head of the list it is in.
MAP_HEAD = 16
# The frame size that every peer takes before its open tells its limit (§2.8.19).
MIN_MAX_FRAME_SIZE = 512
SENDER_MODES = ("unsettled", "settled", "mixed")
RECEIVER_MODES = ("first", "second")
_DETACH_SENT = frozenset({LinkState.DETACH_PIPE, LinkState.DETACH_SENT, LinkState.ENDED, LinkState.OVER})


class SessionFault(Exception):
    """The peer broke a rule that costs it the session (§2.5.4); the session ends itself with this condition."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.condition = condition
        self.description = description


def attach_terms(frame: Attach) -> LinkTerms:
    """Return the terms of an attach, in the engine's types."""
    if frame.snd_settle_mode > 2 or frame.rcv_settle_mode > 1:
        raise SessionFault("amqp:invalid-field", "a settle mode that does not exist")
    if not well_formed(frame.unsettled):
        raise SessionFault("amqp:invalid-field", "an unsettled map has a key that is not a delivery-tag")
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


def add_name(links: LinksByName, link: LinkCore) -> None:
    """Enter a link into the table by name."""
    key = link.name, link.is_sender
    links[key] = (*links.get(key, ()), link)


def drop_name(links: LinksByName, link: LinkCore) -> None:
    """Remove a link from the table by name."""
    key = link.name, link.is_sender
    others = tuple(other for other in links.get(key, ()) if other is not link)
    if others:
        links[key] = others
    else:
        links.pop(key, None)


class LinkEndpoint(LinkCore, Machine[LinkState]):
    """One end of a link.

    Attributes:
        gone: the link is closed, or its session is over: its deliveries can no longer be settled on the wire.
        resumption: the part that resumes (§2.6.13); None while there is nothing to resume.

    `gone` and `errant` are no states, for they say of a detach what it said, and last when the link is OVER.
    """

    noun = "link"
    transitions: ClassVar[dict[tuple[LinkState, Step], LinkState]] = LINK | LINK_ENDS
    # On the class until they are true: an object with more than thirty attributes is slower to access.
    errant: bool = False
    gone: bool = False
    incomplete: bool = False
    lingers = False
    resumption: Resumption | None = None
    _refused = False  # the peer's attach has null for the terminus that ours asks for

    def __init__(self, session: SessionCore, name: str) -> None:
        self.session = session
        self._name = name
        self.handle = -1
        self.remote_handle = -1
        self.terms: LinkTerms | None = None
        self.remote: LinkTerms | None = None
        self.attached: bool = False
        self.properties: Mapping[Any, Any] = {}
        self.state = LinkState.DETACHED
        self.detach_sent: bool = False

    @property
    def name(self) -> str:
        return self._name

    # Attaching

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        if self.terms is not None or self.remote is None:
            raise LocalProtocolError(f"the link {self._name!r} does not wait for an answer")
        if terms.name != self._name:
            raise LocalProtocolError(f"the answer to link {self._name!r} must have its name, not {terms.name!r}")
        if self.state is LinkState.OVER:
            return  # the link ended meanwhile: `LinkEnded` is among the same events
        if self.session.terms is None:
            raise LocalProtocolError(f"the session of the link {self._name!r} must be answered first")
        self._answer(terms, resuming)
        self.compare()

    def _answer(self, terms: LinkTerms, resuming: Iterable[Any] | None = None) -> None:
        self.session.give_handle(self)
        try:
            self.send_attach(terms, resuming)
        except Exception:  # the answer does not fit the peer's frames: take the handle back, so that nothing is changed
            self.session.release_handle(self)
            raise

    def refuse(self, error: Error) -> None:
        if self.state is LinkState.OVER:
            return
        if self.remote is None or self.terms is not None or self.session.terms is None:
            raise LocalProtocolError(f"the link {self._name!r} does not wait for an answer")
        # Our terminus is null, which tells the peer before the detach comes (§2.6.3).
        ours = "source" if self.is_sender else "target"
        try:
            terms = replace(self.remote, initial_delivery_count=0, unsettled=None, incomplete_unsettled=False)
            self.attach(replace(terms, **{ours: None}))  # type: ignore[arg-type]
        except LocalProtocolError:
            try:  # the peer's own terms do not fit its frame limit: leave all of them out
                self.attach(LinkTerms(self._name))
            except LocalProtocolError as unspeakable:  # the name alone is too large, or the peer has no handle left
                self.session.end(Error(unspeakable.condition or "amqp:not-allowed", str(unspeakable)))
                return
        self.detach(closed=True, error=error)

    def send_attach(self, terms: LinkTerms, resuming: Iterable[Any] | None = None) -> None:
        """Write our attach; the subclass sets up the state that depends on it."""
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
        resumption, deliveries = None, []
        if resuming is not None:
            resumption, deliveries = self.new_resumption(), [each for each in resuming if not each.local_settled]
            frame.unsettled, frame.incomplete_unsettled = None, True  # the largest form, without the map
            limit = self.session.engine.frame_limit - len(encode_frame(0, frame)) - MAP_HEAD
            frame.unsettled, frame.incomplete_unsettled = cut(resumption.states_of(deliveries), limit)
            terms = replace(terms, unsettled=frame.unsettled, incomplete_unsettled=frame.incomplete_unsettled)
        self.session.write(frame)  # before the step: too large a frame changes nothing
        self.terms = terms
        self.advance(Step.SEND_ATTACH)
        self.begin_counting()
        if resumption is not None:
            self.resumption = resumption
            resumption.take_over(deliveries)

    @abstractmethod
    def new_resumption(self) -> Resumption:
        """Make the part that resumes."""

    def compare(self) -> None:
        resumption = self.resumption
        if resumption is None:
            return
        resumption.drop_numbers()
        if self.attached and self.terms is not None and self.remote is not None:
            resumption.compare()

    def become_incomplete(self) -> None:
        self.incomplete = True

    def _leave(self, table: dict[int, Any], deliveries: Iterable[Any]) -> None:
        """Remove those of `deliveries` that no later attachment has taken over."""
        for delivery in deliveries:
            if delivery.link is self:
                table.pop(delivery.delivery_id, None)

    def receive_attach(self, remote: LinkTerms) -> bool:
        """Take the peer's attach; return False if it refuses ours, with a null terminus and a detach to follow."""
        if self.terms is not None:
            ours, theirs = (self.terms.target, remote.target) if self.is_sender else (self.terms.source, remote.source)
            if theirs is None and ours is not None:
                self._refused = True
        self.advance(Step.RECEIVE_ATTACH)
        self.remote = remote
        self.begin_counting()
        return self.terms is None or self.attached

    def entered(self, state: LinkState) -> None:
        self.attached = state is LinkState.ATTACHED and not (self._refused or self.session.ended_locally)
        self.detach_sent = state in _DETACH_SENT

    def illegal(self, step: AnyStep) -> Exception:
        error = super().illegal(step)
        return SessionFault("amqp:illegal-state", str(error)) if step.way == RECEIVED else error

    @abstractmethod
    def begin_counting(self) -> None:
        """Set up the state that depends on an attach, ours or the peer's, which is known now."""

    def check_errant(self, what: str) -> None:
        if self.errant:
            raise SessionFault("amqp:session:errant-link", f"a {what} for a link that was detached with an error")

    # Detaching

    @abstractmethod
    def abandon(self) -> None:
        """Abort a delivery sent in part, and drop one received in part, before a detach."""

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if self.detach_sent:
            return
        if self.terms is None:
            raise LocalProtocolError(f"the link {self._name!r} was not attached")
        self.abandon()
        self.session.dispositions.flush()
        self.advance(Step.SEND_DETACH)
        self.gone = closed
        self.session.write(Detach(handle=self.handle, closed=closed, error=error))

    def receive_detach(self, closed: bool, cause: AmqpError | None) -> None:
        self.advance(Step.RECEIVE_DETACH)
        if not self.detach_sent:
            if self.terms is None:
                self._answer_to_end()
            self.detach(closed=closed)
        self.gone = self.gone or closed
        self.session.forget(self, lingers=self.lingers and not self.gone)
        self._end(closed, cause)

    def _answer_to_end(self) -> None:
        """Attach, so that we may detach; leave out the peer's terms, which may be too large for its frame limit."""
        try:
            self._answer(LinkTerms(self._name))
        except LocalProtocolError as unspeakable:
            raise SessionFault(unspeakable.condition or "amqp:not-allowed", str(unspeakable)) from unspeakable

    def fail(self, condition: str, description: str) -> None:
        """Detach the link with an error, because the peer broke a rule that costs it the link (§2.6.5).

        A durable terminus is not closed: that would end it with the messages that wait there.
        """
        if self.terms is None:
            self._answer_to_end()
        lasts = self.terms is not None and outlives_link(self.terms.source, self.terms.target)
        self.detach(closed=not lasts, error=Error(condition, description))
        self.errant = True
        self._end(True, RemoteProtocolError(description, condition))

    def over(self, cause: AmqpError | None) -> None:
        """End the link, because its session or connection is over."""
        self.gone = True
        self._end(False, cause)

    def _end(self, closed: bool, cause: AmqpError | None) -> None:
        if self.resumption is not None:
            self.resumption.drop_numbers()
        if self.state is not LinkState.OVER:
            self.advance(Step.END_LINK)
            self.session.engine.emit(LinkEnded(self, closed, cause))

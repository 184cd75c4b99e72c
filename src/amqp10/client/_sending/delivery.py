"""One message as a sender holds it (§2.6.12, §3.4).

It is the engine's own object, extended: one object a message. Programs know it as a `SentDelivery`, which has no
attribute of the engine's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ...engine._deliveries import OutgoingDelivery
from ...errors import AmqpError, MessageModified, MessageNotAccepted, MessageRejected, MessageReleased
from ...messaging import (
    ACCEPTED,
    OUTCOMES,
    Accepted,
    Declared,
    Modified,
    Outcome,
    Rejected,
    Released,
    Returned,
    TransactionalState,
    Undone,
)
from ...profiles import Profile
from .._errors import fresh
from .delivery_face import SentDelivery

if TYPE_CHECKING:
    from ...net import Pump, Signal
    from .._core.connection import ConnectionCore

_FINAL_STATES = frozenset({*OUTCOMES, Returned, Undone, Declared})


class Unknown:
    """Stands for a state that will never arrive: the link was lost, and the outcome is unknown.

    Attributes:
        error: raised to the task that waits for the outcome.
    """

    __slots__ = ("error",)

    def __init__(self, error: AmqpError) -> None:
        self.error = error


def unknown(delivery: OutgoingDelivery) -> AmqpError | None:
    """Return why a delivery's outcome will never be known; None while it may still arrive."""
    state: Any = delivery.remote_state
    return state.error if type(state) is Unknown else None


class Waiter(Protocol):
    """Anything that waits for the outcome of one or more deliveries, such as an event."""

    def set(self) -> None:
        """Check again: the receiver sent a state, or the link is over."""


class Repeating:
    """A waiter that itself decides, after a loss, whether to send the message again."""

    __slots__ = ()

    def set(self) -> None:
        """Check again: the receiver sent a state, or the link is over."""

    def repeat(self, *, sure: bool) -> bool | None:
        """Act on the loss of the delivery with its link, and return whether the message will be sent again.

        None: nobody waits for it any longer.

        Args:
            sure: the delivery certainly did not arrive.
        """
        return None


class DeliverySender(Protocol):
    """A sender's core, as its deliveries see it; see `SenderCore`."""

    connection: ConnectionCore
    open: bool
    over: bool
    cause_reported: bool
    waiters: set[Waiter]
    new_signal: Callable[[], Signal]
    pump: Pump | None

    @property
    def returning(self) -> bool: ...

    def lost(self) -> Exception: ...

    def report(self, delivery: OutgoingDelivery) -> None: ...


class SenderDelivery(OutgoingDelivery, SentDelivery):
    """The object behind a `SentDelivery`: the engine's own, with what programs call."""

    __slots__ = ()

    waiter: Waiter | None

    async def outcome(self) -> Outcome:
        if self.remote_state is None and not (self.remote_settled or self.local_settled):
            sender: DeliverySender = self.link.owner  # type: ignore[assignment]
            sender.connection.check_loop()
        elif (outcome := known_outcome(self)) is not None:
            return outcome
        return await outcome_of(self)

    def __repr__(self) -> str:
        return f"<SentDelivery {self.delivery_id} tag={self.tag.hex()} {known_outcome(self) or 'in flight'}>"


def sender_delivery(delivery: SentDelivery) -> SenderDelivery:
    """Return the same object, with what the client and the engine know of it."""
    return delivery  # type: ignore[return-value] # there is no other kind


async def outcome_of(delivery: SenderDelivery) -> Outcome:
    """Wait for an outcome as `SentDelivery.outcome`, in the connection's event loop."""
    sender: DeliverySender = delivery.link.owner  # type: ignore[assignment]
    while True:
        state = delivery.remote_state
        if state is not None or delivery.remote_settled or delivery.local_settled:
            if type(state) is Accepted:  # nearly always
                return state
            if (outcome := known_outcome(delivery)) is not None:
                return outcome
            if (error := unknown(delivery)) is not None:
                sender.report(delivery)
                raise fresh(error)
        if sender.over:
            sender.cause_reported = True
            raise sender.lost()
        if delivery.waiter is None:
            delivery.waiter = sender.new_signal()
            sender.waiters.add(delivery.waiter)
        # Deliveries with waiters of another kind are in nobody else's hands.
        answer: Signal = delivery.waiter  # type: ignore[assignment]
        pump: Pump = sender.pump  # type: ignore[assignment] # there is one as soon as there is a link
        if pump.lends and pump.takes_turn(answer):
            await pump.read_for(answer)
        else:
            await answer.wait()


def known_outcome(delivery: OutgoingDelivery) -> Outcome | None:
    """Return the outcome if it is known now, else None."""
    state = delivery.remote_state
    if type(state) in _FINAL_STATES:
        return state  # type: ignore[return-value]
    if type(state) is TransactionalState and type(state.outcome) in _FINAL_STATES:
        return state.outcome  # type: ignore[no-any-return]
    if delivery.remote_settled:
        return _default_outcome(delivery)
    if unknown(delivery) is not None:
        return None
    # Sent settled: done once with the output. What closing aborted is settled too, but never got there.
    if not delivery.local_settled:
        return None
    link = delivery.link
    sender: DeliverySender = link.owner  # type: ignore[assignment]
    if delivery.on_wire or (not link.retired and (sender.open or sender.returning)):
        return ACCEPTED
    return None


def _default_outcome(delivery: OutgoingDelivery) -> Outcome:
    remote = delivery.link.remote
    default = remote.source.default_outcome if remote is not None and remote.source is not None else None
    return default if type(default) in _FINAL_STATES else Modified(delivery_failed=True)  # type: ignore[return-value]


def not_accepted(outcome: Outcome, profile: Profile) -> MessageNotAccepted:
    """Return the exception for a message that was not accepted, with what that means at this broker."""
    kind: type[MessageNotAccepted] = MessageModified
    if isinstance(outcome, Rejected | Released):
        kind = MessageRejected if isinstance(outcome, Rejected) else MessageReleased
    error = getattr(outcome, "error", None)
    if error is None:
        failure = kind(outcome=outcome)
    else:
        failure = kind(error.condition, error.description, error.info, outcome)
    profile.explain(failure)
    return failure

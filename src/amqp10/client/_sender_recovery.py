"""What becomes of deliveries that are out when their link is lost (§2.6.13): resumed, sent again, or not known."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..engine import LinkTerms, OutgoingDelivery
from ..errors import AmqpError, DeliveryUncertain, LocalProtocolError, TransactionRolledBack
from ..messaging import TransactionalState
from ._delivery import Repeating, SentDelivery, Unknown
from ._sender_turns import QueueingSender

if TYPE_CHECKING:
    from ._connection import Connection
    from ._session import Session


class RecoveringSender(QueueingSender):
    """The part of a sender that outlives its link."""

    def __init__(self, connection: Connection, session: Session | None, terms: LinkTerms) -> None:
        super().__init__(connection, session, terms)
        self._last: OutgoingDelivery | None = None
        self._recovered: tuple[SentDelivery, ...] = ()  # of an earlier connection
        self._untold: set[OutgoingDelivery] = set()  # whose fate is not known, which nobody was told yet
        self._spoiled = False  # an aborted delivery stands in the way of others, for the peer knows none

    @property
    def unsettled(self) -> int:
        """How many deliveries are out without an outcome."""
        if self._interrupted or self._pending:
            return len(self._pending)
        return len(self._link.unsettled) if self._link is not None else 0

    @abstractmethod
    def _on_outcomes(self, deliveries: Sequence[OutgoingDelivery]) -> None:
        """The receiver told states of these."""

    def _recalled(self) -> list[SentDelivery]:
        assert self._remembered is not None
        self._recovered = tuple(self._remembered.sent())
        return list(self._recovered)

    @property
    def recovered(self) -> tuple[SentDelivery, ...]:
        """Messages that an earlier connection sent on this link and left without an outcome (`delivery_store`).

        They are resumed, or sent again, by this one; `await delivery.outcome()` says what became of each.
        """
        return self._recovered

    def _interrupt(self, error: AmqpError | None) -> None:
        if self._stream is not None:
            self._turns.remove(self._stream)  # whoever writes it is told by its next call
            self._stream = None
        self._draining = self._spoiled = False
        if self._last is not None and self._last.local_settled:
            self._last = None
        link = self._link
        assert link is not None
        for delivery in list(link.unsettled.values()):
            if isinstance(delivery.state, TransactionalState):
                lost = TransactionRolledBack(description="the connection was lost before the transaction was committed")
                lost.__cause__ = error
                self._lose(delivery, lost)
                self._untold.discard(delivery)  # its transaction says it
        known = set(map(id, self._pending))
        self._pending += [delivery for delivery in link.suspended() if id(delivery) not in known]
        super()._interrupt(error)

    def _on_restored(self) -> None:
        if self._link is not None and self._link.attached:
            self._on_unresumed(self._take_pending())
        self._wake_turns()

    def _on_unresumed(self, deliveries: Iterable[OutgoingDelivery]) -> None:
        """The peer cannot say what became of these."""
        link, recovery = self._link, self.connection._recovery
        assert link is not None
        if not link.attached:
            return  # any more, which is told next: they are the next one's
        resend = recovery is None or recovery.settings.on_uncertain == "resend"
        for delivery in deliveries:
            if delivery.local_settled:  # its outcome came while the link was detached
                continue
            if isinstance(delivery.waiter, Repeating):
                link.forget(delivery)  # it is sent again by others, in other words
                self._last = None if self._last is delivery else self._last
                delivery.waiter.repeat(sure=not delivery.handed_over)
            elif delivery.streamed or (delivery.handed_over and not resend):
                link.forget(delivery)
                error = DeliveryUncertain(
                    "the link was lost before the outcome came: it is not known whether it arrived"
                )
                error.__cause__ = self._loss
                self._lose(delivery, error)
            else:
                self._resend(delivery)
        self.connection._wake()

    def _resend(self, delivery: OutgoingDelivery) -> None:
        link = self._link
        assert link is not None
        try:
            link.resend(delivery)
        except LocalProtocolError as error:
            if link.attached:  # the peer takes no message of that size any more, for one
                link.forget(delivery)
                self._lose(delivery, DeliveryUncertain(f"it cannot be sent again: {error}"))
            elif link.unsettled.get(delivery.tag) is not delivery:
                self._pending.append(delivery)  # the link has ended again meanwhile, as will be told next

    def _lose(self, delivery: OutgoingDelivery, error: AmqpError) -> None:
        """What became of it will never be known."""
        delivery.remote_state = Unknown(error)  # type: ignore[assignment]
        self._untold.add(delivery)
        if self._last is delivery:
            self._last = None
        self._on_outcomes((delivery,))

"""Transactions at the server: what was sent and acknowledged on a transacted channel, and the link that commits it.

What is only acknowledged is told at once when it is committed. Where messages were sent, too, the owner's coordinator
is asked as a client of AMQP 1.0 would ask it: declare, the work with the transaction's id, discharge; one commit after
the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ....engine import IncomingDelivery, LinkAttached, LinkTerms
from ....messaging import (
    ACCEPTED,
    Accepted,
    Coordinator,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Error,
    Rejected,
    TransactionalState,
)
from ....types import Symbol
from ..._kit.coordinators import RelayCoordinator
from ..link import LinkEndpoint
from ..states import Step

if TYPE_CHECKING:
    from ....errors import AmqpError
    from .parents import ServerLinkSession
    from .work import ChannelWork


class ServerCoordinator(LinkEndpoint, RelayCoordinator):
    """The link to the owner's coordinator, which is attached when it is first needed."""

    session: ServerLinkSession
    terms: LinkTerms | None
    credit: int

    def __init__(self, session: ServerLinkSession) -> None:
        super().__init__(session, f"transactions-{session.id}")
        self.remote: LinkTerms = LinkTerms(self._name, target=Coordinator(), settle_mode="unsettled")
        self.incoming: deque[IncomingDelivery] = deque()
        self.unsettled: dict[bytes, IncomingDelivery] = {}
        self._waiting: deque[ChannelWork] = deque()
        self._under_way: ChannelWork | None = None
        self._txn_id = b""
        self._to_come = 0  # outcomes still to come, and one more until all messages were handed out
        self._failure: Error | None = None
        self.engine.emit(LinkAttached(self))

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        if self.take_answer(terms):
            self.advance(Step.ATTACH)

    def refuse(self, error: Error) -> None:
        self.terms = self.remote
        self._end(error)

    @property
    def busy(self) -> bool:
        """Return whether a commit is under way, or waits."""
        return self._under_way is not None or bool(self._waiting)

    # One commit after the other

    def commit(self, work: ChannelWork) -> None:
        """Commit `work` after the commits before it."""
        self._waiting.append(work)
        self.session.engine.hold(1, work.octets)
        self.ask_waiting()

    def ask_waiting(self) -> None:
        if self._under_way is None and self._waiting and self.attached and self.credit:
            self._under_way = self._waiting.popleft()
            self._failure = None
            self._ask(Declare())

    def _ask(self, what: Declare | Discharge) -> None:
        self.credit -= 1
        self.hand_out(self.delivery_of(what))

    def answered(self, delivery: IncomingDelivery, state: DeliveryState | None) -> None:
        if isinstance(state, Declared):
            self._work(state.txn_id)
        elif isinstance(state, Accepted):
            self._done(self._failure)
        else:
            self._done((state.error if isinstance(state, Rejected) else None) or _rolled_back("it was refused"))

    def _work(self, txn_id: bytes) -> None:
        work = self._under_way
        assert work is not None
        self._txn_id = txn_id
        self._to_come = len(work.sent) + 1
        for link, payload, message_format in work.sent:
            link.take(payload, message_format, 0, state=TransactionalState(txn_id), on_outcome=self._on_message_outcome)
        self.session.acknowledge(work.acknowledged, TransactionalState(txn_id, ACCEPTED))
        self._count_outcome()

    def _on_message_outcome(self, state: DeliveryState | None) -> None:
        """Record the outcome of a message of the transaction; the transaction fails unless the message was accepted."""
        outcome = state.outcome if isinstance(state, TransactionalState) else state
        if not isinstance(outcome, Accepted):
            error = outcome.error if isinstance(outcome, Rejected) else None
            self._failure = error or _rolled_back("a message of it could not be routed")
        self._count_outcome()

    def _count_outcome(self) -> None:
        self._to_come -= 1
        if not self._to_come and self._under_way is not None:
            self._ask(Discharge(self._txn_id, self._failure is not None))

    def _done(self, error: Error | None) -> None:
        work, self._under_way = self._under_way, None
        if work is not None:
            self.session.reply(work.tag, error)
            self.session.engine.hold(-1, -work.octets)
        self.ask_waiting()

    # The end

    def _end(self, error: Error) -> None:
        """Answer all commits that are under way or wait with `error`, because the link to the coordinator ends."""
        waiting = [*([self._under_way] if self._under_way is not None else []), *self._waiting]
        self._under_way = None
        self._waiting.clear()
        self.mark_detached()
        for work in waiting:
            self.session.reply(work.tag, error)
            self.session.engine.hold(-1, -work.octets)

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        self._end(error or _rolled_back("there is no coordinator any more"))
        self.leave(None)
        self.session.coordinator = None

    def leave(self, cause: AmqpError | None) -> None:
        """End the link, because the channel ends; the owner rolls back the open transaction."""
        self.over(True, cause)


def _rolled_back(why: str) -> Error:
    return Error(Symbol("amqp:transaction:rollback"), why)

"""Transactions at the server: what was sent and acknowledged on a transacted channel, and the link that commits it.

What is only acknowledged is told at once when it is committed. Where messages were sent, too, the owner's coordinator
is asked as a client of AMQP 1.0 would ask it: declare, the work with the transaction's id, discharge; one commit after
the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...engine import DeliveriesReceived, IncomingDelivery, LinkAttached, LinkTerms, ReceiverLink
from ...errors import LocalProtocolError
from ...messaging import (
    ACCEPTED,
    Accepted,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Error,
    Message,
    Rejected,
    TransactionalState,
)
from ...types import Symbol
from ._endpoints import FastLink

if TYPE_CHECKING:
    from ._server_producer import ServerProducer
    from ._server_session import ServerSession

MOST_OCTETS: Final = 1 << 26
MOST_MESSAGES: Final = 100_000
"""Octets of messages that all transactions of a connection may have, and messages that one may."""


class Work:
    """What was done since the last commit.

    Attributes:
        sent: messages, and the links that they came on: payload, message-format.
        acknowledged: up to which number; None: nothing was.
        spoiled: why it can not be committed.
    """

    def __init__(self) -> None:
        self.sent: list[tuple[ServerProducer, bytes, int]] = []
        self.octets = 0
        self.acknowledged: int | None = None
        self.spoiled: Error | None = None
        self.tag = 0


class Transactor(FastLink, ReceiverLink):
    """The link to the owner's coordinator, which is attached when it is first needed."""

    session: ServerSession
    is_sender = False

    def __init__(self, session: ServerSession) -> None:
        super().__init__(session, f"transactions-{session.id}")
        self.remote = LinkTerms(self._name, target=Coordinator(), settle_mode="unsettled")
        self.credit = 0
        self.available = 0
        self.incoming: deque[IncomingDelivery] = deque()
        self.unsettled: dict[bytes, IncomingDelivery] = {}
        self.partial_state: DeliveryState | None = None
        self.delivery_type = IncomingDelivery
        self.streaming = False
        self._waiting: deque[Work] = deque()
        self._under_way: Work | None = None
        self._txn_id = b""
        self._to_come = 0  # outcomes of what was sent, and that all of it was said
        self._failure: Error | None = None
        self._number = 0
        self.engine.emit(LinkAttached(self))

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        self.terms = terms
        self.attached = True

    def refuse(self, error: Error) -> None:
        self.terms = self.remote
        self._end(error)

    @property
    def settled_by_sender(self) -> bool:
        return False

    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        self.credit = credit
        self._next()

    @property
    def busy(self) -> bool:
        """Something is being committed, or waits for it."""
        return self._under_way is not None or bool(self._waiting)

    # One commit after the other

    def commit(self, work: Work) -> None:
        """Do that, when all before it is done."""
        self._waiting.append(work)
        self.session.engine.hold(1, work.octets)
        self._next()

    def _next(self) -> None:
        if self._under_way is None and self._waiting and self.attached and self.credit:
            self._under_way = self._waiting.popleft()
            self._failure = None
            self._ask(Declare())

    def _ask(self, what: Declare | Discharge) -> None:
        self._number += 1
        self.credit -= 1
        payload = Message(AmqpValue(what)).encode()
        delivery = self.delivery_type(self, self._number, self._number.to_bytes(8, "big"), payload, False)
        self.unsettled[delivery.tag] = delivery
        self.incoming.append(delivery)
        if len(self.incoming) == 1:
            self.engine.emit(DeliveriesReceived(self))

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)
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
            link.take(payload, message_format, 0, state=TransactionalState(txn_id), told=self._told)
        self.session.acknowledge(work.acknowledged, TransactionalState(txn_id, ACCEPTED))
        self._came()

    def _told(self, state: DeliveryState | None) -> None:
        """What became of a message that was sent in it."""
        outcome = state.outcome if isinstance(state, TransactionalState) else state
        if not isinstance(outcome, Accepted):
            error = outcome.error if isinstance(outcome, Rejected) else None
            self._failure = error or _rolled_back("a message of it could not be routed")
        self._came()

    def _came(self) -> None:
        self._to_come -= 1
        if not self._to_come and self._under_way is not None:
            self._ask(Discharge(self._txn_id, self._failure is not None))

    def _done(self, error: Error | None) -> None:
        work, self._under_way = self._under_way, None
        if work is not None:
            self.session.reply(work.tag, error)
            self.session.engine.hold(-1, -work.octets)
        self._next()

    # The end

    def _end(self, error: Error) -> None:
        """There will be no commits."""
        waiting = [*([self._under_way] if self._under_way is not None else []), *self._waiting]
        self._under_way = None
        self._waiting.clear()
        self.attached = False
        for work in waiting:
            self.session.reply(work.tag, error)
            self.session.engine.hold(-1, -work.octets)

    def read(self, delivery: IncomingDelivery) -> bytes | None:
        raise LocalProtocolError("nothing is streamed on this link")

    def discard(self, delivery: IncomingDelivery) -> None:
        raise LocalProtocolError("nothing is streamed on this link")

    def suspended(self) -> list[IncomingDelivery]:
        return []

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        self._end(error or _rolled_back("there is no coordinator any more"))
        self.leave(None)
        self.session.transactor = None

    def leave(self, cause: Any) -> None:
        """The channel ends: what is open is rolled back."""
        self.over(True, cause)


def _rolled_back(why: str) -> Error:
    return Error(Symbol("amqp:transaction:rollback"), why)


def too_much() -> Error:
    """A transaction has more than there is room for."""
    return Error(
        Symbol("amqp:resource-limit-exceeded"),
        f"more than {MOST_OCTETS} octets, or {MOST_MESSAGES} messages, that are not committed",
    )

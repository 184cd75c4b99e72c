"""Transactions: declared on entering the block, committed on leaving it, rolled back if an exception leaves it (§4).

Each session has one link to the peer's coordinator, attached when it is first needed. The order on the wire is what
makes a transaction whole: what it settled and sent is written before its discharge.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from ..engine import LinkTerms
from ..errors import (
    AmqpError,
    LocalProtocolError,
    MessageNotAccepted,
    TransactionError,
    TransactionInDoubt,
    TransactionRolledBack,
)
from ..messaging import (
    Accepted,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Message,
    Outcome,
    Rejected,
    Source,
    TransactionalState,
)
from ._delivery import SentDelivery, not_accepted
from ._sender import Sender

if TYPE_CHECKING:
    from ._link import Link
    from ._session import Links, Session

CAPABILITIES = ("amqp:local-transactions",)
OUTCOMES = ("amqp:accepted:list", "amqp:rejected:list", "amqp:declared:list")
KEPT = 256


class Transaction:
    """Work that happens as a whole or not at all; made by `connection.transaction()`, declared by `async with`.

        async with connection.transaction() as transaction:
            await sender.send(message, transaction=transaction)
            delivery.accept(transaction=transaction)

    Leaving the block commits it; leaving it by an exception, a cancellation among them, rolls it back. The links whose
    work is in it are on one session, the one that the transaction was made of.

    Attributes:
        id: what the coordinator calls it; None while it is not declared.
        active: it can take work: it is declared, and neither committed nor rolled back.
    """

    def __init__(self, links: Links) -> None:
        self._links = links
        self._session: Session | None = None
        self._coordinator: Sender | None = None
        self._sent: list[SentDelivery] = []  # whose outcomes are still to be looked at
        self.id: bytes | None = None
        self.active = False

    async def __aenter__(self) -> Self:
        """Have the coordinator declare it.

        Raises:
            LinkDetached, SessionEnded: the peer has no coordinator; `condition` and `description` say so.
            TransactionError: the coordinator declared none.
            ConnectionClosed, ConnectionLost: the connection is gone.
            Unsupported: the dialect has no transactions.

        Cancelling: is noticed when the coordinator has answered, `close_timeout` seconds later at most; the transaction
            is then rolled back.
        """
        if self.id is not None:
            raise LocalProtocolError("a transaction is declared by `async with` once; make a new one")
        connection, session = self._links._place()
        self._session = session = session if session is not None else connection._default_session()
        self._coordinator = coordinator = await session._coordinator()
        delivery = await coordinator.submit(Message(AmqpValue(Declare())))
        try:
            self._declared(await delivery.outcome())
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(self._in_session.connection.close_timeout, shield=True):
                self._declared(await delivery.outcome())
                await self._abandon()
            raise
        return self

    def _declared(self, outcome: object) -> None:
        if not isinstance(outcome, Declared):
            raise _refused(TransactionError, outcome)
        self.id = outcome.txn_id
        self.active = True

    @property
    def _in_session(self) -> Session:
        assert self._session is not None
        return self._session

    # Work

    def _state(self, link: Link, outcome: Outcome | None = None) -> TransactionalState:
        """The state of work on a link that is part of this.

        Raises:
            LocalProtocolError: it is over, or the link is on another session.
        """
        if not self.active or self.id is None:
            raise LocalProtocolError("the transaction is not active: it takes work in its own block only")
        engine_link = link._engine_link
        if engine_link is None or engine_link.session is not self._in_session._in_engine:
            raise LocalProtocolError("the link and the transaction are on different sessions")
        return TransactionalState(self.id, outcome)

    def _add(self, delivery: SentDelivery) -> None:
        """A message was sent as part of this: it is committed only if it is accepted."""
        sent = self._sent
        sent.append(delivery)
        if len(sent) % KEPT == 0:
            self._sent = [each for each in sent if type(each._known_outcome()) is not Accepted]

    # The end

    async def commit(self) -> None:
        """Make it happen. Leaving the block does so, too.

        Waits for the outcomes of what was sent in it; if one of them is not accepted, it is rolled back.

        Raises:
            TransactionRolledBack: nothing of it happened: a message was not accepted (`__cause__`), the coordinator
                refused, or the link, session or connection ended before it was asked (`__cause__`).
            TransactionInDoubt: the connection was lost, or no answer came within `close_timeout`, after the coordinator
                was asked.
            LocalProtocolError: it is over already.

        Cancelling: while it waits for outcomes, it is rolled back. After that it is not noticed: the answer is waited
            for, `close_timeout` seconds at most.
        """
        if not self.active:
            raise LocalProtocolError("the transaction is over")
        try:
            await self._accepted()
        except MessageNotAccepted as error:
            await self._abandon()
            raise TransactionRolledBack(description=f"a message of it was not accepted: {error}") from error
        except (AmqpError, anyio.ClosedResourceError) as error:
            self.active = False
            raise TransactionRolledBack(description=f"it ended before it was committed: {error}") from error
        except BaseException:
            await self._abandon()
            raise
        self.active = False
        delivery = await self._discharge(fail=False)
        outcome: Outcome | None = None
        try:
            with anyio.move_on_after(self._in_session.connection.close_timeout, shield=True):
                outcome = await delivery.outcome()
        except (AmqpError, anyio.ClosedResourceError) as error:
            raise TransactionInDoubt(description=f"it was to be committed, and no answer came: {error}") from error
        if outcome is None:
            raise TransactionInDoubt
        if not isinstance(outcome, Accepted):
            raise _refused(TransactionRolledBack, outcome)

    async def rollback(self) -> None:
        """Undo it: messages sent in it are forgotten, and what was settled in it is as if it had not been.

        Does nothing when it is over.

        It never fails: what cannot be told to the coordinator is rolled back by the end of the link (§4.3).

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        if self.active:
            await self._abandon()

    async def _accepted(self) -> None:
        """Wait until every message that was sent in it is accepted."""
        for delivery in self._sent:
            outcome = await delivery.outcome()
            if type(outcome) is not Accepted:
                raise not_accepted(outcome, self._in_session.connection.profile)
        assert self._coordinator is not None
        if not self._coordinator.open:
            raise self._coordinator._gone()

    async def _discharge(self, *, fail: bool) -> SentDelivery:
        """Ask for the end; whatever was said in the transaction is written before. Not cancelled half-way."""
        assert self._coordinator is not None
        assert self.id is not None
        with anyio.CancelScope(shield=True):
            self._in_session._in_engine.flush()
            message = Message(AmqpValue(Discharge(self.id, fail)))
            with anyio.move_on_after(self._in_session.connection.close_timeout):
                return await self._coordinator.submit(message)
        raise TransactionRolledBack(description="the coordinator gave no credit to be asked")

    async def _abandon(self) -> None:
        self.active = False
        with anyio.move_on_after(self._in_session.connection.close_timeout, shield=True):
            try:
                await (await self._discharge(fail=True)).outcome()
            except (AmqpError, anyio.ClosedResourceError):
                pass  # the peer rolls back what its coordinator link, or the connection, ends with (§4.3)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back if the block is left by an exception.

        Raises:
            TransactionRolledBack, TransactionInDoubt: see `commit`.

        Cancelling: see `commit` and `rollback`.
        """
        if not self.active:
            return
        if exc is None:
            await self.commit()
        else:
            await self._abandon()


class CoordinatorSender(Sender):
    """The link of a session to the coordinator (§4.5.1)."""

    def __init__(self, session: Session, name: str) -> None:
        terms = LinkTerms(
            name=name,
            source=Source(outcomes=OUTCOMES),
            target=Coordinator(CAPABILITIES),
            settle_mode="unsettled",
        )
        super().__init__(session.connection, session, terms)


def _refused(kind: type[TransactionError], outcome: object) -> TransactionError:
    error = outcome.error if isinstance(outcome, Rejected) else None
    if error is None:
        return kind(description=f"the coordinator answered {type(outcome).__name__}")
    return kind(error.condition, error.description, error.info)

"""Transactions: declared on entering the block, committed on leaving it, rolled back if an exception leaves it (§4).

Each session has one link to the peer's coordinator, attached when it is first needed. The order on the wire is what
makes a transaction whole: what was sent and settled in it is written before its discharge, whatever its session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio

from ..._arguments import made_by
from ...engine import IncomingDelivery, LinkTerms, OutgoingDelivery
from ...errors import (
    AmqpError,
    EndpointError,
    LocalProtocolError,
    MessageNotAccepted,
    TransactionError,
    TransactionInDoubt,
    TransactionRolledBack,
    Unsupported,
)
from ...messaging import (
    ACCEPTED,
    Accepted,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Message,
    Modified,
    Outcome,
    Rejected,
    Returned,
    Source,
    TransactionalState,
    Undone,
)
from ...profiles import TransactionSupport
from .._core.close_deadline import shielded_until
from .._core.connection import ConnectionCore, LinkCore, SessionCore
from .._core.faces import core_of
from .._core.states import Step
from .._core.transaction_work import AcquiringReceiver, TransactionFace, TransactionState
from .._errors import fresh
from .._receiving.delivery import settle_committed
from .._sending.core import SenderCore
from .._sending.delivery import SenderDelivery, known_outcome, not_accepted, sender_delivery, unknown
from .._sending.sender import Sender

if TYPE_CHECKING:
    from .._sending.body_writer import BodyWriter

LOCAL = "amqp:local-transactions"
SEVERAL_SESSIONS = "amqp:multi-ssns-per-txn"
OUTCOMES = ("amqp:accepted:list", "amqp:rejected:list", "amqp:declared:list")


class ClientTransaction:
    """The core of a transaction: it declares it, keeps account of the work, and ends it."""

    _coordinator: CoordinatorSender
    _support: TransactionSupport
    posted: TransactionalState
    released_state: TransactionalState

    def __init__(self, connection: ConnectionCore, session: SessionCore | None) -> None:
        self._connection = connection
        self._session = session
        self.id: bytes | None = None
        self.state: TransactionState = "new"
        self._sent: deque[Any] = deque()  # whose outcomes are still to be looked at
        # On which something was said that gets no answer before the commit, and how often they had been lost by then.
        self._unanswered: dict[LinkCore, int] = {}
        self.streams: dict[BodyWriter, Callable[[str], None]] = {}  # that are not complete
        self._acquirers: dict[AcquiringReceiver, int] = {}  # and how often they had been lost before
        self._retired: list[Any] = []  # that were given an outcome, and are not settled with that

    # Declaring

    async def __aenter__(self) -> Self:
        if self.state != "new":
            raise LocalProtocolError("a transaction can be declared by `async with` only once; make a new one")
        self._support = _support(self._connection)
        session = self._session if self._session is not None else self._connection.default_session()
        self._coordinator = coordinator = await _coordinator_of(session)
        declaring = await coordinator.submit(Message(AmqpValue(Declare())))
        try:
            self._declared(await declaring.outcome())
        except anyio.get_cancelled_exc_class():
            await self._undeclare(sender_delivery(declaring))
            raise
        return self

    def _declared(self, outcome: object) -> None:
        if not isinstance(outcome, Declared):
            raise _refused(TransactionError, outcome)
        self.id = outcome.txn_id
        self.state = "active"
        self.posted = TransactionalState(self.id)
        self._accepted = TransactionalState(self.id, ACCEPTED)
        # The same as released, but applied in a transaction by every broker.
        self.released_state = TransactionalState(self.id, Modified())

    async def _undeclare(self, declaring: SenderDelivery) -> None:
        """Roll back as soon as it has a name: nobody wants it now."""
        with self._bounded(), suppress(AmqpError, anyio.ClosedResourceError):
            self._declared(await declaring.outcome())
            await self._roll_back()
        if declaring.remote_state is None:
            self._coordinator.give_up()

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """Do the block whoever cancels, in `close_timeout` seconds."""
        connection = core_of(self._coordinator).connection
        with connection.close_deadlines.exit(connection.close_timeout) as this, shielded_until(this.links_by):
            yield

    # Work

    def _check(self, link: LinkCore) -> None:
        """Raise unless work on that link can be part of this."""
        if self.state != "active":
            raise LocalProtocolError("the transaction is not active: use it inside its `async with` block")
        coordinator = core_of(self._coordinator)
        if coordinator.over and coordinator.cause is not None:
            lost = f"it is rolled back, for its coordinator was lost: {coordinator.cause}"
            raise TransactionRolledBack(description=lost) from coordinator.lost()
        if link.connection is not coordinator.connection:
            raise LocalProtocolError("the link and the transaction are on different connections")
        ours, theirs = coordinator.engine_link, link.engine_link
        together = ours is not None and theirs is not None and ours.session is theirs.session
        if not (together or self._coordinator.spans_sessions or self._support.spans_sessions):
            raise LocalProtocolError("the link and the transaction are on different sessions")

    def post(self, sender: LinkCore) -> TransactionalState:
        """Return the state of a message that is sent as part of this (§4.4.1)."""
        self._check(sender)
        return self.posted

    def add(self, delivery: OutgoingDelivery) -> None:
        """Record a message that was sent as part of this: it is committed only if the message is accepted."""
        sent = self._sent
        while sent and sent[0].on_wire and type(known_outcome(sent[0])) is Accepted:
            sent.popleft()
        sent.append(delivery)
        if delivery.local_settled:
            self._note_unanswered(delivery)

    def _note_unanswered(self, delivery: OutgoingDelivery | IncomingDelivery) -> None:
        link: LinkCore = delivery.link.owner  # type: ignore[assignment]
        self._unanswered.setdefault(link, link.generation)

    def state_for_outcome(self, delivery: IncomingDelivery, outcome: Outcome) -> TransactionalState:
        """Return the state that gives a delivery its outcome as part of this (§4.4.2)."""
        receiver: LinkCore = delivery.link.owner  # type: ignore[assignment]
        self._check(receiver)
        if delivery.local_settled:
            raise LocalProtocolError("the delivery is settled already, so its outcome cannot be part of a transaction")
        name = type(outcome).__name__.lower()
        if name not in self._support.outcomes:
            title = core_of(self._coordinator).connection.profile.title
            raise Unsupported(
                f"{title} does not apply the outcome {name} in a transaction: settle without the transaction"
            )
        return self._accepted if type(outcome) is Accepted else TransactionalState(self.posted.txn_id, outcome)

    def outcome_written(self, delivery: IncomingDelivery) -> None:
        """Record that the outcome was written."""
        self._note_unanswered(delivery)
        if not delivery.local_settled:
            self._retired.append(delivery)

    def acquire(self, receiver: AcquiringReceiver) -> bytes:
        """Record that a receiver acquires messages as part of this (§4.4.3); return the id for its flows."""
        self._check(receiver)
        if not self._support.acquires:
            raise Unsupported(f"{receiver.connection.profile.title} does not acquire messages in a transaction")
        self._acquirers[receiver] = receiver.generation
        return self.posted.txn_id

    def check_acquiring(self, receiver: AcquiringReceiver) -> None:
        """Raise if the link was lost: no more deliveries of this transaction will come."""
        if receiver.generation != self._acquirers[receiver]:
            lost = f"it can only be rolled back, for a link that acquires in it was lost: {receiver.loss}"
            raise TransactionRolledBack(description=lost) from receiver.loss

    # The end

    async def commit(self) -> None:
        if self.state != "active":
            raise LocalProtocolError("the transaction is over")
        if self.streams:
            raise LocalProtocolError("a stream that is part of the transaction is not complete")
        self.state = "ending"
        try:
            await self._work_done()
            discharge = await self._discharge(fail=False)
        except BaseException as error:
            with self._bounded():
                await self._roll_back()
            if isinstance(error, MessageNotAccepted):
                raise TransactionRolledBack(description=f"one of its messages was not accepted: {error}") from error
            if isinstance(error, AmqpError | anyio.ClosedResourceError):
                raise TransactionRolledBack(description=f"the commit failed: {error}") from error
            raise
        try:
            await self._verdict(discharge)
        except anyio.get_cancelled_exc_class():
            with self._bounded(), suppress(TransactionError):
                await self._verdict(discharge)
            if self.state == "ending":
                self._end("in-doubt")
            raise

    async def _work_done(self) -> None:
        """Wait until every message that was sent in it is accepted, and no more are acquired."""
        for receiver in self._acquirers:
            await receiver.stop_acquiring()
        for delivery in self._sent:
            outcome = await self._outcome_of(delivery)
            if type(outcome) is not Accepted:
                raise not_accepted(outcome, core_of(self._coordinator).connection.profile)
        self._check_unanswered()
        if not self._coordinator.open:
            raise core_of(self._coordinator).gone()

    def _check_unanswered(self) -> None:
        """Raise the loss of a link: whether the peer heard before that what was said on it is not known."""
        links: list[tuple[LinkCore, int]] = [*self._unanswered.items(), *self._acquirers.items()]
        for link, generation in links:
            if link.cause is not None:
                raise link.lost()
            if link.generation != generation and link.loss is not None:
                raise fresh(link.loss)

    async def _outcome_of(self, delivery: SenderDelivery) -> Outcome:
        """Wait for an outcome; not by `delivery.outcome()`, where a user may wait. Sent settled, it is still to go."""
        if delivery.on_wire and (outcome := known_outcome(delivery)) is not None:
            return outcome  # on a link, perhaps, that its sender has left for another
        self._check_unanswered()
        sender: SenderCore = delivery.link.owner  # type: ignore[assignment]
        generation = sender.generation
        await sender.until(
            lambda: (
                sender.over
                or sender.generation != generation
                or unknown(delivery) is not None
                or (delivery.on_wire and known_outcome(delivery) is not None)
            )
        )
        if (error := unknown(delivery)) is not None:
            sender.report(delivery)
            raise fresh(error)
        outcome = known_outcome(delivery)
        if sender.generation != generation:
            self._check_unanswered()
        if outcome is None:
            raise sender.lost()
        return outcome

    async def _discharge(self, *, fail: bool) -> SenderDelivery:
        """Ask for the end."""
        # What is settled waits to be merged; it has to be said before.
        core_of(self._coordinator).connection.in_engine.flush()
        return sender_delivery(await self._coordinator.submit(Message(AmqpValue(Discharge(self.posted.txn_id, fail)))))

    async def _verdict(self, discharge: SenderDelivery) -> None:
        """Act on the coordinator's answer to a commit."""
        try:
            outcome = await discharge.outcome()
        except (AmqpError, anyio.ClosedResourceError) as error:
            if isinstance(error, EndpointError) and str(error.condition).startswith("amqp:transaction:"):
                # A coordinator that could not reject the message says it so (§4.3).
                self._end("rolled-back")
                raise TransactionRolledBack(error.condition, error.description, error.info) from error
            found = await self._found_out(discharge)
            if found is None:
                self._end("in-doubt")
                raise TransactionInDoubt(description=f"no answer to the commit arrived: {error}") from error
            outcome = found
        if isinstance(outcome, Returned):
            self._end("committed")
            raise not_accepted(outcome, core_of(self._coordinator).connection.profile)
        if type(outcome) is not Accepted:
            self._end("rolled-back")
            rolled_back = _refused(TransactionRolledBack, outcome)
            if isinstance(outcome, Undone):
                raise rolled_back from not_accepted(outcome.cause, core_of(self._coordinator).connection.profile)
            raise rolled_back
        self._end("committed")

    async def _found_out(self, discharge: SenderDelivery) -> Outcome | None:
        """Return what became of it, where the next connection can tell; None: nobody knows."""
        connection = core_of(self._coordinator).connection
        if "find-outcomes" in connection.capabilities:
            await connection.ready()
        return known_outcome(discharge)

    async def rollback(self) -> None:
        if self.state == "active":
            with self._bounded():
                await self._roll_back()

    async def _roll_back(self) -> None:
        """Roll back; to be called in `_bounded`."""
        coordinator = self._coordinator
        self.state = "rolled-back"
        requested = False
        try:
            self._withdraw()
            for receiver in self._acquirers:
                await receiver.stop_acquiring()
            discharge = await self._discharge(fail=True)
            requested = True
            await discharge.outcome()
        except (AmqpError, anyio.ClosedResourceError):
            pass  # the end of the coordinator link, or of the connection, rolls back
        finally:
            if not requested:
                coordinator.give_up()
            self._end("rolled-back")

    def _withdraw(self) -> None:
        """Take back what is not whole on the wire: it would come after the discharge."""
        for abort in list(self.streams.values()):
            abort("the transaction that it is part of was rolled back")
        for delivery in self._sent:
            if not delivery.on_wire:
                sender: SenderCore = delivery.link.owner
                sender.withdraw(delivery)

    def _end(self, state: TransactionState) -> None:
        """End, and go on with what waited for that."""
        self.state = state
        for receiver in self._acquirers:
            receiver.acquired_in(self)
        for delivery in self._retired:
            if delivery.local_settled:
                continue
            if state == "rolled-back":
                delivery.state = None  # it is to be settled again (§4.4.2)
            elif state == "committed":
                settle_committed(delivery)
        self._sent.clear()
        self._unanswered.clear()
        self._acquirers.clear()
        self._retired.clear()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.state == "active":
            await (self.commit() if exc is None else self.rollback())


@made_by("connection.transaction()", "ConnectionCore")
class Transaction(TransactionFace):
    """Work that happens as a whole or not at all; made by `connection.transaction()`, declared by `async with`.

        async with connection.transaction() as transaction:
            await sender.send(message, transaction=transaction)
            delivery.accept(transaction=transaction)

    Leaving the block commits it; leaving it by an exception, a cancellation among them, rolls it back. Any number of
    links of the connection can take part; those of other sessions than its own only if the coordinator says that it
    can do that.

    Attributes:
        id: what the coordinator calls it; None while it is not declared. It may be used again for a later one.
        state: "new"; "active" while it can take work; "ending" while it waits to be committed; then "committed",
            "rolled-back", or "in-doubt" when no answer came to the commit.
    """

    _core: ClientTransaction

    def __init__(self, connection: ConnectionCore, session: SessionCore | None) -> None:
        self._core = ClientTransaction(connection, session)

    @property
    def id(self) -> bytes | None:
        """What the coordinator calls it; None while it is not declared."""
        return self._core.id

    @property
    def state(self) -> TransactionState:
        """How far it has come."""
        return self._core.state

    @property
    def active(self) -> bool:
        """It can take work: it is declared, and neither committed nor rolled back."""
        return self._core.state == "active"

    async def __aenter__(self) -> Self:
        """Ask the coordinator to declare it.

        Raises:
            Unsupported: the dialect has no transactions, or the peer is known to have none; nothing was written.
            LinkDetached, SessionEnded: the peer has no coordinator; `condition` and `description` say so.
            TransactionError: the coordinator declared none.
            ConnectionClosed, ConnectionLost: the connection is gone.
            LocalProtocolError: it was declared before.

        Cancelling: once the coordinator was asked, what it declared is rolled back; in `close_timeout` seconds at most.
        """
        await self._core.__aenter__()
        return self

    async def commit(self) -> None:
        """Make it happen. Leaving the block does so, too.

        Waits for the outcomes of what was sent in it; if one of them is not accepted, it is rolled back.

        Raises:
            TransactionRolledBack: nothing of it happened: a message was not accepted (`__cause__`), the coordinator
                refused, or one of its links, the session or connection ended before it was asked (`__cause__`).
            TransactionInDoubt: the link, session or connection ended after the coordinator was asked (`__cause__`).
            MessageReleased: in 0-9-1, where that is known only now, no queue took a message of it; all else in it
                happened, and `state` is "committed".
            LocalProtocolError: it is over already, or a stream in it is not complete; nothing was done.

        Cancelling: until the coordinator is asked, it is rolled back. After that its answer is waited for, in
            `close_timeout` seconds at most; `state` says how it ended.
        """
        await self._core.commit()

    async def rollback(self) -> None:
        """Undo it: messages sent in it are forgotten, and what was settled in it is as if it had not been.

        Does nothing when it is over. It never fails: what the coordinator cannot be told it does when the link to it
        ends (§4.1).

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        await self._core.rollback()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back if the block is left by an exception.

        Raises:
            TransactionRolledBack, TransactionInDoubt, MessageReleased: see `commit`.

        Cancelling: see `commit` and `rollback`.
        """
        await self._core.__aexit__(exc_type, exc, traceback)

    def __repr__(self) -> str:
        return f"<Transaction {self.id.hex() if self.id is not None else ''} {self.state}>"


class CoordinatorSender(Sender):
    """The link of a session to the coordinator (§4.5.1). Its transactions end with it."""

    def __init__(self, session: SessionCore, name: str) -> None:
        terms = LinkTerms(
            name=name,
            source=Source(outcomes=OUTCOMES),
            target=Coordinator((LOCAL, SEVERAL_SESSIONS)),
            settle_mode="unsettled",
        )
        core = SenderCore(session.connection, session, terms)
        core.restorable = False
        super().__init__(core)

    @property
    def spans_sessions(self) -> bool:
        """The coordinator says that work of all sessions of the connection can be in one transaction (§4.5.7)."""
        target = self.remote.target
        return isinstance(target, Coordinator) and SEVERAL_SESSIONS in target.capabilities

    def give_up(self) -> None:
        """Detach at once: the peer rolls back what is open on it (§4.1)."""
        core = self._core
        if core.open:
            core.advance(Step.CLOSE)
            core.wake_all()
            core.detach(closed=True)


class _CoordinatorLink:
    """The link of one session to the coordinator, and the lock under which it is attached."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.sender: CoordinatorSender | None = None


async def _coordinator_of(session: SessionCore) -> CoordinatorSender:
    """Return a session's link to the coordinator: attached when first needed, and again if the peer detached it.

    Raises:
        LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, Unsupported: there is no transaction.

    Cancelling: the link is detached again.
    """
    link = session.coordinator_link
    if not isinstance(link, _CoordinatorLink):
        session.coordinator_link = link = _CoordinatorLink()
    async with link.lock:
        sender = link.sender
        if sender is None or not sender.open:
            sender = CoordinatorSender(session, session.connection.new_link_name("transactions"))
            await sender.__aenter__()
            link.sender = sender
    return sender


def _support(connection: ConnectionCore) -> TransactionSupport:
    """Return what the peer's transactions can do."""
    if "transactions" not in connection.capabilities:
        raise Unsupported(f"dialect {connection.dialect!r} has no transactions")
    if "transactional-acquisition" not in connection.capabilities:
        return TransactionSupport(acquires=False)  # what profiles know is of dialects that have it
    profile = connection.profile
    if profile.transactions is None:
        raise Unsupported(f"{profile.title} has no transactions over AMQP 1.0")
    return profile.transactions


def _refused(kind: type[TransactionError], outcome: object) -> TransactionError:
    error = outcome.error if isinstance(outcome, Rejected) else None
    if error is None:
        return kind(description=f"the coordinator answered {type(outcome).__name__}")
    return kind(error.condition, error.description, error.info)

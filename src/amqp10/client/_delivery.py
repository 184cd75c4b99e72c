"""One message on its way: `Delivery` as a receiver holds it, `SentDelivery` as a sender does (§2.6.12, §3.4).

Both are the engine's own objects, extended: one object a message, and the engine's view of it is the user's.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from ..engine._delivery import IncomingDelivery, OutgoingDelivery
from ..errors import (
    AmqpError,
    DecodeError,
    LocalProtocolError,
    MessageModified,
    MessageNotAccepted,
    MessageRejected,
    MessageReleased,
    StaleDelivery,
    Unsupported,
)
from ..messaging import (
    ACCEPTED,
    RELEASED,
    Accepted,
    Data,
    Declared,
    DeliveryState,
    Error,
    Modified,
    Outcome,
    Rejected,
    Released,
    Returned,
    TransactionalState,
    Undone,
)
from ..messaging._message import Message, decoded
from ..profiles import Profile
from ._endpoint import fresh
from ._files import BodyTarget, save

if TYPE_CHECKING:
    from ._receiver_recovery import RecoveringReceiver
    from ._transaction import Transaction

_log = logging.getLogger("amqp10.connection")

OUTCOMES = frozenset({Accepted, Rejected, Released, Returned, Undone, Modified, Declared})


class Unknown:
    """In the place of a state that will never come: the link was lost, and what became of the message is not known.

    Attributes:
        error: what to raise where the outcome is waited for.
    """

    __slots__ = ("error",)

    def __init__(self, error: AmqpError) -> None:
        self.error = error


def unknown(delivery: OutgoingDelivery) -> AmqpError | None:
    """Why a delivery's outcome will never be known; None as long as it may be."""
    state: Any = delivery.remote_state
    return state.error if type(state) is Unknown else None


class Stale:
    """In the place of the link of deliveries that the peer did not resume: nothing can be told of them."""

    def __init__(self, receiver: RecoveringReceiver) -> None:
        self.context = receiver

    def settle(self, *_: Any, **__: Any) -> None:
        raise LocalProtocolError("the link that the delivery came on was lost since")

    discard = read = settle

    def joins(self, *_: Any) -> bool:
        return False


def is_stale(delivery: IncomingDelivery) -> bool:
    """Whether the peer has not resumed it."""
    link: Any = delivery.link
    return type(link) is Stale


class Delivery(IncomingDelivery):
    """A message that was received, and its settlement.

    Settling is synchronous and never blocks; the engine merges neighbors into ranges and the connection's own task
    writes them. The first outcome counts: giving a second one to a settled delivery does nothing.

    `with delivery as message:` accepts at the end of the block unless an outcome was given in it, answers an
    exception with `modify(delivery_failed=True)`, and a cancellation with `release()`. A message that cannot be
    decoded is rejected with `amqp:decode-error`, and the `DecodeError` raised.

    Of a streaming receiver (`stream=True`) `message` has all but the body, which is read by `body` or `save`. An
    outcome may be given at any time; with that the rest of the body is given up, and discarded as it comes.
    """

    __slots__ = ()

    @property
    def message(self) -> Message:
        """The message; each of its sections is decoded when a field of it is asked for.

        Raises:
            DecodeError: the payload is not a message (§3.2): raised where what is malformed is looked at, by a field of
                the message or its `check()`. The delivery can still be settled, by `reject` for one.
        """
        message: Message | None = self.decoded
        if message is None:
            self.decoded = message = decoded(Message, self.pieces)
        return message

    def body(self) -> AsyncIterator[bytes]:
        """The body's data, piece by piece; of a streaming receiver while it comes in.

            async for chunk in delivery.body(): ...

        With `receiver(..., stream=True)` a piece is what one frame brought of one data section, the body of `message`
        is None, and `message.footer` is known at the end. A body that is not data is not streamed: it is in `message`,
        and no larger than 1 MiB. Waiting for a piece raises

        - `DeliveryAborted`: the sender aborted the delivery (§2.6.14);
        - `DecodeError`: the message is malformed, or too much of it would have to be held to be understood;
        - `LinkDetached`, `SessionEnded`, `ConnectionClosed`, `ConnectionLost`: the link ended first;
        - `anyio.ClosedResourceError`: the receiver was closed here first;
        - `LocalProtocolError`: the delivery was given an outcome, and the rest of its body up with that;
        - `anyio.BusyResourceError`: another task waits for a piece of it.

        Cancelling the waiting loses nothing: the next `body()` goes on where this one was.

        Raises:
            LocalProtocolError: the body is an amqp-value or amqp-sequence: see `message.body`.
            DecodeError: the payload is malformed.
        """
        body = self.message.body
        if body is not None and not isinstance(body, bytes | Data):
            raise not_data(body)
        return _each((body,) if isinstance(body, bytes) else body or ())

    async def save(self, target: BodyTarget) -> int:
        """Write the body's data to a file, from where `body` would go on; return how many bytes.

        Args:
            target: a path, or a binary file or anything else with its `write`, a coroutine or not. What is at the path
                is replaced when all was written, and left as it was when that fails; a device or pipe is written into.

        Raises:
            DeliveryAborted, DecodeError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost,
                LocalProtocolError, anyio.ClosedResourceError, anyio.BusyResourceError: see `body`.
            OSError: the file cannot be written.

        Cancelling: the path stays as it was; a file has what was written. A `write` that blocks is waited for.
        """
        return await save(self.body(), target)

    def accept(self, *, transaction: Transaction | None = None) -> None:
        """Tell the sender that the message was processed (§3.4.2).

        Args:
            transaction: say it as part of this: it counts when that is committed (§4.4.2). If it is rolled back, the
                message comes again, to whomever; with receiver-settle-mode "second" it stays here, to be settled again.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is gone; the message is the
                sender's to deliver again.
            StaleDelivery: the link was lost since and is there again, but without this delivery.
            LocalProtocolError: the transaction is over, or cannot cover this link; the delivery is settled already, or
                part of another transaction.
            Unsupported: the peer is known not to apply the outcome in a transaction.
            anyio.ClosedResourceError: the receiver was closed here.
        """
        if transaction is None:
            self._settle(ACCEPTED)
        else:
            self._settle_in(transaction, ACCEPTED)

    def reject(
        self,
        condition: str | None = None,
        description: str | None = None,
        info: Mapping[Any, Any] | None = None,
        *,
        transaction: Transaction | None = None,
    ) -> None:
        """Tell the sender that the message is invalid, and why; it is not delivered again (§3.4.3).

        Args:
            condition: an error condition such as "amqp:decode-error"; with None no error is given at all.
            transaction: see `accept`.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError, Unsupported,
                anyio.ClosedResourceError: see `accept`.
        """
        error = None if condition is None else Error(condition, description, dict(info) if info else None)
        self._settle_in(transaction, Rejected(error))

    def release(self, *, transaction: Transaction | None = None) -> None:
        """Give the message back unprocessed, as if it had never come (§3.4.4).

        Args:
            transaction: see `accept`.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError, Unsupported,
                anyio.ClosedResourceError: see `accept`.
        """
        self._settle_in(transaction, RELEASED)

    def modify(
        self,
        *,
        delivery_failed: bool = False,
        undeliverable_here: bool = False,
        message_annotations: Mapping[Any, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Give the message back, changed (§3.4.5).

        Args:
            delivery_failed: count this as a failed attempt in the message's delivery-count.
            undeliverable_here: do not deliver it to this link again.
            message_annotations: annotations to add to the message or replace in it.
            transaction: see `accept`.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError, Unsupported,
                anyio.ClosedResourceError: see `accept`.
        """
        annotations = dict(message_annotations) if message_annotations else None
        self._settle_in(transaction, Modified(delivery_failed or None, undeliverable_here or None, annotations))

    async def settled(self) -> None:
        """Wait until the delivery is settled at both ends.

        With receiver-settle-mode "second" the outcome that was given is provisional until the sender has settled
        (§2.6.12); in mode "first" it is settled the moment it is given, and this returns at once.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link ended first; whether the sender
                saw the outcome is not known.
            StaleDelivery: the link was lost, and the peer did not resume the delivery.
            anyio.ClosedResourceError: the receiver was closed here first.

        Cancelling: only stops the waiting; the outcome stands.
        """
        receiver = self.link.context
        if self.local_settled:
            await anyio.lowlevel.checkpoint()
        while not self.local_settled:
            if is_stale(self):
                raise receiver._stale()
            if receiver._over or receiver._closed:
                raise receiver._gone()
            if self.waiter is None:
                self.waiter = anyio.Event()
            await self.waiter.wait()

    def _settle(self, state: DeliveryState) -> None:
        if self.local_settled:
            return
        link = self.link
        receiver = link.context
        if self.state is None and link.joins(self.delivery_id, self.tag, state):
            # Whoever said the same before has woken the connection's task, and it has not run since.
            self.state = state
            self.local_settled = True
        else:
            try:
                link.settle(self, state)
            except LocalProtocolError as error:
                receiver._settle_after_loss(self, state, error)
            receiver._wake()
        if self.waiter is not None:
            self._told()
        if receiver._remembered is not None:
            receiver._remembered.given(self, state)

    def __enter__(self) -> Message:
        try:
            message = self.message
            message.check()
        except DecodeError as error:
            rejected = Rejected(Error("amqp:decode-error", str(error)))
            if self._has(rejected):  # else it stays here: given back, it would only come again
                self._settle_quietly(rejected)
            raise
        return message

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.state is not None:
            return
        if exc is None:
            try:
                self._settle(ACCEPTED)
            except StaleDelivery as error:
                # The work is done, and the message comes again whatever is said: no reason to end the task that did it.
                _log.warning("%r: what `with delivery` would accept is stale: %s", self.link.context, error)
        elif isinstance(exc, Exception) or (isinstance(exc, BaseExceptionGroup) and exc.subgroup(Exception)):
            failed = Modified(delivery_failed=True)
            self._settle_quietly(failed if self._has(failed) else RELEASED)
        else:
            self._settle_quietly(RELEASED)

    def _settle_in(self, transaction: Transaction | None, outcome: Outcome) -> None:
        """Settle as part of a transaction, if there is one."""
        if type(outcome) is not Accepted and not self._has(outcome):
            raise Unsupported(f"the dialect has no outcome {type(outcome).__name__.lower()}")
        if transaction is None:
            self._settle(outcome)
        else:
            self._settle(transaction._retire(self, outcome))
            transaction._was_retired(self)

    def _committed(self) -> None:
        """The transaction that its outcome was part of is committed, and the sender has not settled with that."""
        try:
            # Without the outcome: the message may be on its way again, and Broker-J would apply it to that, too.
            self.link.settle(self, None, settled=True)
        except LocalProtocolError:
            return  # the link is gone
        self.link.context._wake()
        self._told()

    def _told(self) -> None:
        """An outcome was: who waits for the delivery to be settled goes on, if it is with that."""
        if self.local_settled and self.waiter is not None:
            self.waiter.set()

    def _has(self, outcome: Outcome) -> bool:
        """Whether the dialect has that outcome."""
        return is_stale(self) or type(outcome).__name__.lower() in self.link.session.engine.capabilities

    def _settle_quietly(self, state: DeliveryState) -> None:
        """Settle where another exception is on its way: a link that is gone has given the message back itself."""
        try:
            self._settle(state)
        except Exception:
            pass

    def __repr__(self) -> str:
        how = "settled" if self.local_settled else "unsettled"
        return f"<Delivery {self.delivery_id} tag={self.tag.hex()} {len(self.pieces)} bytes, {how}>"


class AcquiredDelivery(Delivery):
    """One of a receiver that acquires in a transaction: until that is over, its outcome is part of it (§4.4.4.3)."""

    __slots__ = ()

    def _settle(self, state: DeliveryState) -> None:
        acquirer: Transaction | None = self.link.context._acquirer
        acquired = self.remote_state
        if acquirer is None or not isinstance(acquired, TransactionalState) or acquired.txn_id != acquirer.id:
            super()._settle(state)
        elif not isinstance(state, TransactionalState):
            super()._settle(acquirer._retire(self, state))  # type: ignore[arg-type]
            acquirer._was_retired(self)
        elif state.txn_id == acquired.txn_id:
            super()._settle(state)
        else:
            raise LocalProtocolError("the delivery was acquired in another transaction that is open")


async def _each(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        if part:
            yield part


def not_data(body: object) -> LocalProtocolError:
    """The error for who wants a body in pieces that is none of bytes."""
    return LocalProtocolError(f"the body is no data but a {type(body).__name__}: it is in the message, whole")


class Repeating:
    """A waiter of a delivery that sends the message again by itself after a loss, or has no more need of it."""

    __slots__ = ()

    def set(self) -> None:
        """The receiver told a state, or the link is over: look again."""

    def repeat(self, *, sure: bool) -> None:
        """The delivery was lost with its link. `sure`: it did not arrive."""


class SentDelivery(OutgoingDelivery):
    """A message that was handed to the wire, and the promise of its outcome.

    It lives on in its link when nobody holds it: closing the sender waits for what is unsettled.
    """

    __slots__ = ()

    async def outcome(self) -> Outcome:
        """Wait for the receiver's outcome: Accepted, Rejected, Released or Modified (§3.4).

        A message that was sent settled is Accepted at once: nobody will ever say more. A receiver that settles
        without an outcome has used the source's default outcome (§3.5.3), else it may or may not have processed the
        message, which is Modified(delivery_failed=True).

        Does not yield to other tasks when the outcome is known already.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link ended first; whether the message
                was processed is not known.
            DeliveryUncertain: the link was lost, and it is not known either, and it is not to be sent again
                (`Reconnect.on_uncertain`).
            anyio.ClosedResourceError: the sender was closed here first, and did not get the outcome in time.

        Cancelling: only stops the waiting; the outcome is not lost, ask again.
        """
        while (outcome := self._known_outcome()) is None:
            sender = self.link.context
            if (error := unknown(self)) is not None:
                sender._untold.discard(self)
                raise fresh(error)
            if sender._over:
                sender._told = True
                raise sender._lost()
            if self.waiter is None:
                self.waiter = anyio.Event()
                sender._waiters.add(self.waiter)
            await self.waiter.wait()
        return outcome

    def _known_outcome(self) -> Outcome | None:
        """The outcome if it is known now, else None."""
        state = self.remote_state
        if type(state) in OUTCOMES:
            return state  # type: ignore[return-value]
        if type(state) is TransactionalState and type(state.outcome) in OUTCOMES:
            return state.outcome  # type: ignore[no-any-return]
        if self.remote_settled:
            return self._default_outcome()
        if unknown(self) is not None:
            return None
        # Sent settled: done once with the output. What closing aborted is settled too, but never got there.
        if not self.local_settled:
            return None
        sender = self.link.context
        return ACCEPTED if self.on_wire or sender.open or sender._returning else None

    def _default_outcome(self) -> Outcome:
        remote = self.link.remote
        default = remote.source.default_outcome if remote is not None and remote.source is not None else None
        return default if type(default) in OUTCOMES else Modified(delivery_failed=True)  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"<SentDelivery {self.delivery_id} tag={self.tag.hex()} {self._known_outcome() or 'in flight'}>"


def not_accepted(outcome: Outcome, profile: Profile) -> MessageNotAccepted:
    """The exception that says what became of a message that was not accepted, and what that means at this broker."""
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

"""Messages of Service Bus: their annotations, their locks, and how they are settled."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn
from uuid import UUID

import anyio
import anyio.lowlevel

from ..._arguments import check_range, checked
from ...client import Transaction
from ...errors import (
    AmqpError,
    ConnectionLost,
    DecodeError,
    DeliveryUncertain,
    EncodeError,
    EndpointError,
    LocalProtocolError,
    StaleDelivery,
    TransactionError,
)
from ...messaging import RELEASED, Accepted, Error, Message, Modified, Outcome, Rejected, Released
from ...types import Array, Symbol
from .._moments import moment
from ._errors import MessageLockLost, ServerBusy, ServiceBusError, SessionLockLost, error_of
from ._locks import kept

if TYPE_CHECKING:
    from ...client import Delivery
    from ._management import EntityManagement

_log = logging.getLogger("amqp10.azure")

State = Literal["active", "deferred", "scheduled"]
DEAD_LETTER: Final = "com.microsoft:dead-letter"
_STATES: Final[tuple[State, ...]] = ("active", "deferred", "scheduled")
_GONE: Final = (StaleDelivery, EndpointError, ConnectionLost, anyio.ClosedResourceError)
_REASON: Final = "DeadLetterReason"
_DESCRIPTION: Final = "DeadLetterErrorDescription"


class ReceivedMessage:
    """A message with the annotations of Service Bus, as `receiver.peek()` returns it.

    Attributes:
        message: the message that was sent.
    """

    __slots__ = ("message",)

    def __init__(self, message: Message) -> None:
        self.message: Message = message

    @property
    def body(self) -> Any:
        """The body of the message."""
        return self.message.body

    @property
    def sequence_number(self) -> int:
        """The unique number of the message in its entity; 0: the service named none."""
        return self._number("x-opt-sequence-number")

    @property
    def enqueued_sequence_number(self) -> int:
        """The sequence number in the entity that the message was first sent to; 0: the service named none."""
        return self._number("x-opt-enqueue-sequence-number")

    @property
    def enqueued_at(self) -> datetime | None:
        """When the entity took the message."""
        return moment(self._annotation("x-opt-enqueued-time"))

    @property
    def scheduled_for(self) -> datetime | None:
        """When the scheduled message becomes, or became, available."""
        return moment(self._annotation("x-opt-scheduled-enqueue-time"))

    @property
    def expires_at(self) -> datetime | None:
        """When the message expires: `enqueued_at` plus its ttl, as Service Bus counts; None: never."""
        if self.message.ttl is None or self.enqueued_at is None:
            return moment(self.message.absolute_expiry_time)
        return self.enqueued_at + self.message.ttl

    @property
    def session_id(self) -> str | None:
        """The session of the message, its `group_id`."""
        return self.message.group_id

    @property
    def partition_key(self) -> str | None:
        """The key that chooses the partition of the message."""
        return self._annotation("x-opt-partition-key")  # type: ignore[no-any-return]

    @property
    def delivery_count(self) -> int:
        """How often the message was received before without being completed."""
        return self.message.delivery_count

    @property
    def state(self) -> State:
        """Whether the message is active, deferred or scheduled."""
        number = self._annotation("x-opt-message-state")
        return _STATES[number] if isinstance(number, int) and 0 <= number < len(_STATES) else "active"

    @property
    def dead_letter_reason(self) -> str | None:
        """The reason why the message is a dead letter."""
        return self.message.application_properties.get(_REASON)

    @property
    def dead_letter_description(self) -> str | None:
        """The explanation of `dead_letter_reason`."""
        return self.message.application_properties.get(_DESCRIPTION)

    @property
    def dead_letter_source(self) -> str | None:
        """The entity where the message became a dead letter, if it was forwarded since."""
        return self._annotation("x-opt-deadletter-source")  # type: ignore[no-any-return]

    def _number(self, name: str) -> int:
        number = self._annotation(name)
        return int(number) if isinstance(number, int) else 0

    def _annotation(self, name: str) -> Any:
        return self.message.message_annotations.get(name)

    def __repr__(self) -> str:
        try:
            return f"<{type(self).__name__} {self.sequence_number}>"
        except DecodeError:
            return f"<{type(self).__name__} that is malformed>"


class ServiceBusDelivery(ReceivedMessage):
    """A received message, and its settlement.

    `async with delivery as message:` completes the message at the end of the block, unless the block settled it. An
    exception abandons it, a cancellation releases it. A message that cannot be decoded becomes a dead letter.

    Settling waits until the service confirms it, and raises `MessageLockLost` if the lock had expired. The lock of a
    message outlives its link: if the link is lost, the message is settled through the management node. The lock of a
    session ends with the link: settling then raises `SessionLockLost`. Only the first outcome counts; a different
    one does nothing, and the log has a warning. A message that was received and deleted has no outcome: settling it
    raises `LocalProtocolError`, and leaving the block does nothing.

    Attributes:
        lock_token: identifies the lock; None: the message was received and deleted.
        settled: whether an outcome was given, or none is needed.
    """

    __slots__ = (
        "_context",
        "_delivery",
        "_node",
        "_outcome",
        "_processing",
        "_until",
        "_work",
        "lock_token",
        "settled",
    )

    def __init__(
        self,
        message: Message,
        context: ReceiverContext,
        node: EntityManagement,
        token: UUID | None,
        delivery: Delivery | None,
    ) -> None:
        super().__init__(message)
        self.lock_token: UUID | None = token
        self.settled: bool = token is None
        self._context = context
        self._node = node
        self._delivery = delivery
        self._until: datetime | None = None
        self._outcome: Outcome | None = None  # the first one
        self._work: Transaction | None = None  # the transaction of its outcome
        self._processing: AbstractContextManager[object] | None = None

    # The lock

    @property
    def locked_until(self) -> datetime | None:
        """When the lock ends, by the service's last word; None for a message of a session or without a lock."""
        return self._until if self._until is not None else moment(self._annotation("x-opt-locked-until"))

    async def renew_lock(self) -> datetime:
        """Restart the lock's time; return when the lock ends now.

        Raises:
            MessageLockLost, MessageNotFound: the lock has expired.
            LocalProtocolError: the lock is that of a session, or the message has no lock.
            ServiceBusError, TimeoutError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the service
                gave no valid answer.

        Cancelling: the lock may be renewed.
        """
        token = self._token()
        answer = await self._node.ask(
            "renew-lock", {"lock-tokens": Array("uuid", [token])}, link=self._context.link, repeat=True
        )
        ends = answer.get("expirations")
        until = moment(ends[0]) if isinstance(ends, list) and ends else None
        if until is None:
            raise ServiceBusError(None, f"the answer to renew-lock has no expiration: {answer!r:.200}")
        self._until = until
        return until

    @checked
    def keep_locked(self, *, max_time: float | None = None) -> AbstractAsyncContextManager[None]:
        """Renew the lock while a block runs: `async with delivery.keep_locked(): ...`.

        Each renewal comes when half of the remaining time has passed. A renewal that fails is tried again until the
        lock expires. If the lock is lost, the block is cancelled, because another receiver may have the message.

        Args:
            max_time: seconds after which the lock is no longer renewed; None: renew it as long as the block runs.

        Raises:
            MessageLockLost: the lock was lost, and the block cancelled.
            LocalProtocolError: the lock is that of a session, or the message has no lock.
        """
        check_range("max_time", max_time if max_time is not None else 0, 0)
        self._token()
        clock = self._context.clock
        return kept(self.renew_lock, self.locked_until, clock, MessageLockLost, max_time, settled=lambda: self.settled)

    def _token(self) -> UUID:
        if self._context.session_id is not None:
            raise LocalProtocolError("in a session the lock belongs to the session: use session.keep_locked()")
        return self._locked()

    def _locked(self) -> UUID:
        """Return the token of the lock.

        Raises:
            LocalProtocolError: the message was received and deleted, and so never had a lock.
        """
        if self.lock_token is None:
            raise LocalProtocolError(
                "a message that is received and deleted has no lock and cannot be settled: use mode='peek-lock'"
            )
        return self.lock_token

    # Settling

    async def complete(self, *, transaction: Transaction | None = None) -> None:
        """Complete the message: it was processed, and the service deletes it.

        Args:
            transaction: made by `bus.transaction()`; the message is completed when it is committed. After a rollback
                the message stays locked, to be settled again.

        Raises:
            MessageLockLost, SessionLockLost: the lock had expired: the message is delivered again.
            DeliveryUncertain: the link was lost before the service confirmed. The message may be completed, or its lock
                may have expired first.
            LocalProtocolError: the message was received and deleted, or the transaction is over or of another
                connection.
            TransactionRolledBack: the transaction was lost with its link.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be told.

        Cancelling: the outcome stands; only the waiting for the confirmation ends.
        """
        await self._settle(Accepted(), transaction)

    @checked
    async def abandon(
        self, properties: Mapping[str, Any] | None = None, *, transaction: Transaction | None = None
    ) -> None:
        """Give the message back at once; this counts as a failed attempt.

        Args:
            properties: application properties to set.
            transaction: see `complete`.

        Raises:
            MessageLockLost, SessionLockLost, DeliveryUncertain, ServiceBusError, LinkDetached, SessionEnded,
                ConnectionClosed, ConnectionLost, TimeoutError, EncodeError, LocalProtocolError, TransactionRolledBack:
                see `complete`.

        Cancelling: as for `complete`.
        """
        await self._settle(Modified(delivery_failed=True, message_annotations=_copied(properties)), transaction)

    @checked
    async def defer(
        self, properties: Mapping[str, Any] | None = None, *, transaction: Transaction | None = None
    ) -> None:
        """Set the message aside: only `receiver.receive_deferred(sequence_number)` returns it.

        Args:
            properties: application properties to set.
            transaction: see `complete`.

        Raises:
            MessageLockLost, SessionLockLost, DeliveryUncertain, ServiceBusError, LinkDetached, SessionEnded,
                ConnectionClosed, ConnectionLost, TimeoutError, EncodeError, LocalProtocolError, TransactionRolledBack:
                see `complete`.

        Cancelling: as for `complete`.
        """
        await self._settle(Modified(undeliverable_here=True, message_annotations=_copied(properties)), transaction)

    @checked
    async def dead_letter(
        self,
        reason: str = "",
        description: str = "",
        properties: Mapping[str, Any] | None = None,
        *,
        transaction: Transaction | None = None,
    ) -> None:
        """Move the message to the dead letters.

        Args:
            reason, description: why; a receiver of the dead letters finds them at `dead_letter_reason` and
                `dead_letter_description`.
            properties: application properties to set.
            transaction: see `complete`.

        Raises:
            MessageLockLost, SessionLockLost, DeliveryUncertain, ServiceBusError, LinkDetached, SessionEnded,
                ConnectionClosed, ConnectionLost, TimeoutError, EncodeError, LocalProtocolError, TransactionRolledBack:
                see `complete`.

        Cancelling: as for `complete`.
        """
        await self._settle(dead_letter(reason, description, properties), transaction)

    async def _settle(self, outcome: Outcome, transaction: Transaction | None = None) -> None:
        self._locked()
        self._undo_rolled_back()
        if self._is_late(outcome):
            return
        if transaction is not None:
            await self._settle_in(transaction, outcome)
        else:
            await self._confirm(outcome, uncertain=self._give(outcome))

    def _undo_rolled_back(self) -> None:
        """Forget an outcome whose transaction was rolled back: the link has it as settled, the service as locked."""
        if self._work is not None and self._work.state == "rolled-back":
            self._work = self._delivery = None
            self.settled = False

    def _is_late(self, outcome: Outcome) -> bool:
        """Return whether an outcome was given before, and log that a different one does nothing."""
        if not self.settled:
            self._outcome = outcome
            return False
        if outcome != self._outcome and not isinstance(outcome, Released):
            _log.warning("%r: %.200r does nothing, for the first outcome counts: %.200r", self, outcome, self._outcome)
        return True

    async def _settle_in(self, transaction: Transaction, outcome: Outcome) -> None:
        """Give an outcome as part of a transaction; its commit shows whether the lock held."""
        if self._give(outcome, transaction):
            self._work = transaction
            await anyio.lowlevel.checkpoint()
        else:
            await self._settle_apart(outcome, uncertain=False, transaction=transaction)

    def _give(self, outcome: Outcome, transaction: Transaction | None = None) -> bool:
        """Give an outcome on the link; return whether the link still could take it."""
        if self._delivery is None:
            return False
        try:
            self._delivery.settle(outcome, transaction=transaction)
        except _GONE as error:
            self._check_session(error)
            return False
        self.settled = True
        return True

    async def _confirm(self, outcome: Outcome, *, uncertain: bool) -> None:
        """Wait until the service confirms an outcome; if the link cannot tell, settle through the management node.

        Args:
            uncertain: the outcome was given on the link.
        """
        if uncertain:
            assert self._delivery is not None
            try:
                with anyio.move_on_after(self._node.timeout) as waiting:
                    await self._delivery.wait_settled()
            except _GONE as error:
                self._check_session(error)
            else:
                if not waiting.cancelled_caught:
                    _check(self._delivery.remote_state)
                    return
        await self._settle_apart(outcome, uncertain=uncertain)

    def _check_session(self, error: Exception) -> None:
        """Raise `SessionLockLost` if the message is of a session, whose lock ended with the link."""
        if self._context.session_id is not None:
            raise SessionLockLost(description="the link of the session is lost, and its lock with it") from error

    async def _settle_apart(self, outcome: Outcome, *, uncertain: bool, transaction: Transaction | None = None) -> None:
        """Settle through the management node."""
        request = {**_disposition(outcome), "lock-tokens": Array("uuid", [self.lock_token])}
        if self._context.session_id is not None:
            request["session-id"] = self._context.session_id
        self._work, self.settled = transaction, True
        try:
            await self._node.ask("update-disposition", request, link=self._context.link, transaction=transaction)
        except MessageLockLost as error:
            if not uncertain:
                raise
            raise DeliveryUncertain(
                "the link was lost before the service confirmed the outcome, and the lock is gone: either the outcome "
                "arrived in time, or the lock had expired"
            ) from error
        except (EndpointError, ConnectionLost, ServerBusy, TimeoutError, LocalProtocolError, TransactionError):
            self.settled = False  # it may be tried again
            raise

    async def __aenter__(self) -> Message:
        """Return the message.

        Raises:
            DecodeError: the message is malformed, and was made a dead letter.

        Cancelling: nothing has changed.
        """
        try:
            self.message.check()
        except DecodeError as error:
            await self._quietly(self.dead_letter("amqp:decode-error", str(error)))
            raise
        if self._context.processing is not None:
            self._processing = self._context.processing([self.message])
            self._processing.__enter__()
        return self.message

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Complete, abandon or release the message, unless the block settled it.

        Raises:
            MessageLockLost, SessionLockLost, DeliveryUncertain, ServiceBusError, LinkDetached, SessionEnded,
                ConnectionClosed, ConnectionLost, TimeoutError: see `complete`; not raised if the block itself raises.

        Cancelling: as for `complete`. If the block raises or is cancelled, this takes `close_timeout` at most.
        """
        try:
            await self._conclude(exc)
        finally:
            if self._processing is not None:
                self._processing.__exit__(exc_type, exc, traceback)

    async def _conclude(self, exc: BaseException | None) -> None:
        """Settle the message as the end of the block demands."""
        self._undo_rolled_back()
        if self.settled:
            return
        if exc is None:
            await self.complete()
        elif isinstance(exc, Exception) or (isinstance(exc, BaseExceptionGroup) and exc.subgroup(Exception)):
            await self._quietly(self.abandon())
        else:
            await self._quietly(self._settle(RELEASED), shield=True)

    def __enter__(self) -> NoReturn:
        """Refuse `with`, because settling waits for the service.

        Raises:
            TypeError: always.
        """
        raise TypeError("a message of Service Bus needs `async with delivery as message:`, not `with`")

    def __exit__(self, *exc_info: object) -> None: ...

    async def _quietly(self, settling: Awaitable[None], *, shield: bool = False) -> None:
        """Settle while another exception is raised; if that fails, the lock will expire."""
        with anyio.move_on_after(self._context.close_timeout, shield=shield):
            try:
                await settling
            except (AmqpError, TimeoutError, anyio.ClosedResourceError):
                pass


async def settle_all(outcomes: Iterable[tuple[ServiceBusDelivery, Outcome]]) -> list[Exception | None]:
    """Settle several deliveries together; return for each the reason why the service did not settle it, or None.

    `Modified` with undeliverable-here defers, any other `Modified` abandons; `Rejected` makes a dead letter.
    """
    outcomes = list(outcomes)
    for each, _ in outcomes:
        each._locked()
    waiting: list[bool | AmqpError | None] = []
    for each, outcome in outcomes:
        try:
            waiting.append(None if each._is_late(outcome) else each._give(outcome))
        except (EncodeError, LocalProtocolError) as error:  # of this outcome alone
            waiting.append(error)
    failures: list[Exception | None] = []
    for (each, outcome), given in zip(outcomes, waiting, strict=True):
        failure: Exception | None = None
        if isinstance(given, AmqpError):
            failure = given
        elif given is not None:
            try:
                await each._confirm(outcome, uncertain=given)
            except (AmqpError, TimeoutError) as error:
                failure = error
        failures.append(failure)
    return failures


async def complete_all(deliveries: Iterable[ServiceBusDelivery]) -> None:
    """Complete several deliveries together; see `ServiceBusReceiver.complete_many`."""
    deliveries = list(deliveries)
    for each in deliveries:
        each._locked()
    failures = await settle_all((each, Accepted()) for each in deliveries if not each.settled)
    errors = [failure for failure in failures if failure is not None]
    if errors:
        errors[0].add_note(f"{len(errors)} of {len(failures)} messages could not be completed")
        raise errors[0]


@dataclass(frozen=True, slots=True)
class ReceiverContext:
    """Where messages were received, as far as their settlement needs it.

    Attributes:
        link: the name of the receiver's link.
        clock: the time in seconds since 1970.
        close_timeout: seconds that leaving a block may take.
        session_id: the session, whose lock ends with the link; None: there is no session.
        processing: opens the telemetry around the handling of messages.
    """

    link: str
    clock: Callable[[], float]
    close_timeout: float
    session_id: str | None = None
    processing: Callable[[Sequence[Message]], AbstractContextManager[object]] | None = None


def _check(state: Any) -> None:
    """Raise the error of a settlement that the service refused."""
    error = state.error if isinstance(state, Rejected) else None
    if error is not None and error.condition != DEAD_LETTER:
        raise error_of(None if error.condition is None else str(error.condition), error.description)


def dead_letter(reason: str, description: str, properties: Mapping[str, Any] | None = None) -> Rejected:
    """Return the outcome that makes a dead letter."""
    info = {Symbol(_REASON): reason, Symbol(_DESCRIPTION): description, **(properties or {})}
    return Rejected(Error(DEAD_LETTER, None, info))


def _disposition(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as fields of a request to the management node."""
    if isinstance(outcome, Accepted):
        return {"disposition-status": "completed"}
    if isinstance(outcome, Rejected):
        info = dict(outcome.error.info or {}) if outcome.error is not None else {}
        reason, description = info.pop(_REASON, ""), info.pop(_DESCRIPTION, "")
        reasons = {"deadletter-reason": reason, "deadletter-description": description}
        return {"disposition-status": "suspended", **reasons, **_changes(info)}
    if isinstance(outcome, Modified):
        status = "defered" if outcome.undeliverable_here else "abandoned"
        return {"disposition-status": status, **_changes(outcome.message_annotations)}
    return {"disposition-status": "abandoned"}


def _changes(properties: Mapping[Any, Any] | None) -> dict[str, Any]:
    return {"properties-to-modify": {str(name): each for name, each in properties.items()}} if properties else {}


def _copied(properties: Mapping[str, Any] | None) -> dict[Any, Any] | None:
    return dict(properties) if properties else None

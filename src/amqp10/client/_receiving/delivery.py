"""One message as a receiver holds it (§2.6.12, §3.4).

It is the engine's own object, extended: one object a message. Programs know it as a `Delivery`, which has no attribute
of the engine's.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
import anyio.lowlevel

from ..._arguments import without_secrets
from ...engine._deliveries import IncomingDelivery
from ...errors import (
    DecodeError,
    LocalProtocolError,
    StaleDelivery,
    Unsupported,
)
from ...messaging import (
    ACCEPTED,
    OUTCOMES,
    RELEASED,
    Accepted,
    Data,
    DeliveryState,
    Error,
    Modified,
    Outcome,
    Rejected,
    Released,
    Source,
    TransactionalState,
)
from ...messaging._message import Message, decoded
from .._core.body_files import BodyTarget, save
from .._core.transaction_work import work_of
from .delivery_face import Delivery

if TYPE_CHECKING:
    from ...engine import LinkTerms
    from ...profiles import Profile
    from .._core.connection import ConnectionCore
    from .._core.transaction_work import TransactionCore
    from .._core.transaction_work import TransactionFace as Transaction
    from .._links.link import Link
    from .._stores.link_store import LinkStore

_log = logging.getLogger("amqp10.connection")


_NEAREST: Final[dict[type[Outcome], tuple[Outcome, ...]]] = {
    Rejected: (Modified(delivery_failed=True, undeliverable_here=True), RELEASED),
    Modified: (RELEASED,),
    Released: (Modified(),),
}


def listed(outcome: Outcome, source: Source | None) -> Outcome | None:
    """Return the outcome; or, where a source lists others only, the nearest of these, or its default outcome.

    Return None if the source takes none of these. `accepted` never stands in: the message was not processed.
    """
    if source is None or not source.outcomes:
        return outcome
    for each in (outcome, *_NEAREST.get(type(outcome), ())):
        if each.descriptor_name in source.outcomes:
            return each
    default = source.default_outcome
    return default if isinstance(default, Rejected | Released | Modified) else None


def takes_accepted(remote: LinkTerms | None, profile: Profile) -> bool:
    """Return whether `accepted` may be told: the source lists it or nothing, or has it for its default (§3.5.3)."""
    source = remote.source if remote is not None else None
    return (
        source is None
        or not source.outcomes
        or ACCEPTED.descriptor_name in source.outcomes
        or isinstance(source.default_outcome, Accepted)
        or "accepted" in profile.unlisted_outcomes
    )


class DeliveryReceiver(Protocol):
    """A receiver's core, as its deliveries know it; see `ReceiverCore`."""

    connection: ConnectionCore
    face: Link
    over: bool
    closed: bool
    store: LinkStore | None
    acquirer: TransactionCore | None
    wake: Callable[[], None]

    def gone(self) -> Exception: ...

    def stale(self, delivery: IncomingDelivery) -> StaleDelivery: ...

    def settle_after_loss(
        self, delivery: ReceiverDelivery, state: DeliveryState, error: LocalProtocolError
    ) -> None: ...


class Stale:
    """In the place of the link of deliveries that the peer did not resume: nothing can be told of them."""

    def __init__(self, receiver: object) -> None:
        self.owner = receiver

    def settle(self, *_: Any, **__: Any) -> None:
        raise LocalProtocolError("the link on which the delivery arrived has been lost")

    discard = read = settle

    def settle_like_last(self, *_: Any) -> bool:
        return False


def is_stale(delivery: IncomingDelivery) -> bool:
    """Return whether the peer has not resumed the delivery."""
    return isinstance(delivery.link, Stale)


def is_taken_back(delivery: IncomingDelivery) -> bool:
    """Return whether the peer has released the delivery itself, as RabbitMQ 4.3 does where no outcome comes in time."""
    return isinstance(delivery.remote_state, Released | Modified)


class ReceiverDelivery(IncomingDelivery, Delivery):
    """The object behind a `Delivery`: the engine's own, with what programs call."""

    __slots__ = ()

    waiter: anyio.Event | None
    decoded: Any
    state: DeliveryState | None

    @property
    def message(self) -> Message:
        message: Message | None = self.decoded
        if message is None:
            self.decoded = message = decoded(Message, self.pieces)
        return message

    @property
    def stale(self) -> bool:
        return is_stale(self)

    def iter_body(self) -> AsyncIterator[bytes]:
        body = self.message.body
        if body is not None and not isinstance(body, bytes | Data):
            raise not_data(body)
        return _each((body,) if isinstance(body, bytes) else body or ())

    async def save(self, target: BodyTarget) -> int:
        pieces = self.iter_body()
        try:
            return await save(pieces, target)
        finally:
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()  # trio warns of one that was left before its end

    def accept(self, *, transaction: Transaction | None = None) -> None:
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
        if isinstance(condition, str) and (not condition or any(map(str.isspace, condition))):
            raise ValueError(
                f"condition must be one word such as amqp:decode-error, not {without_secrets(condition)}; "
                "a text for people is description="
            )
        error = None if condition is None else Error(condition, description, dict(info) if info else None)
        self._settle_in(transaction, Rejected(error))

    def release(self, *, transaction: Transaction | None = None) -> None:
        self._settle_in(transaction, RELEASED)

    def modify(
        self,
        *,
        delivery_failed: bool = False,
        undeliverable_here: bool = False,
        message_annotations: Mapping[Any, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        annotations = dict(message_annotations) if message_annotations else None
        self._settle_in(transaction, Modified(delivery_failed or None, undeliverable_here or None, annotations))

    def settle(self, outcome: Outcome, *, transaction: Transaction | None = None) -> None:
        if not isinstance(outcome, OUTCOMES):
            raise TypeError(f"outcome must be Accepted, Rejected, Released or Modified, not {outcome!r}")
        self._settle_in(transaction, outcome)

    async def wait_settled(self) -> None:
        receiver: DeliveryReceiver = self.link.owner  # type: ignore[assignment]
        if self.local_settled:
            await anyio.lowlevel.checkpoint()
        while not self.local_settled:
            if is_stale(self):
                raise receiver.stale(self)
            if receiver.over or receiver.closed:
                raise receiver.gone()
            if self.waiter is None:
                self.waiter = anyio.Event()
            await self.waiter.wait()

    def _settle(self, state: DeliveryState) -> None:
        if self.local_settled:
            if self.state is not None:
                self._came_late(state)
            return
        link = self.link
        receiver: DeliveryReceiver = link.owner  # type: ignore[assignment]
        if self.state is None and link.settle_like_last(self.delivery_id, self.tag, state):
            # Whoever said the same before has woken the connection's task, and it has not run since.
            self.state = state
            self.local_settled = True
        else:
            try:
                link.settle(self, state)
            except LocalProtocolError as error:
                receiver.settle_after_loss(self, state, error)
            receiver.wake()
        if self.waiter is not None:
            wake_if_settled(self)
        if receiver.store is not None:
            receiver.store.given(self, state)

    def _came_late(self, state: DeliveryState) -> None:
        """Say in the log that an outcome does nothing. `release` after any outcome is how programs clean up."""
        if self.state != state and not isinstance(state, Released):
            # An outcome says as much as the program wants, a traceback perhaps.
            _log.warning("%r: %.200r does nothing, for the first outcome counts: %.200r", self, state, self.state)

    def __enter__(self) -> Message:
        try:
            message = self.message
            message.check()
        except DecodeError as error:
            settle_quietly(self, Rejected(Error("amqp:decode-error", str(error))))
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
                receiver: DeliveryReceiver = self.link.owner  # type: ignore[assignment]
                # The work is done, and the message comes again whatever is said: no reason to end the task that did it.
                _log.warning("%r: what `with delivery` would accept is stale: %s", receiver.face, error)
        elif isinstance(exc, Exception) or (isinstance(exc, BaseExceptionGroup) and exc.subgroup(Exception)):
            failed = Modified(delivery_failed=True)
            settle_quietly(self, failed if self._has(failed) else RELEASED)
        else:
            settle_quietly(self, RELEASED)

    def _settle_in(self, transaction: Transaction | None, outcome: Outcome) -> None:
        """Settle as part of a transaction, if there is one."""
        outcome = self._choose(outcome)
        if transaction is None:
            self._settle(outcome)
        else:
            self._settle(work_of(transaction).state_for_outcome(self, outcome))
            work_of(transaction).outcome_written(self)

    def _has(self, outcome: Outcome) -> bool:
        """Return whether the dialect has that outcome."""
        return is_stale(self) or type(outcome).__name__.lower() in self.link.session.engine.capabilities

    def _choose(self, outcome: Outcome) -> Outcome:
        """Return the outcome, or what comes nearest to it of those that the source of the link lists (§3.5.3).

        Raises:
            Unsupported: no outcome of this dialect says the same.
        """
        if type(outcome) is Accepted:  # every dialect has it
            return outcome
        if not self._has(outcome):
            raise Unsupported(f"the dialect has no outcome {type(outcome).__name__.lower()}")
        if is_stale(self) or self.link.remote is None:
            return outcome
        receiver: DeliveryReceiver = self.link.owner  # type: ignore[assignment]
        source = self.link.remote.source
        name = type(outcome).__name__.lower()
        chosen = outcome if name in receiver.connection.profile.unlisted_outcomes else listed(outcome, source)
        if chosen is not None:
            return chosen
        assert source is not None
        raise _unlisted(name, source)

    def check_accepted(self, state: DeliveryState) -> None:
        """See that the source takes `accepted`, if that is the state or the outcome in a transaction.

        Raises:
            Unsupported: it lists other outcomes only.
        """
        outcome = state.outcome if isinstance(state, TransactionalState) else state
        if not isinstance(outcome, Accepted) or self.local_settled or is_stale(self):
            return
        receiver: DeliveryReceiver = self.link.owner  # type: ignore[assignment]
        if not takes_accepted(self.link.remote, receiver.connection.profile):
            assert self.link.remote is not None
            assert self.link.remote.source is not None
            raise _unlisted("accepted", self.link.remote.source)

    def __repr__(self) -> str:
        how = "settled" if self.local_settled else "unsettled"
        return f"<Delivery {self.delivery_id} tag={self.tag.hex()} {len(self.pieces)} bytes, {how}>"


def receiver_delivery(delivery: Delivery) -> ReceiverDelivery:
    """Return the same object, with what the client and the engine know of it."""
    return delivery  # type: ignore[return-value] # there is no other kind


class NotAcceptedDelivery(ReceiverDelivery):
    """One of a source that lists outcomes, and `accepted` not among them (§3.5.3)."""

    __slots__ = ()

    def _settle(self, state: DeliveryState) -> None:
        self.check_accepted(state)
        super()._settle(state)


class AcquiredDelivery(ReceiverDelivery):
    """One of a receiver that acquires in a transaction: until that is over, its outcome is part of it (§4.4.4.3)."""

    __slots__ = ()

    def _settle(self, state: DeliveryState) -> None:
        self.check_accepted(state)
        receiver: DeliveryReceiver = self.link.owner  # type: ignore[assignment]
        acquirer: TransactionCore | None = receiver.acquirer
        acquired = self.remote_state
        if acquirer is None or not isinstance(acquired, TransactionalState) or acquired.txn_id != acquirer.id:
            super()._settle(state)
        elif not isinstance(state, TransactionalState):
            super()._settle(acquirer.state_for_outcome(self, state))  # type: ignore[arg-type]
            acquirer.outcome_written(self)
        elif state.txn_id == acquired.txn_id:
            super()._settle(state)
        else:
            raise LocalProtocolError("the delivery was acquired in another open transaction")


def _unlisted(name: str, source: Source) -> Unsupported:
    """Return the error of an outcome that a source does not list."""
    names = ", ".join(source.outcomes or ())
    return Unsupported(f"{name} is not one of the outcomes that the source accepts: {names}")


def settle_committed(delivery: ReceiverDelivery) -> None:
    """Settle: the transaction of the outcome is committed, and the sender has not settled with that."""
    try:
        # Without the outcome: the message may be on its way again, and Broker-J would apply it to that, too.
        delivery.link.settle(delivery, None, settled=True)
    except LocalProtocolError:
        return  # the link is gone
    receiver: DeliveryReceiver = delivery.link.owner  # type: ignore[assignment]
    receiver.wake()
    wake_if_settled(delivery)


def wake_if_settled(delivery: IncomingDelivery) -> None:
    """Wake the task that waits for the delivery to be settled, if its outcome has settled it."""
    if delivery.local_settled:
        wake_waiter(delivery)


def wake_waiter(delivery: IncomingDelivery) -> None:
    """Wake the task that waits for the delivery to be settled, if one does."""
    if isinstance(delivery.waiter, anyio.Event):
        delivery.waiter.set()


def settle_quietly(delivery: ReceiverDelivery, outcome: Outcome) -> None:
    """Settle where another exception is on its way: a link that is gone has given the message back itself.

    What cannot be told stays here, and goes back with the link.
    """
    try:
        delivery._settle(delivery._choose(outcome))
    except Exception:
        pass


async def _each(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        if part:
            yield part


def not_data(body: object) -> LocalProtocolError:
    """Return the error of reading a body piece by piece that is not binary data."""
    return LocalProtocolError(f"the body is a {type(body).__name__}, not data: read it from the message")

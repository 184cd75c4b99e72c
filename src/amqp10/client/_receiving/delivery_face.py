"""What programs hold of a message that was received. `ReceiverDelivery` of `delivery.py` is the object behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..._arguments import Missing, Renamed, current_names

if TYPE_CHECKING:
    from ...messaging import DeliveryState, Message, Outcome
    from .._core.body_files import BodyTarget
    from .._core.transaction_work import TransactionFace as Transaction


class Delivery(ABC):
    """A message that was received, and its settlement.

    Settling is synchronous and never blocks. The engine merges neighbors into ranges, and the connection's own task
    writes them. The first outcome counts; a second one does nothing. If it differs, the log has a warning, except for
    `release`, which you may call at the end of a block whether or not the delivery was settled in it.

    `with delivery as message:` accepts at the end of the block unless an outcome was given in it, answers an
    exception with `modify(delivery_failed=True)`, and a cancellation with `release()`. A message that cannot be
    decoded is rejected with `amqp:decode-error`, and the `DecodeError` raised.

    If the link's source does not list an outcome (`receiver.source.outcomes`), the nearest listed one is sent: `modify`
    and `release` stand in for each other, a modification with undeliverable-here for `reject`, and otherwise the
    source's default outcome. If only `accepted` is left, the calls raise `Unsupported`, and the message goes back with
    the link. So does `accept`, and with it the end of `with delivery`, if `accepted` is not listed.

    With a streaming receiver (`stream=True`), `message` has everything except the body: `iter_body` or `save` reads
    that. You may give an outcome at any time; the rest of the body is then discarded as it arrives.
    """

    __slots__ = ()

    def __dir__(self) -> list[str]:
        """List what a program uses, as an editor does, and not what the engine's object has beside."""
        return current_names(Delivery)

    @property
    @abstractmethod
    def message(self) -> Message:
        """The message. Each of its sections is decoded when you read one of its fields.

        Raises:
            DecodeError: the payload is not a message (§3.2): raised where what is malformed is looked at, by a field of
                the message or its `check()`. The delivery can still be settled, by `reject` for one.
        """

    @property
    @abstractmethod
    def tag(self) -> bytes:
        """The delivery-tag that the sender chose, at most 32 bytes (§2.6.12)."""

    @property
    @abstractmethod
    def message_format(self) -> int:
        """The message-format: 0 for a standard AMQP message (§3.2)."""

    @property
    @abstractmethod
    def payload(self) -> bytes:
        """The encoded message, as `Message.decode` takes it; empty with a streaming receiver."""

    @property
    @abstractmethod
    def state(self) -> DeliveryState | None:
        """The outcome that was given here, in a `TransactionalState` if as part of a transaction; None before that."""

    @property
    @abstractmethod
    def remote_state(self) -> DeliveryState | None:
        """The state that the sender told last: after `wait_settled`, what it made of the outcome; often None."""

    @property
    @abstractmethod
    def local_settled(self) -> bool:
        """Whether this side has settled the delivery. So it has from the start if the message was sent settled."""

    @property
    @abstractmethod
    def stale(self) -> bool:
        """Whether the link was lost and came back without this delivery. The message then arrives again."""

    @abstractmethod
    def iter_body(self) -> AsyncIterator[bytes]:
        """Return the body's data piece by piece; with a streaming receiver, while it arrives.

            async for chunk in delivery.iter_body(): ...

        With `receiver(..., stream=True)` a piece is what one frame brought of one data section, the body of `message`
        is None, and `message.footer` is known at the end. A body that is not data is not streamed: it is in `message`,
        and no larger than 1 MiB. Waiting for a piece raises

        - `DeliveryAborted`: the sender aborted the delivery (§2.6.14);
        - `DecodeError`: the message is malformed, or too much of it would have to be held to be understood;
        - `LinkDetached`, `SessionEnded`, `ConnectionClosed`, `ConnectionLost`: the link ended first;
        - `anyio.ClosedResourceError`: the receiver was closed here first;
        - `LocalProtocolError`: the delivery was given an outcome, and the rest of its body up with that;
        - `anyio.BusyResourceError`: another task waits for a piece of it.

        Cancelling the waiting loses nothing: the next `iter_body()` goes on where this one was.

        Raises:
            LocalProtocolError: the body is an amqp-value or amqp-sequence: see `message.body`.
            DecodeError: the payload is malformed.
        """

    @abstractmethod
    async def save(self, target: BodyTarget) -> int:
        """Write the body's data to a file, from where `iter_body` would continue, and return the number of bytes.

        Args:
            target: a path, or a binary file or anything else with its `write`, a coroutine or not. What is at the path
                is replaced when all was written, and left as it was when that fails; a device or pipe is written into.

        Raises:
            DeliveryAborted, DecodeError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost,
                LocalProtocolError, anyio.ClosedResourceError, anyio.BusyResourceError: see `iter_body`.
            OSError: the file cannot be written.

        Cancelling: the path stays as it was; a file has what was written. A `write` that blocks is waited for.
        """

    @abstractmethod
    def accept(self, *, transaction: Transaction | None = None) -> None:
        """Tell the sender that the message was processed (§3.4.2).

        Args:
            transaction: give the outcome as part of this transaction: it takes effect at the commit (§4.4.2). After a
                rollback the message arrives again, here or elsewhere; with receiver-settle-mode "second" it stays here,
                to be settled again.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link has ended; the sender delivers the
                message again.
            StaleDelivery: the link was lost and came back without this delivery, or the peer took the delivery back, as
                RabbitMQ 4.3 does if the outcome takes too long.
            LocalProtocolError: with `transaction`: it has ended or cannot cover this link, or the delivery is already
                settled or part of another one. Without it, a second outcome does nothing; see `Delivery`.
            Unsupported: the peer is known not to apply the outcome in a transaction.
            anyio.ClosedResourceError: the receiver was closed here.
        """

    @abstractmethod
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
            description: a text for people.
            info: further details.
            transaction: see `accept`.

        Raises:
            ValueError: the condition is empty or has blanks, as a text for people has; nothing was sent.
            EncodeError: the condition is not ASCII, or `info` has a key or value that AMQP lacks; nothing was sent.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError, Unsupported,
                anyio.ClosedResourceError: see `accept`.
        """

    @abstractmethod
    def release(self, *, transaction: Transaction | None = None) -> None:
        """Give the message back unprocessed, as if it had never arrived (§3.4.4).

        Args:
            transaction: see `accept`.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError, Unsupported,
                anyio.ClosedResourceError: see `accept`.
        """

    @abstractmethod
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
            EncodeError: an annotation has a key or value that AMQP lacks; nothing was sent.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError, Unsupported,
                anyio.ClosedResourceError: see `accept`.
        """

    @abstractmethod
    def settle(self, outcome: Outcome, *, transaction: Transaction | None = None) -> None:
        """Give an outcome that you have as an object; `accept`, `reject`, `release` and `modify` create theirs.

        Args:
            outcome: `Accepted`, `Rejected`, `Released` or `Modified` (§3.4).
            transaction: see `accept`.

        Raises:
            TypeError: the outcome is no object of these types.
            EncodeError: a field of it is not of the type that AMQP has there; nothing was sent.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, StaleDelivery, LocalProtocolError,
                Unsupported, anyio.ClosedResourceError: see `accept`.
        """

    @abstractmethod
    async def wait_settled(self) -> None:
        """Wait until the delivery is settled at both ends.

        With receiver-settle-mode "second" an outcome is provisional until the sender has settled (§2.6.12). In mode
        "first" the delivery is settled as soon as the outcome is given, and the call returns at once.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link ended first; whether the sender
                saw the outcome is not known.
            StaleDelivery: the link was lost, and the peer did not resume the delivery.
            anyio.ClosedResourceError: the receiver was closed here first.

        Cancelling: only stops the waiting; the outcome stands.
        """

    if not TYPE_CHECKING:
        # As a method, `settled` was true in a condition whether the delivery was settled or not.
        settled = Renamed("wait_settled", "; local_settled says whether this side has settled the delivery")
        body = Missing("a delivery has no body: use delivery.message.body, or delivery.iter_body() for its pieces")

    @abstractmethod
    def __enter__(self) -> Message: ...

    @abstractmethod
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

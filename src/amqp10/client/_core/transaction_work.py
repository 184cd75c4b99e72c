"""A transaction, as the deliveries, senders and receivers that take part in it see it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal, Protocol

from ...engine import IncomingDelivery, OutgoingDelivery
from ...messaging import Outcome, TransactionalState
from .connection import LinkCore

TransactionState = Literal["new", "active", "ending", "committed", "rolled-back", "in-doubt"]


class AcquiringReceiver(LinkCore):
    """A receiver that can acquire messages as part of a transaction (§4.4.3)."""

    @abstractmethod
    async def stop_acquiring(self) -> None:
        """Ask the peer to stop sending before the transaction ends: later messages might not belong to it."""

    @abstractmethod
    def acquired_in(self, transaction: TransactionCore) -> None:
        """Stop acquiring: the transaction is over. After a rollback the peer has the acquired messages again."""


class TransactionFace:
    """A transaction, as users hold it; `work_of` returns the part that its links use."""

    _core: TransactionCore


def work_of(transaction: TransactionFace) -> TransactionCore:
    """Return the part of a transaction that its links use.

    Raises:
        TypeError: the argument `transaction` of a call is something else.
    """
    if not isinstance(transaction, TransactionFace):
        raise TypeError(f"transaction must be a Transaction, not {transaction!r:.200}")
    return transaction._core


class TransactionCore(Protocol):
    """The core of a transaction: the operations that can be part of it.

    Attributes:
        id: the coordinator's id for it; None before it is declared. A later transaction may have the same id.
        state: see `Transaction`.
    """

    id: bytes | None
    state: TransactionState
    posted: TransactionalState
    released_state: TransactionalState
    streams: dict[Any, Callable[[str], None]]  # incomplete streams, and the function that aborts each

    def post(self, sender: LinkCore) -> TransactionalState:
        """Return the delivery state for a message that is sent as part of the transaction (§4.4.1)."""

    def add(self, delivery: OutgoingDelivery) -> None:
        """Record a message that was sent as part of this: it is committed only if the message is accepted."""

    def state_for_outcome(self, delivery: IncomingDelivery, outcome: Outcome) -> TransactionalState:
        """Return the state that gives a delivery its outcome as part of this (§4.4.2)."""

    def outcome_written(self, delivery: IncomingDelivery) -> None:
        """Record that the outcome was written."""

    def acquire(self, receiver: AcquiringReceiver) -> bytes:
        """Record that a receiver acquires messages as part of this (§4.4.3); return the id for its flows."""

    def check_acquiring(self, receiver: AcquiringReceiver) -> None:
        """Raise if the receiver's link was lost: no more deliveries of this transaction will come."""

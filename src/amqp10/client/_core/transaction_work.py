"""A transaction, as the deliveries, senders and receivers know it that take part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal

from ...engine import IncomingDelivery, OutgoingDelivery
from ...messaging import Outcome, TransactionalState
from .connection import LinkCore

TransactionState = Literal["new", "active", "ending", "committed", "rolled-back", "in-doubt"]


class AcquiringCore(LinkCore):
    """A receiver that can acquire messages as part of a transaction (§4.4.3)."""

    __slots__ = ()

    @abstractmethod
    async def stop_acquiring(self) -> None:
        """Ask the peer to send no more: the transaction is about to end, and what comes might be part of it or not."""

    @abstractmethod
    def acquired_in(self, transaction: TransactionCore) -> None:
        """Return to the ordinary: the transaction is over. After a rollback, what was acquired is the peer's again."""


class TransactionFace:
    """A transaction, as users hold it; `core_of` gives what the links that take part know of it."""

    _core: TransactionCore


class TransactionCore(ABC):
    """The core of a transaction: what can be done as part of it.

    Attributes:
        id: what the coordinator calls it; None while it is not declared. It may be used again for a later one.
        state: see `Transaction`.
    """

    id: bytes | None
    state: TransactionState
    posted: TransactionalState
    released_state: TransactionalState
    streams: dict[Any, Callable[[str], None]]  # that are not complete, and what aborts each

    @abstractmethod
    def post(self, sender: LinkCore) -> TransactionalState:
        """Return the state of a message that is sent as part of this (§4.4.1)."""

    @abstractmethod
    def add(self, delivery: OutgoingDelivery) -> None:
        """Record a message that was sent as part of this: it is committed only if the message is accepted."""

    @abstractmethod
    def state_for_outcome(self, delivery: IncomingDelivery, outcome: Outcome) -> TransactionalState:
        """Return the state that gives a delivery its outcome as part of this (§4.4.2)."""

    @abstractmethod
    def outcome_written(self, delivery: IncomingDelivery) -> None:
        """Record that the outcome was written."""

    @abstractmethod
    def acquire(self, receiver: AcquiringCore) -> bytes:
        """Record that a receiver acquires messages as part of this (§4.4.3); return the id for its flows."""

    @abstractmethod
    def check_acquiring(self, receiver: AcquiringCore) -> None:
        """Raise if the receiver's link was lost: no more deliveries of this transaction will come."""

"""Transactions: what is said to a coordinator, and how work says that it is part of one (§4.5)."""

from __future__ import annotations

from typing import Any

from ..types import Composite, composite, field


@composite(0x31, "amqp:declare:list")
class Declare(Composite):
    """Ask a coordinator for a new transaction (§4.5.2).

    Attributes:
        global_id: the global transaction that it is to be part of; None for a local one.
    """

    global_id: Any = field("*")


@composite(0x32, "amqp:discharge:list")
class Discharge(Composite):
    """Ask a coordinator to end a transaction (§4.5.3).

    Attributes:
        txn_id: the transaction.
        fail: roll it back; otherwise it is committed.
    """

    txn_id: bytes = field("binary", mandatory=True)
    fail: bool | None = field("boolean")


@composite(0x33, "amqp:declared:list", provides=("delivery-state", "outcome"))
class Declared(Composite):
    """A coordinator's outcome for a `Declare`: here is the transaction (§4.5.5).

    Attributes:
        txn_id: it, 1 to 32 bytes.
    """

    txn_id: bytes = field("binary", mandatory=True)


@composite(0x34, "amqp:transactional-state:list", provides=("delivery-state",))
class TransactionalState(Composite):
    """The state of a delivery that is part of a transaction (§4.5.8).

    Attributes:
        txn_id: the transaction.
        outcome: what becomes of the delivery if the transaction is committed; None while that is not said.
    """

    txn_id: bytes = field("binary", mandatory=True)
    outcome: Any = field("*", requires="outcome")

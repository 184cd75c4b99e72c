"""Transactions: what is said to a coordinator, and how work says that it is part of one (§4.5)."""

from __future__ import annotations

from typing import Any, Final

from ..types import Composite, Symbol, composite, field

TXN_ID: Final = Symbol("txn-id")
"""The property of a flow that says in which transaction messages are to be acquired (§4.4.3)."""


@composite(0x31, "amqp:declare:list")
class Declare(Composite):
    """Ask a coordinator for a new transaction (§4.5.2).

    Attributes:
        global_id: the global transaction that it is to be part of; None for a local one.
    """

    global_id: Any = field("*", requires="global-tx-id")


@composite(0x32, "amqp:discharge:list")
class Discharge(Composite):
    """Ask a coordinator to end a transaction (§4.5.3).

    Attributes:
        txn_id: the transaction.
        fail: True rolls it back, False commits it. To be said in any case: Artemis cannot do without.
    """

    txn_id: bytes = field("binary", mandatory=True)
    fail: bool | None = field("boolean")


@composite(0x33, "amqp:declared:list", provides=("delivery-state", "outcome"))
class Declared(Composite):
    """A coordinator's outcome for a `Declare`: here is the transaction (§4.5.5).

    Attributes:
        txn_id: its name on this connection, at most 32 bytes. A coordinator may use it again when it is free.
    """

    txn_id: bytes = field("binary", mandatory=True)


@composite(0x34, "amqp:transactional-state:list", provides=("delivery-state",))
class TransactionalState(Composite):
    """The state of a delivery that is part of a transaction (§4.5.6).

    Attributes:
        txn_id: the transaction.
        outcome: what becomes of the delivery if the transaction is committed; None while that is not said.
    """

    txn_id: bytes = field("binary", mandatory=True)
    outcome: Any = field("*", requires="outcome")

    def __hash__(self) -> int:
        # Dispositions of equal states go out as one range. The transaction of a state never changes.
        return hash(self.txn_id)

"""Transactions: the messages to a coordinator, and the state of transactional work (§4.5)."""

from __future__ import annotations

from typing import Any, Final

from ..types import Composite, Symbol, composite, field

TXN_ID: Final = Symbol("txn-id")
"""The property of a flow with the transaction in which to acquire messages (§4.4.3)."""


@composite(0x31, "amqp:declare:list")
class Declare(Composite):
    """Ask a coordinator for a new transaction (§4.5.2).

    Attributes:
        global_id: the global transaction to join; None for a local transaction.
    """

    global_id: Any = field("*", requires="global-tx-id")


@composite(0x32, "amqp:discharge:list")
class Discharge(Composite):
    """Ask a coordinator to end a transaction (§4.5.3).

    Attributes:
        txn_id: the transaction.
        fail: True rolls back, False commits. Always set it, because Artemis requires it.
    """

    txn_id: bytes = field("binary", mandatory=True)
    fail: bool | None = field("boolean")


@composite(0x33, "amqp:declared:list", provides=("delivery-state", "outcome"))
class Declared(Composite):
    """A coordinator's outcome for a `Declare` (§4.5.5).

    Attributes:
        txn_id: the id of the transaction on this connection, at most 32 bytes. The coordinator may reuse it afterwards.
    """

    txn_id: bytes = field("binary", mandatory=True)


@composite(0x34, "amqp:transactional-state:list", provides=("delivery-state",))
class TransactionalState(Composite):
    """The state of a delivery that is part of a transaction (§4.5.6).

    Attributes:
        txn_id: the transaction.
        outcome: the outcome of the delivery if the transaction is committed; None until it is decided.
    """

    txn_id: bytes = field("binary", mandatory=True)
    outcome: Any = field("*", requires="outcome")

    def __hash__(self) -> int:
        # Dispositions of equal states are sent as one range. The `txn_id` of a state never changes.
        return hash(self.txn_id)

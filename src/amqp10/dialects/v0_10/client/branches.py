"""A client's branches of distributed transactions: the work of each, and which the server knows (0-10 §10.4)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ....messaging import RELEASED, Error, Undone
from ..._kit.coordinators import ROLLED_BACK, OpenTransactions, rejected
from ..codes import outcome_of
from ..command_ids import CommandOwner
from ..wire.commands import Xid

if TYPE_CHECKING:
    from ....engine import OutgoingDelivery
    from ....errors import AmqpError
    from ....messaging import DeliveryState
    from ..command_ids import PendingCommand

FORMAT: Final = 0x616D7170
"""The format of our xids: "amqp"."""


class Branch(CommandOwner):
    """One transaction.

    Attributes:
        id: names the transaction.
        failure: why the transaction can not be committed; None while it can.
        size: octets of the messages sent in the transaction.
        discharge: the delivery that asks for the commit; None before that.
        committing: the server was asked to commit the transaction.
    """

    def __init__(self, number: bytes) -> None:
        self.id = number
        self.xid: Xid = Xid(FORMAT, secrets.token_bytes(16), number)
        self.failure: Undone | None = None
        self.size = 0
        self.discharge: OutgoingDelivery | None = None
        self.committing = False
        self._work: list[Callable[[], None]] = []
        self._undo: list[Callable[[], None]] = []

    def add(self, work: Callable[[], None], undo: Callable[[], None] | None = None) -> None:
        """Add `work` to do when the transaction is committed, and `undo` to call if it is rolled back before that."""
        self._work.append(work)
        if undo is not None:
            self._undo.append(undo)

    def roll_back(self) -> None:
        """Undo the work of a transaction that is rolled back before the server heard of it."""
        for undo in self._undo:
            undo()

    def do(self) -> None:
        """Do all the work of the transaction."""
        for work in self._work:
            work()

    def decided(self, state: DeliveryState) -> None:
        """Settle the discharge with `state`, the end of the transaction, unless it has an outcome already."""
        if self.discharge is not None and self.discharge.remote_state is None:
            self.discharge.remote_state = state
            self.discharge.remote_settled = True

    # As the owner of the transfers in the transaction

    def rejected(self, sent: PendingCommand, code: int, text: str | None) -> None:
        """Record that the server rejected a message of the transaction, which can no longer be committed."""
        outcome = outcome_of(code, text)
        why = f"a message of it was rejected: {text or code}"
        self.failure = Undone(Error(ROLLED_BACK, why, {"reply-code": code}), outcome)

    def released(self, sent: PendingCommand) -> None:
        """Record that the server released a message of the transaction, which can no longer be committed."""
        self.failure = Undone(Error(ROLLED_BACK, "one of its messages was released"), RELEASED)


class Transactions:
    """The transactions of a session.

    Attributes:
        open: those that are not discharged.
        selected: the session is ready for branches.
        started: branches that the server knows and has not ended.
        sentinel: a branch without work. While the server knows it, the server also knows what became of the other
            branches. None where a server rolls back the branches that a session leaves.
    """

    def __init__(self) -> None:
        self.open: OpenTransactions[Branch] = OpenTransactions("session")
        self.selected = False
        self.started: dict[Branch, None] = {}
        self.sentinel: Xid | None = None

    def lost(self, error: AmqpError | None) -> None:
        """Tell that the session is over, and with it each transaction that the server was not asked to commit.

        With a witness the branches may still exist at the server: their outcome is told once they are rolled back.
        """
        if self.sentinel is not None:
            return
        why = rejected(ROLLED_BACK, f"its session ended before it was committed: {error}")
        for branch in self.started:
            if not branch.committing:
                branch.decided(why)

    def leave(self) -> list[Xid]:
        """Return the branches to roll back before the session ends, and the witness; without one, an empty list."""
        sentinel, self.sentinel = self.sentinel, None
        return [each.xid for each in self.started if not each.committing] + [sentinel] if sentinel is not None else []

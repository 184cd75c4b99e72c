"""The work of transactions in an entity: outcomes of locked messages, and scheduled messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ....messaging import Error
from ..._errors import Refused
from .outcomes import settle

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from ....messaging import Outcome
    from ..._peer import Peer
    from ..._transactions.local import LocalTransaction
    from .._messages import EntityMessage
    from .entity import Entity

UNKNOWN_ID: Final = "amqp:transaction:unknown-id"


class EntityWork:
    """The work of one transaction in one entity.

    Raises:
        Refused: the transaction is not open.
    """

    def __init__(self, peer: Peer, txn_id: bytes, entity: Entity) -> None:
        transaction = peer.transaction(txn_id)
        if transaction is None:
            raise Refused(UNKNOWN_ID, f"the transaction {txn_id!r:.60} of an outcome or a request is not open")
        self._transaction = transaction
        self._entity = entity

    def settle(self, tokens: Iterable[UUID], outcome: Outcome) -> None:
        """Record the outcome of locked messages, which applies when the transaction is committed (§4.4.2).

        Until then they stay locked, and nothing else can settle them.

        Raises:
            Refused: a lock is lost, or another transaction has the message; then nothing is recorded.
        """
        tokens = list(tokens)
        self._entity.claim(tokens, self._transaction)
        for token in tokens:
            self._transaction.include(token, _Retirement(self._transaction, self._entity, token, outcome))

    def fail(self, error: Error) -> None:
        """Turn the commit of the transaction into a rollback, because an outcome in it was refused (§4.4.2)."""
        self._transaction.failed = error

    def schedule(self, messages: Iterable[EntityMessage]) -> list[int]:
        """Reserve numbers and room for messages that are scheduled at the commit; return the numbers."""
        numbers = []
        for message in messages:
            numbers.append(self._entity.reserve_number(message))
            self._transaction.include(message, _Scheduled(self._entity, message))
        return numbers


@dataclass(frozen=True, slots=True)
class _Retirement:
    """A message that gets its outcome with a transaction."""

    transaction: LocalTransaction
    entity: Entity
    token: UUID
    outcome: Outcome

    @property
    def obstacle(self) -> Error | None:
        try:
            self.entity.commit_begins(self.token, self.transaction)
        except Refused as refusal:
            return refusal.error
        return None

    def apply(self) -> None:
        settle(self.entity, self.token, self.outcome)

    def revert(self) -> None:
        """Leave the message locked as before, until it is settled or its lock expires."""
        self.entity.unclaim(self.token)


@dataclass(frozen=True, slots=True)
class _Scheduled:
    """A message that is scheduled with a transaction."""

    entity: Entity
    message: EntityMessage

    @property
    def obstacle(self) -> Error | None:
        if self.entity.deleted:
            return Error("amqp:transaction:rollback", f"the entity {self.entity.name!r} no longer exists")
        return None

    def apply(self) -> None:
        self.revert()
        self.entity.add(self.message)

    def revert(self) -> None:
        self.entity.unreserve_room(self.message.size, self.message.account)

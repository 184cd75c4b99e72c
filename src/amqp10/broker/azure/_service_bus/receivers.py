"""Links on which an entity sends messages: locked for the receiver (peek-lock), or removed at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ....engine import LinkTerms
from ....messaging import RELEASED, Error, Received, Rejected, Source, TransactionalState
from ....types import Described, Symbol
from ..._errors import Refused
from ..._peer import LinkTaker
from .groups import Receiver, SessionReceiver
from .outcomes import checked_outcome, settle
from .transactions import EntityWork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....engine import SenderLink
    from ..._peer import Peer
    from .entity import Entity

SESSION_FILTER: Final = Symbol("com.microsoft:session-filter")
_LOCKED_UNTIL: Final = Symbol("com.microsoft:locked-until-utc")
_TICKS_AT_1970: Final = 621_355_968_000_000_000
_TICKS: Final = 10_000_000
"""The units of .NET's clock in a second."""


class EntityReceiver(LinkTaker, Receiver):
    """A link that receives from an entity.

    The delivery-tag is the lock token of the message, in .NET's layout of a GUID. Messages stay locked when the link
    ends: they can be settled through the management node until their locks expire.

    Attributes:
        used: when the link was last used, in seconds since 1970.
    """

    def __init__(self, peer: Peer, link: SenderLink, entity: Entity, *, locks: bool) -> None:
        super().__init__(peer, link)
        self.locks = locks
        self.entity = entity
        self.used = entity.now

    def _use(self) -> None:
        self.used = self.entity.accessed = self.entity.now

    def begin(self) -> None:
        """Attach the link, and enter the line.

        Raises:
            Refused: the entity cannot be received from like this.
        """
        self.entity.add_receiver(self)
        self._attach(None, {})

    def _attach(self, filters: dict[Any, Any] | None, properties: dict[Symbol, Any]) -> None:
        link, remote = self._link, self._link.remote
        assert remote is not None
        assert isinstance(remote.source, Source)
        link.attach(
            LinkTerms(
                name=link.name,
                source=Source(address=remote.source.address, outcomes=remote.source.outcomes, filter=filters),
                target=remote.target,
                settle_mode="unsettled" if self.locks else "settled",
                receiver_settle_mode=remote.receiver_settle_mode,
                max_message_size=self._peer.max_message_size,
                properties=properties,
            )
        )
        link.auto_settle = False  # an outcome is sent when it is known whether the lock held
        self.credit_changed()

    def credit_changed(self) -> None:
        if self._link.credit > 0 or self._link.drain:
            self.entity.in_line(self, drain=self._link.drain)

    # For the entity

    def deliver(self, token: UUID | None, payload: bytes) -> bool:
        # Searching for smaller messages behind it would visit all of them, again and again.
        if self._is_too_large(payload):
            return False
        self._use()
        self._link.send(payload, settled=token is None, tag=token.bytes_le if token is not None else None)
        return True

    # From the peer

    def on_credit(self) -> None:
        self._use()
        self.credit_changed()

    def on_outcomes(self, deliveries: Sequence[Any]) -> None:
        """Settle messages with the receiver's outcomes, and answer with the same outcome, or with the refusal."""
        self._use()
        for delivery in deliveries:
            state: Any = delivery.remote_state
            if isinstance(state, Received) or (state is None and not delivery.remote_settled):
                continue
            try:
                self._settle(UUID(bytes_le=delivery.tag), state)
            except Refused as refusal:
                state = Rejected(refusal.error)
            else:
                # An error in it would mean that the settlement failed.
                state = Rejected() if isinstance(state, Rejected) else state
            if not delivery.local_settled and self._link.attached:
                self._link.settle(delivery, state)
        self._peer.wake()

    def _settle(self, token: UUID, state: Any) -> None:
        """Settle a message, at once or when the transaction that the state names is committed."""
        if isinstance(state, TransactionalState):
            work = EntityWork(self._peer, state.txn_id, self.entity)
            try:
                work.settle([token], checked_outcome(state.outcome))
            except Refused as refusal:
                work.fail(refusal.error)  # the receiver may ask for the commit without waiting for this
                raise
        else:
            settle(self.entity, token, RELEASED if state is None else checked_outcome(state))

    def end(self) -> None:
        """End the link; messages that were never sent become available to others."""
        self.entity.remove_receiver(self)
        self._peer.held_up.remove(self._link)
        for delivery in self._link.unsettled.values():
            if not delivery.begun and not delivery.local_settled:
                try:
                    self.entity.release(UUID(bytes_le=delivery.tag))
                except Refused:
                    pass  # the lock has expired already


class SessionLink(EntityReceiver, SessionReceiver):
    """A link that receives the messages of one session, while the link lasts and the session's lock holds.

    Attributes:
        session_id: the id of the session; None: not known yet.
    """

    session_id: str | None = None

    def ask(self, session_id: str | None, patience: float) -> None:
        """Ask for a session, which attaches the link; see `Entity.accept`."""
        self.entity.accept(self, session_id, patience)

    def accepted(self, session_id: str, until: float) -> None:
        self.session_id = session_id
        ticks = _TICKS_AT_1970 + round(until * _TICKS)
        remote = self._link.remote
        assert remote is not None
        assert isinstance(remote.source, Source)
        requested = (remote.source.filter or {}).get(SESSION_FILTER)
        # SDKs expect the type that they wrote.
        answer = Described(requested.descriptor, session_id) if isinstance(requested, Described) else session_id
        self._attach({SESSION_FILTER: answer}, {_LOCKED_UNTIL: ticks})
        self._peer.wake()

    def refused(self, error: Error) -> None:
        self._link.refuse(error)
        self._peer.wake()

    def lock_lost(self, error: Error) -> None:
        self.node_deleted(error)

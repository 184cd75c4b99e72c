"""The owners of sessions and links, which hear of their events from `EngineOwner` (`_dispatch`).

Client and broker inherit from these classes and define the callbacks that they need; the others do nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from ._topology_requests import RequestOwner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..errors import AmqpError


class OutcomeCounter:
    """A waiter of many deliveries that looks at each outcome itself, and stays their waiter until there is one.

    No ABC: each outcome asks whether its waiter is such a one, and `isinstance` takes longer with an ABC.
    """

    __slots__ = ()

    @abstractmethod
    def outcome_received(self, delivery: Any) -> None:
        """Act on the state that the receiver told of the delivery, perhaps its outcome."""

    @abstractmethod
    def accepted_more(self, count: int) -> None:
        """Record `count` accepted messages for which no delivery object was created."""

    @abstractmethod
    def set(self) -> None:
        """Look again: the link is over."""


class LinkOwner:
    """The code that sends or receives on a link (`Link.owner`); `NO_LINK_OWNER` before any took the link."""

    __slots__ = ()

    def on_attached(self) -> None:
        """Act on the peer's attach, which answers ours."""

    def on_ended(self, error: AmqpError | None) -> None:
        """Act on the end of the link."""

    def on_incomplete(self) -> None:
        """Attach again: this attachment has resumed all that it could (`LinkIncomplete`)."""

    def on_credit(self) -> None:
        """Look at `credit` and `drain`, which may have changed; for senders."""

    def on_outcomes(self, deliveries: Sequence[Any]) -> None:
        """Act on the states that the receiver sent for `deliveries`; for senders."""

    def on_accepted(self, waiter: OutcomeCounter, count: int) -> None:
        """Record `count` accepted messages that were sent untracked for `waiter`; for senders."""

    def on_run_accepted(self, waiters: Sequence[Any]) -> None:
        """Act on the acceptance of messages that were sent in runs with these waiters (`RunAccepted`); for senders."""

    def on_deliveries(self) -> None:
        """Take the deliveries in `incoming`; for receivers."""

    def on_parts(self, delivery: Any) -> None:
        """Read on in `delivery`, which has new parts; for receivers."""

    def on_settlements(self, deliveries: Sequence[Any]) -> None:
        """Act on the settlement of `deliveries` by the sender; for receivers."""

    def on_flow(self, drained: bool, wasted: int) -> None:
        """Act on the sender's flow (`FlowReceived`); for receivers."""

    def on_resumed(self, deliveries: Sequence[Any]) -> None:
        """Go on with `deliveries`, which this attachment resumed; for receivers."""

    def on_unresumed(self, deliveries: Sequence[Any]) -> None:
        """Decide on `deliveries`, whose state cannot be found out (`DeliveriesUnresumed`)."""


class SessionOwner(RequestOwner):
    """The code that began or answers a session (`Session.owner`); `NO_SESSION_OWNER` before any took the session."""

    __slots__ = ()

    def on_begun(self) -> None:
        """Act on the peer's begin, which answers ours."""

    def on_ended(self, error: AmqpError | None) -> None:
        """Act on the end of the session."""

    def on_window(self) -> None:
        """Go on sending: `sendable` became True."""

    def on_session_resumed(self) -> None:
        """Go on: the session is on another transport now."""


NO_LINK_OWNER: Final = LinkOwner()
NO_SESSION_OWNER: Final = SessionOwner()

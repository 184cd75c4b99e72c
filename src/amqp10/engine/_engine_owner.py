"""The owner of an engine, and the table that hands events to it, and on to the owners of sessions and links.

owner.dispatch(engine.events())         EngineOwner: a method for each kind of event
    event.session.owner.on_window()    by default an event of a session or link goes on to its own owner
    event.link.owner.on_credit()
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from ._dispatcher import Dispatcher, Handlers
from ._events import (
    Authenticated,
    ConnectionEnded,
    ConnectionOpened,
    CreditChanged,
    DeliveriesReceived,
    DeliveriesResumed,
    DeliveriesUnresumed,
    FlowReceived,
    LinkAttached,
    LinkEnded,
    LinkIncomplete,
    OutcomesMissed,
    OutcomesReceived,
    PartsReceived,
    PeerBlocked,
    RequestAnswered,
    RequestReceived,
    RunAccepted,
    SessionBegun,
    SessionResumed,
    SessionUnmapped,
    SettlementsReceived,
    UntrackedAccepted,
    WindowOpened,
)

if TYPE_CHECKING:
    from ..errors import AmqpError
    from ._protocol import Event


class EngineOwner(Dispatcher):
    """The code that drives an engine, and hears all its events."""

    handlers: ClassVar[Handlers] = {
        Authenticated: "_on_authenticated",
        ConnectionOpened: "_on_connection_opened",
        ConnectionEnded: "_on_connection_ended",
        PeerBlocked: "_on_peer_blocked",
        SessionBegun: "_on_session_begun",
        SessionUnmapped: "_on_session_unmapped",
        SessionResumed: "_on_session_resumed",
        WindowOpened: "_on_window_opened",
        OutcomesMissed: "_on_outcomes_missed",
        RequestReceived: "_on_request_received",
        RequestAnswered: "_on_request_answered",
        LinkAttached: "_on_link_attached",
        LinkEnded: "_on_link_ended",
        LinkIncomplete: "_on_link_incomplete",
        CreditChanged: "_on_credit_changed",
        OutcomesReceived: "_on_outcomes_received",
        UntrackedAccepted: "_on_untracked_accepted",
        RunAccepted: "_on_run_accepted",
        DeliveriesReceived: "_on_deliveries_received",
        PartsReceived: "_on_parts_received",
        SettlementsReceived: "_on_settlements_received",
        FlowReceived: "_on_flow_received",
        DeliveriesResumed: "_on_deliveries_resumed",
        DeliveriesUnresumed: "_on_deliveries_unresumed",
    }

    def dispatch(self, events: Iterable[Event]) -> None:
        """Give each event to the method for its kind."""
        handlers = self.by_type
        for event in events:
            handlers[type(event)](self, event)

    # The connection

    def _reason(self, error: AmqpError | None) -> AmqpError | None:
        """Return the reason for an end, in the form for the owners of sessions and links."""
        return error

    def _on_authenticated(self, event: Authenticated) -> None: ...

    def _on_connection_opened(self, event: ConnectionOpened) -> None: ...

    def _on_connection_ended(self, event: ConnectionEnded) -> None: ...

    def _on_peer_blocked(self, event: PeerBlocked) -> None: ...

    # Sessions

    def _on_session_begun(self, event: SessionBegun) -> None:
        event.session.owner.on_begun()

    def _on_session_unmapped(self, event: SessionUnmapped) -> None:
        event.session.owner.on_ended(self._reason(event.error))

    def _on_session_resumed(self, event: SessionResumed) -> None:
        event.session.owner.on_session_resumed()

    def _on_window_opened(self, event: WindowOpened) -> None:
        event.session.owner.on_window()

    def _on_outcomes_missed(self, event: OutcomesMissed) -> None: ...

    def _on_request_received(self, event: RequestReceived) -> None: ...

    def _on_request_answered(self, event: RequestAnswered) -> None:
        event.request.session.owner.on_answered(event.request)

    # Links. For a link that is `retired` only the events of its deliveries are told.

    def _on_link_attached(self, event: LinkAttached) -> None:
        if not event.link.retired:
            event.link.owner.on_attached()

    def _on_link_ended(self, event: LinkEnded) -> None:
        if not event.link.retired:
            event.link.owner.on_ended(self._reason(event.error))

    def _on_link_incomplete(self, event: LinkIncomplete) -> None:
        if not event.link.retired:
            event.link.owner.on_incomplete()

    def _on_credit_changed(self, event: CreditChanged) -> None:
        if not event.link.retired:
            event.link.owner.on_credit()

    def _on_outcomes_received(self, event: OutcomesReceived) -> None:
        event.link.owner.on_outcomes(event.deliveries)

    def _on_untracked_accepted(self, event: UntrackedAccepted) -> None:
        event.link.owner.on_accepted(event.waiter, event.count)

    def _on_run_accepted(self, event: RunAccepted) -> None:
        event.link.owner.on_run_accepted(event.waiters)

    def _on_deliveries_received(self, event: DeliveriesReceived) -> None:
        if not event.link.retired:
            event.link.owner.on_deliveries()

    def _on_parts_received(self, event: PartsReceived) -> None:
        link = event.delivery.link
        if not link.retired:
            link.owner.on_parts(event.delivery)

    def _on_settlements_received(self, event: SettlementsReceived) -> None:
        event.link.owner.on_settlements(event.deliveries)

    def _on_flow_received(self, event: FlowReceived) -> None:
        if not event.link.retired:
            event.link.owner.on_flow(event.drained, event.wasted)

    def _on_deliveries_resumed(self, event: DeliveriesResumed) -> None:
        if not event.link.retired:
            event.link.owner.on_resumed(event.deliveries)

    def _on_deliveries_unresumed(self, event: DeliveriesUnresumed) -> None:
        if not event.link.retired:
            event.link.owner.on_unresumed(event.deliveries)

"""Who hears of which event of the engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ..engine import (
    Authenticated,
    ConnectionEnded,
    ConnectionOpened,
    CreditChanged,
    DeliveriesReceived,
    DeliveriesResumed,
    DeliveriesUnresumed,
    Event,
    FlowReceived,
    LinkAttached,
    LinkEnded,
    LinkIncomplete,
    OutcomesReceived,
    PartsReceived,
    PeerBlocked,
    PostsAccepted,
    RequestAnswered,
    SessionBegun,
    SessionResumed,
    SessionUnmapped,
    SettlementsReceived,
    WindowOpened,
)
from ..messaging import Error
from ._link import Retired
from ._observe import ConnectionBlocked, ConnectionUnblocked

if TYPE_CHECKING:
    from ._connection import Connection


REFUSED: Final = Retired()
"""The owner of what the peer begins by itself: it is refused, and what came with it in one pass is nobody's."""


def dispatch(connection: Connection, events: Iterable[Event]) -> None:
    """Tell each event to the session or link that it is of, its `context`; or to the connection itself."""
    for event in events:
        if isinstance(event, DeliveriesReceived):
            event.link.context._on_deliveries()
        elif isinstance(event, OutcomesReceived):
            event.link.context._on_outcomes(event.deliveries)
        elif isinstance(event, PostsAccepted):
            event.link.context._on_accepted(event.waiter, event.count)
        elif isinstance(event, CreditChanged):
            event.link.context._on_credit()
        elif isinstance(event, SettlementsReceived):
            event.link.context._on_settlements(event.deliveries)
        elif isinstance(event, FlowReceived):
            event.link.context._on_flow(event.drained, event.wasted)
        elif isinstance(event, PartsReceived):
            event.delivery.link.context._on_parts(event.delivery)
        elif isinstance(event, WindowOpened):
            event.session.context._on_window()
        else:
            dispatch_rare(connection, event)


def dispatch_rare(connection: Connection, event: Event) -> None:
    """The same, of what is not there for each message."""
    if isinstance(event, LinkAttached):
        if event.link.context is None:
            event.link.context = REFUSED
            event.link.refuse(Error("amqp:not-implemented", "this client takes no links that its peer attaches"))
        else:
            event.link.context._on_attached()
    elif isinstance(event, LinkEnded):
        if event.link.context is not None:
            event.link.context._on_ended(connection._reason(event.error))
    elif isinstance(event, SessionBegun):
        if event.session.context is None:
            event.session.context = REFUSED
            event.session.begin()
            event.session.end(Error("amqp:not-implemented", "this client takes no sessions that its peer begins"))
        else:
            event.session.context._on_begun()
    elif isinstance(event, SessionUnmapped):
        if event.session.context is not None:
            event.session.context._on_ended(connection._reason(event.error))
    elif isinstance(event, ConnectionOpened):
        connection._on_opened()
    elif isinstance(event, ConnectionEnded):
        connection._on_ended(connection._reason(event.error))
    elif isinstance(event, DeliveriesUnresumed):
        event.link.context._on_unresumed(event.deliveries)
    elif isinstance(event, DeliveriesResumed):
        event.link.context._on_resumed(event.deliveries)
    elif isinstance(event, LinkIncomplete):
        event.link.context._on_incomplete()
    elif isinstance(event, SessionResumed):
        event.session.context._on_resumed()
    elif isinstance(event, RequestAnswered):
        event.request.session.context._changed()
    elif isinstance(event, PeerBlocked):
        told = ConnectionUnblocked() if event.reason is None else ConnectionBlocked(event.reason)
        connection._observers.tell(told)
    elif isinstance(event, Authenticated):
        connection._mechanism = event.mechanism

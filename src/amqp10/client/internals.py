"""What `bridging`, `spark`, `testing` and the packages of the older dialects use of the client beyond its public names.

It is not for users: any version may change it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ..engine import Engine, Request, SessionTerms
from ..engine import Link as EngineLink
from ..messaging import Source, Target
from ..net import Endpoint
from ._connecting.policy import is_transient as is_transient
from ._core.close_deadline import CloseDeadlines
from ._core.close_deadline import leave_all as leave_all
from ._core.close_deadline import shielded_until as shielded_until
from ._core.connection import ConnectionCore as ConnectionCore
from ._core.connection import LinkWrapper as LinkWrapper
from ._core.connection import SessionCore as SessionCore
from ._core.faces import Face as Face
from ._core.faces import core_of as core_of
from ._environment import COUNT as COUNT
from ._environment import PREFIX as PREFIX
from ._environment import SECONDS as SECONDS
from ._environment import TEXT as TEXT
from ._environment import Kind as Kind
from ._environment import environment_settings as environment_settings
from ._environment import login_tokens as login_tokens
from ._environment import read as read
from ._environment import secret as secret
from ._environment import secret_in as secret_in
from ._environment import url_settings as url_settings
from ._environment import with_password as with_password
from ._links.core import ClientLink as ClientLink
from ._links.link import Link as Link
from ._receiving.browser import Browser as Browser
from ._receiving.browser import BrowserCore as BrowserCore
from ._receiving.core import Processing as Processing
from ._receiving.core import ReceiverCore as ReceiverCore
from ._receiving.credit import MAX_CREDIT as MAX_CREDIT
from ._receiving.delivery import ReceiverDelivery as ReceiverDelivery
from ._receiving.delivery import is_stale as is_stale
from ._receiving.delivery import receiver_delivery as receiver_delivery
from ._receiving.delivery_face import Delivery as Delivery
from ._receiving.receiver import Receiver as Receiver
from ._receiving.streaming import STREAM_WINDOW as STREAM_WINDOW
from ._receiving.streaming import StreamedDelivery as StreamedDelivery
from ._receiving.streaming import StreamReceiverCore as StreamReceiverCore
from ._requests.link_pair import paired_requester as paired_requester
from ._sending.body_writer import BodyWriter as BodyWriter
from ._sending.core import SenderCore as SenderCore
from ._sending.delivery import SenderDelivery as SenderDelivery
from ._sending.delivery import Waiter as Waiter
from ._sending.delivery import known_outcome as known_outcome
from ._sending.delivery import not_accepted as not_accepted
from ._sending.delivery import sender_delivery as sender_delivery
from ._sending.delivery import unknown as unknown
from ._sending.send_many import check_messages as check_messages
from ._sending.send_queue import MESSAGE_COST as MESSAGE_COST
from ._sending.sender import Sender as Sender
from ._session import Session as Session
from ._settings import DialectT as DialectT
from ._settings import Names010 as Names010
from ._settings import Names091 as Names091
from ._settings import NamesFast as NamesFast
from ._settings import NamesOfOthers as NamesOfOthers
from ._settings import SettingsOfAnyDialect as SettingsOfAnyDialect
from ._stores.link_store import LinkStore as LinkStore
from ._stores.store import DeliveryStore

R = TypeVar("R")


class ConnectionFace(Face[ConnectionCore], Protocol):
    """A connection, as modules see it that `Connection` names in its types."""

    def session(self) -> Session:
        """Make a session, to be begun by `async with`."""


# Of a connection


async def ask(on: ConnectionFace | Session, request: Request[R]) -> R:
    """Ask the peer, on a session or a connection's default one, for what AMQP 1.0 has no word for.

    Raises:
        Unsupported: the dialect has no such request; nothing was written.
        RequestRefused: the peer's answer is no.
        SessionEnded, ConnectionClosed, ConnectionLost: no answer came, and it may have been done.

    Cancelling: it may have been done.
    """
    return await (core_of(on) if isinstance(on, Session) else core_of(on).default_session()).request(request)


def engine_of(connection: ConnectionFace) -> Engine:
    """Return the connection's engine.

    Raises:
        LocalProtocolError: the connection was not opened.
    """
    return core_of(connection).in_engine


def new_queue_name(connection: ConnectionFace) -> str:
    """Return a name for a queue that the server would name: "" unless it must be asked for again after a loss."""
    return core_of(connection).new_queue_name()


def restores(connection: ConnectionFace) -> bool:
    """Return whether the connection has `reconnect`."""
    return core_of(connection).recovery is not None


def delivery_store(connection: ConnectionFace) -> DeliveryStore | None:
    """Return where the connection keeps unsettled deliveries."""
    return core_of(connection).delivery_store


def close_deadlines(connection: ConnectionFace) -> CloseDeadlines:
    """Return the deadlines that leaving links, sessions and the connection share."""
    return core_of(connection).close_deadlines


def endpoint_of(connection: ConnectionFace) -> Endpoint | None:
    """Return where the connection is, was last, or will try first."""
    return core_of(connection).supervisor.endpoint


def set_link_wrapper(connection: ConnectionFace | None, wrapper: LinkWrapper | None) -> None:
    """Make links of other classes from now on: those of one connection, or of all; None: no longer."""
    if connection is not None:
        core_of(connection).link_wrapper = wrapper
    else:
        ConnectionCore.link_wrapper = None if wrapper is None else staticmethod(wrapper)


def own_session(connection: ConnectionFace, terms: SessionTerms) -> SessionCore:
    """Make a session for one link that is made here, and begins and ends it."""
    return core_of(connection).new_session(terms)


# Of a link


def terminus_of(link: Link) -> Source | Target | None:
    """Return the terminus at the peer that the link asks for; None for a transaction's coordinator."""
    terminus = core_of(link).terminus
    return terminus if isinstance(terminus, Source | Target) else None


def taking_at_once(receiver: Receiver) -> Callable[[], ReceiverDelivery | None]:
    """Return what takes a delivery that waits in a receiver on which no task waits; it returns None without one.

    It returns None as well once every 64 deliveries, for other tasks are to run before the next.
    """
    return core_of(receiver).take_at_once


def processing_of(receiver: Receiver) -> Processing | None:
    """Return what makes a block around the handling of deliveries; None where nobody asks for it."""
    return core_of(receiver).processing


def engine_link(link: Link) -> EngineLink | None:
    """Return the engine's link; None before it is attached."""
    return core_of(link).engine_link


def ended_cleanly(link: Link) -> bool:
    """Return whether the peer has answered our detach, and so has processed all that was said before it."""
    return core_of(link).over and core_of(link).cause is None


def link_store(link: Link) -> LinkStore | None:
    """Return what keeps the link's unsettled deliveries."""
    return core_of(link).store


def session_is_kept(link: Link) -> bool:
    """Return whether the peer keeps the link's session for a while without its connection."""
    session = core_of(link).session
    return session is not None and bool(session.remote.timeout)


# Of a delivery


def report_unknown(delivery: SenderDelivery) -> None:
    """Record that the user knows that the delivery's outcome will never be known."""
    sender: SenderCore = delivery.link.owner  # type: ignore[assignment]
    sender.report(delivery)

"""Checks whether two ends support the settings, before a message is moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ..client import Connection, Receiver, Reconnect
from ..client.internals import delivery_store, link_store, restores, session_is_kept
from ..errors import Unsupported
from ..messaging import Source, Target

if TYPE_CHECKING:
    from ..client import DeliveryStore
    from ..client.internals import Link

ExactlyOnce = Literal["resume", "transactions"]
Role = Literal["source", "target"]

RESUME_TIMEOUT = 3600
"""Seconds that the peers shall keep messages in flight for the restart of a killed process."""


def reconnect_for(role: Role, *, exactly_once: bool) -> Reconnect:
    """Return the default reconnect settings for an end's connection.

    For at least once, the source keeps nothing for the link, so that the next process gets a killed one's messages.
    """
    if exactly_once:
        return Reconnect(resume_timeout=RESUME_TIMEOUT)
    return Reconnect(resume_timeout=0) if role == "source" else Reconnect()


def check_stores(source: Connection | str, target: Connection | str, given: DeliveryStore | None) -> None:
    """Raise ValueError unless both ends keep messages in flight in the same store, or both keep none."""
    stores = [delivery_store(end) if isinstance(end, Connection) else given for end in (source, target)]
    if given is not None and isinstance(source, Connection) and isinstance(target, Connection):
        raise ValueError("an open connection has its own delivery_store: give the store to that connection")
    if stores[0] is not stores[1]:
        raise ValueError(
            "both ends must have the same delivery_store, for both sides of a message are recorded in one step"
        )


def guarantee_of(source: Connection, target: Connection) -> ExactlyOnce:
    """Return the way to move messages exactly once.

    Raises:
        Unsupported: the ends have no such way.
    """
    lacking = [why for connection in {source: None, target: None} if (why := _why_not_resumed(connection))]
    one_broker = source is target and _has_transactions(source)
    if one_broker and (lacking or delivery_store(source) is None):
        return "transactions"
    if lacking:
        together = "" if source is target else "; and the two ends are not one connection to a broker with transactions"
        raise Unsupported(
            f"exactly once is not possible: {', and '.join(lacking)}{together}. Try to move at least "
            "once, to a target that drops duplicates"
        )
    return "resume"


def _why_not_resumed(connection: Connection) -> str:
    dialect, can = f"dialect {connection.dialect!r}", connection.capabilities
    if "settle-second" not in can or not can & {"resume", "session-resume"}:
        return f"{dialect} does not resume links ('1.0' does with some brokers)"
    if "resume" in can:
        return "" if connection.profile.resumes else f"{connection.profile.title} does not resume links"
    # Only the same process can replay: the next one has another session.
    return f"{dialect} resumes nothing from a store of deliveries" if delivery_store(connection) is not None else ""


def _has_transactions(connection: Connection) -> bool:
    return "transactions-over-queues" in connection.capabilities and connection.profile.transactions is not None


def check_kept(link: Link) -> None:
    """Raise Unsupported unless the peer settles in two steps, and keeps its end of the link for some time."""
    if "resume" not in link.connection.capabilities:
        _check_session_kept(link)
        return
    if link.receiver_settle_mode != "second":
        raise Unsupported(
            f"exactly once is not possible: the {_end(link)} does not settle in two steps (mode 'second')"
        )
    terminus = link.remote.source if isinstance(link, Receiver) else link.remote.target
    if not isinstance(terminus, Source | Target) or not (terminus.expiry_policy == "never" or terminus.timeout):
        advice = "" if restores(link.connection) or link_store(link) else " (give it reconnect=, or a delivery_store)"
        raise Unsupported(
            f"exactly once is not possible: the {_end(link)} does not keep a link whose connection is lost{advice}"
        )


def _check_session_kept(link: Link) -> None:
    """Raise Unsupported unless the peer keeps the session of a link.

    If sessions are resumed, the completion of an accept or transfer is the second step.
    """
    if not session_is_kept(link):
        advice = "" if restores(link.connection) else " (give it reconnect=)"
        raise Unsupported(
            f"exactly once is not possible: the {_end(link)} does not keep a session whose connection is lost{advice}"
        )


def check_unsettled(source: Receiver) -> None:
    """Raise Unsupported if the source sends settled, so that messages on their way would be lost with this process."""
    if source.settle_mode == "settled":
        raise Unsupported(
            "the source sends its messages settled, so that it does not keep them until the target has accepted them"
        )


def check_copying(source: Connection) -> None:
    """Raise Unsupported if the source only pretends to leave messages in the queue."""
    if "browse" not in source.capabilities:
        raise Unsupported(f"dialect {source.dialect!r} does not browse: it would take the messages")
    if not source.profile.copies:
        title = source.profile.title
        raise Unsupported(f"{title} does not browse: it would lock all messages until the end of the copy")


def check_rejecting(source: Connection) -> None:
    """Raise Unsupported if the source's dialect cannot reject."""
    if "rejected" not in source.capabilities:
        raise Unsupported(
            f"dialect {source.dialect!r} has no outcome rejected: the source cannot be told what the target refused"
        )


def check_streaming(source: Connection, target: Connection) -> None:
    """Raise Unsupported unless messages can be sent and received part by part."""
    for connection in (source, target):
        if "streaming" not in connection.capabilities:
            raise Unsupported(f"dialect {connection.dialect!r} does not send and receive messages part by part")


def _end(link: Link) -> str:
    return "source" if isinstance(link, Receiver) else "target"

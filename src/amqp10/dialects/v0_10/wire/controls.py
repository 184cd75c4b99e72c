"""The controls of connections and sessions, in the order of the specification (0-10 §9.1, §9.2).

Written by `make tables` from `tools/tables/0-10.txt`: a change is made there. The commands of files and streams are in
`rare_commands`.
"""

from __future__ import annotations

from typing import Any

from .struct import Control, Ranges, Struct, field

# Class connection (1, §9.1: controls)


class ConnectionStart(Control, name="connection.start", code=0x0101):
    """The server offers mechanisms and locales, and says what it is."""

    server_properties: dict[str, Any] | None = field("map")
    mechanisms: list[Any] = field("array", required=True)
    locales: list[Any] = field("array", required=True)


class ConnectionStartOk(Control, name="connection.start-ok", code=0x0102):
    """The client chooses a mechanism, and says what it is."""

    client_properties: dict[str, Any] | None = field("map")
    mechanism: str = field("str8", required=True)
    response: bytes = field("vbin32", required=True, default=b"")
    locale: str = field("str8", required=True, default="en_US")


class ConnectionSecure(Control, name="connection.secure", code=0x0103):
    """A challenge of the mechanism."""

    challenge: bytes = field("vbin32", required=True)


class ConnectionSecureOk(Control, name="connection.secure-ok", code=0x0104):
    """The response to a challenge."""

    response: bytes = field("vbin32", required=True)


class ConnectionTune(Control, name="connection.tune", code=0x0105):
    """The server's limits; heartbeats in seconds."""

    channel_max: int | None = field("uint16")
    max_frame_size: int | None = field("uint16")
    heartbeat_min: int | None = field("uint16")
    heartbeat_max: int | None = field("uint16")


class ConnectionTuneOk(Control, name="connection.tune-ok", code=0x0106):
    """The limits that hold."""

    channel_max: int = field("uint16", required=True, default=65535)
    max_frame_size: int | None = field("uint16")
    heartbeat: int | None = field("uint16")


class ConnectionOpen(Control, name="connection.open", code=0x0107):
    """The client asks for a virtual host, which Qpid's Python client never names, though it is required."""

    virtual_host: str = field("str8", required=True, default="")
    capabilities: list[Any] | None = field("array")
    insist: bool = field("bit")


class ConnectionOpenOk(Control, name="connection.open-ok", code=0x0108):
    """The server opens the connection."""

    known_hosts: list[Any] | None = field("array")


class ConnectionRedirect(Control, name="connection.redirect", code=0x0109):
    """Connect to `host` instead."""

    host: str = field("str16", required=True)
    known_hosts: list[Any] | None = field("array")


class ConnectionHeartbeat(Control, name="connection.heartbeat", code=0x010A):
    """A sign of life."""


class ConnectionClose(Control, name="connection.close", code=0x010B):
    """Close the connection; `reply_code` says why."""

    reply_code: int = field("uint16", required=True)
    reply_text: str | None = field("str8")


class ConnectionCloseOk(Control, name="connection.close-ok", code=0x010C):
    """Acknowledge connection.close."""


# Class session (2, §9.2: controls)


class CommandFragment(Struct, name="session.command-fragment", size_width=0, pack_width=0):
    """Octets of one command."""

    command_id: int = field("sequence-no", required=True)
    byte_ranges: Ranges = field("byte-ranges", required=True)


class SessionAttach(Control, name="session.attach", code=0x0201):
    """Attach the channel to a session by its name."""

    name: bytes = field("vbin16", required=True)
    force: bool = field("bit")


class SessionAttached(Control, name="session.attached", code=0x0202):
    """Confirm session.attach."""

    name: bytes = field("vbin16", required=True)


class SessionDetach(Control, name="session.detach", code=0x0203):
    """Leave the session, which lives on for its timeout."""

    name: bytes = field("vbin16", required=True)


class SessionDetached(Control, name="session.detached", code=0x0204):
    """The session is detached, on request or not; `code` says why."""

    name: bytes = field("vbin16", required=True)
    code: int = field("uint8", required=True, default=0)


class SessionRequestTimeout(Control, name="session.request-timeout", code=0x0205):
    """Ask for the time that the session may outlive its transport, seconds; absent: forever."""

    timeout: int | None = field("uint32")


class SessionTimeout(Control, name="session.timeout", code=0x0206):
    """Grant the time that the session outlives its transport, seconds; absent: forever."""

    timeout: int | None = field("uint32")


class SessionCommandPoint(Control, name="session.command-point", code=0x0207):
    """The id of the command that comes next, and the octet within it; an absent offset means 0."""

    command_id: int = field("sequence-no", required=True)
    command_offset: int = field("uint64", required=True, default=0)


class SessionExpected(Control, name="session.expected", code=0x0208):
    """The commands that this side is missing after it was attached again; empty: it does not know the session."""

    commands: Ranges = field("sequence-set", required=True)
    fragments: list[Any] | None = field("array")


class SessionConfirmed(Control, name="session.confirmed", code=0x0209):
    """These commands need not be replayed."""

    commands: Ranges = field("sequence-set", default=())
    fragments: list[Any] | None = field("array")


class SessionCompleted(Control, name="session.completed", code=0x020A):
    """These commands are completed."""

    commands: Ranges = field("sequence-set", default=())
    timely_reply: bool = field("bit")


class SessionKnownCompleted(Control, name="session.known-completed", code=0x020B):
    """These completions need not be sent again."""

    commands: Ranges = field("sequence-set", default=())


class SessionFlush(Control, name="session.flush", code=0x020C):
    """Send the controls asked for now."""

    expected: bool = field("bit")
    confirmed: bool = field("bit")
    completed: bool = field("bit")


class SessionGap(Control, name="session.gap", code=0x020D):
    """These commands will never come."""

    commands: Ranges = field("sequence-set", default=())

"""The controls of connections and sessions, in the order of the specification (0-10 §9.1, §9.2).

Written by `make tables` from `tools/tables/0-10.txt`: a change is made there. The commands of files and streams are in
`rare_commands`.
"""

from __future__ import annotations

from typing import Any

from .struct import Control, Ranges, Struct, control, field, struct

# Class connection (1, §9.1: controls)


@control(0x0101, "connection.start")
class ConnectionStart(Control):
    """The server offers mechanisms and locales, and says what it is."""

    server_properties: dict[str, Any] | None = field("map")
    mechanisms: list[Any] = field("array", required=True)
    locales: list[Any] = field("array", required=True)


@control(0x0102, "connection.start-ok")
class ConnectionStartOk(Control):
    """The client chooses a mechanism, and says what it is."""

    client_properties: dict[str, Any] | None = field("map")
    mechanism: str = field("str8", required=True)
    response: bytes = field("vbin32", required=True, default=b"")
    locale: str = field("str8", required=True, default="en_US")


@control(0x0103, "connection.secure")
class ConnectionSecure(Control):
    """A challenge of the mechanism."""

    challenge: bytes = field("vbin32", required=True)


@control(0x0104, "connection.secure-ok")
class ConnectionSecureOk(Control):
    """The response to a challenge."""

    response: bytes = field("vbin32", required=True)


@control(0x0105, "connection.tune")
class ConnectionTune(Control):
    """The server's limits; heartbeats in seconds."""

    channel_max: int | None = field("uint16")
    max_frame_size: int | None = field("uint16")
    heartbeat_min: int | None = field("uint16")
    heartbeat_max: int | None = field("uint16")


@control(0x0106, "connection.tune-ok")
class ConnectionTuneOk(Control):
    """The limits that hold."""

    channel_max: int = field("uint16", required=True, default=65535)
    max_frame_size: int | None = field("uint16")
    heartbeat: int | None = field("uint16")


@control(0x0107, "connection.open")
class ConnectionOpen(Control):
    """The client asks for a virtual host, which Qpid's Python client never names, though it is required."""

    virtual_host: str = field("str8", required=True, default="")
    capabilities: list[Any] | None = field("array")
    insist: bool = field("bit")


@control(0x0108, "connection.open-ok")
class ConnectionOpenOk(Control):
    """The server opens the connection."""

    known_hosts: list[Any] | None = field("array")


@control(0x0109, "connection.redirect")
class ConnectionRedirect(Control):
    """Connect to `host` instead."""

    host: str = field("str16", required=True)
    known_hosts: list[Any] | None = field("array")


@control(0x010A, "connection.heartbeat")
class ConnectionHeartbeat(Control):
    """A sign of life."""


@control(0x010B, "connection.close")
class ConnectionClose(Control):
    """Close the connection; `reply_code` says why."""

    reply_code: int = field("uint16", required=True)
    reply_text: str | None = field("str8")


@control(0x010C, "connection.close-ok")
class ConnectionCloseOk(Control):
    """Acknowledge connection.close."""


# Class session (2, §9.2: controls)


@struct("session.command-fragment", size_width=0, pack_width=0)
class CommandFragment(Struct):
    """Octets of one command."""

    command_id: int = field("sequence-no", required=True)
    byte_ranges: Ranges = field("byte-ranges", required=True)


@control(0x0201, "session.attach")
class SessionAttach(Control):
    """Attach the channel to a session by its name."""

    name: bytes = field("vbin16", required=True)
    force: bool = field("bit")


@control(0x0202, "session.attached")
class SessionAttached(Control):
    """Confirm session.attach."""

    name: bytes = field("vbin16", required=True)


@control(0x0203, "session.detach")
class SessionDetach(Control):
    """Leave the session, which lives on for its timeout."""

    name: bytes = field("vbin16", required=True)


@control(0x0204, "session.detached")
class SessionDetached(Control):
    """The session is detached, on request or not; `code` says why."""

    name: bytes = field("vbin16", required=True)
    code: int = field("uint8", required=True, default=0)


@control(0x0205, "session.request-timeout")
class SessionRequestTimeout(Control):
    """Ask for the time that the session may outlive its transport, seconds; absent: forever."""

    timeout: int | None = field("uint32")


@control(0x0206, "session.timeout")
class SessionTimeout(Control):
    """Grant the time that the session outlives its transport, seconds; absent: forever."""

    timeout: int | None = field("uint32")


@control(0x0207, "session.command-point")
class SessionCommandPoint(Control):
    """The id of the command that comes next, and the octet within it; an absent offset means 0."""

    command_id: int = field("sequence-no", required=True)
    command_offset: int = field("uint64", required=True, default=0)


@control(0x0208, "session.expected")
class SessionExpected(Control):
    """The commands that this side is missing after it was attached again; empty: it does not know the session."""

    commands: Ranges = field("sequence-set", required=True)
    fragments: list[Any] | None = field("array")


@control(0x0209, "session.confirmed")
class SessionConfirmed(Control):
    """These commands need not be replayed."""

    commands: Ranges = field("sequence-set", default=())
    fragments: list[Any] | None = field("array")


@control(0x020A, "session.completed")
class SessionCompleted(Control):
    """These commands are completed."""

    commands: Ranges = field("sequence-set", default=())
    timely_reply: bool = field("bit")


@control(0x020B, "session.known-completed")
class SessionKnownCompleted(Control):
    """These completions need not be sent again."""

    commands: Ranges = field("sequence-set", default=())


@control(0x020C, "session.flush")
class SessionFlush(Control):
    """Send the controls asked for now."""

    expected: bool = field("bit")
    confirmed: bool = field("bit")
    completed: bool = field("bit")


@control(0x020D, "session.gap")
class SessionGap(Control):
    """These commands will never come."""

    commands: Ranges = field("sequence-set", default=())

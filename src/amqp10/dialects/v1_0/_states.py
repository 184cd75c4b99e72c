"""The state machines, as tables: connection (§2.4.6), session (§2.5.5), link (§2.6.3 to §2.6.6).

Each table maps (state, step) to the next state; a step is what crosses the wire, "S:" sent by this side, "R:" received.
Everything about transitions is here, and a missing key is the only way to be illegal. The tables do not know which
side they describe: client and server, sender and receiver use the same.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class ConnectionState(Enum):
    """§2.4.6; the names are the specification's."""

    START = "nothing sent or received"
    HDR_RCVD = "the peer's header is here, ours is not out"
    HDR_SENT = "our header is out, the peer's is not here"
    HDR_EXCH = "both headers are exchanged"
    OPEN_PIPE = "our header and open are out, nothing is here"
    OC_PIPE = "our header, open and close are out, nothing is here"
    OPEN_RCVD = "the peer's open is here, ours is not out"
    OPEN_SENT = "our open is out, the peer's is not here"
    CLOSE_PIPE = "our open and close are out, the peer's open is not here"
    OPENED = "both opens are exchanged"
    CLOSE_RCVD = "the peer closed, we may still send"
    CLOSE_SENT = "we closed, the peer may still send"
    DISCARDING = "we closed with an error: what still comes is dropped"
    END = "both closed"


class SessionState(Enum):
    """§2.5.5; the names are the specification's."""

    UNMAPPED = "no begin, or both ends, are exchanged"
    BEGIN_SENT = "our begin is out"
    BEGIN_RCVD = "the peer's begin is here"
    MAPPED = "both begins are exchanged"
    END_SENT = "we ended, the peer may still send"
    END_RCVD = "the peer ended, we may still send"
    DISCARDING = "we ended with an error: what still comes is dropped"


class LinkState(Enum):
    """§2.6.3 to §2.6.6 describe these in prose; the names follow those of sessions."""

    DETACHED = "no attach, or both detaches, are exchanged"
    ATTACH_SENT = "our attach is out"
    ATTACH_RCVD = "the peer's attach is here"
    ATTACHED = "both attaches are exchanged"
    DETACH_PIPE = "our attach and detach are out, the peer's attach is not here"
    DETACH_SENT = "we detached, the peer may still send"
    DETACH_RCVD = "the peer detached, we owe our detach"
    DETACH_OWED = "the peer attached and detached, we owe both"


_C, _S, _L = ConnectionState, SessionState, LinkState

CONNECTION: Final[dict[tuple[ConnectionState, str], ConnectionState]] = {
    (_C.START, "R:HDR"): _C.HDR_RCVD,
    (_C.START, "S:HDR"): _C.HDR_SENT,
    (_C.HDR_RCVD, "S:HDR"): _C.HDR_EXCH,
    (_C.HDR_SENT, "R:HDR"): _C.HDR_EXCH,
    (_C.HDR_SENT, "S:OPEN"): _C.OPEN_PIPE,
    (_C.HDR_EXCH, "R:OPEN"): _C.OPEN_RCVD,
    (_C.HDR_EXCH, "S:OPEN"): _C.OPEN_SENT,
    (_C.OPEN_PIPE, "R:HDR"): _C.OPEN_SENT,
    (_C.OPEN_PIPE, "S:CLOSE"): _C.OC_PIPE,
    (_C.OC_PIPE, "R:HDR"): _C.CLOSE_PIPE,
    (_C.OPEN_RCVD, "S:OPEN"): _C.OPENED,
    (_C.OPEN_SENT, "R:OPEN"): _C.OPENED,
    (_C.OPEN_SENT, "S:CLOSE"): _C.CLOSE_PIPE,
    (_C.CLOSE_PIPE, "R:OPEN"): _C.CLOSE_SENT,
    (_C.OPENED, "R:CLOSE"): _C.CLOSE_RCVD,
    (_C.OPENED, "S:CLOSE"): _C.CLOSE_SENT,
    (_C.OPENED, "S:CLOSE(error)"): _C.DISCARDING,
    (_C.CLOSE_RCVD, "S:CLOSE"): _C.END,
    (_C.CLOSE_SENT, "R:CLOSE"): _C.END,
    (_C.DISCARDING, "R:CLOSE"): _C.END,
}

SESSION: Final[dict[tuple[SessionState, str], SessionState]] = {
    (_S.UNMAPPED, "S:BEGIN"): _S.BEGIN_SENT,
    (_S.UNMAPPED, "R:BEGIN"): _S.BEGIN_RCVD,
    (_S.BEGIN_SENT, "R:BEGIN"): _S.MAPPED,
    (_S.BEGIN_RCVD, "S:BEGIN"): _S.MAPPED,
    (_S.MAPPED, "S:END"): _S.END_SENT,
    (_S.MAPPED, "S:END(error)"): _S.DISCARDING,
    (_S.MAPPED, "R:END"): _S.END_RCVD,
    (_S.END_SENT, "R:END"): _S.UNMAPPED,
    (_S.END_RCVD, "S:END"): _S.UNMAPPED,
    (_S.DISCARDING, "R:END"): _S.UNMAPPED,
}

LINK: Final[dict[tuple[LinkState, str], LinkState]] = {
    (_L.DETACHED, "S:ATTACH"): _L.ATTACH_SENT,
    (_L.DETACHED, "R:ATTACH"): _L.ATTACH_RCVD,
    (_L.ATTACH_SENT, "R:ATTACH"): _L.ATTACHED,
    (_L.ATTACH_SENT, "S:DETACH"): _L.DETACH_PIPE,
    (_L.ATTACH_RCVD, "S:ATTACH"): _L.ATTACHED,
    (_L.ATTACH_RCVD, "R:DETACH"): _L.DETACH_OWED,
    (_L.DETACH_OWED, "S:ATTACH"): _L.DETACH_RCVD,
    (_L.DETACH_PIPE, "R:ATTACH"): _L.DETACH_SENT,
    (_L.ATTACHED, "S:DETACH"): _L.DETACH_SENT,
    (_L.ATTACHED, "R:DETACH"): _L.DETACH_RCVD,
    (_L.DETACH_SENT, "R:DETACH"): _L.DETACHED,
    (_L.DETACH_RCVD, "S:DETACH"): _L.DETACHED,
}

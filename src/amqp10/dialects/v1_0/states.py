"""The state machines, as tables: transport (§2.2), connection (§2.4.6), session (§2.5.5), link (§2.6.3 to §2.6.6).

Each table maps (state, step) to the next state; a step that is not in it is illegal. What depends on more than the
state is checked where it is known, such as in `SessionEndpoint` that no two links have one name.
The tables do not know which side they describe: client and server, sender and receiver use the same.
`V1Engine`, `ConnectionEndpoint`, `SessionEndpoint` and `LinkEndpoint` are machines on them (`amqp10._machine`).

How the three hang together: a session begins while the connection is between its opens and its closes, and a link
attaches while its session is mapped, or about to be. What ends one ends what is below it: the tables beside the
specification's (`TRANSPORT_LOST`, `SESSION_ENDS`, `LINK_ENDS`) have the steps for that. Sessions and links are in their
last state, OVER, when their owner knows of the end; a session may be UNMAPPED before that, as at its beginning.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ..._machine import HAPPENED, RECEIVED, SENT
from ..._machine import Step as AnyStep


class Step(AnyStep):
    """What moves the machines on: a protocol header, a SASL frame or a performative."""

    START = HAPPENED, "call of start() on a server"
    SEND_SASL_HEADER = SENT, "SASL header"
    RECEIVE_SASL_HEADER = RECEIVED, "SASL header"
    SEND_OUTCOME = SENT, "sasl-outcome"
    RECEIVE_OUTCOME = RECEIVED, "sasl-outcome"
    SEND_HEADER = SENT, "header"
    RECEIVE_HEADER = RECEIVED, "header"
    SEND_OPEN = SENT, "open"
    RECEIVE_OPEN = RECEIVED, "open"
    SEND_CLOSE = SENT, "close"
    SEND_CLOSE_WITH_ERROR = SENT, "close with an error"
    RECEIVE_CLOSE = RECEIVED, "close"
    LOSE_TRANSPORT = HAPPENED, "end of the transport"
    SEND_BEGIN = SENT, "begin"
    RECEIVE_BEGIN = RECEIVED, "begin"
    SEND_END = SENT, "end"
    SEND_END_WITH_ERROR = SENT, "end with an error"
    RECEIVE_END = RECEIVED, "end"
    FINISH = HAPPENED, "end of the session, or of its connection"
    SEND_ATTACH = SENT, "attach"
    RECEIVE_ATTACH = RECEIVED, "attach"
    SEND_DETACH = SENT, "detach"
    RECEIVE_DETACH = RECEIVED, "detach"
    END_LINK = HAPPENED, "end of the link, or of its session"


class TransportState(Enum):
    """What the next bytes from the peer should be: a header (§2.2), SASL frames (§5.3) or AMQP frames."""

    IDLE = "nothing yet: start() was not called"
    SASL_HEADER = "the peer's SASL header"
    SASL = "SASL frames"
    HEADER = "the peer's AMQP header"
    FRAMES = "AMQP frames"
    OVER = "nothing more is read"


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
    """§2.5.5; the names are the specification's, but for the last two."""

    UNMAPPED = "no begin, or both ends, are exchanged"
    BEGIN_SENT = "our begin is out"
    BEGIN_RCVD = "the peer's begin is here"
    MAPPED = "both begins are exchanged"
    END_SENT = "we ended, the peer may still send"
    END_RCVD = "the peer ended, we may still send"
    DISCARDING = "we ended with an error: what still comes is dropped"
    CLOSING = "the connection closes: nothing more is sent"
    OVER = "the owner knows that the session is over"


class LinkState(Enum):
    """§2.6.3 to §2.6.6 describe these in prose; the names follow those of sessions.

    A link that attaches again, after OVER, is a new endpoint: that is how it is resumed (§2.6.5), too.
    """

    DETACHED = "no attach is exchanged"
    ATTACH_SENT = "our attach is out"
    ATTACH_RCVD = "the peer's attach is here"
    ATTACHED = "both attaches are exchanged"
    DETACH_PIPE = "our attach and detach are out, the peer's attach is not here"
    DETACH_SENT = "we detached, the peer may still send"
    DETACH_RCVD = "the peer detached, we owe our detach"
    DETACH_OWED = "the peer attached and detached, we owe both"
    ENDED = "both detaches are exchanged"
    OVER = "the owner knows that the link is over"


_T, _C, _S, _L = TransportState, ConnectionState, SessionState, LinkState

TRANSPORT: Final[dict[tuple[TransportState, Step], TransportState]] = {
    (_T.IDLE, Step.START): _T.SASL_HEADER,
    (_T.IDLE, Step.SEND_SASL_HEADER): _T.SASL_HEADER,
    (_T.IDLE, Step.SEND_HEADER): _T.HEADER,
    (_T.SASL_HEADER, Step.RECEIVE_SASL_HEADER): _T.SASL,
    (_T.SASL_HEADER, Step.RECEIVE_HEADER): _T.FRAMES,  # a server may take a client without SASL
    (_T.SASL, Step.SEND_OUTCOME): _T.HEADER,
    (_T.SASL, Step.RECEIVE_OUTCOME): _T.HEADER,
    (_T.HEADER, Step.RECEIVE_HEADER): _T.FRAMES,
    **{(state, Step.LOSE_TRANSPORT): _T.OVER for state in TransportState if state is not _T.OVER},
}

CONNECTION: Final[dict[tuple[ConnectionState, Step], ConnectionState]] = {
    (_C.START, Step.RECEIVE_HEADER): _C.HDR_RCVD,
    (_C.START, Step.SEND_HEADER): _C.HDR_SENT,
    (_C.HDR_RCVD, Step.SEND_HEADER): _C.HDR_EXCH,
    (_C.HDR_SENT, Step.RECEIVE_HEADER): _C.HDR_EXCH,
    (_C.HDR_SENT, Step.SEND_OPEN): _C.OPEN_PIPE,
    (_C.HDR_EXCH, Step.RECEIVE_OPEN): _C.OPEN_RCVD,
    (_C.HDR_EXCH, Step.SEND_OPEN): _C.OPEN_SENT,
    (_C.OPEN_PIPE, Step.RECEIVE_HEADER): _C.OPEN_SENT,
    (_C.OPEN_PIPE, Step.SEND_CLOSE): _C.OC_PIPE,
    (_C.OC_PIPE, Step.RECEIVE_HEADER): _C.CLOSE_PIPE,
    (_C.OPEN_RCVD, Step.SEND_OPEN): _C.OPENED,
    (_C.OPEN_SENT, Step.RECEIVE_OPEN): _C.OPENED,
    (_C.OPEN_SENT, Step.SEND_CLOSE): _C.CLOSE_PIPE,
    (_C.CLOSE_PIPE, Step.RECEIVE_OPEN): _C.CLOSE_SENT,
    (_C.OPENED, Step.RECEIVE_CLOSE): _C.CLOSE_RCVD,
    (_C.OPENED, Step.SEND_CLOSE): _C.CLOSE_SENT,
    (_C.OPENED, Step.SEND_CLOSE_WITH_ERROR): _C.DISCARDING,
    (_C.CLOSE_RCVD, Step.SEND_CLOSE): _C.END,
    (_C.CLOSE_SENT, Step.RECEIVE_CLOSE): _C.END,
    (_C.DISCARDING, Step.RECEIVE_CLOSE): _C.END,
}
# §2.4.6 has no step for this.
TRANSPORT_LOST: Final = {(state, Step.LOSE_TRANSPORT): _C.END for state in ConnectionState}

SESSION: Final[dict[tuple[SessionState, Step], SessionState]] = {
    (_S.UNMAPPED, Step.SEND_BEGIN): _S.BEGIN_SENT,
    (_S.UNMAPPED, Step.RECEIVE_BEGIN): _S.BEGIN_RCVD,
    (_S.BEGIN_SENT, Step.RECEIVE_BEGIN): _S.MAPPED,
    (_S.BEGIN_RCVD, Step.SEND_BEGIN): _S.MAPPED,
    (_S.MAPPED, Step.SEND_END): _S.END_SENT,
    (_S.MAPPED, Step.SEND_END_WITH_ERROR): _S.DISCARDING,
    (_S.MAPPED, Step.RECEIVE_END): _S.END_RCVD,
    (_S.END_SENT, Step.RECEIVE_END): _S.UNMAPPED,
    (_S.END_RCVD, Step.SEND_END): _S.UNMAPPED,
    (_S.DISCARDING, Step.RECEIVE_END): _S.UNMAPPED,
}
# §2.5.5 has no steps for these.
SESSION_ENDS: Final[dict[tuple[SessionState, Step], SessionState]] = {
    **{(state, Step.SEND_CLOSE): _S.CLOSING for state in (_S.BEGIN_SENT, _S.BEGIN_RCVD, _S.MAPPED)},
    (_S.CLOSING, Step.SEND_BEGIN): _S.CLOSING,  # the owner's answer, too late to be sent
    (_S.CLOSING, Step.RECEIVE_END): _S.CLOSING,
    (_S.OVER, Step.RECEIVE_END): _S.OVER,  # we ended it for a fault of the peer, which the owner was told then
    **{(state, Step.FINISH): _S.OVER for state in SessionState if state is not _S.OVER},
}

LINK: Final[dict[tuple[LinkState, Step], LinkState]] = {
    (_L.DETACHED, Step.SEND_ATTACH): _L.ATTACH_SENT,
    (_L.DETACHED, Step.RECEIVE_ATTACH): _L.ATTACH_RCVD,
    (_L.ATTACH_SENT, Step.RECEIVE_ATTACH): _L.ATTACHED,
    (_L.ATTACH_SENT, Step.SEND_DETACH): _L.DETACH_PIPE,
    (_L.ATTACH_RCVD, Step.SEND_ATTACH): _L.ATTACHED,
    (_L.ATTACH_RCVD, Step.RECEIVE_DETACH): _L.DETACH_OWED,
    (_L.DETACH_OWED, Step.SEND_ATTACH): _L.DETACH_RCVD,
    (_L.DETACH_PIPE, Step.RECEIVE_ATTACH): _L.DETACH_SENT,
    (_L.ATTACHED, Step.SEND_DETACH): _L.DETACH_SENT,
    (_L.ATTACHED, Step.RECEIVE_DETACH): _L.DETACH_RCVD,
    (_L.DETACH_SENT, Step.RECEIVE_DETACH): _L.ENDED,
    (_L.DETACH_RCVD, Step.SEND_DETACH): _L.ENDED,
}
# §2.6 has no steps for these.
LINK_ENDS: Final[dict[tuple[LinkState, Step], LinkState]] = {
    (_L.OVER, Step.RECEIVE_DETACH): _L.OVER,  # we detached it for a fault of the peer, which the owner was told then
    **{(state, Step.END_LINK): _L.OVER for state in LinkState if state is not _L.OVER},
}

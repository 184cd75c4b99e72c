"""The state machines of connections (0-10 §9.1), sessions (§9.2) and links, as tables (`amqp10._machine`).

0-10 has no links: a link is a destination of messages, and what this side knows of it.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ..._machine import HAPPENED, RECEIVED, SENT
from ..._machine import Step as AnyStep


class Step(AnyStep):
    """What moves connections, sessions and links on: the protocol header, a control or a command."""

    START = HAPPENED, "call of start()"
    RECEIVE_HEADER = RECEIVED, "header"
    RECEIVE_OPEN = RECEIVED, "connection.open"
    SEND_OPEN_OK = SENT, "connection.open-ok"
    RECEIVE_OPEN_OK = RECEIVED, "connection.open-ok"
    SEND_CLOSE = SENT, "connection.close"
    END = HAPPENED, "end of the transport, or of its use"
    SEND_ATTACH = SENT, "session.attach"
    RECEIVE_ATTACH = RECEIVED, "session.attach"
    RECEIVE_ATTACHED = RECEIVED, "session.attached"
    RECEIVE_EXPECTED = RECEIVED, "session.expected"
    SEND_DETACH = SENT, "session.detach"
    BEGIN = HAPPENED, "call of begin() on a server"
    LOSE_TRANSPORT = HAPPENED, "loss of the transport"
    FINISH = HAPPENED, "end of the session, or of its connection"
    ATTACH = HAPPENED, "the node was found, or the owner has answered"
    CANCEL = RECEIVED, "message.cancel"
    DETACH = HAPPENED, "call of detach()"
    END_LINK = HAPPENED, "end of the link, or of its session"


class ConnectionState(Enum):
    """Where a connection is: what the next bytes from the peer should be."""

    IDLE = "nothing yet: start() was not called"
    HEADER = "the peer's protocol header"
    OPENING = "the controls that open a connection"
    OPEN_RCVD = "nothing before the answer to connection.open"
    OPEN = "frames of sessions"
    CLOSING = "the answer to our close"
    OVER = "nothing more is read"


class SessionState(Enum):
    """Where a session is."""

    DETACHED = "no session.attach yet"
    ATTACH_SENT = "our session.attach is out"
    ATTACH_RCVD = "the peer's session.attach is here, the owner has not begun the session"
    ATTACHED = "commands"
    SUSPENDED = "the transport is lost: commands wait for another one"
    REATTACH_SENT = "our session.attach for another transport is out"
    RESUMING = "attached to another transport: which commands the peer is missing is to come"
    DETACH_PIPE = "our session.attach is out, session.detach is to follow"
    DETACH_SENT = "our session.detach is out: commands are dropped"
    CLOSING = "the connection closes: nothing more is sent"
    OVER = "the owner knows that the session is over"


class LinkState(Enum):
    """Where a link is."""

    ATTACHING = "the node is to be found, or the owner is to answer"
    ATTACHED = "messages"
    CANCELLED = "the client has canceled the subscription: outcomes are to come"
    DETACHING = "what ends the link at the peer is out"
    OVER = "the owner knows that the link is over"


_C, _S, _L = ConnectionState, SessionState, LinkState

CONNECTION: Final[dict[tuple[ConnectionState, Step], ConnectionState]] = {
    (_C.IDLE, Step.START): _C.HEADER,
    (_C.HEADER, Step.RECEIVE_HEADER): _C.OPENING,
    (_C.OPENING, Step.RECEIVE_OPEN): _C.OPEN_RCVD,
    (_C.OPENING, Step.RECEIVE_OPEN_OK): _C.OPEN,
    (_C.OPEN_RCVD, Step.SEND_OPEN_OK): _C.OPEN,
    (_C.OPEN_RCVD, Step.SEND_CLOSE): _C.CLOSING,
    (_C.OPEN, Step.SEND_CLOSE): _C.CLOSING,
    **{(state, Step.END): _C.OVER for state in ConnectionState if state is not _C.OVER},
}

SESSION: Final[dict[tuple[SessionState, Step], SessionState]] = {
    (_S.DETACHED, Step.SEND_ATTACH): _S.ATTACH_SENT,
    (_S.DETACHED, Step.RECEIVE_ATTACH): _S.ATTACH_RCVD,
    (_S.ATTACH_SENT, Step.RECEIVE_ATTACHED): _S.ATTACHED,
    (_S.ATTACH_RCVD, Step.BEGIN): _S.ATTACHED,
    (_S.ATTACH_SENT, Step.SEND_DETACH): _S.DETACH_PIPE,
    (_S.REATTACH_SENT, Step.SEND_DETACH): _S.DETACH_PIPE,
    (_S.DETACH_PIPE, Step.RECEIVE_ATTACHED): _S.DETACH_SENT,
    (_S.SUSPENDED, Step.SEND_ATTACH): _S.REATTACH_SENT,
    (_S.SUSPENDED, Step.RECEIVE_ATTACH): _S.RESUMING,
    (_S.REATTACH_SENT, Step.RECEIVE_ATTACHED): _S.RESUMING,
    (_S.RESUMING, Step.RECEIVE_EXPECTED): _S.ATTACHED,
    **{(state, Step.SEND_DETACH): _S.DETACH_SENT for state in (_S.ATTACH_RCVD, _S.ATTACHED, _S.RESUMING)},
    **{(state, Step.SEND_CLOSE): _S.CLOSING for state in SessionState if state is not _S.OVER},
    **{(state, Step.LOSE_TRANSPORT): _S.SUSPENDED for state in (_S.ATTACHED, _S.REATTACH_SENT, _S.RESUMING)},
    **{(state, Step.FINISH): _S.OVER for state in SessionState if state is not _S.OVER},
}

LINK: Final[dict[tuple[LinkState, Step], LinkState]] = {
    (_L.ATTACHING, Step.ATTACH): _L.ATTACHED,
    (_L.ATTACHED, Step.CANCEL): _L.CANCELLED,
    (_L.DETACHING, Step.ATTACH): _L.DETACHING,  # found too late: what ends the link follows
    **{(state, Step.DETACH): _L.DETACHING for state in (_L.ATTACHING, _L.ATTACHED, _L.CANCELLED)},
    **{(state, Step.END_LINK): _L.OVER for state in LinkState if state is not _L.OVER},
}

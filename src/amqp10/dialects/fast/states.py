"""The state machines of connections, sessions, channels, handles and links, as tables (`amqp10._machine`).

A session is a channel: a server's session has its states, a client's has a `ClientChannel` of its own. A link is what
one side does with a handle.

client  IDLE > LOGIN > TUNED > OPEN_SENT > OPENED > CLOSING > OVER
server  IDLE > INITIATION > LOGIN > TUNE > OPENING > OPEN_RCVD > OPENED > CLOSING > OVER
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ..._machine import HAPPENED, RECEIVED, SENT
from ..._machine import Step as AnyStep


class Step(AnyStep):
    """What moves the machines on: the first two octets or a command."""

    START = HAPPENED, "call of start() on a server"
    SEND_INITIATION = SENT, "initiation"
    RECEIVE_INITIATION = RECEIVED, "initiation"
    SEND_TUNE = SENT, "connection-tune"
    RECEIVE_TUNE = RECEIVED, "connection-tune"
    SEND_OPEN = SENT, "connection-open"
    RECEIVE_OPEN = RECEIVED, "connection-open"
    SEND_REPLY = SENT, "connection-reply"
    RECEIVE_REPLY = RECEIVED, "connection-reply"
    SEND_CLOSE = SENT, "connection-close"
    END = HAPPENED, "end of the transport, or of its use"
    SEND_CHANNEL_OPEN = SENT, "channel-open"
    RECEIVE_CHANNEL_OPEN = RECEIVED, "channel-open"
    RECEIVE_CHANNEL_REPLY = RECEIVED, "channel-reply"
    SEND_CHANNEL_CLOSE = SENT, "channel-close"
    RECEIVE_CHANNEL_CLOSE = RECEIVED, "channel-close"
    SEND_HANDLE_CLOSE = SENT, "handle-close"
    RECEIVE_HANDLE_CLOSE = RECEIVED, "handle-close, or channel-close"
    BEGIN = HAPPENED, "call of begin() on a server"
    FINISH = HAPPENED, "end of the channel, or of its connection"
    ATTACH = HAPPENED, "the peer has confirmed the handle, or the owner has answered"
    DETACH = SENT, "close of the handle, of its channel or of the connection"
    LEAVE = RECEIVED, "handle-close, where the server receives"
    END_LINK = HAPPENED, "end of the link, or of its session"


class ConnectionState(Enum):
    """Where a connection is: what the next bytes from the peer are."""

    IDLE = "nothing yet: start() was not called"
    INITIATION = "the peer's first two octets"
    LOGIN = "challenge and response"
    TUNE = "the peer's limits"
    TUNED = "nothing before our connection-open"
    OPENING = "connection-open"
    OPEN_SENT = "the reply to our connection-open"
    OPEN_RCVD = "nothing before our reply to connection-open"
    OPENED = "commands"
    CLOSING = "the answer to our close"
    OVER = "nothing more is read"


class SessionState(Enum):
    """Where a session is."""

    UNOPENED = "no channel-open yet"
    OPEN_SENT = "our channel-open is out"
    OPEN_RCVD = "the client's channel-open is here, the owner has not begun the session"
    OPENED = "commands"
    CLOSE_SENT = "our channel-close is out: what still comes is dropped"
    CLOSE_RCVD = "the client's channel-close is here: ours follows the outcomes of what came before"
    CLOSING = "the connection closes: nothing more is sent"
    OVER = "the owner knows that the session is over"


class HandleState(Enum):
    """Where a handle is, or a client's channel."""

    OPEN = "open, or being opened"
    CLOSE_SENT = "our close is out: what still comes is dropped"
    CLOSE_RCVD = "the peer's close is here, ours is to follow"
    CLOSED = "closed by both sides"


class LinkState(Enum):
    """Where a link is."""

    ATTACHING = "the handle is to be confirmed"
    ATTACHED = "messages"
    DETACHING = "our close is out"
    CLIENT_CLOSED = "the client has closed the handle: outcomes may still be sent"
    OVER = "the owner knows that the link is over"


_C, _S, _H, _L = ConnectionState, SessionState, HandleState, LinkState
OPEN: Final = frozenset({_C.OPEN_SENT, _C.OPEN_RCVD, _C.OPENED})
"""States in which both sides have agreed on limits, and commands may be sent."""

CONNECTION: Final[dict[tuple[ConnectionState, Step], ConnectionState]] = {
    (_C.IDLE, Step.START): _C.INITIATION,
    (_C.IDLE, Step.SEND_INITIATION): _C.LOGIN,
    (_C.INITIATION, Step.RECEIVE_INITIATION): _C.LOGIN,
    (_C.LOGIN, Step.SEND_TUNE): _C.TUNE,
    (_C.LOGIN, Step.RECEIVE_TUNE): _C.TUNED,
    (_C.TUNE, Step.RECEIVE_TUNE): _C.OPENING,
    (_C.TUNED, Step.SEND_OPEN): _C.OPEN_SENT,
    (_C.OPENING, Step.RECEIVE_OPEN): _C.OPEN_RCVD,
    (_C.OPEN_SENT, Step.RECEIVE_REPLY): _C.OPENED,
    (_C.OPEN_RCVD, Step.SEND_REPLY): _C.OPENED,
    **{(state, Step.SEND_CLOSE): _C.CLOSING for state in (_C.LOGIN, _C.TUNE, _C.TUNED, _C.OPENING, *OPEN)},
    **{(state, Step.END): _C.OVER for state in ConnectionState if state is not _C.OVER},
}

SESSION: Final[dict[tuple[SessionState, Step], SessionState]] = {
    (_S.UNOPENED, Step.SEND_CHANNEL_OPEN): _S.OPEN_SENT,
    (_S.UNOPENED, Step.RECEIVE_CHANNEL_OPEN): _S.OPEN_RCVD,
    (_S.OPEN_SENT, Step.RECEIVE_CHANNEL_REPLY): _S.OPENED,
    (_S.CLOSE_SENT, Step.RECEIVE_CHANNEL_REPLY): _S.CLOSE_SENT,
    (_S.OPEN_RCVD, Step.BEGIN): _S.OPENED,
    **{(state, Step.SEND_CHANNEL_CLOSE): _S.CLOSE_SENT for state in (_S.OPEN_SENT, _S.OPEN_RCVD, _S.OPENED)},
    **{(state, Step.RECEIVE_CHANNEL_CLOSE): _S.CLOSE_RCVD for state in (_S.OPEN_RCVD, _S.OPENED)},
    (_S.CLOSE_SENT, Step.RECEIVE_CHANNEL_CLOSE): _S.OVER,
    (_S.CLOSE_RCVD, Step.SEND_CHANNEL_CLOSE): _S.OVER,
    **{(state, Step.SEND_CLOSE): _S.CLOSING for state in (_S.OPEN_SENT, _S.OPEN_RCVD, _S.OPENED, _S.CLOSE_SENT)},
    (_S.CLOSE_RCVD, Step.SEND_CLOSE): _S.OVER,
    **{(state, Step.FINISH): _S.OVER for state in SessionState},
}

CHANNEL: Final[dict[tuple[HandleState, Step], HandleState]] = {
    (_H.OPEN, Step.SEND_CHANNEL_CLOSE): _H.CLOSE_SENT,
    (_H.OPEN, Step.RECEIVE_CHANNEL_CLOSE): _H.CLOSE_RCVD,
    (_H.CLOSE_SENT, Step.RECEIVE_CHANNEL_CLOSE): _H.CLOSED,
    (_H.CLOSE_RCVD, Step.SEND_CHANNEL_CLOSE): _H.CLOSED,
}

HANDLE: Final[dict[tuple[HandleState, Step], HandleState]] = {
    (_H.OPEN, Step.SEND_HANDLE_CLOSE): _H.CLOSE_SENT,
    (_H.OPEN, Step.RECEIVE_HANDLE_CLOSE): _H.CLOSE_RCVD,
    (_H.CLOSE_SENT, Step.RECEIVE_HANDLE_CLOSE): _H.CLOSED,
    (_H.CLOSE_RCVD, Step.SEND_HANDLE_CLOSE): _H.CLOSED,
    **{(state, Step.FINISH): _H.CLOSED for state in HandleState},
}

LINK: Final[dict[tuple[LinkState, Step], LinkState]] = {
    (_L.ATTACHING, Step.ATTACH): _L.ATTACHED,
    (_L.DETACHING, Step.ATTACH): _L.DETACHING,  # the answer comes too late
    (_L.ATTACHING, Step.DETACH): _L.DETACHING,
    (_L.ATTACHED, Step.DETACH): _L.DETACHING,
    (_L.ATTACHED, Step.LEAVE): _L.CLIENT_CLOSED,
    **{(state, Step.END_LINK): _L.OVER for state in LinkState},
}

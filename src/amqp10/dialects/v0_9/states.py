"""The state machines of connections, channels and consumers (0-9-1 §1.4, §1.5, §1.8), sessions and links, as tables.

0-9-1 has neither sessions nor links. A session is on a client a group of channels, on a server one channel. A link is
on a client a channel, and what this side knows of it; on a server it stands for a consumer, for all publishes of a
channel, or for its transactions. See `amqp10._machine`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ..._machine import HAPPENED, RECEIVED, SENT
from ..._machine import Step as AnyStep


class Step(AnyStep):
    """What moves connections, channels, sessions, consumers and links on: the protocol header or a method."""

    START = HAPPENED, "call of start() on a server"
    SEND_HEADER = SENT, "header"
    RECEIVE_HEADER = RECEIVED, "header"
    SEND_START = SENT, "start"
    RECEIVE_START = RECEIVED, "start"
    SEND_START_OK = SENT, "start-ok"
    RECEIVE_START_OK = RECEIVED, "start-ok"
    RECEIVE_SECURE = RECEIVED, "secure"
    RECEIVE_SECURE_OK = RECEIVED, "secure-ok"
    SEND_TUNE = SENT, "tune"
    RECEIVE_TUNE = RECEIVED, "tune"
    SEND_TUNE_OK = SENT, "tune-ok"
    RECEIVE_TUNE_OK = RECEIVED, "tune-ok"
    SEND_OPEN = SENT, "open"
    RECEIVE_OPEN = RECEIVED, "open"
    SEND_OPEN_OK = SENT, "open-ok"
    RECEIVE_OPEN_OK = RECEIVED, "open-ok"
    SEND_CHANNEL_OPEN = SENT, "channel.open"
    RECEIVE_CHANNEL_OPEN = RECEIVED, "channel.open"
    SEND_CLOSE = SENT, "close"
    RECEIVE_CLOSE = RECEIVED, "close"
    RECEIVE_CLOSE_OK = RECEIVED, "close-ok"
    SEND_CONSUME = SENT, "consume"
    RECEIVE_CONSUME_OK = RECEIVED, "consume-ok"
    SEND_CANCEL = SENT, "cancel"
    RECEIVE_CANCEL_OK = RECEIVED, "cancel-ok"
    END = HAPPENED, "end of the transport, or of its use"
    BEGIN = HAPPENED, "call of begin()"
    END_SESSION = HAPPENED, "call of end(), or our close of a server's channel"
    FINISH = HAPPENED, "end of its channels, or of the connection"
    ATTACH = HAPPENED, "the node was found, or the owner has answered"
    CANCEL = HAPPENED, "cancel of a server's consumer, or the answer to a get"
    DETACH = SENT, "channel.close"
    END_LINK = HAPPENED, "end of the link, or of its channel"


class ConnectionState(Enum):
    """Where a connection is."""

    IDLE = "start() was not called"
    HEADER = "the client's header is to come"
    START = "the header is exchanged: start is next"
    START_SENT = "our start is out, start-ok is to come"
    START_RCVD = "the server's start is here, the login is being chosen"
    LOGIN = "start-ok was sent: the login goes on until tune"
    TUNE_SENT = "our tune is out, tune-ok is to come"
    TUNE_RCVD = "the server's tune is here, the limits are being agreed"
    TUNED = "the limits are agreed: open is next"
    OPEN_SENT = "our open is out, open-ok is to come"
    OPEN_RCVD = "the client's open is here, the owner is to answer"
    OPENED = "open"
    CLOSING = "our close is out: everything but the answer is dropped"
    OVER = "nothing more is read"


class ChannelState(Enum):
    """Where a channel is."""

    CLOSED = "closed, or not opened yet"
    OPEN = "open, or being opened"
    CLOSING = "our close is out: everything but the answer is dropped"


class SessionState(Enum):
    """Where a session is."""

    BEGINNING = "the owner is to answer"
    BEGUN = "begun"
    ENDING = "its channels are being closed"
    OVER = "the owner knows that the session is over"


class ConsumerState(Enum):
    """Where a client's consumer is."""

    NONE = "there is no consumer"
    STARTING = "our consume is out, consume-ok is to come"
    CONSUMING = "deliveries come"
    CANCELLING = "our cancel is out, cancel-ok is to come"


class LinkState(Enum):
    """Where a link is."""

    ATTACHING = "the node is to be found, or the owner is to answer"
    ATTACHED = "messages"
    CANCELLED = "nothing more is sent to the client: acks are to come"
    DETACHING = "what ends the link at the peer is out"
    OVER = "the owner knows that the link is over"


_C, _H, _S, _R, _L = ConnectionState, ChannelState, SessionState, ConsumerState, LinkState

CONNECTION: Final[dict[tuple[ConnectionState, Step], ConnectionState]] = {
    (_C.IDLE, Step.START): _C.HEADER,
    (_C.IDLE, Step.SEND_HEADER): _C.START,
    (_C.HEADER, Step.RECEIVE_HEADER): _C.START,
    (_C.START, Step.SEND_START): _C.START_SENT,
    (_C.START, Step.RECEIVE_START): _C.START_RCVD,
    (_C.START_SENT, Step.RECEIVE_START_OK): _C.LOGIN,
    (_C.START_RCVD, Step.SEND_START_OK): _C.LOGIN,
    (_C.LOGIN, Step.RECEIVE_SECURE): _C.LOGIN,
    (_C.LOGIN, Step.RECEIVE_SECURE_OK): _C.LOGIN,
    (_C.LOGIN, Step.SEND_TUNE): _C.TUNE_SENT,
    (_C.LOGIN, Step.RECEIVE_TUNE): _C.TUNE_RCVD,
    (_C.TUNE_SENT, Step.RECEIVE_TUNE_OK): _C.TUNED,
    (_C.TUNE_RCVD, Step.SEND_TUNE_OK): _C.TUNED,
    (_C.TUNED, Step.SEND_OPEN): _C.OPEN_SENT,
    (_C.TUNED, Step.RECEIVE_OPEN): _C.OPEN_RCVD,
    (_C.OPEN_SENT, Step.RECEIVE_OPEN_OK): _C.OPENED,
    (_C.OPEN_RCVD, Step.SEND_OPEN_OK): _C.OPENED,
    # Not before the peer has heard which protocol and login this side speaks.
    **{
        (state, Step.SEND_CLOSE): _C.CLOSING
        for state in (_C.START_SENT, _C.LOGIN, _C.TUNE_SENT, _C.TUNE_RCVD, _C.TUNED, _C.OPEN_SENT, _C.OPEN_RCVD)
    },
    (_C.OPENED, Step.SEND_CLOSE): _C.CLOSING,
    **{(state, Step.END): _C.OVER for state in ConnectionState if state is not _C.OVER},
}

CHANNEL: Final[dict[tuple[ChannelState, Step], ChannelState]] = {
    (_H.CLOSED, Step.SEND_CHANNEL_OPEN): _H.OPEN,
    (_H.CLOSED, Step.RECEIVE_CHANNEL_OPEN): _H.OPEN,
    (_H.OPEN, Step.SEND_CLOSE): _H.CLOSING,
    (_H.OPEN, Step.RECEIVE_CLOSE): _H.CLOSED,
    (_H.CLOSING, Step.RECEIVE_CLOSE): _H.CLOSING,  # both closed at once: the answer to ours is still to come
    (_H.CLOSING, Step.RECEIVE_CLOSE_OK): _H.CLOSED,
}

SESSION: Final[dict[tuple[SessionState, Step], SessionState]] = {
    (_S.BEGINNING, Step.BEGIN): _S.BEGUN,
    **{(state, Step.END_SESSION): _S.ENDING for state in (_S.BEGINNING, _S.BEGUN)},
    (_S.OVER, Step.END_SESSION): _S.OVER,  # the connection ended first: the owner has yet to hear of it
    **{(state, Step.FINISH): _S.OVER for state in SessionState if state is not _S.OVER},
}

CONSUMER: Final[dict[tuple[ConsumerState, Step], ConsumerState]] = {
    (_R.NONE, Step.SEND_CONSUME): _R.STARTING,
    (_R.STARTING, Step.RECEIVE_CONSUME_OK): _R.CONSUMING,
    (_R.CONSUMING, Step.SEND_CANCEL): _R.CANCELLING,
    (_R.CANCELLING, Step.RECEIVE_CANCEL_OK): _R.NONE,
}

LINK: Final[dict[tuple[LinkState, Step], LinkState]] = {
    (_L.ATTACHING, Step.ATTACH): _L.ATTACHED,
    **{(state, Step.CANCEL): _L.CANCELLED for state in (_L.ATTACHING, _L.ATTACHED)},
    **{(state, Step.DETACH): _L.DETACHING for state in (_L.ATTACHING, _L.ATTACHED)},
    (_L.OVER, Step.DETACH): _L.OVER,  # the connection ended first
    **{(state, Step.END_LINK): _L.OVER for state in LinkState if state is not _L.OVER},
}

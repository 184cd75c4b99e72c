"""Channel 0: what a client's and a server's side of the connection share (0-9-1 §2.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..._version import __version__
from ...engine import Dispatcher, Handlers
from ...errors import AmqpError, ConnectionClosed
from .._kit.causes import as_exception, end_cause
from .codes import Fault, as_error
from .states import Step
from .wire.methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)

if TYPE_CHECKING:
    from ...engine import Session, SessionTerms
    from .parents import ConnectionSession, Wire
    from .wire.method_table import Method


OWN_PRODUCT: Final[Mapping[str, str]] = {"product": "amqp10", "version": __version__, "platform": "Python"}
"""What either side says of its program."""
NO_STEPS: Final[tuple[Step | None, Step | None]] = (None, None)


class Connection(Dispatcher, ABC):
    """The base of channel 0, for either role.

    Attributes:
        sessions: all sessions that are not over.
        steps: type of a method that the connection's table has -> its step when it is sent, and when it is received.
    """

    handlers: ClassVar[Handlers] = {
        ConnectionClose: "receive_close",
        ConnectionCloseOk: "receive_close_ok",
    }

    steps: Final[Mapping[type[Method], tuple[Step | None, Step]]] = {
        ConnectionStart: (Step.SEND_START, Step.RECEIVE_START),
        ConnectionStartOk: (Step.SEND_START_OK, Step.RECEIVE_START_OK),
        ConnectionSecure: (None, Step.RECEIVE_SECURE),
        ConnectionSecureOk: (None, Step.RECEIVE_SECURE_OK),
        ConnectionTune: (Step.SEND_TUNE, Step.RECEIVE_TUNE),
        ConnectionTuneOk: (Step.SEND_TUNE_OK, Step.RECEIVE_TUNE_OK),
        ConnectionOpen: (Step.SEND_OPEN, Step.RECEIVE_OPEN),
        ConnectionOpenOk: (Step.SEND_OPEN_OK, Step.RECEIVE_OPEN_OK),
    }

    sessions: Sequence[ConnectionSession]

    def __init__(self, engine: Wire) -> None:
        self.engine = engine

    @abstractmethod
    def started(self) -> None:
        """Go on after the protocol header, which was sent or has come."""

    @abstractmethod
    def open(self) -> None:
        """Go on with the terms that the owner has set for this side."""

    def block(self, whose: str, reason: str | None) -> None:  # what only servers say
        """Note the reason of `whose` for which no messages are taken at present; None if that reason is gone."""

    def read_ahead(self, *, far: bool) -> None:  # what only servers do
        """See `Engine.read_ahead`."""

    def write(self, method: Method) -> None:
        step, _ = self.steps.get(type(method), NO_STEPS)
        if step is not None:
            self.engine.advance(step)
        self.engine.write_method(0, method)

    def receive(self, method: Method) -> None:
        handler = self.by_type.get(type(method))
        _, step = self.steps.get(type(method), NO_STEPS)
        if handler is None or (step is not None and not self.engine.may(step)):
            raise Fault(503, f"{method.name}, which is not expected here", method.code)
        if step is not None:
            self.engine.advance(step)
        handler(self, method)

    # Channels

    @abstractmethod
    def begin(self, terms: SessionTerms | None) -> Session:
        """Begin a session."""

    @abstractmethod
    def unknown_channel(self, number: int, kind: int, payload: bytes) -> None:
        """Take a frame on a channel that is not open."""

    # The end

    def receive_close(self, method: ConnectionClose) -> None:
        # A channel may wait for the owner's answer, and have publishes behind it.
        self.engine.when_handled(partial(self._close, method))

    def _close(self, method: ConnectionClose) -> None:
        self.engine.write_last(ConnectionCloseOk())
        self.engine.finish(self.cause_of(method))

    def cause_of(self, method: ConnectionClose) -> AmqpError | None:
        """Return the error with which the peer closed; None if this side had closed, too."""
        if method.reply_code in (0, 200):
            return end_cause(ConnectionClosed, None, asked=self.engine.closing)
        error = as_error(method.reply_code, method.reply_text, method.class_id, method.method_id)
        return as_exception(ConnectionClosed, error)

    def receive_close_ok(self, method: ConnectionCloseOk) -> None:
        if not self.engine.closing:
            raise Fault(503, "connection.close-ok without connection.close", method.code)
        self.engine.finish(None)

    def over(self, error: AmqpError | None) -> None:
        """End all sessions, because the connection is over."""
        for session in self.sessions:
            session.over(error)
        self.sessions = []

    def forget(self, session: ConnectionSession) -> None:
        """Forget a session that is over."""
        self.sessions = [each for each in self.sessions if each is not session]


def capabilities_of(properties: Mapping[str, Any]) -> frozenset[str]:
    """Return what the peer can do by its properties: a table of flags; or names, where tables have no flags."""
    named = properties.get("capabilities")
    if isinstance(named, dict):
        return frozenset(name for name, can in named.items() if can is True)
    return frozenset(named.split()) if isinstance(named, str) else frozenset()


def agreed(theirs: int, ours: int) -> int:
    """Return the lower of two limits; 0 means no limit."""
    return min(theirs, ours) if theirs and ours else max(theirs, ours)

"""Channel 0: what a client's and a server's side of the connection share (0-9-1 §2.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import AmqpError, ConnectionClosed
from ._codes import Fault, as_error, as_exception
from ._methods import ConnectionClose, ConnectionCloseOk

if TYPE_CHECKING:
    from ...engine import Session, SessionTerms
    from ._engine import V09Engine
    from ._method import Method

MAX_ROUNDS = 10
"""Challenges in one login; no mechanism needs more than three."""


class Connection(ABC):
    """What is said on channel 0, and by its role.

    Attributes:
        sessions: all that are not over.
    """

    handlers: ClassVar[dict[type[Method], str]] = {
        ConnectionClose: "receive_close",
        ConnectionCloseOk: "receive_close_ok",
    }

    def __init__(self, engine: V09Engine) -> None:
        self.engine = engine
        self.sessions: list[Any] = []

    @property
    @abstractmethod
    def may_close(self) -> bool:
        """The state of the handshake allows a close."""

    @abstractmethod
    def started(self) -> None:
        """The protocol header is here, or out."""

    @abstractmethod
    def open(self) -> None:
        """The owner has said all that there is to be said of this side."""

    def block(self, whose: str, reason: str | None) -> None:  # noqa: B027  # what only servers say
        """Somebody has a reason to take no messages at present, or has none any more."""

    def write(self, method: Method) -> None:
        self.engine.write_method(0, method)

    def receive(self, method: Method) -> None:
        name = self.handlers.get(type(method))
        if name is None:
            raise Fault(503, f"{method.name}, which is not expected here", method.code)
        getattr(self, name)(method)

    # Channels

    @abstractmethod
    def begin(self, terms: SessionTerms | None) -> Session:
        """Begin a session."""

    @abstractmethod
    def unknown_channel(self, number: int, kind: int, payload: bytes) -> None:
        """A frame on a channel that is not open."""

    # The end

    def receive_close(self, method: ConnectionClose) -> None:
        self.engine.write_last(ConnectionCloseOk())
        self.engine.finish(self.cause_of(method))

    def cause_of(self, method: ConnectionClose) -> AmqpError | None:
        """Why the peer closes; None: this side does, too."""
        if method.reply_code in (0, 200):
            return ConnectionClosed() if not self.engine.closing else None
        error = as_error(method.reply_code, method.reply_text, method.class_id, method.method_id)
        return as_exception(ConnectionClosed, error)

    def receive_close_ok(self, method: ConnectionCloseOk) -> None:
        if not self.engine.closing:
            raise Fault(503, "connection.close-ok, and nobody closed", method.code)
        self.engine.finish(None)

    def over(self, error: AmqpError | None) -> None:
        """The connection is over, and all sessions with it."""
        for session in self.sessions:
            session.over(error)
        self.sessions.clear()

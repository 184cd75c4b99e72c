"""What channels and links of a client use of the session and the connection that they are on."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from ..engine import FastEngine
from ..session import SessionEndpoint

if TYPE_CHECKING:
    from .send_window import SendWindow


class ConnectionCore(FastEngine):
    """A client's engine, as its sessions see it.

    Attributes:
        channels, handles: those that are not closed by both sides, by number.
        transactions: those that are not discharged, by their ids.
        restart_names: the names under which the server is to keep the received parts of messages.
        send_window: the count of octets that are sent and not confirmed by the server yet.
        handle_max: the highest handle that the server takes.
        partial: octets of incomplete messages that came.
    """

    channels: dict[int, Any]
    handles: dict[int, Any]
    transactions: dict[bytes, Any]
    restart_names: set[str]
    send_window: SendWindow
    handle_max: int
    partial: int

    @abstractmethod
    def free_channel(self) -> int:
        """Return a number for another channel.

        Raises:
            LocalProtocolError: all are in use.
        """

    @abstractmethod
    def free_handle(self) -> int:
        """Return a number for another handle.

        Raises:
            LocalProtocolError: all are in use.
        """

    @abstractmethod
    def unread(self, octets: int) -> None:
        """Count octets that wait to be read by the owner; a negative number for those that no longer wait."""

    @abstractmethod
    def forget(self, session: Any) -> None:
        """Forget a session that is over."""


class SessionCore(SessionEndpoint):
    """A client's session, as its links see it."""

    engine: ConnectionCore

    @abstractmethod
    def give_id(self) -> int:
        """Return the number of the next delivery."""

"""The transport of a peer, as the peer sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ...messaging import Error


class PeerTransport(ABC):
    """Carries a peer's bytes; this is what the peer knows of it."""

    @abstractmethod
    def wake(self) -> None:
        """Write the engine's output soon; called when another peer's doings made some. Cheap."""

    @abstractmethod
    def blocked(self) -> bool:
        """Return whether the output is full now; asked before each message. If so, `Peer.resume` is called in time."""

    @abstractmethod
    def opened(self) -> Error | None:
        """Admit the peer, which has opened; return why it is refused, or None."""

    @abstractmethod
    def ended(self) -> None:
        """Remove the connection, which is over; may be called twice."""


class Disconnected(PeerTransport):
    """In the place of a connection that was lost, while its sessions are kept."""

    def wake(self) -> None:
        """Do nothing: there is nobody to write to."""

    def blocked(self) -> bool:
        return True

    def opened(self) -> Error | None:
        return None

    def ended(self) -> None:
        """Do nothing: the connection is gone already."""

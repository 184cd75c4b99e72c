"""The transport of a peer, as the peer sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ...messaging import Error


class PeerTransport(ABC):
    """Carries the bytes of a peer, as the peer sees it."""

    @abstractmethod
    def wake(self) -> None:
        """Write the engine's output soon; also called when another peer caused it. Cheap."""

    @abstractmethod
    def blocked(self) -> bool:
        """Return whether the output is full, so that `Peer.resume` will be called; asked before each message."""

    @abstractmethod
    def opened(self) -> Error | None:
        """Admit the peer, which has opened; return the error that refuses it, or None."""

    @abstractmethod
    def ended(self) -> None:
        """Remove the connection, which has ended; may be called twice."""


class Disconnected(PeerTransport):
    """Stands in for a lost connection whose sessions are kept."""

    def wake(self) -> None:
        """Do nothing, because there is no connection."""

    def blocked(self) -> bool:
        return True

    def opened(self) -> Error | None:
        return None

    def ended(self) -> None:
        """Do nothing, because the connection is gone already."""

"""The transport of a peer, as the peer sees it."""

from __future__ import annotations

from typing import Protocol

from ...messaging import Error


class PeerTransport(Protocol):
    """Carries the bytes of a peer, as the peer sees it."""

    def wake(self) -> None:
        """Write the engine's output soon; also called when another peer caused it. Cheap."""

    def blocked(self) -> bool:
        """Return whether the output is full, so that `Peer.resume` will be called; asked before each message."""

    def opened(self) -> Error | None:
        """Admit the peer, which has opened; return the error that refuses it, or None."""

    def ended(self) -> None:
        """Remove the connection, which has ended; may be called twice."""


class Disconnected:
    """Stands in for a lost connection whose sessions are kept."""

    def wake(self) -> None:
        """Do nothing, because there is no connection."""

    def blocked(self) -> bool:
        return True

    def opened(self) -> Error | None:
        return None

    def ended(self) -> None:
        """Do nothing, because the connection is gone already."""

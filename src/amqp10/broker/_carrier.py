"""Who carries a peer's bytes, and what every peer is told at the beginning."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..engine import ConnectionTerms, SessionTerms
from ..messaging import Error
from ._users import EVERYTHING, Rights

if TYPE_CHECKING:
    from ._router import Router


@dataclass(frozen=True, slots=True)
class PeerTerms:
    """What the broker says to every peer: limits of connections, sessions and links.

    Attributes:
        rights_of: what a user may do in a virtual host.
        virtual_hosts: those that are there; None: there is one, and all names mean it.
    """

    connection: ConnectionTerms
    session: SessionTerms
    max_message_size: int | None
    rights_of: Callable[[str | None, str], Rights] = lambda user, virtual_host: EVERYTHING
    virtual_hosts: Mapping[str, Router] | None = None


class Carrier(ABC):
    """Who carries a peer's bytes, seen from the peer."""

    @abstractmethod
    def wake(self) -> None:
        """Write the engine's output soon; called when another peer's doings made some. Cheap."""

    @abstractmethod
    def blocked(self) -> bool:
        """Whether the output is full just now; asked before each message. If so, `Peer.resume` is called in time."""

    @abstractmethod
    def opened(self) -> Error | None:
        """The peer has opened; why it is not taken, or None."""

    @abstractmethod
    def ended(self) -> None:
        """The connection is over; may be said twice."""


class Absent(Carrier):
    """In the place of a connection that was lost, while its sessions are kept."""

    def wake(self) -> None:
        """Nobody writes."""

    def blocked(self) -> bool:
        return True

    def opened(self) -> Error | None:
        return None

    def ended(self) -> None:
        """It has."""

"""What links and the management node need of the connection that they belong to, and what every peer is told.

`LinkTaker` is what all links have in common on which a peer takes messages of a node.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..engine import LinkOwner
from ..types import Symbol
from ._queues.node import Taker
from ._users.users import EVERYTHING, Rights

if TYPE_CHECKING:
    from ..engine import ConnectionTerms, Engine, Link, Request, SenderLink, SessionTerms
    from ..messaging import Error
    from ._limits import Maker
    from ._queues.topic import Owner
    from ._retained.links import LinkJournal
    from ._router import Router
    from ._services import LinkService
    from ._tokens.grants import PeerTokens
    from ._tokens.rules import TokenRules
    from ._transactions.local import LocalTransaction, OpenTransactions

MESSAGE_TOO_LARGE = Symbol("amqp:link:message-size-exceeded")


@dataclass(frozen=True, slots=True)
class PeerTerms:
    """What the broker says to every peer: limits of connections, sessions and links.

    Attributes:
        rights_of: what a user may do in a virtual host.
        virtual_hosts: those that are there; None: there is one, and all names mean it.
        tokens: which tokens count; None: none do.
        service: makes what serves links that do not lead to the broker's own nodes, in the usual virtual host.
    """

    connection: ConnectionTerms
    session: SessionTerms
    max_message_size: int | None
    rights_of: Callable[[str | None, str], Rights] = lambda user, virtual_host: EVERYTHING
    virtual_hosts: Mapping[str, Router] | None = None
    tokens: TokenRules | None = None
    service: Callable[[Peer], LinkService] | None = None


class Peer(ABC):
    """One connection, as its links see it.

    Attributes:
        engine: the connection's engine.
        wake: writes the engine's output soon; cheap.
        number: no other connection of the process has it.
        maker: counts the nodes that the connection makes.
        transactions: those that are not discharged, by their ids.
        end_of_pass: what links have put off until all events of the pass are seen.
        open_transactions: the transactions of all peers, with their deadlines.
        link_journal: records links that can be resumed; None where there is no store.
        rights: what it may do, as soon as it has opened.
        tokens: those that it has shown; None where the broker takes none.
        unread_octets: of the answers to its requests that wait until it gives credit.
    """

    engine: Engine
    wake: Callable[[], None]
    number: int
    maker: Maker
    transactions: dict[bytes, LocalTransaction]
    end_of_pass: list[Callable[[], None]]
    open_transactions: OpenTransactions
    link_journal: LinkJournal | None
    rights: Rights
    tokens: PeerTokens | None
    unread_octets: int

    @property
    @abstractmethod
    def owner(self) -> Owner:
        """The owner of the peer's subscriptions and resumable links."""

    @property
    @abstractmethod
    def blocked(self) -> str | None:
        """The reason why the broker takes no messages of this peer at present; None if it does."""

    @property
    @abstractmethod
    def full(self) -> bool:
        """Whether output waits because the peer does not read fast enough."""

    @abstractmethod
    def end_link(self, link: Link, error: Error) -> None:
        """Detach a link for a reason that the peer is told."""

    @abstractmethod
    def transaction(self, txn_id: object) -> LocalTransaction | None:
        """Return the transaction of that id, if it takes work."""

    @abstractmethod
    def posts_in_part(self, txn_id: bytes) -> bool:
        """Return whether a message of that transaction is still coming in."""

    @abstractmethod
    def claims_another_user(self, payload: bytes) -> Error | None:
        """Return the error for a message that says it is somebody else's, where that is checked; else None.

        Raises:
            DecodeError: it is malformed.
        """

    @abstractmethod
    def do(self, request: Request[Any]) -> Any:
        """Carry out a request of the peer, and return its answer.

        Raises:
            Refused: the request makes no sense, or the peer may not ask for that.
        """


class LinkTaker(Taker, LinkOwner):
    """A link that takes messages as long as it has credit, and its peer reads."""

    def __init__(self, peer: Peer, link: SenderLink) -> None:
        self._peer = peer
        self._link = link
        self._largest = (link.remote.max_message_size if link.remote is not None else None) or None

    def ready(self) -> bool:
        # A peer that does not read fills its window or its output, and is then left alone until it does.
        link = self._link
        return link.sendable and not self._peer.full and link.attached

    def fed(self) -> None:
        link = self._link
        if link.drain and link.credit == 0:
            link.drained()
        self._peer.wake()

    def exhausted(self) -> None:
        link = self._link
        if link.drain and link.attached:
            link.drained()
            self._peer.wake()

    def node_deleted(self, error: Error) -> None:
        self._detach(error)

    def _detach(self, error: Error) -> None:
        """End the link for a reason that the peer is told."""
        if self._link.attached:
            self._link.detach(closed=True, error=error)
            self._peer.wake()

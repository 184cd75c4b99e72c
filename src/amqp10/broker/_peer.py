"""What links and the management node need of their connection, and the terms for every peer.

`LinkTaker` is the base of all links on which a peer takes messages of a node.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..engine import LinkOwner
from ..messaging import Error
from ._queues.node import Taker
from ._users.users import EVERYTHING, Rights

if TYPE_CHECKING:
    from ..engine import ConnectionTerms, Engine, Link, ReceiverLink, Request, SenderLink, SessionTerms
    from ._held_up import HeldUp
    from ._queues.topic import Owner
    from ._services import LinkService
    from ._tokens.grants import PeerTokens
    from ._tokens.rules import TokenRules
    from ._transactions.local import LocalTransaction
    from ._users.accounts import Maker
    from ._users.users import Action
    from ._virtual_host_core import VirtualHostCore


class PassIsFull(Exception):
    """Ends a pass in which a peer's messages were copied into many queues; the rest is for the next pass.

    Attributes:
        link: the link whose messages are not all taken.
    """

    def __init__(self, link: ReceiverLink) -> None:
        self.link = link


@dataclass(frozen=True, slots=True)
class PeerTerms:
    """The terms that the broker offers every peer: limits of connections, sessions and links.

    Attributes:
        rights_of: returns what a user may do in a virtual host.
        virtual_hosts: the virtual hosts by name; None: there is only one, which every name means.
        tokens: the rules for tokens; None: no token is valid.
        service: makes what serves the links in the usual virtual host that do not lead to the broker's own nodes.
    """

    connection: ConnectionTerms
    session: SessionTerms
    rights_of: Callable[[str | None, str], Rights] = lambda user, virtual_host: EVERYTHING
    virtual_hosts: Mapping[str, VirtualHostCore] | None = None
    tokens: TokenRules | None = None
    service: Callable[[Peer], LinkService] | None = None


class Peer(Protocol):
    """One connection, as its links see it.

    Attributes:
        engine: the connection's engine.
        wake: has the engine's output written soon; cheap.
        number: unique among the connections of the process.
        maker: counts the nodes that the connection creates.
        transactions: the undischarged transactions by id.
        end_of_pass: what links have put off until all events of the pass are handled.
        vhost: the virtual host that the connection entered.
        max_message_size: the most octets of a message; None: no limit.
        rights: what the peer may do, once it has opened.
        tokens: the tokens that the peer has put; None: the broker takes no tokens.
        held_up: the links that have credit and wait for room.
        unread_octets: octets of the answers to its requests that wait for credit.
        copies_left: copies of its messages that may still come to several queues in this pass (`PassIsFull`).
    """

    engine: Engine
    wake: Callable[[], None]
    number: int
    maker: Maker
    transactions: dict[bytes, LocalTransaction]
    end_of_pass: list[Callable[[], None]]
    vhost: VirtualHostCore
    max_message_size: int | None
    rights: Rights
    tokens: PeerTokens | None
    held_up: HeldUp
    unread_octets: int
    copies_left: float

    @property
    def owner(self) -> Owner:
        """The owner of the peer's subscriptions and resumable links."""

    @property
    def blocked(self) -> str | None:
        """The reason why messages of this peer are not taken now; None: they are taken."""

    @property
    def full(self) -> bool:
        """Whether output waits because the peer does not read fast enough."""

    def end_link(self, link: Link, error: Error) -> None:
        """Detach a link with an error."""

    def check_use(self, link: Link, action: Action, name: str) -> None:
        """Check that the peer may use a link so, now and whenever its tokens have changed.

        Raises:
            Refused: the peer may not take this action with that name.
        """

    def transaction(self, txn_id: object) -> LocalTransaction | None:
        """Return the transaction of that id if it can take more work, otherwise None."""

    def posts_in_part(self, txn_id: bytes) -> bool:
        """Return whether a message of that transaction has arrived only in part."""

    def claims_another_user(self, payload: bytes) -> Error | None:
        """Return the error for a message whose user-id is another user's, if that is checked; otherwise None.

        Raises:
            DecodeError: the message is malformed.
        """

    def do(self, request: Request[Any]) -> Any:
        """Carry out a request of the peer, and return its answer.

        Raises:
            Refused: the request is invalid, or the peer may not make it.
        """


class LinkTaker(Taker, LinkOwner):
    """A link that takes messages while it has credit and its peer reads."""

    def __init__(self, peer: Peer, link: SenderLink) -> None:
        self._peer = peer
        self._link = link
        self._largest = (link.remote.max_message_size if link.remote is not None else None) or None

    def ready(self) -> bool:
        # A peer that does not read fills its window or its output, and then gets nothing until it reads.
        link = self._link
        if link.sendable and not self._peer.full and link.attached:
            return True
        if link.credit > 0:
            self.held_up()
        return False

    @abstractmethod
    def credit_changed(self) -> None:
        """Continue, because credit came, or the window or the output has room again."""

    def held_up(self) -> None:
        """Wait for room in the session's window or in the output, because there is credit."""
        self._peer.held_up.add(self._link, self.credit_changed)

    def fed(self) -> None:
        link = self._link
        if link.drain and link.credit == 0:
            link.drained()
        self._peer.wake()

    def nothing_left(self) -> None:
        link = self._link
        if link.drain and link.attached:
            link.drained()
            self._peer.wake()

    def node_deleted(self, error: Error) -> None:
        self._detach(error)

    def _is_too_large(self, payload: bytes) -> bool:
        """Return whether the next message is too large for the link, which then ends."""
        if self._largest is None or len(payload) <= self._largest:
            return False
        reason = f"the next message has {len(payload)} octets, and the link takes {self._largest} at most"
        self._detach(Error("amqp:link:message-size-exceeded", reason))
        return True

    def _detach(self, error: Error) -> None:
        if self._link.attached:
            self._link.detach(closed=True, error=error)
            self._peer.wake()

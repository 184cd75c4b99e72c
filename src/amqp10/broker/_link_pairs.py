"""Pairs of links to the management node: requests come in on one, their responses go out on the other.

They are those of RabbitMQ 4, after "AMQP Request-Response Messaging with Link Pairing 1.0": two links of one session
and one name, one in each direction, both with the property `paired`, everything on them settled.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..engine import LinkTerms, ReceiverLink, SenderLink
from ..errors import DecodeError, LocalProtocolError
from ..messaging import ACCEPTED, Error, Source, Target
from ..types import Symbol
from ._address import AddressError

if TYPE_CHECKING:
    from ..engine import Link, Session
    from ._connection import Peer
    from ._management import Management

NODE: Final = "/management"
CAPABILITY: Final = "LINK_PAIR_V1_0"
PAIRED: Final = Symbol("paired")
CREDIT: Final = 8  # requests that may be on their way, or wait for the other link's credit; as many as RabbitMQ gives


@dataclass(eq=False, slots=True)
class Pair:
    """Two links, as far as they are attached.

    Attributes:
        unsent: responses that wait for credit.
    """

    requests: ReceiverLink | None = None
    responses: SenderLink | None = None
    unsent: deque[bytes] = field(default_factory=deque)


class LinkPairs:
    """Those of one connection."""

    def __init__(self, peer: Peer, management: Management, max_message_size: int | None) -> None:
        self._peer = peer
        self._management = management
        self._max_message_size = max_message_size
        self._pairs: dict[tuple[Session, str], Pair] = {}
        self._of: dict[Link, Pair] = {}

    def __contains__(self, link: Link) -> bool:
        return link in self._of

    def attach(self, link: Link) -> bool:
        """Whether a link that a peer attaches is one of a pair; then it is attached.

        Raises:
            AddressError: it leads to the node, and cannot be one of a pair.
        """
        remote = link.remote
        if remote is None:
            return False
        node = remote.source if isinstance(link, SenderLink) else remote.target
        if not isinstance(node, Source | Target) or node.address != NODE:
            return False
        if remote.properties.get(PAIRED) is not True:
            raise AddressError("amqp:invalid-field", f"a link to {NODE} has the property {PAIRED!s}: true")
        if isinstance(link, ReceiverLink) and remote.settle_mode != "settled":
            raise AddressError("amqp:invalid-field", f"requests to {NODE} are sent settled")
        link.attach(
            LinkTerms(
                name=link.name,
                source=remote.source,
                target=remote.target,
                settle_mode="settled",
                receiver_settle_mode="first",
                max_message_size=self._max_message_size if isinstance(link, ReceiverLink) else None,
                properties={PAIRED: True},
            )
        )
        pair = self._of[link] = self._pairs.setdefault((link.session, link.name), Pair())
        if isinstance(link, SenderLink):
            pair.responses = link
        elif isinstance(link, ReceiverLink):
            pair.requests = link
            link.flow(CREDIT)
        return True

    def take(self, link: ReceiverLink) -> None:
        """Carry out what was asked for."""
        pair = self._of[link]
        while link.incoming and link.attached:
            delivery = link.incoming.popleft()
            if pair.responses is None:
                _end(link, "amqp:precondition-failed", "a request came before the link for its response")
                return
            try:
                response = self._management.answer(delivery.payload)
            except DecodeError as error:
                _end(link, "amqp:decode-error", str(error))
                return
            if not delivery.local_settled:
                link.settle(delivery, ACCEPTED)
            pair.unsent.append(response)
        self._respond(pair)

    def credit_changed(self, link: SenderLink) -> None:
        """Credit came for responses."""
        self._respond(self._of[link])
        if link.drain and link.attached:
            link.drained()

    def ready(self, session: Session | None = None) -> None:
        """The window of a session, or the output, has room again."""
        for (of, _), pair in list(self._pairs.items()):
            if session is None or of is session:
                self._respond(pair)

    def _respond(self, pair: Pair) -> None:
        """Send what there is credit and room for, and take as many requests more."""
        responses, requests = pair.responses, pair.requests
        while pair.unsent and responses is not None and self._may_send(responses):
            try:
                responses.send(pair.unsent.popleft(), settled=True)
            except LocalProtocolError as error:  # larger than the peer takes
                _end(responses, "amqp:link:message-size-exceeded", str(error))
        room = CREDIT - len(pair.unsent)
        if requests is not None and requests.attached and requests.credit <= CREDIT // 2 < room:
            requests.flow(room)

    def _may_send(self, link: SenderLink) -> bool:
        return link.attached and link.credit > 0 and link.session.sendable and not self._peer.full

    def end(self, link: Link) -> bool:
        """Whether a link that has ended is one of a pair: the other stays, and takes nothing without it."""
        pair = self._of.pop(link, None)
        if pair is None:
            return False
        if link is pair.responses:
            pair.responses = None
            pair.unsent.clear()
        elif link is pair.requests:
            pair.requests = None
        if pair.requests is None and pair.responses is None:
            key = (link.session, link.name)
            if self._pairs.get(key) is pair:
                del self._pairs[key]
        return True


def _end(link: Link, condition: str, description: str) -> None:
    link.detach(closed=True, error=Error(Symbol(condition), description))

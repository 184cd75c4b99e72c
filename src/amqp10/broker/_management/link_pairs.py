"""Pairs of links to the management node: requests come in on one link, responses go out on the other.

They follow RabbitMQ 4, after "AMQP Request-Response Messaging with Link Pairing 1.0": two links of one session with one
name and opposite directions, both with the property `paired`. All deliveries are settled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...engine import MANAGEMENT, LinkOwner, LinkTerms, ReceiverLink, SenderLink
from ...errors import DecodeError
from ...messaging import ACCEPTED, Error, Source, Target
from ...types import Symbol
from .._errors import Refused
from .._requests.answers import Answers

if TYPE_CHECKING:
    from ...engine import Link, LinkSession
    from .._peer import Peer
    from .http import Management

PAIRED: Final = Symbol("paired")
CREDIT: Final = 8  # requests that may be in flight, or wait for credit on the other link; as many as RabbitMQ grants


class Pair(LinkOwner):
    """A pair of links; one of them may be missing.

    Attributes:
        requests: the link on which requests come in; None: it is not attached, or has ended.
        answers: what waits on the link on which responses go out; None: it is not attached, or has ended.
    """

    def __init__(self, management: Management) -> None:
        self._management = management
        self.requests: ReceiverLink | None = None
        self.responses: SenderLink | None = None
        self.answers: Answers | None = None

    def on_deliveries(self) -> None:
        """Carry out the requests that arrived."""
        link = self.requests
        while link is not None and link.incoming and link.attached:
            delivery = link.incoming.popleft()
            if self.answers is None:
                _end(link, "amqp:precondition-failed", "a request came before the link for its response")
                return
            if self.answers.full:
                _end(link, "amqp:resource-limit-exceeded", "too many responses wait for credit")
                return
            try:
                response = self._management.answer(delivery.payload)
            except DecodeError as error:
                _end(link, "amqp:decode-error", str(error))
                return
            if not delivery.local_settled:
                link.settle(delivery, ACCEPTED)
            self.answers.add(response)
        self.respond()

    def on_credit(self) -> None:
        self.respond()
        link = self.responses
        if link is not None and link.drain and link.attached:
            link.drained()

    def respond(self) -> None:
        """Send the answers that there is credit and room for, and grant credit for as many requests."""
        answers, requests = self.answers, self.requests
        if answers is not None:
            answers.send()
        room = CREDIT - (len(answers) if answers is not None else 0)
        if requests is not None and requests.attached and requests.credit <= CREDIT // 2 < room:
            requests.flow(room)


class LinkPairs:
    """The link pairs of one connection."""

    def __init__(self, peer: Peer, management: Management) -> None:
        self._peer = peer
        self._management = management
        self._pairs: dict[tuple[LinkSession, str], Pair] = {}
        self._of: dict[Link, Pair] = {}

    def __len__(self) -> int:
        return len(self._of)

    def attach(self, link: Link) -> bool:
        """Attach a link if it leads to the management node; return whether it was attached.

        Raises:
            Refused: the link cannot be one of a pair.
        """
        remote = link.remote
        if remote is None:
            return False
        node = remote.source if isinstance(link, SenderLink) else remote.target
        if not isinstance(node, Source | Target) or node.address != MANAGEMENT:
            return False
        if remote.properties.get(PAIRED) is not True:
            raise Refused("amqp:invalid-field", f"a link to {MANAGEMENT} must have the property {PAIRED!s}: true")
        if isinstance(link, ReceiverLink) and remote.settle_mode != "settled":
            raise Refused("amqp:invalid-field", f"requests to {MANAGEMENT} must be sent settled")
        link.attach(
            LinkTerms(
                name=link.name,
                source=remote.source,
                target=remote.target,
                settle_mode="settled",
                receiver_settle_mode="first",
                max_message_size=self._peer.max_message_size if isinstance(link, ReceiverLink) else None,
                properties={PAIRED: True},
            )
        )
        pair = self._of[link] = self._pair_of(link)
        link.owner = pair
        if isinstance(link, SenderLink):
            pair.responses, pair.answers = link, Answers(self._peer, link)
        elif isinstance(link, ReceiverLink):
            pair.requests = link
            link.flow(CREDIT)
        return True

    def _pair_of(self, link: Link) -> Pair:
        """Return the pair that a link belongs to, a new one for the first link of two."""
        key = link.session, link.name
        pair = self._pairs.get(key)
        if pair is None:
            pair = self._pairs[key] = Pair(self._management)
        return pair

    def ready(self, session: LinkSession | None = None) -> None:
        """Send what waits, because a session's window or the output has room again; None: any session's."""
        for (of, _), pair in list(self._pairs.items()):
            if session is None or of is session:
                pair.respond()

    def end(self, link: Link) -> bool:
        """Remove a link that ended; return whether it was one of a pair. The other stays, and takes no requests."""
        pair = self._of.pop(link, None)
        if pair is None:
            return False
        if link is pair.responses:
            if pair.answers is not None:
                pair.answers.clear()
            pair.responses = pair.answers = None
        elif link is pair.requests:
            pair.requests = None
        if pair.requests is None and pair.responses is None:
            key = (link.session, link.name)
            if self._pairs.get(key) is pair:
                del self._pairs[key]
        return True


def _end(link: Link, condition: str, description: str) -> None:
    link.detach(closed=True, error=Error(condition, description))

"""Pairs of links to the management node: requests come in on one, their responses go out on the other.

They are those of RabbitMQ 4, after "AMQP Request-Response Messaging with Link Pairing 1.0": two links of one session
and one name, one in each direction, both with the property `paired`, everything on them settled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...engine import LinkOwner, LinkTerms, ReceiverLink, SenderLink
from ...errors import DecodeError
from ...messaging import ACCEPTED, Error, Source, Target
from ...types import Symbol
from .._answers import Answers
from .._errors import Refused

if TYPE_CHECKING:
    from ...engine import Link, Session
    from .._peer import Peer
    from .http import Management

NODE: Final = "/management"
CAPABILITY: Final = "LINK_PAIR_V1_0"
PAIRED: Final = Symbol("paired")
CREDIT: Final = 8  # requests that may be on their way, or wait for the other link's credit; as many as RabbitMQ gives


class Pair(LinkOwner):
    """Two links, as far as they are attached.

    Attributes:
        requests: the link that requests come in on; None before it is attached, and after its end.
        answers: of the link that responses go out on; likewise.
    """

    def __init__(self, management: Management) -> None:
        self._management = management
        self.requests: ReceiverLink | None = None
        self.responses: SenderLink | None = None
        self.answers: Answers | None = None

    def on_deliveries(self) -> None:
        """Carry out what was asked for."""
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
        """Send what there is credit and room for, and take as many requests more."""
        answers, requests = self.answers, self.requests
        if answers is not None:
            answers.send()
        room = CREDIT - (len(answers) if answers is not None else 0)
        if requests is not None and requests.attached and requests.credit <= CREDIT // 2 < room:
            requests.flow(room)


class LinkPairs:
    """Those of one connection."""

    def __init__(self, peer: Peer, management: Management, max_message_size: int | None) -> None:
        self._peer = peer
        self._management = management
        self._max_message_size = max_message_size
        self._pairs: dict[tuple[Session, str], Pair] = {}
        self._of: dict[Link, Pair] = {}

    def __len__(self) -> int:
        return len(self._of)

    def attach(self, link: Link) -> bool:
        """Attach a link if it is one of a pair; return whether it is.

        Raises:
            Refused: it leads to the node, and cannot be one of a pair.
        """
        remote = link.remote
        if remote is None:
            return False
        node = remote.source if isinstance(link, SenderLink) else remote.target
        if not isinstance(node, Source | Target) or node.address != NODE:
            return False
        if remote.properties.get(PAIRED) is not True:
            raise Refused("amqp:invalid-field", f"a link to {NODE} must have the property {PAIRED!s}: true")
        if isinstance(link, ReceiverLink) and remote.settle_mode != "settled":
            raise Refused("amqp:invalid-field", f"requests to {NODE} must be sent settled")
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
        pair = self._of[link] = self._pair_of(link)
        link.owner = pair
        if isinstance(link, SenderLink):
            pair.responses, pair.answers = link, Answers(self._peer, link)
        elif isinstance(link, ReceiverLink):
            pair.requests = link
            link.flow(CREDIT)
        return True

    def _pair_of(self, link: Link) -> Pair:
        """Return the pair that a link belongs to; a new one for the first of two."""
        key = link.session, link.name
        pair = self._pairs.get(key)
        if pair is None:
            pair = self._pairs[key] = Pair(self._management)
        return pair

    def ready(self, session: Session | None = None) -> None:
        """Go on: the window of a session, or the output, has room again."""
        for (of, _), pair in list(self._pairs.items()):
            if session is None or of is session:
                pair.respond()

    def end(self, link: Link) -> bool:
        """Remove a link that has ended; return whether it is one of a pair. The other stays, and takes nothing."""
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
    link.detach(closed=True, error=Error(Symbol(condition), description))

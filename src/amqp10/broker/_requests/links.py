"""Links to a node that answers: requests come in on one link, answers go out on another link of the same session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...engine import LinkOwner, LinkTerms, ReceiverLink, SenderLink
from ...errors import DecodeError
from ...messaging import ACCEPTED, Error, Message, Rejected, TransactionalState
from .answers import Answers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...engine import Link, LinkSession
    from .._peer import Peer

    CarryOut = Callable[[Message, bytes | None], Message]
    """Carries out a request and returns the answer; the second argument is the id of its transaction, or None."""

CREDIT: Final = 100


class RequestLinks:
    """All request and response links of one connection, to any number of nodes."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._requests: dict[Link, _Requests] = {}
        self._responses: dict[Link, _Responses] = {}
        self._of_node: dict[object, dict[_Responses, None]] = {}  # by session and node, and beside by `reply_to`, too
        self._waiting: dict[Link, _Responses] = {}  # those with answers that wait

    def __len__(self) -> int:
        return len(self._requests) + len(self._responses)

    @property
    def links(self) -> Iterable[Link]:
        """The attached links."""
        return (*self._requests, *self._responses)

    def attach(self, link: Link, node: str, carry_out: CarryOut) -> None:
        """Attach a link to a node whose requests `carry_out` handles."""
        remote = link.remote
        assert remote is not None
        takes = isinstance(link, ReceiverLink)
        link.attach(
            LinkTerms(
                name=link.name,
                source=remote.source,
                target=remote.target,
                settle_mode=remote.settle_mode if takes else "settled",
                receiver_settle_mode="first",
                max_message_size=self._peer.max_message_size if takes else None,
            )
        )
        if isinstance(link, SenderLink):
            link.owner = self._responses[link] = responses = _Responses(self, self._peer, link, node)
            for key in responses.keys:
                self._of_node.setdefault(key, {})[responses] = None
        elif isinstance(link, ReceiverLink):
            link.owner = self._requests[link] = _Requests(self, self._peer, link, node, carry_out)
            link.flow(CREDIT)

    def responses_for(self, session: LinkSession, node: str, reply_to: object) -> _Responses | None:
        """Return the link for an answer, preferably the one with `reply_to`; None: there is no such link."""
        for key in _keys(session, node, reply_to):
            for each in self._of_node.get(key, ()):
                if each.link.attached:
                    return each
        return None

    def ready(self, session: LinkSession | None = None) -> None:
        """Send what waits, because a session's window or the output has room again; None: any session's."""
        for link, responses in list(self._waiting.items()):
            if session is None or link.session is session:
                responses.ready()

    def note(self, responses: _Responses) -> None:
        """Note whether answers wait on a link."""
        if responses.answers:
            self._waiting[responses.link] = responses
        else:
            self._waiting.pop(responses.link, None)

    def end(self, link: Link) -> bool:
        """Remove a link that ended; return whether it was one of these links."""
        responses = self._responses.pop(link, None)
        if responses is not None:
            responses.answers.clear()
            self.note(responses)
            for key in responses.keys:
                del self._of_node[key][responses]
                if not self._of_node[key]:
                    del self._of_node[key]
        return any(each is not None for each in (responses, self._requests.pop(link, None)))


def _keys(session: LinkSession, node: str, reply_to: object) -> tuple[object, object]:
    """Return under what a link for answers is found, the better first."""
    return (session, node, reply_to if isinstance(reply_to, str) else None), (session, node)


class _Responses(LinkOwner):
    """A link on which answers go out.

    Attributes:
        answers: the answers that wait.
        keys: under what it is found: the address of the peer's end, for which Azure's clients use that of the node, is
            in one of them.
    """

    def __init__(self, links: RequestLinks, peer: Peer, link: SenderLink, node: str) -> None:
        self.link = link
        reply_to = getattr(link.remote.target, "address", None) if link.remote is not None else None
        self.keys = _keys(link.session, node, reply_to)
        self.answers = Answers(peer, link)
        self._links = links
        self._peer = peer

    def ready(self) -> None:
        """Send the answers that there is credit and room for."""
        self.answers.send()
        self._links.note(self)
        self._peer.wake()

    def on_credit(self) -> None:
        self.ready()
        if self.link.drain and self.link.attached:
            self.link.drained()


class _Requests(LinkOwner):
    """A link on which requests come in."""

    def __init__(self, links: RequestLinks, peer: Peer, link: ReceiverLink, node: str, carry_out: CarryOut) -> None:
        self._links = links
        self._peer = peer
        self._link = link
        self._node = node
        self._carry_out = carry_out

    def on_deliveries(self) -> None:
        link = self._link
        while link.incoming and link.attached:
            delivery = link.incoming.popleft()
            state: Any = delivery.remote_state
            txn_id = state.txn_id if isinstance(state, TransactionalState) else None
            refusal = self._take(delivery.payload, txn_id)
            if not delivery.local_settled:
                accepted = ACCEPTED if txn_id is None else TransactionalState(txn_id, ACCEPTED)
                link.settle(delivery, refusal or accepted)
            elif refusal is not None and (transaction := self._peer.transaction(txn_id)) is not None:
                # The peer does not see the refusal, and the transaction must not be committed without this message
                # (§4.4.4.1).
                transaction.failed = refusal.error
        if link.attached and link.credit <= CREDIT // 2:
            link.flow(CREDIT)
        self._peer.wake()

    def _take(self, payload: bytes, txn_id: bytes | None) -> Rejected | None:
        """Carry out a request, and queue its answer; return the refusal of a request that cannot be answered."""
        try:
            request = Message.decode(payload)
            request.check()
        except DecodeError as error:
            return Rejected(Error("amqp:decode-error", str(error)))
        responses = self._links.responses_for(self._link.session, self._node, request.reply_to)
        if responses is None or responses.answers.full:
            why = "there is no link for the answer" if responses is None else "too many answers wait for credit"
            return Rejected(Error("amqp:precondition-failed", why))
        responses.answers.add(self._carry_out(request, txn_id).encode())
        responses.ready()
        return None

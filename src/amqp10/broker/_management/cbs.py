"""The node `$cbs`, which takes tokens: put-token on one link, answers on another (AMQP Claims-based Security).

The form is Azure's: a request has the token as its value, and `operation`, `type`, `name` and `expiration` as
application properties. Its answer has `status-code` and `status-description`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...engine import TOKENS, SenderLink
from ...messaging import Message, Source, Target
from ...types import Int, Symbol
from .._requests.answers import answer_to
from .._requests.links import RequestLinks
from .._tokens.rules import TokenInvalid, path_in

if TYPE_CHECKING:
    from ...engine import Link
    from .._peer import Peer
    from .._services import LinkService

_CONDITIONS: Final = {401: "com.microsoft:auth-failed", 404: "amqp:not-found"}
_TYPES: Final = {"jwt", "amqp:jwt", "servicebus.windows.net:sastoken", "amqp:swt"}


class CbsLinks:
    """The links of one connection to the node.

    Args:
        service: knows what tokens are put for; None: nobody does.
    """

    def __init__(self, peer: Peer, service: LinkService | None) -> None:
        self._peer = peer
        self._service = service
        self._links = RequestLinks(peer)

    def __len__(self) -> int:
        return len(self._links)

    def attach(self, link: Link) -> bool:
        """Attach a link if it leads to the node and the broker takes tokens; return whether it was attached."""
        remote = link.remote
        if remote is None or self._peer.tokens is None:
            return False
        node = remote.source if isinstance(link, SenderLink) else remote.target
        if not isinstance(node, Source | Target) or node.address != TOKENS:
            return False
        self._links.attach(link, TOKENS, self._carry_out)
        return True

    def _carry_out(self, request: Message, txn_id: bytes | None) -> Message:
        status, description = self._answer(request) if txn_id is None else (501, "a token is put outside transactions")
        properties: dict[str, Any] = {"status-code": Int(status), "status-description": description}
        if status in _CONDITIONS:
            properties["error-condition"] = Symbol(_CONDITIONS[status])
        return answer_to(request, None, properties)

    def _answer(self, request: Message) -> tuple[int, str]:
        """Return status and description; only a peer with a valid token is told that there is no such entity."""
        properties = request.application_properties or {}
        name, kind, token = properties.get("name"), properties.get("type"), request.body
        if properties.get("operation") != "put-token":
            return 400, "the operation of $cbs is put-token"
        if not isinstance(kind, str) or kind not in _TYPES:
            return 400, f"the type of a token is one of {', '.join(sorted(_TYPES))}"
        if not isinstance(name, str) or not name:
            return 400, "a token is put for an audience, which `name` says"
        if not isinstance(token, str):
            return 400, "a token is a text"
        assert self._peer.tokens is not None
        try:
            self._peer.tokens.put(name, token)
            path = path_in(name)
        except TokenInvalid as error:
            return 401, str(error)
        if self._service is not None and not self._service.has_entity(path):
            return 404, f"The messaging entity {name!r:.300} could not be found."
        return 202, "Accepted"

    def ready(self) -> None:
        """Send the answers that there is credit and room for."""
        self._links.ready()

    def end(self, link: Link) -> bool:
        """Remove a link that ended; return whether it led to the node."""
        return self._links.end(link)

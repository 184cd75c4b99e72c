"""Management by messages: an operation on an entity of the peer, and what came of it.

The shape is that of the working draft AMQP Management 1.0: the request names its `operation`, `type` and `name` among
its application properties, the response says a `statusCode` and a `statusDescription`, as HTTP would.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..._arguments import made_by
from ...errors import ManagementError
from ...messaging import Message

if TYPE_CHECKING:
    from .requester import Requester

STATUS = ("statusCode", "status-code")
DESCRIPTION = ("statusDescription", "status-description")
"""How brokers spell them."""


@made_by("connection.management()", "Requester")
class Management:
    """The management node of a peer; made by `connection.management()`, opened by `async with`.

        async with connection.management() as management:
            types = await management.request("GET-TYPES", "org.amqp.management", "self")

    Attributes:
        requester: what it stands on; for requests of another shape.
    """

    def __init__(self, requester: Requester) -> None:
        self.requester = requester

    def __repr__(self) -> str:
        return f"<Management by {self.requester!r}>"

    async def __aenter__(self) -> Self:
        """Attach the links.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: see `Requester`; the peer may have no such
                node, or not let this user use it.

        Cancelling: the links are detached.
        """
        await self.requester.__aenter__()
        return self

    async def request(
        self, operation: str, entity_type: str, name: str | None = None, body: object = None, **properties: Any
    ) -> Message:
        """Ask for an operation; return the response, which says that it succeeded.

        Args:
            operation: "READ", "CREATE", "UPDATE", "DELETE", "QUERY", ..., as the entity has them.
            entity_type: of the entity; for operations of the node itself "org.amqp.management".
            name: which entity.
            body: of the request: attributes, mostly.
            properties: further application properties, `identity` for one.

        Raises:
            ManagementError: the response has another status than 2xx; `status` and `description` say why.
            MessageRejected, MessageReleased, MessageModified, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, EncodeError, anyio.ClosedResourceError: see `Requester.request`.

        Cancelling: as for `Requester.request`; the operation may have been carried out.
        """
        application_properties = {
            "operation": operation,
            "type": entity_type,
            **({} if name is None else {"name": name}),
            **properties,
        }
        response = await self.requester.request(Message(body, application_properties=application_properties))
        answer = response.application_properties or {}
        status = first(answer, STATUS)
        if not isinstance(status, int):
            raise ManagementError(0, "the response has no status code", response)
        if not 200 <= status < 300:
            raise ManagementError(int(status), str(first(answer, DESCRIPTION) or ""), response)
        return response

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Detach the links.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        await self.requester.__aexit__(exc_type, exc, traceback)


def first(answer: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the first of these that an answer has; None if it has none of them."""
    return next((answer[name] for name in names if name in answer), None)

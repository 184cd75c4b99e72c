"""Requests to the management node of an entity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import anyio

from ...client import Connection, Requester, Transaction
from ...errors import DeliveryUncertain, LinkDetached, ManagementError, SessionEnded
from ...messaging import AmqpValue, Message
from ...types import UInt
from ._errors import ServiceBusError, error_of, own_errors

_VENDOR: Final = "com.microsoft:"
_STATUS: Final = ("statusCode", "status-code")
_DESCRIPTION: Final = ("statusDescription", "status-description")
_CONDITION: Final = ("errorCondition", "error-condition")


class EntityManagement:
    """The management node of one entity. Its links are attached at first use, and all callers share them.

    Args:
        address: the address of the entity.
        timeout: seconds that an answer may take.

    Attributes:
        restores: whether links come back by themselves.
    """

    def __init__(self, connection: Connection, address: str, timeout: float, *, restores: bool) -> None:
        self.address = address
        self.timeout = timeout
        self.restores = restores
        self._connection = connection
        self._requester: Requester | None = None
        self._opening = anyio.Lock()

    async def ask(
        self,
        operation: str,
        body: Mapping[str, Any],
        *,
        link: str | None = None,
        repeat: bool = False,
        transaction: Transaction | None = None,
    ) -> Mapping[Any, Any]:
        """Request an operation; return the map in the answer, empty if the answer has no map.

        Args:
            operation: its name, without "com.microsoft:".
            body: its parameters.
            link: the name of the link that the request counts as a use of.
            repeat: request it again if it is uncertain whether the request arrived.
            transaction: the operation takes effect when this transaction is committed.

        Raises:
            ServiceBusError: the service refused; a subclass says why.
            ManagementError: the answer has no status.
            DeliveryUncertain: the connection was lost before the answer came, and `repeat` is False.
            TimeoutError: no answer came in time.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the service refused the links, or they were
                lost.
            EncodeError: `body` cannot be encoded.
            LocalProtocolError, TransactionRolledBack: the transaction is over, is of another connection, or was lost.

        Cancelling: the operation may have been done.
        """
        properties: dict[str, Any] = {
            "operation": _VENDOR + operation,
            _VENDOR + "server-timeout": UInt(min(round(self.timeout * 1000), 0xFFFF_FFFF)),
        }
        if link is not None:
            properties["associated-link-name"] = link
        request = Message(AmqpValue(dict(body)), application_properties=properties)
        with anyio.fail_after(self.timeout):
            while True:
                requester = await self._links()
                try:
                    return _answer(await requester.request(request, transaction=transaction))
                except DeliveryUncertain:
                    if not repeat:
                        raise
                except (LinkDetached, SessionEnded):
                    if self._requester is requester:
                        self._requester = None
                    if not repeat:
                        raise
                    repeat = False

    async def open(self) -> None:
        """Attach the links now, which also has the token for the entity put.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, ServiceBusError: see `ask`.

        Cancelling: the links may be attached.
        """
        await self._links()

    async def _links(self) -> Requester:
        """Return the requester with its links attached."""
        async with self._opening:
            requester = self._requester
            if requester is not None and (self.restores or (requester.sender.open and requester.replies.open)):
                return requester
            node = f"{self.address}/$management"
            requester = self._connection.requester(node, reply_to=node, on_lost="raise")
            with own_errors():
                await requester.__aenter__()
            self._requester = requester
            return requester


def listed(answer: Mapping[Any, Any], name: str) -> list[Any]:
    """Return the list `name` of an answer; [] if it has none.

    Raises:
        ServiceBusError: the value is not a list.
    """
    value = answer.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ServiceBusError(None, f"{name!r} in an answer must be a list, not {value!r:.100}")
    return value


def _answer(response: Message) -> Mapping[Any, Any]:
    """Return the map of an answer.

    Raises:
        ServiceBusError: the answer is a refusal.
        ManagementError: the answer has no status.
    """
    properties = response.application_properties
    status = _first(properties, _STATUS)
    if not isinstance(status, int):
        raise ManagementError(0, "the answer has no status code", response)
    if not 200 <= status < 300:
        condition = _first(properties, _CONDITION)
        description = str(_first(properties, _DESCRIPTION) or "")[:1000]
        raise error_of(None if condition is None else str(condition), description or f"status {status}")
    body = response.body
    return body if isinstance(body, dict) else {}


def _first(properties: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((properties[name] for name in names if name in properties), None)

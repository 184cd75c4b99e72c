"""What 0-9-1 and its kin have beyond the topology: bindings of exchanges, getting, recovering, a renewed secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..client import Connection, Receiver
from ..client.internals import engine_link, new_queue_name
from ..dialects.v0_9 import GetMessage, LimitUnsettled, Recover, UpdateSecret
from ..engine import Bind, DeclareQueue, QueueFacts, Request, RequestResult, Unbind
from ..errors import LocalProtocolError
from ..messaging import Message
from ._typed import typed
from .topology import Topology


class Native(Topology):
    """The connection's own words; `connection.native`.

    Every method raises, besides what it says:

    - `RequestRefused`: the server refused; `condition` and `description` say why, `info["reply-code"]` in its numbers;
    - `SessionEnded`, `ConnectionClosed`, `ConnectionLost`: no answer came, and it may have been done;
    - `LocalProtocolError`: the request cannot be encoded: a name is longer than 255 octets, or no table can have an
      argument.

    With `reconnect`, what was declared and bound here is declared again after a loss (`Reconnect.declare_again`). Any
    number of tasks may use it at a time.
    """

    async def _ask(self, request: Request[RequestResult]) -> RequestResult:
        return await self._ask_own(request)

    async def _declare_queue(self, request: DeclareQueue) -> QueueFacts:
        # With `reconnect` a name is made up here, for RabbitMQ refuses to declare a name again that it chose itself.
        return await self._ask(replace(request, name=request.name or new_queue_name(self._connection)))

    # Bindings of exchanges

    async def bind_exchange(
        self, destination: str, source: str, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Bind the exchange `destination` to the exchange `source`, which then gives it messages; RabbitMQ's extension.

        Raises:
            RequestRefused: one of the exchanges is not there (404).
            ConnectionClosed: the server, such as Qpid, has no such bindings (540).

        Cancelling: it may have been done.
        """
        await self._ask(Bind(destination, source, key, dict(arguments or {}), "exchange"))

    async def unbind_exchange(
        self, destination: str, source: str, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Undo `bind_exchange`, with the same arguments.

        Raises:
            RequestRefused: the server refused; `description` says why.

        Cancelling: it may have been done.
        """
        await self._ask(Unbind(destination, source, key, dict(arguments or {}), "exchange"))

    # Messages

    async def get(self, queue: str) -> Message | None:
        """Take one message from a queue, or None if it is empty; the message is acked when it is here (basic.get).

        To decide on it, use a receiver: `receiver.add_credit(1)` and `await receiver.drain()` do the same, and the
        delivery can be rejected.

        Raises:
            RequestRefused: there is no such queue (404).

        Cancelling: the message may have been taken, and is gone then.
        """
        got = await self._ask(GetMessage(queue))
        return None if got is None else Message.decode(got.payload)

    async def qos(self, receiver: Receiver, prefetch: int) -> None:
        """Let a receiver have at least `prefetch` deliveries without an outcome (basic.qos).

        By default the prefetch follows the credit, and is raised when that many deliveries are out.

        Raises:
            ValueError: `prefetch` is not within 1 and 65535.

        Cancelling: it may have been done.
        """
        if not 1 <= prefetch <= 0xFFFF:
            raise ValueError(f"prefetch must be in 1..65535, not {prefetch}")
        await self._ask(LimitUnsettled(self._link(receiver), prefetch))

    async def recover(self, receiver: Receiver) -> None:
        """Ask the server to send again all deliveries that a receiver has without an outcome (basic.recover).

        Those deliveries are stale from then on: settling one raises `StaleDelivery`, as after a loss.

        Raises:
            RequestRefused: the server refused; `description` says why.

        Cancelling: it may have been done.
        """
        await self._ask(Recover(self._link(receiver)))

    @staticmethod
    def _link(receiver: Receiver) -> Any:
        link = engine_link(receiver)
        if link is None:
            raise LocalProtocolError("the receiver is not attached")
        return link

    # The connection

    async def update_secret(self, secret: str, reason: str = "") -> None:
        """Give the server a new secret, such as a token, before the one that it has expires; RabbitMQ's extension.

        A connection that is made again still logs in with what `Connection` was given, which may be of no use by then.

        Raises:
            ConnectionClosed: the server does not accept it, or has no such method.
            LocalProtocolError: it is larger than the server's frames, or the reason longer than 255 octets.

        Cancelling: it may have been done.
        """
        await self._ask(UpdateSecret(secret, reason))


def native(connection: Connection) -> Native:
    """Return `connection.native`, with its methods known to type checkers and editors.

    Raises:
        Unsupported: the connection speaks another dialect than 0-9-1, or its kin.
    """
    return typed(connection, Native, "0-9-1, 0-9 and 0-9-draft")

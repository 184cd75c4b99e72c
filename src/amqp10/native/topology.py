"""Exchanges, queues and bindings: one set of coroutines for the dialects that declare them by their own methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

from ..client import Connection
from ..client.internals import ask
from ..engine import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    ExchangeFacts,
    PurgeQueue,
    QueryExchange,
    QueryQueue,
    QueueFacts,
    Request,
    RequestResult,
    Unbind,
)

ExchangeType = Literal["direct", "fanout", "topic", "headers"]
"""The types of exchanges that every server has."""
DEAD_LETTERS = "x-dead-letter-exchange"


class Topology(ABC):
    """Declares, looks at, empties and deletes. Each method raises what its class says, too."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @abstractmethod
    async def _ask(self, request: Request[RequestResult]) -> RequestResult:
        """Return the answer to a request, from whichever session this dialect asks on."""

    async def _ask_own(self, request: Request[RequestResult]) -> RequestResult:
        """Return the answer to a request on the session that senders and receivers are on by default."""
        return await ask(self._connection, request)

    # Exchanges

    async def declare_exchange(
        self,
        name: str,
        type: ExchangeType | str = "direct",  # noqa: A002  # as the specification calls it
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        passive: bool = False,
        alternate: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Make an exchange, or find it if it is there and the same.

        Args:
            type: how it routes: "direct", "fanout", "topic", "headers", or a type of the server's own.
            durable: it survives a restart of the server.
            auto_delete: it goes with its last binding.
            internal: only other exchanges send to it; 0-10 has no such exchanges.
            passive: only find it.
            alternate: the exchange for messages that this one cannot route.
            arguments: the server's own.

        Raises:
            RequestRefused: another exchange has that name, or the name is reserved; or, `passive`, it is not there.
            Unsupported: `internal` in 0-10.

        Cancelling: it may have been done.
        """
        await self._ask(
            DeclareExchange(name, type, durable, auto_delete, internal, passive, alternate, dict(arguments or {}))
        )

    async def exchange(self, name: str) -> ExchangeFacts | None:
        """Look at an exchange; return None if it is not there. 0-9-1 does not tell the type: it is "" then.

        Raises:
            RequestRefused: the server refused; `description` says why.

        Cancelling: nothing was changed.
        """
        return await self._ask(QueryExchange(name))

    async def exchange_exists(self, name: str) -> bool:
        """Return whether an exchange is there.

        Raises:
            RequestRefused: the server refused; `description` says why.

        Cancelling: nothing was changed.
        """
        return await self.exchange(name) is not None

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange and its bindings.

        Args:
            if_unused: only if nothing is bound to it.

        Raises:
            RequestRefused: it is in use, or the server's own; in 0-10 also if it is not there.

        Cancelling: it may have been done.
        """
        await self._ask(DeleteExchange(name, if_unused))

    # Queues

    async def declare_queue(
        self,
        name: str = "",
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        passive: bool = False,
        alternate: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> QueueFacts:
        """Make a queue, or find it if it is there and the same; return its name and what is in it.

        Args:
            name: "" for one that is made up: by the server, or here where it is to be declared again after a loss.
            durable: it survives a restart of the server.
            exclusive: it is for this connection only, in 0-10 for the default session, and goes with it.
            auto_delete: it goes with its last consumer.
            passive: only find it.
            alternate: the exchange for messages that are rejected or die otherwise; the same as the argument
                "x-dead-letter-exchange".
            arguments: the server's own, such as "x-message-ttl", "x-queue-type" or "qpid.max_count".

        Raises:
            RequestRefused: another queue has that name, or somebody else has it alone; or, `passive`, it is not there.

        Cancelling: it may have been done.
        """
        named = dict(arguments or {}) | ({DEAD_LETTERS: alternate} if alternate else {})
        return await self._declare_queue(DeclareQueue(name, durable, exclusive, auto_delete, passive, False, named))

    async def _declare_queue(self, request: DeclareQueue) -> QueueFacts:
        return await self._ask(request)

    async def queue(self, name: str) -> QueueFacts | None:
        """Look at a queue: how many messages and consumers it has. Return None if it is not there.

        Raises:
            RequestRefused: the server refused; `description` says why.

        Cancelling: nothing was changed.
        """
        return await self._ask(QueryQueue(name))

    async def purge_queue(self, name: str) -> int:
        """Drop what is in a queue and not out for settlement; return how many messages that were.

        Raises:
            RequestRefused: there is no such queue.

        Cancelling: it may have been done.
        """
        return await self._ask(PurgeQueue(name))

    async def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; return how many messages were in it.

        Args:
            if_unused: only if nobody receives from it.
            if_empty: only if nothing is in it.

        Raises:
            RequestRefused: it is in use, or not empty; in 0-10 also if it is not there.

        Cancelling: it may have been done.
        """
        return await self._ask(DeleteQueue(name, if_unused, if_empty))

    # Bindings

    async def bind(self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, Any] | None = None) -> None:
        """Bind a queue to an exchange, which then gives it messages; a binding that is there already is left as it is.

        Args:
            key: the routing key, or for a topic exchange a pattern of routing keys.
            arguments: for a headers exchange, "x-match" and what has to fit.

        Raises:
            RequestRefused: the queue or the exchange is not there.

        Cancelling: it may have been done.
        """
        await self._ask(Bind(queue, exchange, key, dict(arguments or {})))

    async def unbind(
        self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Undo `bind`, with the same arguments; 0-10 finds the binding by its key alone.

        Raises:
            RequestRefused: the server refused; in 0-10 also if there is no such binding.

        Cancelling: it may have been done.
        """
        await self._ask(Unbind(queue, exchange, key, dict(arguments or {})))

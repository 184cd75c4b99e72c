"""Exchanges, queues and bindings: coroutines for the dialects that have methods to declare them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

from .._arguments import checked
from ..client.internals import ConnectionFace, ask
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
"""The exchange types that every server has."""
DEAD_LETTERS = "x-dead-letter-exchange"


class Topology(ABC):
    """Declares, queries, purges and deletes. Every method also raises the errors of its class."""

    def __init__(self, connection: ConnectionFace) -> None:
        self._connection = connection

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._connection!r}>"

    @abstractmethod
    async def _ask(self, request: Request[RequestResult]) -> RequestResult:
        """Return the answer to a request, on the session that the dialect uses for requests."""

    async def _ask_own(self, request: Request[RequestResult]) -> RequestResult:
        """Return the answer to a request, on the default session of senders and receivers."""
        return await ask(self._connection, request)

    # Exchanges

    @checked
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
        """Declare an exchange: create it, or check that it exists with the same settings.

        Args:
            type: the routing: "direct", "fanout", "topic", "headers", or a type of the server's own.
            durable: the exchange survives a restart of the server.
            auto_delete: the exchange is deleted with its last binding.
            internal: only other exchanges can send to it; 0-10 has no internal exchanges.
            passive: only check that it exists.
            alternate: the exchange for messages that this one cannot route.
            arguments: arguments of the server's own.

        Raises:
            RequestRefused: an exchange of that name has other settings, or the name is reserved; with `passive`, it
                does not exist.
            Unsupported: `internal` is set in 0-10.

        Cancelling: the exchange may have been declared.
        """
        await self._ask(
            DeclareExchange(name, type, durable, auto_delete, internal, passive, alternate, dict(arguments or {}))
        )

    @checked
    async def exchange(self, name: str) -> ExchangeFacts | None:
        """Return facts about an exchange; None if it does not exist. In 0-9-1, which does not tell the type, it is "".

        Raises:
            RequestRefused: the server refused; `description` has the reason.

        Cancelling: nothing is changed.
        """
        return await self._ask(QueryExchange(name))

    @checked
    async def exchange_exists(self, name: str) -> bool:
        """Return whether an exchange exists.

        Raises:
            RequestRefused: the server refused; `description` has the reason.

        Cancelling: nothing is changed.
        """
        return await self.exchange(name) is not None

    @checked
    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange and its bindings.

        Args:
            if_unused: only if it has no bindings.

        Raises:
            RequestRefused: the exchange is in use, or the server's own; in 0-10 also if it does not exist.

        Cancelling: the exchange may have been deleted.
        """
        await self._ask(DeleteExchange(name, if_unused))

    # Queues

    @checked
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
        """Declare a queue: create it, or check that it exists with the same settings; return its name and counts.

        Args:
            name: the name; "" to generate one, by the server, or here if the queue must be declared again after a loss.
            durable: the queue survives a restart of the server.
            exclusive: the queue is only for this connection, in 0-10 for the default session, and is deleted with it.
            auto_delete: the queue is deleted with its last consumer.
            passive: only check that it exists.
            alternate: the exchange for dead letters, the same as the argument "x-dead-letter-exchange".
            arguments: arguments of the server's own, such as "x-message-ttl", "x-queue-type" or "qpid.max_count".

        Raises:
            RequestRefused: a queue of that name has other settings, or is exclusive to others; with `passive`, it does
                not exist.

        Cancelling: the queue may have been declared.
        """
        named = dict(arguments or {}) | ({DEAD_LETTERS: alternate} if alternate else {})
        return await self._declare_queue(DeclareQueue(name, durable, exclusive, auto_delete, passive, False, named))

    async def _declare_queue(self, request: DeclareQueue) -> QueueFacts:
        return await self._ask(request)

    @checked
    async def queue(self, name: str) -> QueueFacts | None:
        """Return how many messages and consumers a queue has; None if it does not exist.

        Raises:
            RequestRefused: the server refused; `description` has the reason.

        Cancelling: nothing is changed.
        """
        return await self._ask(QueryQueue(name))

    @checked
    async def purge_queue(self, name: str) -> int:
        """Drop the messages of a queue, except unsettled ones; return their number.

        Raises:
            RequestRefused: the queue does not exist.

        Cancelling: the queue may have been purged.
        """
        return await self._ask(PurgeQueue(name))

    @checked
    async def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; return how many messages it had.

        Args:
            if_unused: only if it has no consumers.
            if_empty: only if it has no messages.

        Raises:
            RequestRefused: the queue is in use, or not empty; in 0-10 also if it does not exist.

        Cancelling: the queue may have been deleted.
        """
        return await self._ask(DeleteQueue(name, if_unused, if_empty))

    # Bindings

    @checked
    async def bind(self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, Any] | None = None) -> None:
        """Bind a queue to an exchange, which then routes messages to it. An existing binding stays unchanged.

        Args:
            key: the routing key, or for a topic exchange a pattern of routing keys.
            arguments: for a headers exchange, "x-match" and the headers to match.

        Raises:
            RequestRefused: the queue or the exchange does not exist.

        Cancelling: the binding may have been made.
        """
        await self._ask(Bind(queue, exchange, key, dict(arguments or {})))

    @checked
    async def unbind(
        self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Undo `bind`, with the same arguments; 0-10 identifies the binding by its key alone.

        Raises:
            RequestRefused: the server refused; in 0-10 also if the binding does not exist.

        Cancelling: the binding may have been removed.
        """
        await self._ask(Unbind(queue, exchange, key, dict(arguments or {})))

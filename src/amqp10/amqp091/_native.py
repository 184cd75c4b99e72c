"""Declaring, binding, emptying and deleting, getting, recovering: each method of 0-9-1 is one coroutine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ..client import Connection, Receiver
from ..dialects.v0_9 import GetMessage, LimitUnsettled, Recover, UpdateSecret
from ..engine import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    PurgeQueue,
    QueryExchange,
    QueryQueue,
    QueueFacts,
    Request,
    Unbind,
)
from ..engine._requests import R
from ..errors import LocalProtocolError
from ..messaging import Message

ExchangeType = Literal["direct", "fanout", "topic", "headers"]


class Native:
    """The connection's own words; `connection.native`.

    Every method raises, besides what it says:

    - `RequestRefused`: the server refused; `condition` and `description` say why, `info["reply-code"]` in its numbers;
    - `SessionEnded`, `ConnectionClosed`, `ConnectionLost`: no answer came, and it may have been done;
    - `LocalProtocolError`: it cannot be said: a name longer than 255 octets, an argument that no table can have.

    With `reconnect`, what was declared and bound here is declared again after a loss (`Reconnect.declare_again`). Any
    number of tasks may use it at a time.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def _ask(self, request: Request[R]) -> R:
        return await self._connection._default_session()._request(request)

    # Exchanges

    async def declare_exchange(
        self,
        name: str,
        type: ExchangeType | str = "direct",  # noqa: A002  # as the specification calls it
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        alternate: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Make an exchange, or find it if it is there and the same.

        Args:
            type: how it routes; servers may have more than the four.
            durable: it survives the server.
            auto_delete: it goes with its last binding.
            internal: messages come to it from other exchanges only.
            alternate: the exchange for messages that this one cannot route.
            arguments: of the server's own.

        Raises:
            RequestRefused: it is there and another (406), or its name is reserved (403).

        Cancelling: it may have been done.
        """
        await self._ask(
            DeclareExchange(
                name,
                type,
                durable=durable,
                auto_delete=auto_delete,
                internal=internal,
                alternate=alternate,
                arguments=dict(arguments or {}),
            )
        )

    async def exchange_exists(self, name: str) -> bool:
        """Whether an exchange is there.

        Raises:
            RequestRefused: the server refused; `description` says why.

        Cancelling: nothing was changed.
        """
        return await self._ask(QueryExchange(name)) is not None

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange and its bindings.

        Args:
            if_unused: only if nothing is bound to it.

        Raises:
            RequestRefused: it is in use (406), or the server's own (403).

        Cancelling: it may have been done.
        """
        await self._ask(DeleteExchange(name, if_unused=if_unused))

    # Queues

    async def declare_queue(
        self,
        name: str = "",
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> QueueFacts:
        """Make a queue, or find it if it is there and the same; return its name and what is in it.

        Args:
            name: "" for one of the server's choice; with `reconnect` it is made up here, for RabbitMQ gives nobody a
                name of its own choice a second time.
            durable: it survives the server.
            exclusive: it is for this connection only, and goes with it.
            auto_delete: it goes with its last consumer.
            arguments: "x-message-ttl", "x-queue-type" and others.

        Raises:
            RequestRefused: it is there and another (406), or another connection's (405).

        Cancelling: it may have been done.
        """
        return await self._ask(
            DeclareQueue(
                name or self._connection._queue_name(),
                durable=durable,
                exclusive=exclusive,
                auto_delete=auto_delete,
                arguments=dict(arguments or {}),
            )
        )

    async def queue(self, name: str) -> QueueFacts | None:
        """Look at a queue: how many messages and consumers it has. None if it is not there.

        Raises:
            RequestRefused: the server refused; `description` says why.

        Cancelling: nothing was changed.
        """
        return await self._ask(QueryQueue(name))

    async def purge_queue(self, name: str) -> int:
        """Drop what is in a queue and not out for settlement; return how many messages that were.

        Raises:
            RequestRefused: there is no such queue (404).

        Cancelling: it may have been done.
        """
        return await self._ask(PurgeQueue(name))

    async def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; return how many messages were in it.

        Args:
            if_unused: only if nobody receives from it.
            if_empty: only if nothing is in it.

        Raises:
            RequestRefused: it is in use, or not empty (406).

        Cancelling: it may have been done.
        """
        return await self._ask(DeleteQueue(name, if_unused=if_unused, if_empty=if_empty))

    # Bindings

    async def bind(self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, Any] | None = None) -> None:
        """Have an exchange give messages to a queue.

        Args:
            key: the routing key, or for a topic exchange a pattern of them.
            arguments: for a headers exchange, what has to fit.

        Raises:
            RequestRefused: one of them is not there (404).

        Cancelling: it may have been done.
        """
        await self._ask(Bind(queue, exchange, key, dict(arguments or {})))

    async def unbind(
        self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Undo `bind`, with the same arguments.

        Raises:
            RequestRefused: the server refused; `description` says why.

        Cancelling: it may have been done.
        """
        await self._ask(Unbind(queue, exchange, key, dict(arguments or {})))

    async def bind_exchange(
        self, destination: str, source: str, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Have one exchange give messages to another; an extension of RabbitMQ's.

        Raises:
            RequestRefused: one of them is not there (404).
            ConnectionClosed: the server has no such bindings (540), as Qpid.

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
        """Let a receiver have `prefetch` deliveries without an outcome at least (basic.qos).

        Otherwise it is as many as its credit, which it raises by itself when all of them are out.

        Raises:
            ValueError: `prefetch` is not within 1 and 65535.

        Cancelling: it may have been done.
        """
        if not 1 <= prefetch <= 0xFFFF:
            raise ValueError("a prefetch is 1 to 65535 deliveries")
        await self._ask(LimitUnsettled(self._link(receiver), prefetch))

    async def recover(self, receiver: Receiver) -> None:
        """Have the server send again all that a receiver has without an outcome (basic.recover).

        Those deliveries are stale from then on: settling one raises `StaleDelivery`, as after a loss.

        Raises:
            RequestRefused: the server refused; `description` says why.

        Cancelling: it may have been done.
        """
        await self._ask(Recover(self._link(receiver)))

    @staticmethod
    def _link(receiver: Receiver) -> Any:
        link = receiver._engine_link
        if link is None:
            raise LocalProtocolError("the receiver is not attached")
        return link

    # The connection

    async def update_secret(self, secret: str, reason: str = "") -> None:
        """Give the server a new secret, such as a token, before the one that it has expires; RabbitMQ's extension.

        A connection that is made again still logs in as `Connection` was told to: by then that secret may be of no use.

        Raises:
            ConnectionClosed: the server does not accept it, or has no such method.
            LocalProtocolError: it is larger than the server's frames, or the reason longer than 255 octets.

        Cancelling: it may have been done.
        """
        await self._ask(UpdateSecret(secret, reason))

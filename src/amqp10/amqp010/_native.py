"""Declaring, binding, emptying, deleting and looking: the classes queue and exchange of 0-10, a coroutine each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import anyio

from ..client import Connection, Delivery, Session
from ..engine import (
    Acquire,
    Bind,
    BindingFacts,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    ExchangeFacts,
    PurgeQueue,
    QueryBinding,
    QueryExchange,
    QueryQueue,
    QueueFacts,
    Request,
    Unbind,
)
from ..engine._requests import R
from ..errors import LocalProtocolError
from ._xa import XA

ExchangeType = Literal["direct", "fanout", "topic", "headers"]


class Native:
    """The connection's own words; `connection.native`.

    Every method raises, besides what it says:

    - `RequestRefused`: the server refused; `condition` and `description` say why, `info["reply-code"]` in its numbers.
      Or it was not asked, for there is no such name: one of more than 255 octets (`amqp:invalid-field`);
    - `SessionEnded`, `ConnectionClosed`, `ConnectionLost`: no answer came, and it may have been done;
    - `LocalProtocolError`: it cannot be said: an argument that no map can have.

    What fails in 0-10 ends its session. So that it does not, what can be known is asked before: whether a queue is
    there, and in use. What the server refuses all the same ends the session of these requests, which is none of the
    links': the next request begins another. With `reconnect`, what was declared and bound here is declared again after
    a loss (`Reconnect.declare_again`). Any number of tasks may use it at a time.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session: Session | None = None
        self._opening = anyio.Lock()

    async def _ask(self, request: Request[R]) -> R:
        async with self._opening:
            session = self._session
            if session is None or not session.open:
                session = self._connection.session()
                await session.__aenter__()
                self._session = session
        return await session._request(request)

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
        """Make a queue, or find it if it is there and the same.

        An exclusive queue is the default session's, on which senders and receivers are unless they are given one.

        Args:
            name: "" for one that is made up here.
            durable: it survives the server.
            exclusive: for this session only, and gone with it.
            auto_delete: gone with its last subscription.
            passive: only find it.
            alternate: the exchange for messages that are rejected, or die otherwise; in the arguments of the facts it
                is called "x-dead-letter-exchange", as in AMQP 0-9-1.
            arguments: the broker's own: "qpid.max_count", "x-message-ttl", ...

        Raises:
            RequestRefused: there is another of that name; or, `passive`, none.
            SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError: see the class.

        Cancelling: it may have been made.
        """
        said = dict(arguments or {}) | ({"x-dead-letter-exchange": alternate} if alternate else {})
        request = DeclareQueue(name, durable, exclusive, auto_delete, passive, False, said)
        if exclusive:
            return await self._connection._default_session()._request(request)
        return await self._ask(request)

    async def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; return how many messages were in it.

        Raises:
            RequestRefused: it is not there, in use, or not empty.
            SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError: see the class.

        Cancelling: it may have been deleted.
        """
        return await self._ask(DeleteQueue(name, if_unused, if_empty))

    async def purge_queue(self, name: str) -> int:
        """Drop what is in a queue and not out for settlement; return how many messages were in it.

        Raises:
            RequestRefused: it is not there.
            SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError: see the class.

        Cancelling: it may have been emptied.
        """
        return await self._ask(PurgeQueue(name))

    async def queue(self, name: str) -> QueueFacts | None:
        """What is known of a queue: messages, consumers, and how it was declared; None if it is not there.

        Raises:
            SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError: see the class.

        Cancelling: nothing is changed.
        """
        return await self._ask(QueryQueue(name))

    # Exchanges

    async def declare_exchange(
        self,
        name: str,
        type: ExchangeType | str = "direct",  # noqa: A002  # as the specification calls it
        *,
        durable: bool = False,
        auto_delete: bool = False,
        passive: bool = False,
        alternate: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Make an exchange, or find it if it is there and the same.

        Args:
            type: "direct", "fanout", "topic", "headers", or the broker's own.
            passive: only find it.
            alternate: the exchange for what this one can not route.

        Raises:
            RequestRefused: there is another of that name; or, `passive`, none.
            SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError: see the class.

        Cancelling: it may have been made.
        """
        await self._ask(
            DeclareExchange(name, type, durable, auto_delete, False, passive, alternate, dict(arguments or {}))
        )

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange and its bindings.

        Raises:
            RequestRefused: it is not there, or in use.
            SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError: see the class.

        Cancelling: it may have been deleted.
        """
        await self._ask(DeleteExchange(name, if_unused))

    async def exchange(self, name: str) -> ExchangeFacts | None:
        """What is known of an exchange; None if it is not there.

        Raises:
            SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError: see the class.

        Cancelling: nothing is changed.
        """
        return await self._ask(QueryExchange(name))

    # Bindings

    async def bind(
        self, queue: str, exchange: str, key: str = "", *, arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Bind a queue to an exchange; a binding that is there already is left as it is.

        Args:
            key: the routing key, or a pattern of them.
            arguments: of a headers exchange: "x-match" and what has to fit.

        Raises:
            RequestRefused: queue or exchange are not there.
            SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError: see the class.

        Cancelling: they may have been bound.
        """
        await self._ask(Bind(queue, exchange, key, dict(arguments or {})))

    async def unbind(self, queue: str, exchange: str, key: str = "") -> None:
        """Undo `bind`.

        Raises:
            RequestRefused: there is no such binding.
            SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError: see the class.

        Cancelling: it may have been undone.
        """
        await self._ask(Unbind(queue, exchange, key))

    async def binding(
        self,
        exchange: str,
        queue: str,
        key: str | None = None,
        *,
        arguments: Mapping[str, Any] | None = None,
    ) -> BindingFacts:
        """What there is of a binding; `key` and `arguments` do not matter where they are None.

        Raises:
            SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError: see the class.

        Cancelling: nothing is changed.
        """
        return await self._ask(QueryBinding(exchange, queue, key, arguments))

    # Messages

    async def acquire(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Take messages that a browser was shown; return those that could be had. They are to be settled then.

        Args:
            deliveries: of one receiver of `Source(queue, distribution_mode="copy")`, not settled yet. Those of
                `connection.browser()` are.

        Raises:
            LocalProtocolError: they are of several receivers, or settled; nothing was asked. Or see the class.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: they may have been acquired.
        """
        shown = list(deliveries)
        if not shown:
            return []
        link = shown[0].link
        if any(each.link is not link for each in shown):
            raise LocalProtocolError("messages of one receiver are acquired at a time")
        if any(each.local_settled for each in shown):
            raise LocalProtocolError("what is settled can not be acquired, nor what a `browser()` was shown")
        session: Session = link.session.context
        acquired = await session._request(Acquire(tuple(shown)))
        return [each for each in shown if each in acquired]

    # Distributed transactions

    def xa(self) -> XA:
        """A session for branches of distributed transactions: `async with connection.native.xa() as xa`."""
        return XA(self._connection)

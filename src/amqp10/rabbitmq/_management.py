"""RabbitMQ's management node: HTTP in messages over a pair of links (https://www.rabbitmq.com/docs/amqp#management).

A request's `subject` is the method and its `to` the path; a response's `subject` is the status code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack
from urllib.parse import quote

from .._arguments import checked, hinted, made_by
from ..client import Connection, Requester, Session
from ..client.internals import core_of, paired_requester
from ..engine import LINK_PAIR
from ..errors import ManagementError, RemoteProtocolError, Unsupported
from ..messaging import Message
from ._addresses import escape, queue_address
from ._arguments import ExchangeType, QueueArguments, QueueType, queue_arguments

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """The state of a queue.

    Attributes:
        messages: the number of ready messages, without unsettled ones.
        consumers: the number of links that receive from it.
        leader, replicas: the nodes of the cluster that hold it.
        arguments: the arguments of its declaration.
    """

    name: str
    type: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    messages: int
    consumers: int
    leader: str | None = None
    replicas: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding of a queue, or of an exchange, to an exchange."""

    source: str
    queue: str | None
    exchange: str | None
    key: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@checked
def management(links: Connection | Session) -> Management:
    """Return RabbitMQ's management, to be opened by `async with`.

    Args:
        links: a connection, on which it begins its own session, because RabbitMQ ends the session after an unknown or
            forbidden request; or the session to use.

    Raises:
        TypeError: `links` is neither.
    """
    own = links.session() if isinstance(links, Connection) else None
    session = own if own is not None else links
    assert isinstance(session, Session)
    return Management(paired_requester(core_of(session), f"{session.connection.container_id}-management", 100), own)


@made_by("amqp10.rabbitmq.management(connection)", "Requester")
@hinted
class Management:
    """Declares, queries, purges and deletes queues, exchanges and bindings; made by `management()`.

    Any number of tasks may use it at a time. Every method also raises:

    - `ManagementError`: RabbitMQ refused. `status` is 404 if a queried object does not exist, 400 or 404 if the object
      to work on does not exist, 409 if it exists with other arguments, 403 for a reserved name. `description` has its
      reason.
    - `SessionEnded`: the user lacks the permission. This management is over.
    - `RemoteProtocolError`: the answer has an unknown form. The management can be used further.
    - `LinkDetached`, `ConnectionClosed`, `ConnectionLost`, `anyio.ClosedResourceError`: see `Requester.request`.

    Cancelling any method: the operation may have been carried out.

    Attributes:
        requester: the requester that sends the requests.
    """

    def __init__(self, requester: Requester, session: Session | None = None) -> None:
        self.requester = requester
        self._session = session

    def __repr__(self) -> str:
        return f"<Management by {self.requester!r}>"

    async def __aenter__(self) -> Self:
        """Attach the pair of links.

        Raises:
            Unsupported: the peer offers no pairs of links, so it is not RabbitMQ 4.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the peer refuses the links, or is gone.

        Cancelling: the links are detached, and the session is ended.
        """
        if LINK_PAIR not in self.requester.sender.connection.offered_capabilities:
            raise Unsupported("the peer does not offer paired links, which the management of RabbitMQ 4 needs")
        async with AsyncExitStack() as stack:
            if self._session is not None:
                await stack.enter_async_context(self._session)
            await stack.enter_async_context(self.requester)
            self._opened = stack.pop_all()
        return self

    # Queues

    @checked
    async def declare_queue(
        self,
        name: str,
        queue_type: QueueType = "quorum",
        *,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, Any] | None = None,
        **typed: Unpack[QueueArguments],
    ) -> QueueInfo:
        """Declare a queue: create it, or check that it exists with the same settings; return its state.

        Args:
            queue_type: "quorum" (replicated), "classic", or "stream" (an append-only log).
            durable: the queue survives a restart of the broker; quorum queues and streams always do.
            exclusive: the queue is only for this connection, and is deleted with it.
            auto_delete: the queue is deleted with its last consumer.
            arguments: further arguments, by RabbitMQ's names.
            typed: arguments of `QueueArguments`; times are `timedelta`.

        Raises:
            ValueError: a queue cannot have this name, or a queue of this type lacks an argument.

        Cancelling: see the class.
        """
        body = {
            "durable": durable,
            "exclusive": exclusive,
            "auto_delete": auto_delete,
            "arguments": queue_arguments(queue_type, typed, arguments or {}),
        }
        return _read(_queue, await self.request("PUT", queue_address(name), body))

    @checked
    async def queue(self, name: str) -> QueueInfo:
        """Return the state of a queue, including its numbers of messages and consumers.

        Raises:
            ManagementError: with status 404, the queue does not exist.

        Cancelling: see the class.
        """
        return _read(_queue, await self.request("GET", queue_address(name)))

    @checked
    async def purge_queue(self, name: str) -> int:
        """Drop all ready messages of a queue; return their number.

        Raises:
            ManagementError: with status 400 or 404, the queue does not exist.

        Cancelling: see the class.
        """
        return _read(_count, await self.request("DELETE", f"{queue_address(name)}/messages"))

    @checked
    async def delete_queue(self, name: str) -> int:
        """Delete a queue with its messages, if it exists; return how many messages it had.

        Raises:
            ManagementError: the queue is exclusive to another connection, or the user lacks the permission.

        Cancelling: see the class.
        """
        return _read(_count, await self.request("DELETE", queue_address(name)))

    # Exchanges

    @checked
    async def declare_exchange(
        self,
        name: str,
        exchange_type: ExchangeType = "direct",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Declare an exchange: create it, or check that it exists with the same settings.

        Args:
            exchange_type: "direct", "fanout", "topic", "headers", or that of a plugin.
            internal: only other exchanges may send to it.
            arguments: arguments by RabbitMQ's names, such as `alternate-exchange`.

        Raises:
            ManagementError: with status 409, the exchange exists with other settings.
            ValueError: an exchange cannot have this name.

        Cancelling: see the class.
        """
        body = {
            "type": exchange_type,
            "durable": durable,
            "auto_delete": auto_delete,
            "internal": internal,
            "arguments": dict(arguments or {}),
        }
        await self.request("PUT", f"/exchanges/{escape(name)}", body)

    @checked
    async def delete_exchange(self, name: str) -> None:
        """Delete an exchange with its bindings, if it exists.

        Raises:
            ManagementError: the exchange is one of RabbitMQ's own.

        Cancelling: see the class.
        """
        await self.request("DELETE", f"/exchanges/{escape(name)}")

    # Bindings

    @checked
    async def bind(
        self,
        source: str,
        *,
        queue: str | None = None,
        exchange: str | None = None,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Bind a queue, or another exchange, to an exchange, which then routes messages to it.

        Args:
            source: the exchange to bind to.
            queue, exchange: the destination: one of them.
            key: the binding key, whose meaning depends on the exchange type.
            arguments: arguments of the binding, such as the headers that a headers exchange compares.

        Raises:
            ManagementError: with status 400 or 404, the source or the destination does not exist.
            ValueError: neither `queue` nor `exchange` is given, or both.

        Cancelling: see the class.
        """
        kind, name = _destination(queue, exchange)
        body = {"source": source, f"destination_{kind}": name, "binding_key": key, "arguments": dict(arguments or {})}
        await self.request("POST", "/bindings", body)

    @checked
    async def bindings(
        self, source: str, *, queue: str | None = None, exchange: str | None = None, key: str = ""
    ) -> list[Binding]:
        """Return the bindings of a queue or exchange to an exchange with a key: one for each set of arguments.

        Raises:
            ValueError: neither `queue` nor `exchange` is given, or both.

        Cancelling: see the class.
        """
        return [binding for binding, _ in await self._found(source, queue, exchange, key)]

    @checked
    async def unbind(
        self,
        source: str,
        *,
        queue: str | None = None,
        exchange: str | None = None,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Remove the binding with exactly these arguments, if it exists.

        Raises:
            ValueError: neither `queue` nor `exchange` is given, or both.

        Cancelling: see the class.
        """
        for found, location in await self._found(source, queue, exchange, key):
            if found.arguments == dict(arguments or {}):
                await self.request("DELETE", location)

    async def _found(self, source: str, queue: str | None, exchange: str | None, key: str) -> list[tuple[Binding, str]]:
        """Return the bindings between source and destination, and the path to delete each."""
        kind, name = _destination(queue, exchange)
        words = {"src": source, f"dst{kind[0]}": name, "key": key}
        query = "&".join(f"{word}={quote(value, safe='')}" for word, value in words.items())
        return _read(_bindings, await self.request("GET", f"/bindings?{query}"))

    # Anything

    @checked
    async def request(self, method: str, path: str, body: object = None) -> Message:
        """Send any other request; return the response if its status is 2xx.

        Args:
            method: "GET", "PUT", "POST" or "DELETE".
            path: the path with its query, and with percent-encoded names.

        Raises:
            ManagementError: the response has another status. For other errors, see the class.

        Cancelling: see the class.
        """
        response = await self.requester.request(Message(body, subject=method, to=path))
        try:
            status = int(response.subject or 0)
        except ValueError:
            status = 0
        if not 200 <= status < 300:
            raise ManagementError(status, str(response.body or ""), response)
        return response

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Detach the pair of links. Exclusive queues stay until the connection closes.

        Cancelling: is not noticed; it takes at most `close_timeout` seconds.
        """
        await self._opened.__aexit__(exc_type, exc, traceback)


def _destination(queue: str | None, exchange: str | None) -> tuple[str, str]:
    if (queue is None) is (exchange is None):
        raise ValueError("a binding has one destination: name either a queue or an exchange")
    return ("queue", queue) if queue is not None else ("exchange", exchange or "")


def _read(reader: Callable[[Any], T], response: Message) -> T:
    """Return the result of `reader` on the body of a response.

    Raises:
        RemoteProtocolError: the body does not have the form of RabbitMQ's responses.
    """
    try:
        return reader(response.body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RemoteProtocolError(f"the response of the management node cannot be understood: {error!r:.200}") from None


def _queue(body: Mapping[str, Any]) -> QueueInfo:
    return QueueInfo(
        name=body["name"],
        type=body["type"],
        durable=body["durable"],
        exclusive=body["exclusive"],
        auto_delete=body["auto_delete"],
        messages=int(body["message_count"]),
        consumers=int(body["consumer_count"]),
        leader=body.get("leader"),
        replicas=tuple(body.get("replicas") or ()),
        arguments=dict(body.get("arguments") or {}),
    )


def _count(body: Mapping[str, Any]) -> int:
    return int(body["message_count"]) if isinstance(body, Mapping) else 0


def _bindings(body: list[Mapping[str, Any]]) -> list[tuple[Binding, str]]:
    return [(_binding(each), each["location"]) for each in body or []]


def _binding(body: Mapping[str, Any]) -> Binding:
    return Binding(
        source=body["source"],
        queue=body.get("destination_queue"),
        exchange=body.get("destination_exchange"),
        key=body["binding_key"],
        arguments=dict(body.get("arguments") or {}),
    )

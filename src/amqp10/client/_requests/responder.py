"""Requests answered: each reply goes to the address that its request names, with its correlation-id (§3.2.4)."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import anyio

from ..._arguments import made_by
from ...errors import LocalProtocolError
from ...messaging import Message
from .._core.faces import core_of

if TYPE_CHECKING:
    from .._receiving.delivery_face import Delivery
    from .._receiving.receiver import Receiver
    from .._sending.sender import Sender

ANONYMOUS_RELAY = "ANONYMOUS-RELAY"
"""The capability of a peer that takes messages by their own `to` (AMQP Anonymous Terminus for Message Routing 1.0)."""

KEPT_SENDERS = 32


class Request:
    """One request, and the reply to it.

    `with request as message:` gives the request an outcome at the end of the block as `with delivery` does: accepted
    unless it has one, `modify(delivery_failed=True)` after an exception, so that it is not tried for ever.

    Attributes:
        delivery: the request as it was received; for its outcomes other than a reply.
    """

    __slots__ = ("_responder", "delivery")

    def __init__(self, responder: Responder, delivery: Delivery) -> None:
        self._responder = responder
        self.delivery: Delivery = delivery

    @property
    def message(self) -> Message:
        """The request.

        Raises:
            DecodeError: where what is malformed is looked at; see `Delivery.message`.
        """
        return self.delivery.message

    async def reply(self, message: object) -> None:
        """Send the reply, and accept the request once the reply was accepted.

        The reply goes to the request's `reply_to`, with the request's correlation-id, else its message-id.

        Args:
            message: a `Message`; any other value is sent as the body of one.

        Raises:
            LocalProtocolError: the request has no reply-to. It is not settled: accept or reject its `delivery`.
            MessageRejected, MessageReleased, MessageModified, LinkDetached: the reply could not be delivered, for
                instance because the requester is gone. The request is not settled.
            SessionEnded, ConnectionClosed, ConnectionLost, EncodeError, anyio.ClosedResourceError: see `Sender.send`
                and `Delivery.accept`.

        Cancelling: as for `Sender.send`; the request is not settled.
        """
        request = self.message
        address = request.reply_to
        if not address:
            raise LocalProtocolError("the request has no reply-to")
        reply = message if isinstance(message, Message) else Message(message)
        correlation = request.correlation_id if request.correlation_id is not None else request.message_id
        async with self._responder._sender_to(address) as sender:
            await sender.send(reply.replace(to=address, correlation_id=correlation))
        self.delivery.accept()

    def __enter__(self) -> Message:
        return self.delivery.__enter__()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.delivery.__exit__(exc_type, exc, traceback)

    def __repr__(self) -> str:
        return f"<Request {self.delivery!r}>"


class SenderMaker(Protocol):
    """What makes the senders of replies: a session, or a connection."""

    def sender(self, address: str | None, /) -> Sender:
        """Make a sender; see `Connection.sender`."""


@made_by("connection.responder(address)", "Receiver")
class Responder:
    """Receives requests, and sends the replies; made by `connection.responder()`, opened by `async with`.

        async with connection.responder("service") as responder:
            async for request in responder:
                await request.reply(Message("pong"))

    Replies go through one anonymous sender where the peer relays, else through a sender for each reply address, of
    which the 32 used last are kept.

    Attributes:
        receiver: the link on which requests come.
    """

    def __init__(self, receiver: Receiver, links: SenderMaker) -> None:
        self.receiver = receiver
        self._links = links
        self._senders: OrderedDict[str | None, Sender] = OrderedDict()
        self._users: Counter[str | None] = Counter()  # replies under way, by the key of their sender
        self._attaching = anyio.Lock()
        self._closed = False

    async def __aenter__(self) -> Self:
        """Attach the link on which requests come.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, Unsupported: see `Receiver`.

        Cancelling: the link is detached again.
        """
        await self.receiver.__aenter__()
        return self

    async def receive(self) -> Request:
        """Return the next request.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, anyio.BusyResourceError,
                anyio.ClosedResourceError: see `Receiver.receive`.

        Cancelling: no request is lost: one that came stays for the next call.
        """
        return Request(self, await self.receiver.receive())

    def __aiter__(self) -> AsyncIterator[Request]:
        return self

    def __repr__(self) -> str:
        return f"<Responder by {self.receiver!r}>"

    __anext__ = receive

    @asynccontextmanager
    async def _sender_to(self, address: str) -> AsyncIterator[Sender]:
        """Provide a sender that reaches the address; it is kept while the block runs, and while it is used often."""
        connection = self.receiver.connection
        key = None if ANONYMOUS_RELAY in connection.offered_capabilities else address
        self._users[key] += 1
        try:
            sender = self._senders.get(key)
            if sender is None or core_of(sender).over:  # one that was interrupted comes back, and sends then
                sender = await self._attach(key)
            self._senders.move_to_end(key)
            yield sender
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]

    async def _attach(self, key: str | None) -> Sender:
        async with self._attaching:
            known = self._senders.get(key)
            if known is not None and not core_of(known).over:
                return known
            while len(self._senders) >= KEPT_SENDERS:
                idle = next((each for each in self._senders if each not in self._users), None)
                if idle is None:
                    break
                await self._leave(self._senders.pop(idle))
            sender = self._links.sender(key)
            await sender.__aenter__()
            if self._closed:  # meanwhile, and so without this one
                await self._leave(sender)
                raise anyio.ClosedResourceError("the responder was closed here")
            self._senders[key] = sender
            return sender

    async def _leave(self, sender: Sender) -> None:
        core_of(sender).cause_reported = True  # a reply without an outcome has raised, or was given up
        await sender.__aexit__(None, None, None)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Detach; requests that were not answered are the peer's to deliver again.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._closed = True
        try:
            while self._senders:
                await self._leave(self._senders.popitem()[1])
        finally:
            await self.receiver.__aexit__(exc_type, exc, traceback)

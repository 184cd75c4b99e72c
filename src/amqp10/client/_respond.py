"""Requests answered: each reply goes to the address that its request names, with its correlation-id (§3.2.4)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from ..errors import LocalProtocolError
from ..messaging import Message

if TYPE_CHECKING:
    from ._delivery import Delivery
    from ._receiver import Receiver
    from ._sender import Sender

ANONYMOUS_RELAY = "ANONYMOUS-RELAY"
"""The capability of a peer that takes messages by their own `to` (AMQP Anonymous Terminus for Message Routing 1.0)."""

KEPT_SENDERS = 32


class Request:
    """One request, and the reply to it.

    Attributes:
        delivery: the request as it was received; for its outcomes other than a reply.
    """

    __slots__ = ("_responder", "delivery")

    def __init__(self, responder: Responder, delivery: Delivery) -> None:
        self._responder = responder
        self.delivery = delivery

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
            LocalProtocolError: the request names no reply-to. It is not settled: accept or reject its `delivery`.
            MessageRejected, MessageReleased, MessageModified, LinkDetached: the reply could not be delivered, for
                instance because the requester is gone. The request is not settled.
            SessionEnded, ConnectionClosed, ConnectionLost, EncodeError, anyio.ClosedResourceError: see `Sender.send`
                and `Delivery.accept`.

        Cancelling: as for `Sender.send`; the request is not settled.
        """
        request = self.message
        address = request.reply_to
        if not address:
            raise LocalProtocolError("the request names no reply-to")
        reply = message if isinstance(message, Message) else Message(message)
        correlation = request.correlation_id if request.correlation_id is not None else request.message_id
        sender = await self._responder._sender_to(address)
        await sender.send(reply.replace(to=address, correlation_id=correlation))
        self.delivery.accept()

    def __repr__(self) -> str:
        return f"<Request {self.delivery!r}>"


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

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self._senders: OrderedDict[str | None, Sender] = OrderedDict()
        self._attaching = anyio.Lock()

    async def __aenter__(self) -> Self:
        """Attach the link on which requests come.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, Unsupported: see `Receiver`.

        Cancelling: the link is detached again.
        """
        await self.receiver.__aenter__()
        return self

    async def receive(self) -> Request:
        """The next request.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, anyio.BusyResourceError,
                anyio.ClosedResourceError: see `Receiver.receive`.

        Cancelling: no request is lost: one that came stays for the next call.
        """
        return Request(self, await self.receiver.receive())

    def __aiter__(self) -> AsyncIterator[Request]:
        return self

    __anext__ = receive

    async def _sender_to(self, address: str) -> Sender:
        """A sender that reaches the address."""
        connection = self.receiver.connection
        key = None if ANONYMOUS_RELAY in connection.offered_capabilities else address
        sender = self._senders.get(key)
        if key is None and sender is not None and sender.open:
            return sender
        async with self._attaching:
            sender = self._senders.get(key)
            if sender is None or not sender.open:
                links = self.receiver._session if self.receiver._session is not None else connection
                sender = links.sender(key)
                await sender.__aenter__()
                self._senders[key] = sender
            self._senders.move_to_end(key)
            while len(self._senders) > KEPT_SENDERS:
                idle = next((each for each, old in self._senders.items() if not old.unsettled), None)
                if idle is None:
                    break
                await self._senders.pop(idle).__aexit__(None, None, None)
        return sender

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Detach; requests that were not answered are the peer's to deliver again.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most for each link.
        """
        try:
            while self._senders:
                _, sender = self._senders.popitem()
                await sender.__aexit__(exc_type, exc, traceback)
        finally:
            await self.receiver.__aexit__(exc_type, exc, traceback)

"""Sending and receiving without keeping a connection: one call opens, does it, and closes."""

from __future__ import annotations

from typing import Unpack

from .._arguments import check_range, checked
from ..errors import DecodeError
from ..messaging import Message, Source
from ._connection import Connection
from ._receiving.delivery_face import Delivery
from ._settings import ConnectionSettings

# Deliveries that may come ahead of what was taken.
MAX_AHEAD = 1000


@checked
async def send(url: str, address: str | None, *messages: object, **settings: Unpack[ConnectionSettings]) -> None:
    """Send messages, and return when all are accepted.

        await amqp10.send(url, "orders", "a", b"b", Message({"c": 1}))

    Args:
        url: as for `Connection`.
        address: where they go; None when each message says it in its `to`.
        messages: each a `Message`, or a body for one.
        settings: as for `Connection`.

    Raises:
        MessageRejected, MessageReleased, MessageModified: the first outcome that was another one. Messages after it may
            not have been sent; the exception's note counts them.
        LinkDetached: the peer refused the address.
        AuthenticationFailed, InsecureTransport, ConnectionClosed, ConnectionLost, RemoteProtocolError: see
            `Connection`.
        EncodeError: a message holds a value without an AMQP encoding.

    Cancelling: messages that were handed over stay sent; the connection is closed all the same.
    """
    async with Connection(url, **settings) as connection, connection.sender(address) as sender:
        await sender.send_many(messages)


@checked
async def receive(
    url: str, address: str | Source, *, count: int = 1, **settings: Unpack[ConnectionSettings]
) -> list[Message]:
    """Wait for `count` messages and return them, accepted, in order of arrival.

    They are accepted together when the last one is there: until then none is lost to a failure here.

    Args:
        url: as for `Connection`.
        address: where they come from: an address, or a `Source` to say more, such as a filter.
        count: how many to wait for.
        settings: as for `Connection`.

    Raises:
        ValueError: `count` is negative.
        LinkDetached: the peer refused the address, or ended the link.
        FilterNotApplied: the peer does not apply a filter of the source.
        DecodeError: one of them is not a message; it was rejected, the others were released.
        AuthenticationFailed, InsecureTransport, ConnectionClosed, ConnectionLost, RemoteProtocolError: see
            `Connection`.

    Cancelling: the messages that came are released; none is lost.
    """
    check_range("count", count, 0)
    deliveries: list[Delivery] = []
    granted = 0
    async with Connection(url, **settings) as connection, connection.receiver(address, credit=0) as receiver:
        try:
            while len(deliveries) < count:
                more = min(count - granted, MAX_AHEAD - (granted - len(deliveries)))
                receiver.add_credit(more)  # never more than asked for: what comes too much would have to go back
                granted += more
                deliveries += await receiver.receive_batch(count - len(deliveries))
            messages = [whole(delivery) for delivery in deliveries]
        except BaseException:
            for delivery in deliveries:
                if receiver.open and delivery.state is None:
                    delivery.release()
            raise
        for delivery in deliveries:
            delivery.accept()
    return messages


def whole(delivery: Delivery) -> Message:
    """Return the message, all of it decoded; reject it if it cannot be."""
    try:
        message = delivery.message
        message.check()
    except DecodeError as error:
        delivery.reject(DecodeError.condition, str(error))
        raise
    return message

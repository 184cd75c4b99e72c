"""The functions of `amqp10` and `amqp10.rabbitmq` that wait, or make what waits."""

from __future__ import annotations

from functools import partial
from typing import Unpack

from .. import client, rabbitmq
from ..client import ConnectionSettings
from ..messaging import Message, Source
from ._facades import Connection, RabbitManagement, Session
from ._loop import made_of, run


def send(
    url: str,
    address: str | None,
    *messages: object,
    timeout: float | None = None,
    **settings: Unpack[ConnectionSettings],
) -> None:
    """Send messages, and return when all are accepted.

        send(url, "orders", "a", b"b", Message({"c": 1}))

    Args:
        url: as for `Connection`.
        address: where they go; None when each message says it in its `to`.
        messages: each a `Message`, or a body for one.
        timeout: seconds that it may take.
        settings: as for `Connection`.

    Raises:
        TimeoutError: it took longer; what was sent may be accepted or not.
        MessageRejected, MessageReleased, MessageModified, EncodeError: see `amqp10.send`, as for all others.
    """
    run(partial(client.send, url, address, *messages, **settings), timeout, "send")


def receive(
    url: str,
    address: str | Source,
    *,
    count: int = 1,
    timeout: float | None = None,
    **settings: Unpack[ConnectionSettings],
) -> list[Message]:
    """Wait for `count` messages and return them, accepted, in order of arrival.

    Args:
        url: as for `Connection`.
        address: where they come from: an address, or a `Source` to say more, such as a filter.
        count: how many to wait for.
        timeout: seconds that it may take.
        settings: as for `Connection`.

    Raises:
        TimeoutError: it took longer; nothing was accepted, and all come again.
        LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: see `amqp10.receive`, as for all others.
    """
    messages: list[Message] = run(partial(client.receive, url, address, count=count, **settings), timeout, "receive")
    return messages


def rabbit_management(links: Connection | Session) -> RabbitManagement:
    """Make RabbitMQ's management, and the embedded broker's, to be opened by `with`.

    Args:
        links: a connection, or the session to use.
    """
    made: RabbitManagement = made_of(links, rabbitmq.management)
    return made

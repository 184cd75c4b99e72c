"""What the tests with clients of AMQP 0-9-1 share: two servers to compare, and pika's connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

PATIENCE = 20.0
"""Seconds that anything may take."""


@contextmanager
def connected(url: str, **settings: Any) -> Iterator[BlockingConnection]:
    """A connection of pika's."""
    parameters = pika.URLParameters(f"{url}/%2F")
    parameters.blocked_connection_timeout = PATIENCE
    parameters.socket_timeout = PATIENCE
    for name, value in settings.items():
        setattr(parameters, name, value)
    connection = BlockingConnection(parameters)
    try:
        yield connection
    finally:
        with suppress(pika.exceptions.AMQPError):
            connection.close()


@contextmanager
def channel_of(url: str, *, confirms: bool = False) -> Iterator[BlockingChannel]:
    """A channel on a connection of its own."""
    with connected(url) as connection:
        channel = connection.channel()
        if confirms:
            channel.confirm_delivery()
        yield channel


class Inbox:
    """What a consumer of pika's is given.

    Attributes:
        taken: (method, properties, body) of each message.
        cancelled: the server has cancelled the consumer.
    """

    def __init__(self, channel: BlockingChannel, queue: str, *, auto_ack: bool = False, **settings: Any) -> None:
        self.channel = channel
        self.taken: list[tuple[Any, pika.BasicProperties, bytes]] = []
        self.cancelled = False
        channel.add_on_cancel_callback(self._cancel)
        self.tag = channel.basic_consume(queue, self._take, auto_ack=auto_ack, **settings)

    def _take(self, channel: BlockingChannel, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        self.taken.append((method, properties, body))

    def _cancel(self, frame: Any) -> None:
        self.cancelled = True

    def wait(self, count: int) -> list[bytes]:
        """The bodies so far, when there are so many, and a moment more in which no further one comes."""
        wait_until(self.channel, lambda: len(self.taken) >= count)
        self.channel.connection.process_data_events(0.1)
        assert len(self.taken) == count
        return [body for _, _, body in self.taken]

    @property
    def tags(self) -> list[int]:
        """The delivery tags so far."""
        return [method.delivery_tag for method, _, _ in self.taken]


def wait_until(channel: BlockingChannel, condition: Callable[[], bool]) -> None:
    """Let pika work until it holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        channel.connection.process_data_events(0.05)


def all_in(channel: BlockingChannel, queue: str) -> list[bytes]:
    """The bodies of all that is in a queue, taken out of it."""
    bodies: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        bodies.append(body)


def eventually(found: Callable[[], Any], wanted: Any) -> None:
    """What a server does in its own time is so in the end."""
    deadline = time.monotonic() + PATIENCE
    while (last := found()) != wanted:
        assert time.monotonic() < deadline, f"{last!r}, not {wanted!r}"
        threading.Event().wait(0.02)

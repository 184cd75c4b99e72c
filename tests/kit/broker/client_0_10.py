"""A client of 0-10 that may say much in one go, at a broker that is fed by hand."""

from __future__ import annotations

from amqp10.dialects.v0_10.wire.commands import (
    DeliveryProperties,
    MessageAccept,
    MessageFlow,
    MessageSubscribe,
    MessageTransfer,
)
from amqp10.dialects.v0_10.wire.frames import encode_command
from amqp10.dialects.v0_10.wire.struct import Command

from ..inside.broker import VirtualHostCore
from .older_clients import Client010
from .wire import queue_of

HEADER = DeliveryProperties(routing_key="q").encode_struct32()


class Client(Client010):
    """With a session, and a queue "q"."""

    def __init__(self, vhost: VirtualHostCore) -> None:
        super().__init__(vhost)
        vhost.declare("q", "queue")

    def says(self, *commands: Command) -> int:
        """All of it in one go; how many messages are in the queue then."""
        self.put(b"".join(map(octets, commands)))
        assert len(self.engine.sessions) == 1  # type: ignore[attr-defined]
        return queue_of(self.served.vhost, "q").depth

    def consumes(self) -> list[Command]:
        """Three messages; what accepts each."""
        self.says(
            *[MessageTransfer("", 1, 0)] * 3,
            MessageSubscribe(queue="q", destination="d"),
            MessageFlow("d", 0, 3),
            MessageFlow("d", 1, 0xFFFF_FFFF),
        )
        return [MessageAccept(((number, number),)) for number in range(3)]


def octets(command: Command) -> bytes:
    """Of a command, and of a message if it has one."""
    header, body = (HEADER, b"x") if isinstance(command, MessageTransfer) else (None, None)
    return bytes(encode_command(1, command.encode(True), header, body, 65_523))

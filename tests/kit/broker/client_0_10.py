"""A client of 0-10 that may say much in one go, at a broker that is fed by hand."""

from __future__ import annotations

from typing import Any

from amqp10.broker._virtual_host_core import VirtualHostCore
from amqp10.dialects.v0_10.wire.commands import (
    DeliveryProperties,
    MessageAccept,
    MessageFlow,
    MessageSubscribe,
    MessageTransfer,
)
from amqp10.dialects.v0_10.wire.controls import (
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    SessionAttach,
    SessionCommandPoint,
)
from amqp10.dialects.v0_10.wire.frames import PROTOCOL_HEADER, encode_command, encode_control
from amqp10.dialects.v0_10.wire.struct import Command

from .served import Served
from .wire import queue_of

HEADER = DeliveryProperties(routing_key="q").encode_struct32()


class Client(Served):
    """With a session, and a queue "q"."""

    def __init__(self, vhost: VirtualHostCore) -> None:
        super().__init__("0-10", vhost)
        vhost.declare("q", "queue")
        controls: list[tuple[int, Any]] = [
            (0, ConnectionStartOk({}, "ANONYMOUS", b"", "en_US")),
            (0, ConnectionTuneOk(256, 65_535, 0)),
            (0, ConnectionOpen("", [])),
            (1, SessionAttach(b"s")),
            (1, SessionCommandPoint(0, 0)),
        ]
        self.take(PROTOCOL_HEADER)
        for channel, control in controls:
            self.take(encode_control(channel, control.encode()))

    def says(self, *commands: Command) -> int:
        """All of it in one go; how many messages are in the queue then."""
        self.take(b"".join(map(octets, commands)))
        assert len(self.engine.sessions) == 1  # type: ignore[attr-defined]
        return queue_of(self.vhost, "q").depth

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

"""Talks with the embedded broker, octets carried by hand: of our own client, and of one that says what it likes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amqp10.dialects.fast.wire.command_table import Command
from amqp10.dialects.fast.wire.commands import (
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionResponse,
    ConnectionTune,
    HandleClose,
    HandleOpen,
)
from amqp10.dialects.fast.wire.frames import INITIATION, CommandReader, encode_command
from amqp10.engine import Event, LinkTerms, ReceiverLink, SenderLink
from amqp10.messaging import Source, Target

from ...broker.served import Served
from ...broker.wire import Wire
from ...inside.broker import VirtualHostCore
from .second_decoder import read, write

LARGEST = 10_000
"""Octets of a message."""


def new_vhost() -> VirtualHostCore:
    """A virtual host with nothing in it."""
    return VirtualHostCore(clock=lambda: 0.0)


class HostileClient(Served):
    """The broker's side of a connection; what is said to it is up to the test."""

    def __init__(self, vhost: VirtualHostCore | None = None) -> None:
        super().__init__("fast", vhost or new_vhost(), max_message_size=LARGEST)
        self.reader = CommandReader(1 << 20)

    def says(self, data: bytes) -> list[Command]:
        """Return the broker's answer."""
        answers = []
        for octets in (data, b"", b""):
            self.reader.feed(self.take(octets))
            while (read := self.reader.next()) is not None:
                answers.append(read[0])
        return answers

    def begun(self) -> HostileClient:
        """With channel 1, a producer's handle 1 and a consumer's handle 2, and a transacted channel 2 with handle 3."""
        self.says(INITIATION)
        self.says(encode_command(ConnectionResponse(mechanism="ANONYMOUS")))
        self.says(encode_command(ConnectionTune(frame_max=4096, channel_max=1023, heartbeat=30)))
        self.says(encode_command(ConnectionOpen(confirm_tag=1, virtual_path="/", client_name="c")))
        for command in (
            ChannelOpen(channel_id=1, confirm_tag=1, restartable=True),
            ChannelOpen(channel_id=2, transacted=True),
            HandleOpen(channel_id=1, handle_id=1, service_type=1, producer=True, dest_name="q"),
            HandleOpen(channel_id=1, handle_id=2, service_type=1, consumer=True, browser=True, dest_name="q"),
            HandleOpen(channel_id=2, handle_id=3, service_type=1, producer=True, dest_name="q"),
        ):
            self.says(encode_command(command))
        assert self.engine.opened
        return self


def codes(answers: list[Command]) -> dict[str, int]:
    """The closes among the answers, and their codes."""
    return {
        each.title(): each.reply_code
        for each in answers
        if isinstance(each, ConnectionClose | ChannelClose | HandleClose)
    }


class Talk(Wire):
    """A client engine before the embedded broker.

    Attributes:
        there: all that the client has said.
        back: all that the broker has said.
    """

    def __init__(self, **client: Any) -> None:
        self.there, self.back = b"", b""
        super().__init__(new_vhost(), "fast", max_message_size=LARGEST, **client)

    def turn(self) -> list[Event]:
        """Act on what the broker's engine has to say of itself, then carry octets."""
        self.settle_down()
        return super().turn()

    def crossed(self, there: bytes, back: bytes) -> None:
        self.there += there
        self.back += back

    def sender(self, address: str | None = "q", **terms: Any) -> SenderLink:
        link = self.session.attach_sender(LinkTerms(f"s-{len(self.there)}", Source(), Target(address), **terms))
        self.turn()
        assert link.attached
        return link

    def receiver(self, source: Source, **terms: Any) -> ReceiverLink:
        link = self.session.attach_receiver(LinkTerms(f"r-{len(self.there)}", source, Target(), **terms))
        self.turn()
        assert link.attached
        return link


def commands(data: bytes) -> Iterator[tuple[str, dict[str, Any], bytes]]:
    """All that is said, by the second decoder; what it reads it also writes as it was."""
    while data:
        name, values, rest = read(data)
        said = data[: len(data) - len(rest)]
        assert write(name, values) == said
        size = values.get("fragment-size", 0)
        yield name, values, rest[:size]
        data = rest[size:]

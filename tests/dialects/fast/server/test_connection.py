"""A server of AMQP/Fast: clients that go beyond what was agreed, and those that are not let in."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.dialects.fast.wire.command_table import Command
from amqp10.dialects.fast.wire.commands import (
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionResponse,
    ConnectionTune,
    HandleOpen,
)
from amqp10.dialects.fast.wire.frames import INITIATION, CommandReader, encode_command

from ....kit.broker.served import Served
from ....kit.dialects.fast.talk import HostileClient
from ....kit.inside.broker import VirtualHostCore


def opened_to(path: str) -> list[Command]:
    """Return what the broker, which has the virtual host "/" alone, says to an open."""
    vhost = VirtualHostCore(clock=lambda: 0.0)
    served = Served("fast", vhost, virtual_hosts={"/": vhost})
    reader, said = CommandReader(1 << 20), list[Command]()
    for octets in (
        INITIATION,
        encode_command(ConnectionResponse(mechanism="ANONYMOUS")),
        encode_command(ConnectionTune(frame_max=4096)),
        encode_command(ConnectionOpen(confirm_tag=1, virtual_path=path, client_name="c")),
        b"",
    ):
        reader.feed(served.take(octets))
        while (read := reader.next()) is not None:
            said.append(read[0])
    return said[2:]


def test_not_let_in() -> None:
    """The close comes in place of the reply, which would say that the connection is open."""
    (closed,) = opened_to("other")
    assert isinstance(closed, ConnectionClose)
    assert (closed.reply_code, closed.reply_text) == (404, "there is no virtual host 'other'")
    (reply,) = opened_to("/")
    assert reply.title() == "connection-reply"


@pytest.mark.parametrize(("asked", "reason"), [({"channel_max": 1024}, "channel"), ({"handle_max": 5000}, "handle")])
def test_more_than_was_offered(asked: dict[str, Any], reason: str) -> None:
    """A client that asks for more channels or handles is closed, as one that asks for larger frames."""
    client = HostileClient()
    client.says(INITIATION)
    client.says(encode_command(ConnectionResponse(mechanism="ANONYMOUS")))
    (closed,) = client.says(encode_command(ConnectionTune(frame_max=4096, **asked)))
    assert isinstance(closed, ConnectionClose)
    assert closed.reply_code == 530
    assert closed.reply_text.startswith(f"{reason}-max must be")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (ChannelOpen(channel_id=1), "channel 1 is open already"),
        (ChannelOpen(channel_id=0), "channel 0, where channels are 1 to 1023"),
        (ChannelOpen(channel_id=1024), "channel 1024, where channels are 1 to 1023"),
        (HandleOpen(channel_id=1, handle_id=1, service_type=1), "handle 1 is open already"),
        (HandleOpen(channel_id=1, handle_id=0, service_type=1), "handle 0, where handles are 1 to 4096"),
        (HandleOpen(channel_id=7, handle_id=9, service_type=1), "handle-open for channel 7, which is not open"),
    ],
)
def test_numbers_that_cannot_be_opened(command: Any, reason: str) -> None:
    """The close says which number is wrong, and why."""
    (closed,) = HostileClient().begun().says(encode_command(command))
    assert isinstance(closed, ConnectionClose)
    assert (closed.reply_code, closed.reply_text) == (530, reason)

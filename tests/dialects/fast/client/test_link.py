"""The channel and the handle of a client's link, when the server refuses one of them."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.dialects.fast.wire.command_table import Command
from amqp10.dialects.fast.wire.commands import ChannelReply, HandleReply
from amqp10.dialects.fast.wire.frames import encode_command
from amqp10.engine import LinkEnded, LinkTerms
from amqp10.errors import LinkDetached
from amqp10.messaging import Source, Target

from ....kit.dialects.fast.pair import opened
from ....kit.dialects.fast.talk import commands

REFUSED: dict[str, Any] = {"reply_code": 506, "reply_text": "no room"}


@pytest.mark.parametrize("attach", ["attach_sender", "attach_receiver"])
@pytest.mark.parametrize("what", ["channel", "handle"])
def test_refused(attach: str, what: str) -> None:
    """The link ends with the reason, and its channel is closed: its number can be used again."""
    pair = opened()
    session, _ = pair.begin()
    link = getattr(session, attach)(LinkTerms("l", Source("q"), Target("q")))
    asked = {name: values for name, values, _ in commands(pair.client.data_to_send())}
    if what == "channel":
        channel = asked["channel-open"]
        answer: Command = ChannelReply(channel_id=channel["channel-id"], confirm_tag=channel["confirm-tag"], **REFUSED)
    else:
        handle = asked["handle-open"]
        answer = HandleReply(handle_id=handle["handle-id"], confirm_tag=handle["confirm-tag"], **REFUSED)
    pair.client.receive_data(encode_command(answer))
    (ended,) = [event for event in pair.client.events() if isinstance(event, LinkEnded)]
    assert ended.link is link
    assert isinstance(ended.error, LinkDetached)
    assert (ended.error.condition, ended.error.description) == ("amqp:resource-limit-exceeded", "no room")
    closes = [(name, values) for name, values, _ in commands(pair.client.data_to_send()) if name.endswith("-close")]
    assert [name for name, _ in closes] == ["channel-close"]
    assert closes[0][1]["channel-id"] == asked["channel-open"]["channel-id"]

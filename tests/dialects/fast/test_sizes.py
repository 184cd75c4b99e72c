"""How large messages may be: each, those of a connection that are not whole, and those that are not committed."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.dialects.fast.wire.command_table import Command
from amqp10.dialects.fast.wire.commands import (
    ChannelClose,
    ChannelOpen,
    HandleClose,
    HandleNotify,
    HandleOpen,
    HandlePrepare,
    HandleReply,
    HandleSend,
    MessageHead,
)
from amqp10.dialects.fast.wire.frames import encode_command
from amqp10.engine import LinkEnded, MemoryKeeper
from amqp10.errors import LinkDetached
from amqp10.messaging import ACCEPTED, Message, Source

from ...kit.dialects.fast.talk import HostileClient, Talk, codes, commands
from ...kit.inside.engines import message_limits as limits

PART = b"x" * 2000


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("size", [1001, 9000])
def test_a_message_above_the_limit(streaming: bool, size: int) -> None:
    """Ends its link, with 311, whatever comes of it; what was accepted before is told, the rest given back."""
    talk = Talk(max_frame_size=1024)
    sender = talk.sender()
    receiver = talk.receiver(Source("q"), max_message_size=1000)
    receiver.streaming = streaming
    other = talk.receiver(Source("other"))
    receiver.flow(10)
    for body in (b"taken", b"left"):
        sender.send(Message(body).encode())
    talk.turn()
    receiver.settle(receiver.incoming[0], ACCEPTED)
    sender.send(Message(b"x" * size).encode())
    talk.turn()
    ended = [event for event in talk.events if isinstance(event, LinkEnded)]
    assert [(event.link, event.closed) for event in ended] == [(receiver, True)]
    assert isinstance(ended[0].error, LinkDetached)
    assert ended[0].error.condition == "amqp:link:message-size-exceeded"
    said = {name: values["reply-code"] for name, values, _ in commands(talk.there[2:]) if name.endswith("-close")}
    assert said == {"handle-close": 311, "channel-close": 200}
    assert (sender.attached, other.attached, talk.client.opened) == (True, True, True)
    again = talk.receiver(Source("q"))
    again.flow(10)
    talk.turn()
    assert [Message.decode(each.payload).body for each in again.incoming] == [b"left", b"x" * size]


def handles(served: HostileClient, count: int, *, transacted: bool = False) -> list[int]:
    """A channel each, and a producer's handle on it."""
    numbers = list(range(10, 10 + count))
    for number in numbers:
        served.says(encode_command(ChannelOpen(channel_id=number, transacted=transacted)))
        opening = HandleOpen(channel_id=number, handle_id=number, service_type=1, producer=True, dest_name="q")
        served.says(encode_command(opening))
    return numbers


def part(number: int, content: bytes, *, partial: bool = True, tag: int = 0) -> bytes:
    said = HandleSend(handle_id=number, fragment_size=len(content), partial=partial, confirm_tag=tag)
    return encode_command(said, content)


def done(number: int) -> HandleReply:
    return HandleReply(handle_id=number, confirm_tag=1, reply_code=200)


def test_many_that_are_not_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """One alone may be as large as any; of several no more comes than so much, and the one too many is refused."""
    monkeypatch.setattr("amqp10.dialects.fast.server.handle.MAX_PARTIAL", 9000)
    served = HostileClient().begun()
    numbers = handles(served, 5)
    head = MessageHead(body_size=10_000).write()
    for number in numbers[:4]:
        assert served.says(part(number, head + PART)) == []
    (refused,) = served.says(part(numbers[4], head + PART))
    assert isinstance(refused, HandleClose)
    assert (refused.handle_id, refused.reply_code) == (numbers[4], 506)
    assert "incomplete messages" in refused.reply_text
    # A whole message is none of them; and when another is whole, there is room again.
    small = MessageHead(body_size=1).write() + b"x"
    assert served.says(part(1, small, partial=False, tag=1)) == [done(1)]
    for closed, following in ((numbers[0], numbers[1]), (numbers[2], numbers[3])):
        assert codes(served.says(encode_command(HandleClose(handle_id=closed)))) == {"handle-close": 200}
        assert served.says(part(following, PART)) == []
    assert codes(served.says(part(numbers[3], PART))) == {"handle-close": 506}
    for content in (PART, PART):
        assert served.says(part(numbers[1], content)) == []
    assert served.says(part(numbers[1], PART, partial=False, tag=1)) == [done(numbers[1])]
    assert served.engine.partial == 0


@pytest.mark.parametrize("by_preparing", [False, True])
def test_many_that_are_not_whole_at_a_client(by_preparing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that a server sends in part are limited, too: surplus ones end, the others go on."""
    monkeypatch.setattr(limits, "MAX_MESSAGE", 10_000)
    monkeypatch.setattr(limits, "MAX_PARTIAL", 9000)
    talk = Talk()
    links: list[Any] = [talk.receiver(Source(f"q{n}")) for n in range(11)]
    for link in links:
        link.flow(10)
    talk.turn()
    content = MessageHead(body_size=10_000).write() + PART
    for link in links:
        said: Command = HandleNotify(
            handle_id=link.handle.id, message_nbr=1, fragment_size=len(content), partial=True, delivered=True
        )
        if by_preparing and link is links[-1]:
            said = HandlePrepare(handle_id=link.handle.id, fragment_size=len(content))
        talk.client.receive_data(encode_command(said, content))
    ended = [event for event in talk.client.events() if isinstance(event, LinkEnded)]
    assert [event.link for event in ended] == links[9:]
    assert isinstance(ended[0].error, LinkDetached)
    assert ended[0].error.condition == "amqp:resource-limit-exceeded"
    assert talk.client.opened
    for link in links:
        link.detach()
    talk.turn()
    assert talk.client.partial == 0


def test_small_parts_weigh_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Than their octets: a peer that sends one or two at a time is bounded, too."""
    monkeypatch.setattr("amqp10.dialects.fast.server.handle.MAX_PARTIAL", 9000)
    served = HostileClient().begun()
    first, second = handles(served, 2)
    head = MessageHead(body_size=10_000).write()
    assert served.says(part(first, head + PART)) == []
    answers: list[Command] = []
    count = 0
    served.says(part(second, head))
    while not answers:
        answers = served.says(part(second, b"xy"))
        count += 1
    assert codes(answers) == {"handle-close": 506}
    assert count < 120


def test_what_is_prepared_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The payload of a handle-prepare is part of a message, too."""
    monkeypatch.setattr("amqp10.dialects.fast.server.handle.MAX_PARTIAL", 3000)
    served = HostileClient().begun()
    first, second = handles(served, 2)
    head = MessageHead(body_size=10_000).write()
    assert served.says(part(first, head + PART)) == []
    content = head + PART
    preparing = HandlePrepare(handle_id=second, fragment_size=len(content))
    assert codes(served.says(encode_command(preparing, content))) == {"handle-close": 506}
    assert served.engine.partial == 2064
    served.says(encode_command(ChannelClose(channel_id=first)))
    assert served.engine.partial == 0


def test_all_that_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transactions of a connection have so much together; that of a channel that is closed is not counted."""
    monkeypatch.setattr("amqp10.dialects.fast.server.session.MAX_OCTETS", 7000)
    served = HostileClient().begun()
    first, second, third = handles(served, 3, transacted=True)
    message = MessageHead(body_size=len(PART)).write() + PART
    for number in (first, second, third):
        assert served.says(part(number, message, partial=False)) == []
    assert codes(served.says(part(third, message, partial=False))) == {"channel-close": 506}
    assert served.says(part(second, message, partial=False)) == []
    served.says(encode_command(ChannelClose(channel_id=first)))
    assert served.says(part(second, message, partial=False)) == []
    assert codes(served.says(part(second, message, partial=False))) == {"channel-close": 506}
    assert served.engine.uncommitted == 0  # type: ignore[attr-defined]
    assert not served.over


def test_what_is_not_committed_counts_for_the_memory_of_all() -> None:
    """Where all connections together have no room for it, its channel ends; it counts no longer after that."""
    served = HostileClient().begun()
    first, second = handles(served, 2, transacted=True)
    message = MessageHead(body_size=len(PART)).write() + PART
    room = 9000

    class Keeper(MemoryKeeper):
        """Other connections leave so much room."""

        def count_partial(self, change: int) -> bool:
            nonlocal room
            room -= change
            return room >= 0

        def count_waiting(self, change: int) -> None:
            pass

    served.engine.memory_keeper = Keeper()
    for number in (first, second, first, second):
        assert served.says(part(number, message, partial=False)) == []
    (refused,) = served.says(part(second, message, partial=False))
    assert isinstance(refused, ChannelClose)
    assert (refused.reply_code, refused.reply_text) == (506, "no memory is left for uncommitted transactions")
    assert served.says(part(first, message, partial=False)) == []  # there is room again
    served.engine.receive_eof()
    assert (room, served.engine.partial) == (9000, 0)


def test_what_waits_for_credit_goes_with_the_connection() -> None:
    """At once, not when the garbage collector finds it."""
    served = HostileClient().begun()
    served.vhost.admission.block("a test", "no message is taken")
    (number,) = handles(served, 1)
    message = MessageHead(body_size=len(PART)).write() + PART
    served.says(part(number, message, partial=False) * 30)
    assert served.engine.waiting > 20 * len(PART)
    served.engine.receive_eof()
    assert served.engine.waiting == 0

"""What a client says in one go, and closes over what is not done yet: all of it counts, in its order."""

from __future__ import annotations

import pytest

from amqp10.dialects.fast.wire.command_table import Command
from amqp10.dialects.fast.wire.commands import (
    ChannelAck,
    ChannelCommit,
    ChannelReply,
    ConnectionChallenge,
    ConnectionResponse,
    ConnectionTune,
    HandleBrowse,
    HandleCancel,
    HandleClose,
    HandleConsume,
    HandleCreated,
    HandleFlow,
    HandleIndex,
    HandleNotify,
    HandleOpen,
    HandleQuery,
    HandleReply,
    HandleSend,
    MessageHead,
)
from amqp10.dialects.fast.wire.frames import INITIATION, encode_command
from amqp10.engine import ConnectionEnded, ConnectionTerms
from amqp10.errors import Unsupported
from amqp10.messaging import Message
from amqp10.testing import EnginePair

from ...kit.broker.wire import queue_of
from ...kit.dialects.fast.talk import HostileClient, codes

HEAD = MessageHead(body_size=1).write()


def send(handle: int, content: bytes = HEAD + b"x", confirm_tag: int = 0) -> bytes:
    return encode_command(HandleSend(handle_id=handle, fragment_size=len(content), confirm_tag=confirm_tag), content)


def commit(tag: int) -> bytes:
    return encode_command(ChannelCommit(channel_id=2, confirm_tag=tag))


def depth(served: HostileClient) -> int:
    """Messages in the queue."""
    return queue_of(served.vhost, "q").depth


def test_commits() -> None:
    """One after the other, each with what was said before it."""
    served = HostileClient().begun()
    replies = served.says(send(3) + commit(7) + send(3) + send(3) + commit(8) + commit(9))
    assert replies == [ChannelReply(channel_id=2, confirm_tag=tag, reply_code=200) for tag in (7, 8, 9)]
    assert depth(served) == 3


def test_commits_of_acknowledgments() -> None:
    """One after another commit counts as well."""
    served = HostileClient().begun()
    served.says(send(1) + send(1))
    served.says(encode_command(HandleOpen(channel_id=2, handle_id=4, service_type=1, consumer=True, dest_name="q")))
    served.says(encode_command(HandleConsume(handle_id=4, prefetch=2)))
    acks = [encode_command(ChannelAck(channel_id=2, message_nbr=number)) for number in (1, 2)]
    said = served.says(send(3) + commit(7) + acks[0] + commit(8) + acks[1] + commit(9))
    assert [each.reply_code for each in said if isinstance(each, ChannelReply)] == [200, 200, 200]
    assert (codes(said), depth(served)) == ({}, 1)


def test_a_commit_of_what_was_refused() -> None:
    """Fails as a whole, with the reason of what was refused; the next one is free of it."""
    served = HostileClient().begun()
    served.says(encode_command(HandleOpen(channel_id=2, handle_id=4, service_type=1, producer=True, dest_name="q")))
    assert codes(served.says(send(4) + send(3, HEAD))) == {"handle-close": 542}
    (reply,) = served.says(commit(7))
    assert isinstance(reply, ChannelReply)
    assert (reply.reply_code, reply.reply_text) == (531, "a body of 1 octets ended after 0")
    assert served.says(send(4) + commit(8)) == [ChannelReply(channel_id=2, confirm_tag=8, reply_code=200)]
    assert depth(served) == 1


def test_a_commit_of_what_was_sent_on_a_handle_that_is_gone() -> None:
    """Fails, and the next one is carried out all the same."""
    served = HostileClient().begun()
    served.says(encode_command(HandleOpen(channel_id=2, handle_id=4, service_type=1, producer=True, dest_name="q")))
    _, *replies = served.says(
        send(4) + encode_command(HandleClose(handle_id=4, reply_code=200)) + commit(7) + send(3) + commit(8)
    )
    assert [(each.confirm_tag, each.reply_code) for each in replies if isinstance(each, ChannelReply)] == [
        (7, 541),
        (8, 200),
    ]
    assert depth(served) == 1


def test_more_than_one_index_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, by the number to go on behind; and the last one, that there is no more."""
    monkeypatch.setattr("amqp10.dialects.fast.server.browser.MAX_FOUND", 3)
    served = HostileClient().begun()
    served.says(5 * send(1))
    for after, listed, more in ((0, b"1-3", 3), (3, b"4-5", 0)):
        answers = served.says(encode_command(HandleQuery(handle_id=2, message_nbr=after)))
        assert answers == [HandleIndex(handle_id=2, message_nbr=more, message_list=listed)]


def test_a_connection_that_is_closed_at_once() -> None:
    """Its close is answered when all that came before it is taken."""
    pair = EnginePair(dialect="fast")
    pair.open()
    sending, receiving = pair.attach()
    for _ in range(3):
        sending.send(Message(b"x").encode(), settled=True)
    pair.client.close()
    pair.run()
    assert not [event for event in pair.client_events if isinstance(event, ConnectionEnded)]
    receiving.flow(3)
    assert len(receiving.incoming) == 3
    pair.run()
    assert [event.error for event in pair.client_events if isinstance(event, ConnectionEnded)] == [None]


def test_a_temporary_queue_of_one_handle() -> None:
    """A client that opens an unnamed queue to send and to receive is told its name, and gets its own messages."""
    served = HostileClient().begun()
    opening = HandleOpen(
        channel_id=1, handle_id=4, service_type=1, confirm_tag=9, producer=True, consumer=True, temporary=True
    )
    created, reply = served.says(encode_command(opening))
    assert isinstance(created, HandleCreated)
    assert created.dest_name
    assert reply == HandleReply(handle_id=4, confirm_tag=9, reply_code=200)
    served.says(encode_command(HandleConsume(handle_id=4, prefetch=5)))
    answers = served.says(send(4, confirm_tag=3))
    assert {type(each) for each in answers} == {HandleReply, HandleNotify}
    assert [each.handle_id for each in answers if isinstance(each, HandleNotify)] == [4]


@pytest.mark.parametrize(("heartbeat", "taken"), [(0, True), (30, True), (31, False)])
def test_a_heartbeat_above_the_servers(heartbeat: int, taken: bool) -> None:
    """The limits of the client are not above those of the server."""
    served = HostileClient()
    served.says(INITIATION)
    (tune,) = served.says(encode_command(ConnectionResponse(mechanism="ANONYMOUS")))
    assert isinstance(tune, ConnectionTune)
    assert tune.heartbeat == 30
    answers: list[Command] = served.says(encode_command(ConnectionTune(frame_max=4096, heartbeat=heartbeat)))
    assert codes(answers) == ({} if taken else {"connection-close": 530})


def test_a_server_of_another_version() -> None:
    """The client, which speaks the first only, says what it was offered and goes."""
    pair = EnginePair(dialect="fast")
    pair.client.receive_data(encode_command(ConnectionChallenge(version=2, mechanisms="ANONYMOUS")))
    (ended,) = pair.client.events()
    assert isinstance(ended, ConnectionEnded)
    assert isinstance(ended.error, Unsupported)
    assert "version 2" in str(ended.error)


@pytest.mark.parametrize(("said", "heard"), [("example.com", "example.com"), (None, None)])
def test_the_host_asked_for(said: str | None, heard: str | None) -> None:
    """The server knows as whom it was asked."""
    pair = EnginePair(dialect="fast", client=ConnectionTerms("c", hostname=said))
    pair.open()
    assert pair.server.remote is not None
    assert pair.server.remote.hostname == heard


def test_a_session_that_the_server_ends() -> None:
    """Its links end with it, at both sides, and nothing of them is left."""
    pair = EnginePair(dialect="fast")
    pair.open()
    session, theirs = pair.begin()
    sending, _ = pair.attach(session=session)
    theirs.end()
    pair.run()
    assert (sending.attached, session.begun) == (False, False)
    assert (pair.client.channels, pair.client.handles) == ({}, {})  # type: ignore[attr-defined]
    again, _ = pair.attach(session=pair.begin()[0])
    assert again.attached


def consume(tag: int) -> Command:
    return HandleConsume(handle_id=2, prefetch=1, confirm_tag=tag)


IN_TURN: dict[str, tuple[list[Command], list[tuple[str, int]]]] = {
    "cancelled": (
        [consume(7), HandleCancel(handle_id=2, confirm_tag=8)],
        [("handle-reply", 7), ("handle-reply", 8)],
    ),
    "anew": (
        [consume(7), HandleCancel(handle_id=2, confirm_tag=8), consume(9)],
        [("handle-reply", 7), ("handle-reply", 8), ("handle-reply", 9), ("handle-notify", 0)],
    ),
    "twice": ([consume(7), consume(8)], [("handle-reply", 7), ("handle-reply", 8), ("handle-notify", 0)]),
    "listed twice": (
        [HandleQuery(handle_id=2), HandleQuery(handle_id=2)],
        [("handle-index", 0), ("handle-index", 0)],
    ),
    "shown what is listed": (
        [HandleQuery(handle_id=2), HandleBrowse(handle_id=2, message_nbr=2, confirm_tag=7)],
        [("handle-index", 0), ("handle-notify", 0)],
    ),
}


@pytest.mark.parametrize("case", IN_TURN)
def test_in_turn(case: str) -> None:
    """A later request waits for the one that it depends on, and each is answered."""
    commands, answers = IN_TURN[case]
    served = HostileClient().begun()
    served.says(send(1) + send(1))
    said = served.says(b"".join(map(encode_command, commands)))
    assert [(each.title(), getattr(each, "confirm_tag", 0)) for each in said] == answers


def test_sent_to_a_temporary_queue_before_it_is_made() -> None:
    """It waits for the queue."""
    served = HostileClient().begun()
    opening = HandleOpen(channel_id=1, handle_id=4, service_type=1, producer=True, consumer=True, temporary=True)
    said = served.says(encode_command(opening) + send(4, confirm_tag=7) + send(4, confirm_tag=8))
    assert [(each.title(), getattr(each, "confirm_tag", 0)) for each in said] == [
        ("handle-created", 0),
        ("handle-reply", 7),
        ("handle-reply", 8),
    ]


def test_in_turn_without_end() -> None:
    """So many may wait, and no more."""
    served = HostileClient().begun()
    served.says(send(1) + send(1))
    said = served.says(encode_command(consume(0)) + encode_command(HandleFlow(handle_id=2, confirm_tag=1)) * 1001)
    assert codes(said) == {"handle-close": 506}

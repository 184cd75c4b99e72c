"""Peers of AMQP/Fast that do what they may not: each is told so with a code, and neither end ever raises."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.dialects.fast import DIALECT
from amqp10.dialects.fast.wire.commands import (
    ChannelAck,
    ChannelClose,
    ChannelCommit,
    ChannelOpen,
    ChannelReply,
    ConnectionChallenge,
    ConnectionClose,
    ConnectionPing,
    ConnectionReply,
    ConnectionResponse,
    ConnectionTune,
    HandleBrowse,
    HandleClose,
    HandleConsume,
    HandleIndex,
    HandleNotify,
    HandleOpen,
    HandlePrepare,
    HandleQuery,
    HandleReady,
    HandleReply,
    HandleSend,
    HandleUnget,
    MessageHead,
)
from amqp10.dialects.fast.wire.frames import CommandReader, encode_command
from amqp10.engine import ConnectionEnded, ConnectionTerms, Engine, LinkEnded, LinkTerms, SenderSettleMode
from amqp10.errors import ConnectionLost, LinkDetached, RemoteProtocolError
from amqp10.messaging import Message, Source, Target

from ...kit.dialects.fast.second_decoder import GRAMMAR, write
from ...kit.dialects.fast.strategies import BY_TYPE
from ...kit.dialects.fast.talk import HostileClient, codes

HEAD = MessageHead(body_size=1).write()


def sent(content: bytes, **said: Any) -> bytes:
    return encode_command(HandleSend(handle_id=1, fragment_size=len(content), **said), content)


ACTS = {
    "no end octet": (b"\0\3\x0e\1\0", {"connection-close": 501}),
    "too large": (b"\xff\xff\xff\xff\xff\xff", {"connection-close": 501}),
    "large fragment": (encode_command(HandleSend(handle_id=1, fragment_size=4097)), {"connection-close": 501}),
    "no command": (b"\0\2\x63\xce", {"connection-close": 540}),
    "malformed": (b"\0\5\x13\2\x1c\x09\xce", {"connection-close": 502}),
    "a server's command": (encode_command(HandleReply()), {"connection-close": 530}),
    "login again": (encode_command(ConnectionResponse(mechanism="PLAIN")), {"connection-close": 409}),
    "no such channel": (encode_command(ChannelAck(channel_id=7)), {"connection-close": 530}),
    "no such handle": (encode_command(HandleConsume(handle_id=7)), {"connection-close": 530}),
    "channel in use": (encode_command(ChannelOpen(channel_id=1)), {"connection-close": 530}),
    "channel 0": (encode_command(ChannelOpen()), {"connection-close": 530}),
    "handle in use": (encode_command(HandleOpen(channel_id=1, handle_id=1)), {"connection-close": 530}),
    "ready": (encode_command(HandleReady(handle_id=1)), {"connection-close": 409}),
    "band": (encode_command(ChannelOpen(channel_id=5, out_of_band="udp")), {"channel-close": 540}),
    "no transaction": (encode_command(ChannelCommit(channel_id=1)), {"channel-close": 409}),
    "between fragments": (
        sent(HEAD, partial=True)
        + encode_command(HandleOpen(channel_id=1, handle_id=9, service_type=1, producer=True))
        + encode_command(HandleSend(handle_id=9, fragment_size=len(HEAD)), HEAD),
        {"channel-close": 409},
    ),
    "peers": (encode_command(HandleOpen(channel_id=1, handle_id=9, service_type=3)), {"handle-close": 540}),
    "no service": (encode_command(HandleOpen(channel_id=1, handle_id=9, service_type=8)), {"handle-close": 531}),
    "for nothing": (encode_command(HandleOpen(channel_id=1, handle_id=9, service_type=1)), {"handle-close": 531}),
    "out of band": (encode_command(HandleSend(handle_id=1, fragment_size=9, out_of_band=True)), {"handle-close": 540}),
    "stream": (sent(HEAD, streaming=True, partial=True), {"handle-close": 540}),
    "no head": (sent(b"x"), {"handle-close": 502}),
    "short body": (sent(HEAD), {"handle-close": 542}),
    "long body": (sent(HEAD + b"xy"), {"handle-close": 542}),
    "large message": (sent(MessageHead(body_size=10_001).write(), partial=True), {"handle-close": 311}),
    "sent by a consumer": (encode_command(HandleSend(handle_id=2)), {"handle-close": 530}),
    "consumed by a producer": (encode_command(HandleConsume(handle_id=1, prefetch=1)), {"handle-close": 530}),
    "no prefetch": (encode_command(HandleConsume(handle_id=2)), {"handle-close": 531}),
    "no selector": (encode_command(HandleConsume(handle_id=2, prefetch=1, selector=b"\xff")), {"handle-close": 531}),
    "bad selector": (encode_command(HandleConsume(handle_id=2, prefetch=1, selector=b"AND")), {"handle-close": 531}),
    "listed by a producer": (encode_command(HandleQuery(handle_id=1)), {"handle-close": 530}),
    "prepared in a message": (
        sent(HEAD, partial=True) + encode_command(HandlePrepare(handle_id=1, fragment_size=len(HEAD)), HEAD),
        {"handle-close": 409},
    ),
    "prepared by a consumer": (encode_command(HandlePrepare(handle_id=2)), {"handle-close": 409}),
    "prepared too large": (
        encode_command(
            HandlePrepare(handle_id=1, fragment_size=len(HEAD)), MessageHead(body_size=10_001).write()[: len(HEAD)]
        ),
        {"handle-close": 311},
    ),
    "the rest of nothing": (sent(b"x", recovery=True), {"handle-close": 409}),
    "another hash": (
        encode_command(HandlePrepare(handle_id=1, fragment_size=len(HEAD), content_hash="0" * 40), HEAD)
        + sent(b"x", recovery=True),
        {"handle-close": 542},
    ),
    "more than the rest": (
        encode_command(HandlePrepare(handle_id=1, fragment_size=len(HEAD)), HEAD) + sent(b"xy", recovery=True),
        {"handle-close": 542},
    ),
    "ready for what was not asked": (
        encode_command(HandleReady(handle_id=2, message_size=1)),
        {"connection-close": 409},
    ),
    "shown unlisted": (encode_command(HandleBrowse(handle_id=2, message_nbr=1)), {"handle-close": 409}),
}


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("chunk", [1, None])
def test_acts(name: str, chunk: int | None) -> None:
    """An error of a client ends the smallest object concerned, with a code that says why."""
    data, expected = ACTS[name]
    served = HostileClient().begun()
    answers = []
    for start in range(0, len(data), chunk or len(data)):
        answers += served.says(data[start : start + (chunk or len(data))])
    assert codes(answers) == expected
    assert served.over == ("connection-close" in expected)
    if not served.over:
        (pong,) = served.says(encode_command(ConnectionPing(respond=True)))
        assert pong == ConnectionPing()


def test_endless_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that only grows is ended with its channel."""
    monkeypatch.setattr("amqp10.dialects.fast.server.session.MAX_MESSAGES", 3)
    served = HostileClient().begun()
    sending = encode_command(HandleSend(handle_id=3, fragment_size=len(HEAD) + 1), HEAD + b"x")
    assert codes(served.says(3 * sending)) == {}
    assert codes(served.says(2 * sending)) == {"channel-close": 506}
    assert not served.over


def test_after_a_close() -> None:
    """Frames for a closed object are dropped until the client has closed it, too; then its number is free."""
    served = HostileClient().begun()
    served.says(sent(b"x"))
    assert served.says(sent(HEAD + b"x", confirm_tag=5)) == []
    assert served.says(encode_command(HandleClose(handle_id=1))) == []
    opening = HandleOpen(channel_id=1, handle_id=1, service_type=1, producer=True, confirm_tag=3)
    assert served.says(encode_command(opening)) == [HandleReply(handle_id=1, confirm_tag=3, reply_code=200)]
    served.says(encode_command(ChannelCommit(channel_id=1)))
    assert served.says(sent(HEAD + b"x", confirm_tag=5) + encode_command(ChannelAck(channel_id=1))) == []
    assert served.says(encode_command(ChannelClose(channel_id=1))) == []
    reply = ChannelReply(channel_id=1, confirm_tag=1, reply_code=200)
    assert served.says(encode_command(ChannelOpen(channel_id=1, confirm_tag=1))) == [reply]


def test_never_taken_for_another() -> None:
    """A message given back twice, or never sent, changes nothing; nor does an acknowledgment of what is to come."""
    served = HostileClient().begun()
    served.says(sent(HEAD + b"x", confirm_tag=1))
    assert len(served.says(encode_command(HandleConsume(handle_id=2, prefetch=1)))) == 1
    for _ in range(2):
        answers = served.says(encode_command(HandleUnget(handle_id=2, message_nbr=1)))
    assert served.says(encode_command(HandleUnget(handle_id=2, message_nbr=77))) == []
    assert served.says(encode_command(ChannelAck(channel_id=1, message_nbr=0xFFFF_FFFF))) == []
    assert answers == []
    assert not served.over


@pytest.mark.parametrize("data", [b"AH", b"\x80\0", b"\x81\1", b"GET / HTTP/1.1\r\n"])
def test_another_protocol(data: bytes) -> None:
    """A connection that begins with something else is closed without an answer."""
    served = HostileClient()
    assert served.says(data) == []
    assert served.over is not None


def test_later_version() -> None:
    """A client that can do more is told what this side can."""
    (challenge,) = HostileClient().says(b"\x80\7")
    assert isinstance(challenge, ConnectionChallenge)
    assert (challenge.version, challenge.mechanisms) == (1, "ANONYMOUS")


def commands() -> st.SearchStrategy[bytes]:
    small = BY_TYPE | {"short": st.integers(0, 4) | BY_TYPE["short"], "long": st.integers(0, 30) | BY_TYPE["long"]}
    small["longstr"] = st.binary(max_size=20)
    kinds = [
        st.tuples(
            st.just(each["name"]),
            st.fixed_dictionaries({field["name"]: small[field["type"]] for field in each["fields"]}),
        )
        for each in GRAMMAR["commands"]
        if each["name"] not in ("connection-close", "connection-tune")
    ]
    one: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.sampled_from(kinds).flatmap(lambda kind: kind)
    return st.tuples(one, st.binary(max_size=30) | st.just(HEAD + b"x")).map(framed)


def framed(drawn: tuple[tuple[str, dict[str, Any]], bytes]) -> bytes:
    (name, values), content = drawn
    if "fragment-size" in values:
        values = values | {"fragment-size": len(content)}
        return write(name, values) + (b"" if values.get("out-of-band") else content)
    return write(name, values)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(commands(), max_size=12), st.binary(max_size=8))
def test_any_client(data: list[bytes], noise: bytes) -> None:
    """Whatever a client says, in whatever order: the broker's end does not raise, and tells all it has to tell."""
    served = HostileClient().begun()
    for each in (*data, noise):
        served.says(each)
    if not served.over:
        served.engine.tick(0.0)
        served.engine.receive_eof()
        served.says(b"")
    assert served.engine.events() == []


def connected() -> Engine:
    """A client with a sender on handle 1, a receiver on handle 2 and a browser on handle 3, all attached."""
    client = DIALECT.client(ConnectionTerms("c"), None, True)
    client.start()
    client.open()
    for command in (
        ConnectionChallenge(mechanisms="ANONYMOUS"),
        ConnectionTune(frame_max=4096, heartbeat=30),
        ConnectionReply(confirm_tag=1, reply_code=200),
    ):
        client.receive_data(encode_command(command))
    session = client.begin()
    sender = session.attach_sender(LinkTerms("s", Source(), Target("q")))
    receiver = session.attach_receiver(LinkTerms("r", Source("q"), Target()))
    session.attach_receiver(LinkTerms("b", Source("q", distribution_mode="copy"), Target()))
    for number in range(1, 5):
        client.receive_data(encode_command(ChannelReply(channel_id=number, confirm_tag=1, reply_code=200)))
    for handle in (1, 2, 3):
        client.receive_data(encode_command(HandleReply(handle_id=handle, confirm_tag=1, reply_code=200)))
    client.receive_data(encode_command(HandleReply(handle_id=2, confirm_tag=2, reply_code=200)))
    assert sender.attached
    assert receiver.attached
    sender.send(Message(b"x").encode())
    receiver.flow(5)
    client.data_to_send()
    client.events()
    return client


@pytest.mark.parametrize("said", range(3), ids=["nothing", "a challenge", "a tune"])
def test_a_server_that_falls_silent_before_the_open(said: int) -> None:
    """It is given up after the idle time-out, although a tune without a heartbeat allows silence once it is open."""
    client = DIALECT.client(ConnectionTerms("c", idle_timeout=10.0), None, True)
    client.start()
    client.open()
    for command in (ConnectionChallenge(mechanisms="ANONYMOUS"), ConnectionTune(frame_max=4096))[:said]:
        client.receive_data(encode_command(command))
    assert client.tick(0.0) is not None
    assert client.tick(9.0) is not None
    assert client.tick(11.0) is None
    (end,) = [event for event in client.events() if isinstance(event, ConnectionEnded)]
    assert isinstance(end.error, ConnectionLost)


def notified(*numbers: int) -> bytes:
    content = HEAD + b"x"
    notify = [HandleNotify(handle_id=2, message_nbr=each, fragment_size=len(content)) for each in numbers]
    return b"".join(encode_command(each, content) for each in notify)


@pytest.mark.parametrize("numbers", [(5, 5), (5, 3), (0, 0), (1, 0xFFFF_FFFF)])
def test_numbers_that_do_not_grow(numbers: tuple[int, ...]) -> None:
    """An acknowledgment covers all lower numbers: with such a one it would cover a message that nobody has settled."""
    client = connected()
    client.receive_data(notified(*numbers))
    (end,) = [event for event in client.events() if isinstance(event, ConnectionEnded)]
    assert isinstance(end.error, RemoteProtocolError)
    assert f"has the number {numbers[-1]}" in str(end.error)


def test_numbers_after_the_highest() -> None:
    """The number after 2^32 - 1 is 1 (the broker), or 0 (serial numbers)."""
    for last in (0, 1):
        client = connected()
        client.receive_data(notified(0xFFFF_FFFE, 0xFFFF_FFFF, last))
        assert not [event for event in client.events() if isinstance(event, ConnectionEnded)]


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(commands(), max_size=12), st.binary(max_size=8))
def test_any_server(data: list[bytes], noise: bytes) -> None:
    """The same for a client before a server that says whatever it likes."""
    client = connected()
    ended = 0
    for each in (*data, noise):
        client.receive_data(each)
        client.data_to_send()
        ended += sum(isinstance(event, ConnectionEnded) for event in client.events())
    if not ended:
        client.tick(0.0)
        client.receive_eof()
        ended = sum(isinstance(event, ConnectionEnded) for event in client.events())
    assert ended == 1


SERVER_ACTS = {
    "a client's command": (encode_command(HandleOpen()), 530),
    "no such handle": (encode_command(HandleNotify(handle_id=9)), 530),
    "no such channel": (encode_command(ChannelClose(channel_id=9)), 530),
    "not asked": (encode_command(HandleReply(handle_id=1, confirm_tag=99)), 501),
    "not asked on a channel": (encode_command(ChannelReply(channel_id=1, confirm_tag=99)), 501),
    "notified sender": (encode_command(HandleNotify(handle_id=1)), 501),
    "out of band": (encode_command(HandleNotify(handle_id=2, out_of_band=True)), 540),
    "stream": (encode_command(HandleNotify(handle_id=2, streaming=True)), 540),
    "another message": (
        encode_command(HandleNotify(handle_id=2, message_nbr=1, fragment_size=len(HEAD), partial=True), HEAD)
        + encode_command(HandleNotify(handle_id=2, message_nbr=2, fragment_size=1), b"x"),
        409,
    ),
    "short body": (encode_command(HandleNotify(handle_id=2, message_nbr=1, fragment_size=len(HEAD)), HEAD), 542),
    "ready": (encode_command(HandleReady(handle_id=1, message_size=5)), 409),
    "prepared twice": (2 * encode_command(HandlePrepare(handle_id=2, fragment_size=len(HEAD)), HEAD), 409),
    "prepared for a sender": (encode_command(HandlePrepare(handle_id=1, fragment_size=len(HEAD)), HEAD), 501),
    "the rest of nothing": (
        encode_command(HandleNotify(handle_id=2, message_nbr=1, fragment_size=1, recovery=True), b"x"),
        409,
    ),
    "another hash": (
        encode_command(HandlePrepare(handle_id=2, fragment_size=len(HEAD), content_hash="0" * 40), HEAD)
        + encode_command(HandleNotify(handle_id=2, message_nbr=1, fragment_size=1, recovery=True), b"x"),
        542,
    ),
    "opened twice": (encode_command(ConnectionReply(confirm_tag=1, reply_code=200)), 409),
}


@pytest.mark.parametrize("name", SERVER_ACTS)
def test_server_acts(name: str) -> None:
    """An error of a server ends the connection, with a code that says why."""
    data, code = SERVER_ACTS[name]
    client = connected()
    client.receive_data(data)
    reader = CommandReader(1 << 20)
    reader.feed(client.data_to_send())
    said = []
    while (read := reader.next()) is not None:
        said.append(read[0])
    assert isinstance(said[-1], ConnectionClose)
    assert said[-1].reply_code == code
    assert isinstance(client.events()[-1], ConnectionEnded)


@pytest.mark.parametrize("settle_mode", ["settled", "unsettled"])
def test_messages_without_end(settle_mode: SenderSettleMode) -> None:
    """A server that goes by no prefetch: the link ends when far more came than was asked for, and keeps no more."""
    client = connected()
    receiver = client.begin().attach_receiver(LinkTerms("more", Source("q"), Target(), settle_mode))
    client.receive_data(encode_command(ChannelReply(channel_id=5, confirm_tag=1, reply_code=200)))
    for tag in (1, 2):
        client.receive_data(encode_command(HandleReply(handle_id=4, confirm_tag=tag, reply_code=200)))
    assert receiver.attached
    receiver.flow(5)
    client.data_to_send()
    client.events()
    octets = MessageHead().write()
    for number in range(1, 1500):
        client.receive_data(
            encode_command(HandleNotify(handle_id=4, message_nbr=number, fragment_size=len(octets)), octets)
        )
    (ended,) = [event for event in client.events() if isinstance(event, LinkEnded)]
    assert ended.link is receiver
    assert isinstance(ended.error, LinkDetached)
    assert ended.error.condition == "amqp:resource-limit-exceeded"
    assert 1000 < len(receiver.incoming) < 1010


def test_messages_that_a_browser_did_not_ask_for() -> None:
    """A browser asks for each message by its number: its link ends when far more came."""
    client = connected()
    source = Source("q", distribution_mode="copy")
    browser = client.begin().attach_receiver(LinkTerms("more", source, Target(), "settled"))
    client.receive_data(encode_command(ChannelReply(channel_id=5, confirm_tag=1, reply_code=200)))
    client.receive_data(encode_command(HandleReply(handle_id=4, confirm_tag=1, reply_code=200)))
    client.receive_data(encode_command(HandleIndex(handle_id=4, message_list=b"1-1200")))
    assert browser.attached
    browser.flow(2000)
    client.data_to_send()
    client.events()
    octets = MessageHead().write()

    def notify(number: int) -> None:
        client.receive_data(
            encode_command(HandleNotify(handle_id=4, message_nbr=number, fragment_size=len(octets)), octets)
        )

    for number in range(1, 1201):
        notify(number)
    assert len(browser.incoming) == 1200
    for number in range(5000, 6500):
        notify(number)
    (ended,) = [event for event in client.events() if isinstance(event, LinkEnded)]
    assert isinstance(ended.error, LinkDetached)
    assert ended.error.condition == "amqp:resource-limit-exceeded"
    assert 2200 <= len(browser.incoming) < 2210

"""A consumer's prefetch, its messages by number, and whose they are, octet by octet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp10.dialects.fast.server.browser import ServerBrowser
from amqp10.dialects.fast.wire.commands import (
    ChannelAck,
    ChannelCommit,
    ChannelRollback,
    HandleClose,
    HandleConsume,
    HandleIndex,
    HandleNotify,
    HandleOpen,
    HandlePrepare,
    HandleQuery,
    HandleReady,
    HandleSend,
    HandleUnget,
    MessageHead,
)
from amqp10.dialects.fast.wire.frames import encode_command
from amqp10.engine import OutcomesReceived
from amqp10.messaging import ACCEPTED, RELEASED, Message
from amqp10.testing import EnginePair

from ....kit.dialects.fast.restart import AGAIN, receiving
from ....kit.dialects.fast.talk import HostileClient
from ....kit.steps import steps

BODY = MessageHead(body_size=1).write() + b"x"


def send(handle: int, content: bytes, partial: bool = False) -> bytes:
    return encode_command(HandleSend(handle_id=handle, fragment_size=len(content), partial=partial), content)


def octet_by_octet(pair: EnginePair, between: Callable[[], None]) -> None:
    """Carry what the client says; the server's owner acts on each octet."""
    data = pair.client.data_to_send()
    for at in range(len(data)):
        pair.server.receive_data(data[at : at + 1])
        between()


def test_no_more_than_credit_however_little_is_heard() -> None:
    """An acknowledgment makes room; the prefetch is lowered before it, if that is more room than there is credit."""
    pair = EnginePair(dialect="fast")
    pair.open()
    sending, link = pair.attach(credit=5, sender="server")
    for _ in range(5):
        sending.send(Message(b"x").encode())
    pair.run()
    link.flow(2)
    for delivery in link.incoming:
        link.settle(delivery, ACCEPTED)
    sent = []

    def send_all() -> None:
        while sending.credit:
            sent.append(sending.send(Message(b"y").encode()))

    octet_by_octet(pair, send_all)
    assert len(sent) == 2


def test_nothing_is_sent_to_a_link_that_leaves() -> None:
    """Messages that a leaving link gives back or acknowledges make no room: it pauses first."""
    pair = EnginePair(dialect="fast")
    pair.open()
    sending, link = pair.attach(credit=3, sender="server")
    sent = [sending.send(Message(b"x").encode()) for _ in range(3)]
    pair.run()
    link.settle(link.incoming[1], ACCEPTED)
    link.detach()

    def send_all() -> None:
        assert not (sending.attached and sending.credit)

    octet_by_octet(pair, send_all)
    assert [each.remote_state for each in sent] == [RELEASED, ACCEPTED, None]


def test_settled_by_the_server() -> None:
    """A delivery that the server's owner settles by itself is not waited for: there is room for another."""
    pair = EnginePair(dialect="fast")
    pair.open()
    sending, _ = pair.attach(credit=1, sender="server")
    delivery = sending.send(Message(b"x").encode())
    assert sending.credit == 0
    sending.settle(delivery, ACCEPTED)
    assert (sending.credit, list(sending.unsettled)) == (1, [])


@pytest.mark.parametrize("size", [1, 9000])
def test_redelivered(size: int) -> None:
    """The bit is on each fragment of a message that somebody had and did not settle, and not else."""
    served = HostileClient().begun()
    served.says(send(1, MessageHead(body_size=size).write(), partial=True))
    for at in range(0, size, 4000):
        served.says(send(1, b"x" * min(4000, size - at), partial=at + 4000 < size))
    consume = encode_command(HandleConsume(handle_id=2, prefetch=1))
    first = [each for each in served.says(consume) if isinstance(each, HandleNotify)]
    served.says(encode_command(HandleClose(handle_id=2)))
    served.says(encode_command(HandleOpen(channel_id=1, handle_id=2, service_type=1, consumer=True, dest_name="q")))
    again = served.says(consume)
    if size > 4000:  # how much the client has of it is asked first
        assert [type(each) for each in again] == [HandlePrepare]
        again = served.says(encode_command(HandleReady(handle_id=2)))
    second = [each for each in again if isinstance(each, HandleNotify)]
    assert {each.redelivered for each in first} == {False}
    assert {each.redelivered for each in second} == {True}


def two_consumers() -> HostileClient:
    """On one channel, handles 2 and 4 of one queue, with message 1 and message 2."""
    served = HostileClient().begun()
    served.says(encode_command(HandleOpen(channel_id=1, handle_id=4, service_type=1, consumer=True, dest_name="q")))
    for handle in (2, 4):
        served.says(encode_command(HandleConsume(handle_id=handle, prefetch=1)))
    notified = served.says(send(1, BODY) + send(1, BODY))
    numbers = {each.handle_id: each.message_nbr for each in notified if isinstance(each, HandleNotify)}
    assert numbers == {2: 1, 4: 2}
    return served


def test_given_back_by_another() -> None:
    """A handle gives back its own messages only."""
    served = two_consumers()
    assert served.says(encode_command(HandleUnget(handle_id=4, message_nbr=1))) == []
    (again,) = served.says(encode_command(HandleUnget(handle_id=2, message_nbr=1)))
    assert isinstance(again, HandleNotify)
    assert (again.handle_id, again.message_nbr) == (2, 3)


def test_acknowledged_too_late() -> None:
    """The unsettled messages of a closed handle go back to the queue: no acknowledgment of the channel is for them."""
    served = two_consumers()
    (closed,) = served.says(encode_command(HandleClose(handle_id=2)))
    assert isinstance(closed, HandleClose)
    channel = served.engine.channels[1]  # type: ignore[attr-defined]
    assert list(channel.unacknowledged) == [2]
    (again,) = served.says(encode_command(ChannelAck(channel_id=1, message_nbr=2)))
    assert isinstance(again, HandleNotify)
    assert (again.handle_id, again.message_nbr, again.redelivered) == (4, 3, True)


def test_nothing_is_sent_before_the_answer() -> None:
    """Of a server that has asked how much is there of a message: whatever else is heard meanwhile makes no credit."""
    pair, link, theirs, _ = receiving(payload=Message(b"first").encode())
    pair.run()
    theirs.send(AGAIN)
    assert theirs.credit == 0
    link.settle(link.incoming.popleft(), ACCEPTED)
    link.flow(50)
    seen: list[int] = []
    octet_by_octet(pair, lambda: seen.append(theirs.credit))
    assert set(seen) == {0}
    assert [event for event in pair.server.events() if isinstance(event, OutcomesReceived)]
    pair.run()
    assert theirs.credit == 49


@pytest.mark.parametrize("transacted", [False, True])
def test_numbers_that_wrap(transacted: bool) -> None:
    """After 2^32 - 1 comes 1; acknowledgments on either side of that are for all before, and for none behind."""
    served = HostileClient().begun()
    number = 2 if transacted else 1
    channel = served.engine.channels[number]  # type: ignore[attr-defined]
    channel.last_number = 2**32 - 3
    opening = HandleOpen(channel_id=number, handle_id=4, service_type=1, consumer=True, dest_name="q")
    consume = encode_command(HandleConsume(handle_id=4, prefetch=9))
    served.says(encode_command(opening) + consume + send(1, BODY) * 4)
    numbers = [2**32 - 2, 2**32 - 1, 1, 2]
    assert list(channel.unacknowledged) == numbers
    for at, acknowledged in enumerate(numbers):
        served.says(encode_command(ChannelAck(channel_id=number, message_nbr=acknowledged)))
        if transacted:
            served.says(encode_command(ChannelAck(channel_id=number, message_nbr=numbers[0])))  # which takes none back
            served.says(encode_command(ChannelCommit(channel_id=number)))
        assert list(channel.unacknowledged) == numbers[at + 1 :]


@pytest.mark.parametrize("settled", [0, 1, 2, 3])
def test_a_client_across_the_wrap(settled: int) -> None:
    """One that is settled when the link goes counts as that, and those before it are given back."""
    pair = EnginePair(dialect="fast")
    pair.open()
    sending, link = pair.attach(credit=4, sender="server")
    channel: Any = sending.session
    channel.last_number = 2**32 - 3
    deliveries = [sending.send(Message(number).encode()) for number in range(4)]
    pair.run()
    link.settle(link.incoming[settled], ACCEPTED)
    link.detach()
    pair.run()
    given = [each.remote_state for each in deliveries]
    assert given == [RELEASED] * settled + [ACCEPTED] + [None] * (3 - settled)


def test_a_browsers_numbers_begin_anew() -> None:
    """A client that browses again and again on one handle never uses up the numbers."""
    served = HostileClient().begun()
    served.says(send(1, BODY) * 2)
    handle = served.engine.handles[2]  # type: ignore[attr-defined]
    look = encode_command(HandleQuery(handle_id=2))

    def listed() -> list[bytes]:
        return [each.message_list for each in served.says(look) if isinstance(each, HandleIndex)]

    assert listed() == [b"1-2"]
    for last, expected in ((2**31 - 1, b"2147483648-2147483649"), (2**31, b"1-2")):
        handle.browser = ServerBrowser(handle, handle.browser.remote, last=last)
        handle.browser.attach(handle.browser.remote)
        assert listed() == [expected]
    handle.browser = ServerBrowser(handle, handle.browser.remote, last=2**32 - 10)
    handle.browser.attach(handle.browser.remote)
    (close,) = served.says(encode_command(HandleQuery(handle_id=2, message_nbr=2**32 - 10)))
    assert isinstance(close, HandleClose)
    assert "look anew" in close.reply_text


@pytest.mark.parametrize("end", [ChannelCommit, ChannelRollback])
def test_acknowledged_in_a_transaction(end: type[ChannelCommit | ChannelRollback]) -> None:
    """An acknowledgment counts when it is committed, and not before; rolled back it never was."""
    served = HostileClient().begun()
    opening = HandleOpen(channel_id=2, handle_id=4, service_type=1, consumer=True, dest_name="q")
    consume = encode_command(HandleConsume(handle_id=4, prefetch=1))
    served.says(encode_command(opening) + consume + send(1, BODY) + send(1, BODY))
    channel = served.engine.channels[2]  # type: ignore[attr-defined]
    assert served.says(encode_command(ChannelAck(channel_id=2, message_nbr=1))) == []
    assert list(channel.unacknowledged) == [1]
    said = served.says(encode_command(end(channel_id=2)))
    committed = end is ChannelCommit
    assert [each.message_nbr for each in said if isinstance(each, HandleNotify)] == ([2] if committed else [])
    assert list(channel.unacknowledged) == ([2] if committed else [1])
    served.says(encode_command(HandleClose(handle_id=4)))
    again = served.says(encode_command(HandleConsume(handle_id=2, prefetch=9)))
    assert len(again) == (1 if committed else 2)


def test_leaving_costs_the_same() -> None:
    """However many messages of other handles of the channel are unacknowledged."""

    def cost(unacknowledged: int) -> int:
        client = HostileClient().begun()
        other = HandleOpen(channel_id=1, handle_id=4, service_type=1, consumer=True, dest_name="other")
        client.says(encode_command(other) + encode_command(HandleConsume(handle_id=4, prefetch=1)))
        client.says(encode_command(HandleConsume(handle_id=2, prefetch=unacknowledged)))
        heard = client.says(send(1, BODY) * unacknowledged)
        assert sum(isinstance(each, HandleNotify) for each in heard) == unacknowledged
        return steps(lambda: client.says(encode_command(HandleClose(handle_id=4))))

    cost(1)
    assert cost(400) < 1.1 * cost(100)

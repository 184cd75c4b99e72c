"""What a client has sent and the server has no room for: how much that may be, and what if it stands still."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.dialects.fast.client.send_window import MAX_UNREPLIED
from amqp10.dialects.fast.wire.commands import ChannelCommit, HandleClose, HandleSend, MessageHead
from amqp10.dialects.fast.wire.frames import encode_command
from amqp10.engine import (
    ConnectionEnded,
    CreditChanged,
    LinkAttached,
    LinkEnded,
    LinkTerms,
    OutgoingDelivery,
    ReceiverLink,
    SenderLink,
    SessionBegun,
)
from amqp10.errors import ConnectionClosed
from amqp10.messaging import (
    ACCEPTED,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Error,
    Message,
    Rejected,
    Source,
    TransactionalState,
)
from amqp10.testing import EnginePair
from amqp10.types import Symbol, as_composite

from ....kit.dialects.fast.talk import Talk
from ....kit.parents import session_of

LARGE = Message(b"x" * 1_000_000).encode()
HALF = 1 << 19


def opened() -> tuple[EnginePair, SenderLink, ReceiverLink]:
    pair = EnginePair(dialect="fast")
    pair.open()
    return pair, *pair.attach()


def is_reading(pair: EnginePair) -> bool:
    return pair.server.reading


def fill(pair: EnginePair, sending: SenderLink, *, settled: bool = True) -> int:
    """Send as much as may be sent; how many messages that are."""
    count = 0
    while sending.credit:
        sending.send(LARGE, settled=settled)
        pair.run()
        count += 1
    return count


@pytest.mark.parametrize("settled", [True, False])
def test_a_client_waits(settled: bool) -> None:
    """Nobody takes what it sends: it stops well before the server would, and goes on when some is taken."""
    pair, sending, receiving = opened()
    count = fill(pair, sending, settled=settled)
    assert MAX_UNREPLIED < count * 1_000_000 < MAX_UNREPLIED + 2_000_000
    assert is_reading(pair)
    pair.take("client")
    receiving.flow(count)
    pair.run()
    assert len(receiving.incoming) == count
    for delivery in receiving.incoming:
        receiving.settle(delivery, ACCEPTED)
    pair.run()
    assert pair.take("client").count(CreditChanged(sending)) == 1
    assert fill(pair, sending, settled=settled) in (count, count - 1, count - 2)  # of the last no reply was asked for


def test_all_senders_of_a_connection_together() -> None:
    """Of many links none goes on when all have sent so much, and none is forgotten that has sent little."""
    pair, sending, receiving = opened()
    links = [pair.attach(f"link-{number}") for number in range(60)]
    for link, _ in links:
        link.send(Message(b"x" * 30_000).encode(), settled=True)
    pair.run()
    sent = fill(pair, sending)
    assert MAX_UNREPLIED < sent * 1_000_000 + 60 * 30_000 < MAX_UNREPLIED + 2_000_000
    assert [link.credit for link, _ in links] == [0] * 60
    for _ in range(5):
        receiving.flow(100)
        pair.run()
        while receiving.incoming:
            receiving.settle(receiving.incoming.popleft(), ACCEPTED)
        pair.run()
        assert fill(pair, sending) >= 5
    assert links[0][0].credit == 0
    sending.detach()
    receiving.flow(100)
    pair.run()
    assert links[0][0].credit > 0


def test_replies_are_asked_for_now_and_then() -> None:
    """Of what is sent settled a reply is wanted every 2 MiB, not more often."""
    pair, sending, receiving = opened()
    receiving.flow(100)
    asked = []
    for _ in range(12):
        sending.send(LARGE, settled=True)
        pair.run()
        arrived = receiving.incoming.popleft()
        asked.append(not arrived.local_settled)
        receiving.settle(arrived, ACCEPTED)
    assert asked == [False, False, True] * 4


def test_a_message_larger_than_all_that() -> None:
    """Goes when there is room for any."""
    pair, sending, receiving = opened()
    delivery = sending.send(Message(b"x" * 3 * MAX_UNREPLIED).encode())
    pair.run()
    assert (sending.credit, is_reading(pair)) == (0, True)
    receiving.flow(1)
    pair.run()
    receiving.settle(receiving.incoming.popleft(), ACCEPTED)
    pair.run()
    assert delivery.remote_state == ACCEPTED
    assert sending.credit > 0


def test_a_commit_waits_too() -> None:
    """A message of a transaction goes when there is room."""
    talk = Talk()
    sender = talk.sender("q")
    talk.vhost.admission.blocked = "no memory"
    talk.peer.blocked_or_not()
    coordinator = talk.session.attach_sender(LinkTerms("t", Source(), Coordinator()))
    declared = coordinator.send(Message(AmqpValue(Declare())).encode()).remote_state
    assert isinstance(declared, Declared)
    sender.send(Message(b"in it").encode(), state=TransactionalState(declared.txn_id))
    while sender.credit:
        sender.send(Message(b"x" * 9000).encode())
    discharge = coordinator.send(Message(AmqpValue(Discharge(declared.txn_id, False))).encode())
    talk.turn()
    before = len(talk.there)
    talk.turn()
    assert (discharge.remote_state, b"in it" in talk.there, len(talk.there)) == (None, False, before)
    talk.vhost.admission.blocked = None
    talk.peer.blocked_or_not()
    for _ in range(20):
        talk.turn()
    assert (discharge.remote_state, b"in it" in talk.there) == (ACCEPTED, True)


def flood(octets: int) -> bytes:
    """A message that no client of ours would send on."""
    content = MessageHead(body_size=octets).write()
    data = encode_command(HandleSend(handle_id=1, fragment_size=len(content), partial=True), content)
    while octets:
        part = min(octets, 4096)
        octets -= part
        data += encode_command(HandleSend(handle_id=1, fragment_size=part, partial=octets > 0), b"x" * part)
    return data


def test_nothing_more_is_read() -> None:
    """A client that sends on all the same is not read, until there is room; its close waits, too."""
    pair, sending, receiving = opened()
    data = flood(HALF)
    count = 0
    while pair.server.reading:
        pair.server.receive_data(data)
        count += 1
    assert count == 33
    sending.detach()
    pair.run()
    assert LinkEnded(receiving, True, None) not in pair.server_events
    receiving.flow(count - 1)
    pair.run()
    assert is_reading(pair)
    assert LinkEnded(receiving, True, None) not in pair.server_events
    receiving.flow(1)
    pair.run()
    assert LinkEnded(receiving, True, None) in pair.server_events
    assert LinkEnded(sending, True, None) in pair.client_events
    assert len(receiving.incoming) == count


def test_a_close_waits_for_its_own_messages_only() -> None:
    """Another handle for which nothing is taken does not keep it."""
    pair, first, receiving = opened()
    second, held = pair.attach("second")
    first.send(Message(b"one").encode(), settled=True)
    second.send(Message(b"two").encode(), settled=True)
    first.detach()
    pair.run()
    receiving.flow(1)
    pair.run()
    assert LinkEnded(first, True, None) in pair.client_events
    assert not held.incoming


def standing() -> tuple[EnginePair, ReceiverLink]:
    """A client that has something to acknowledge, and has sent more than is read."""
    pair, _, receiving = opened()
    consuming, giving = pair.attach("consumer", sender="server")
    giving.flow(1)
    pair.run()
    consuming.send(Message(b"to be acknowledged").encode())
    pair.run()
    while pair.server.reading:
        pair.server.receive_data(flood(HALF))
    return pair, receiving


def ended(pair: EnginePair) -> list[ConnectionEnded]:
    """Return what the client has learned of the end."""
    return [event for event in pair.take("client") if isinstance(event, ConnectionEnded)]


def test_standing_still() -> None:
    """It is over when nothing was taken for 30 s; what is under way is read, and dropped, to the answer."""
    pair, receiving = standing()
    for now in (0.0, 10.0, 29.0):
        deadline = pair.server.tick(now)
        assert deadline is not None
        assert deadline <= now + 10
    receiving.flow(1)
    pair.server.receive_data(flood(HALF))
    for now in (30.0, 40.0, 60.0, 69.0):
        pair.server.tick(now)
    assert not ended(pair)
    assert not is_reading(pair)
    pair.server.tick(70.0)
    assert is_reading(pair)
    pair.server.receive_data(flood(HALF))
    assert len(ended(pair)) == 1
    (over,) = [event for event in pair.take("server") if isinstance(event, ConnectionEnded)]
    assert over.error is None
    assert len(receiving.incoming) == 1


def test_the_client_is_told() -> None:
    """The error says what happened, how much is lost of it, and what to do."""
    pair, _ = standing()
    pair.server.tick(0.0)
    pair.server.tick(30.0)
    (over,) = ended(pair)
    assert isinstance(over.error, ConnectionClosed)
    assert over.error.condition == "amqp:resource-limit-exceeded"
    assert over.error.info == {"reply-code": 506}
    assert "33 messages of 17301768 octets, which are dropped" in str(over.error)
    assert "publish and consume on different connections" in str(over.error)


def test_who_has_nothing_to_acknowledge_may_wait() -> None:
    """A client that only publishes is held back for as long as there is no room."""
    pair, _, receiving = opened()
    while pair.server.reading:
        pair.server.receive_data(flood(HALF))
    for now in (0.0, 30.0, 60.0, 3000.0):
        pair.server.tick(now)
    assert not ended(pair)
    receiving.flow(1000)
    assert is_reading(pair)


def committing() -> tuple[EnginePair, ReceiverLink, ReceiverLink, OutgoingDelivery]:
    """A commit with a message in it for which there is no credit: its link at the server, and the coordinator's."""
    pair = EnginePair(dialect="fast")
    pair.open()
    sending, _ = pair.attach()
    session = session_of(sending)
    coordinator = session.attach_sender(LinkTerms("t", Source(), Coordinator()))
    declared = coordinator.send(Message(AmqpValue(Declare())).encode()).remote_state
    assert isinstance(declared, Declared)
    sending.send(Message(b"in it").encode(), state=TransactionalState(declared.txn_id))
    pair.take("server")
    discharge = coordinator.send(Message(AmqpValue(Discharge(declared.txn_id, False))).encode())
    links: list[Any] = []
    for _ in range(3):
        for event in pair.take("server"):
            if isinstance(event, SessionBegun):
                event.session.begin()
            elif isinstance(event, LinkAttached):
                event.link.attach(LinkTerms(event.link.name))
                links.append(event.link)
    held, theirs = links
    theirs.flow(10)
    theirs.settle(theirs.incoming.popleft(), Declared(b"t"))
    pair.run()
    assert not held.incoming
    assert not theirs.incoming
    return pair, held, theirs, discharge


def test_a_commit_counts() -> None:
    """Messages being committed are in flight, too: no further ones are sent beside a full window of them."""
    talk = Talk()
    sender = talk.sender("q")
    coordinator = talk.session.attach_sender(LinkTerms("t", Source(), Coordinator()))
    declared = coordinator.send(Message(AmqpValue(Declare())).encode()).remote_state
    assert isinstance(declared, Declared)
    for _ in range(MAX_UNREPLIED // 9000 + 1):
        sender.send(Message(b"x" * 9000).encode(), state=TransactionalState(declared.txn_id))
    assert sender.credit > 0
    discharge = coordinator.send(Message(AmqpValue(Discharge(declared.txn_id, False))).encode())
    engine, peer = talk.engine, talk.peer
    engine.receive_data(talk.client.data_to_send())
    peer.handle(engine.events())
    talk.client.receive_data(engine.data_to_send())
    assert (discharge.remote_state, sender.credit) == (None, 0)
    talk.turn()
    assert discharge.remote_state == ACCEPTED
    assert sender.credit > 0


def test_a_link_that_ends_while_its_messages_are_committed() -> None:
    """The commit fails: nobody waits for what never comes."""
    pair, held, theirs, discharge = committing()
    held.detach(error=Error(Symbol("amqp:resource-deleted"), "the queue is gone"))
    pair.run()
    asked = as_composite(Message.decode(theirs.incoming.popleft().payload).body)
    assert asked == Discharge(b"t", True)
    assert isinstance(discharge.remote_state, Rejected)


def test_one_commit_after_the_other() -> None:
    """A commit waits for the end of another commit that is under way."""
    pair, held, theirs, _ = committing()
    handle = next(each for each in pair.server.handles.values() if each.producer is held)  # type: ignore[attr-defined]
    content = MessageHead(body_size=1).write() + b"x"
    sending = encode_command(HandleSend(handle_id=handle.id, fragment_size=len(content)), content)
    pair.server.receive_data(sending + encode_command(ChannelCommit(channel_id=handle.session.id)))
    assert not theirs.incoming
    held.flow(1)
    held.settle(held.incoming.popleft(), TransactionalState(b"t", ACCEPTED))
    asked = [as_composite(Message.decode(each.payload).body) for each in theirs.incoming]
    assert asked == [Discharge(b"t", False)]
    theirs.settle(theirs.incoming.popleft(), ACCEPTED)
    assert [type(as_composite(Message.decode(each.payload).body)) for each in theirs.incoming] == [Declare]


def test_a_handle_is_closed_when_all_is_committed() -> None:
    """A client that closes it at once, as it may, commits all the same."""
    pair, held, theirs, discharge = committing()
    handle = next(each for each in pair.server.handles.values() if each.producer is held)  # type: ignore[attr-defined]
    pair.server.receive_data(encode_command(HandleClose(handle_id=handle.id)))
    held.flow(1)
    held.settle(held.incoming.popleft(), TransactionalState(b"t", ACCEPTED))
    assert as_composite(Message.decode(theirs.incoming[0].payload).body) == Discharge(b"t", False)
    assert LinkEnded(held, True, None) not in pair.server.events()
    theirs.settle(theirs.incoming.popleft(), ACCEPTED)
    pair.run()
    assert LinkEnded(held, True, None) in pair.server_events
    assert discharge.remote_state == ACCEPTED


def test_a_channel_that_is_closed_during_a_commit() -> None:
    """The client hears that it failed."""
    pair, held, _, discharge = committing()
    held.session.end(Error(Symbol("amqp:resource-limit-exceeded"), "too much"))
    pair.run()
    assert isinstance(discharge.remote_state, Rejected)
    assert discharge.remote_state.error is not None
    assert discharge.remote_state.error.condition == "amqp:resource-limit-exceeded"
    assert not [event for event in pair.client_events if isinstance(event, ConnectionEnded)]

"""Messages of AMQP/Fast in parts: sent and read while they come to be, and given up."""

from __future__ import annotations

from amqp10.engine import (
    ConnectionTerms,
    LinkAttached,
    LinkEnded,
    PartsReceived,
)
from amqp10.messaging import Message, data_head
from amqp10.testing import EnginePair

from ...kit.dialects.fast.pair import opened


def test_in_parts() -> None:
    """A body whose size is said first is sent as it comes; the receiver has it in parts, too, if it likes."""
    pair = opened(client=ConnectionTerms("c", max_frame_size=1024))
    sending, receiving = pair.attach(credit=2)
    head = Message(subject="s").encode_head()
    delivery = sending.send(head + data_head(5000) + b"a" * 100, more=True)
    sending.send_more(delivery, b"b" * 4000, more=True)
    pair.run()
    assert not receiving.incoming
    sending.send_more(delivery, b"c" * 900)
    pair.run()
    message = Message.decode(receiving.incoming[0].payload)
    assert message == Message(b"a" * 100 + b"b" * 4000 + b"c" * 900, subject="s")
    sending, receiving = pair.attach(credit=2, sender="server")
    receiving.streaming = True
    delivery = sending.send(head + data_head(5000) + b"a" * 100, more=True)
    pair.run()
    (arrived,) = receiving.incoming
    assert receiving.read(arrived) == head + data_head(5000)
    assert receiving.read(arrived) == b"a" * 100
    assert receiving.read(arrived) is None
    sending.send_more(delivery, b"b" * 4900)
    pair.run()
    assert PartsReceived(arrived) in pair.client_events
    assert arrived.stream.whole
    assert b"".join(iter(lambda: receiving.read(arrived) or b"", b"")) == b"b" * 4900


def test_parts_of_unknown_size() -> None:
    """A body of several sections, or of none of data, is collected and sent whole."""
    pair = opened()
    sending, receiving = pair.attach(credit=2)
    delivery = sending.send(data_head(3) + b"abc", more=True)
    sending.send_more(delivery, data_head(2) + b"de", more=True)
    sending.send_more(delivery, b"")
    pair.run()
    assert bytes(Message.decode(receiving.incoming[0].payload).body) == b"abcde"


def test_abort() -> None:
    """A message that is given up is forgotten by the server, and the next one is whole."""
    pair = opened()
    sending, receiving = pair.attach(credit=2)
    delivery = sending.send(data_head(3000) + b"a" * 100, more=True)
    pair.run()
    sending.abort(delivery)
    assert delivery.local_settled
    pair.run()
    theirs = next(event.link for event in pair.server_events if isinstance(event, LinkAttached))
    assert theirs.remote is not None
    theirs.attach(theirs.remote)
    theirs.flow(1)  # type: ignore[attr-defined]
    sending.send(Message(b"whole").encode())
    pair.run()
    assert not receiving.incoming
    assert Message.decode(theirs.incoming[0].payload).body == b"whole"  # type: ignore[attr-defined]
    assert sending.attached
    assert not any(isinstance(event, LinkEnded) for event in pair.client_events)


def test_nobody_reads() -> None:
    """Of a body that nobody reads no more than 4 MiB are held: then the client is not to be fed any more."""
    pair = opened()
    sending, receiving = pair.attach(credit=2, sender="server")
    receiving.streaming = True
    for _ in range(2):
        sending.send(Message(b"x" * 3_000_000).encode())
    pair.run()
    assert not client_is_reading(pair)
    first, second = receiving.incoming
    assert receiving.read(first)
    while receiving.read(first):
        pass
    assert client_is_reading(pair)
    receiving.discard(second)
    receiving.flow(1)
    pair.run()
    sending.send(Message(b"x" * 5_000_000).encode())
    pair.run()
    assert not client_is_reading(pair)
    receiving.detach()
    pair.run()
    assert client_is_reading(pair)


def client_is_reading(pair: EnginePair) -> bool:
    return pair.client.reading

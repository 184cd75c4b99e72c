from __future__ import annotations

import pytest

from amqp10.engine import Authenticated, ConnectionEnded, ConnectionTerms, DeliveriesReceived, LinkTerms
from amqp10.errors import ConnectionLost
from amqp10.messaging import ACCEPTED, Source, Target
from amqp10.sasl import Plain
from amqp10.testing import EnginePair


def test_from_open_to_settlement() -> None:
    """A message goes over and is settled, with the shortcuts of the pair alone."""
    pair = EnginePair()
    pair.open()
    sender, receiver = pair.attach("orders", credit=2)
    sent = sender.send(b"hello")
    pair.run()
    delivery = receiver.incoming.popleft()
    assert delivery.payload == b"hello"
    assert sender.credit == 1
    receiver.settle(delivery, ACCEPTED)
    pair.run()
    assert sent.remote_state == ACCEPTED


@pytest.mark.parametrize("chunk", [None, 1, 3])
def test_chunks(chunk: int | None) -> None:
    """Bytes may cross in portions of any size."""
    pair = EnginePair(chunk=chunk)
    pair.open()
    sender, receiver = pair.attach(credit=5, sender="server")
    sender.send(bytes(3000))
    pair.run()
    assert receiver.incoming[0].payload == bytes(3000)


def test_events_stay_for_the_test() -> None:
    """The shortcuts drop what they have answered, and nothing else; `take` empties a side."""
    pair = EnginePair()
    pair.open()
    assert pair.take("client") == pair.take("server") == []
    sender, receiver = pair.attach(credit=5)
    sender.send(b"x")
    pair.run()
    pair.attach("other")
    assert pair.take("server") == [DeliveriesReceived(receiver)]
    assert pair.take("server") == []


def test_terms_of_both_sides() -> None:
    """Each side's word is what the other sees, at every level."""
    pair = EnginePair(client=ConnectionTerms("one", channel_max=3), server=ConnectionTerms("two"))
    pair.open()
    assert pair.client.remote is not None
    assert pair.client.remote.container_id == "two"
    mine, theirs = pair.begin(by="server")
    assert mine.begun
    assert theirs.begun
    wanted = LinkTerms("name", Source("here"), Target("there"))
    sender, receiver = pair.attach(
        session=mine, terms=wanted, answer=LinkTerms("name", Source("here"), Target("there"), max_message_size=10)
    )
    assert (sender.name, receiver.name) == ("name", "name")
    assert sender.remote is not None
    assert sender.remote.max_message_size == 10


def test_sasl() -> None:
    """With mechanisms, the pair goes through the SASL layer; a refusal shows in the failure."""
    from amqp10.sasl import Authenticator

    users = Authenticator({"user": "right"}).for_connection(secure=True)
    pair = EnginePair(mechanisms=(Plain("user", "right"),), authenticator=users)
    pair.open()
    assert pair.take("server") == [Authenticated("PLAIN", "user")]
    refused = EnginePair(mechanisms=(Plain("user", "wrong"),), authenticator=users)
    with pytest.raises(AssertionError, match="not open"):
        refused.open()


@pytest.mark.parametrize("side", ["client", "server", None])
def test_lose(side: str | None) -> None:
    """What was on its way is gone, and the end comes to one side or both."""
    pair = EnginePair()
    pair.open()
    sender, receiver = pair.attach(credit=5)
    sender.send(b"lost")
    pair.lose(side)  # type: ignore[arg-type]
    assert not receiver.incoming
    for name, events in (("client", pair.client_events), ("server", pair.server_events)):
        if side in (None, name):
            assert isinstance(events[-1], ConnectionEnded)
            assert isinstance(events[-1].error, ConnectionLost)

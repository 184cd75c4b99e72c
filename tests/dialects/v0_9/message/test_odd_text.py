"""Text of other programs that is no UTF-8: it can be read, the message settled, and it goes back as it came."""

from __future__ import annotations

import pytest

from amqp10.dialects.v0_9.message.from_basic import FromBasic
from amqp10.dialects.v0_9.message.places import TEXTS
from amqp10.dialects.v0_9.message.to_basic import ToBasic
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.tables import TABLES, Latin1, octets_of
from amqp10.messaging import Message

ODD = b"caf\xe9"
EVEN = "café"


def odd_properties(name: str) -> bytes:
    """One property that an old program wrote."""
    return BasicProperties(**{name: Latin1(ODD, "latin-1")}).encode(TABLES)


def relayed(payload: bytes) -> bytes:
    """Its properties as a client, or a broker, says them on."""
    route, body = ToBasic(TABLES, "", "q").map(payload)
    assert body == b"body"
    return route.properties


@pytest.mark.parametrize("name", TEXTS)
def test_properties(name: str) -> None:
    """Each of them is read as Latin-1, is a message of 1.0 all the same, and comes back octet by octet."""
    properties = odd_properties(name)
    payload = FromBasic(TABLES).map(b"\0\0\1q", properties, b"body")
    message = Message.decode(payload)
    message.check()
    read = getattr(message, name, None)
    assert read in (EVEN, ODD, None)
    again = BasicProperties.decode(relayed(payload), TABLES)
    assert octets_of(getattr(again, name)) == ODD


def test_the_name_of_a_header() -> None:
    """It is an application property of that name."""
    properties = BasicProperties(headers={Latin1(ODD, "latin-1"): 1, EVEN + "!": 2}).encode(TABLES)
    payload = FromBasic(TABLES).map(b"\0\0\1q", properties, b"body")
    assert Message.decode(payload).application_properties == {EVEN: 1, EVEN + "!": 2}
    headers = BasicProperties.decode(relayed(payload), TABLES).headers
    assert headers is not None
    assert sorted(map(octets_of, headers)) == sorted([ODD, (EVEN + "!").encode()])


def test_the_routing_key() -> None:
    """A broker hands it on as it came; a key that reads the same is another one."""
    outgoing = ToBasic(TABLES, "", "q", forwarded=True)
    keys = []
    for octets in (ODD, EVEN.encode()):
        route = b"\0\1x" + bytes((len(octets),)) + octets
        payload = FromBasic(TABLES).map(route, BasicProperties().encode(TABLES), b"body")
        assert Message.decode(payload).subject == EVEN
        keys.append(octets_of(outgoing.map(payload)[0].key))
    assert keys == [ODD, EVEN.encode()]


def test_in_another_encoding_by_now() -> None:
    """Somebody changed it to what Latin-1 does not have: it is said in UTF-8."""
    message = Message.decode(FromBasic(TABLES).map(b"\0\0\1q", odd_properties("message_id"), b"body"))
    message.message_id = "€"
    assert BasicProperties.decode(relayed(message.encode()), TABLES).message_id == "€"

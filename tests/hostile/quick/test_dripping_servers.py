"""A server that sends one octet now and then before the connection is open: no frame, no sign of life."""

from __future__ import annotations

import struct

import pytest

from amqp10 import Plain
from amqp10.engine import ConnectionEnded, ConnectionTerms, dialect
from amqp10.errors import ConnectionLost

pytestmark = pytest.mark.capability("hostile peers")

LONG = 2000
"""Octets that the first frame of each server claims to have; they never come to an end."""
SERVERS = {
    "0-9-1": struct.pack(">BHI", 1, 0, LONG),
    "0-9": struct.pack(">BHI", 1, 0, LONG),
    "0-9-draft": struct.pack(">BBHI", 1, 0, 0, LONG),
    "0-10": b"AMQP\1\1\0\x0a" + struct.pack(">BBHBBHI", 15, 0, LONG, 0, 0, 0, 0),
    "fast": struct.pack(">HB", LONG, 10),
    "1.0": b"AMQP\3\1\0\0" + struct.pack(">IBBH", LONG, 2, 1, 0),
}


@pytest.mark.parametrize("name", SERVERS)
def test_before_the_open(name: str) -> None:
    """It is given up when its idle time-out is over, as a silent one is."""
    engine = dialect(name).client(ConnectionTerms("c", idle_timeout=10.0), (Plain("user", "secret"),), True)
    engine.start()
    engine.open()
    ended: list[ConnectionEnded] = []
    now = 0.0
    for octet in SERVERS[name] + bytes(40):
        engine.tick(now)
        engine.receive_data(bytes([octet]))
        ended += [event for event in engine.events() if isinstance(event, ConnectionEnded)]
        now += 1.0
    engine.tick(now)
    ended += [event for event in engine.events() if isinstance(event, ConnectionEnded)]
    assert [type(each.error) for each in ended] == [ConnectionLost]
    assert "silent" in str(ended[0].error)

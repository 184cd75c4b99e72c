"""A frame that is larger than both sides agreed on ends the connection, on either side, before its octets are here.

1.0 §2.4.1 and §2.7.1, 0-9-1 §4.2.3, 0-10 §9.9.1 (`connection.tune-ok`), Fast: its tune-ok.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from amqp10.engine import ConnectionEnded, ConnectionTerms, Engine
from amqp10.errors import AmqpError
from amqp10.testing import EnginePair

AGREED = 5000
HEADS: dict[str, Callable[[int], bytes]] = {
    "1.0": lambda size: struct.pack(">IBBH", size, 2, 0, 0),
    "0-9-1": lambda size: struct.pack(">BHI", 3, 1, size - 8),
    "0-9": lambda size: struct.pack(">BHI", 3, 1, size - 8),
    "0-9-draft": lambda size: struct.pack(">BBHI", 3, 0, 1, size - 9),
    "0-10": lambda size: struct.pack(">BBHBBHI", 0x0F, 1, size, 0, 1, 1, 0),
    "fast": lambda size: struct.pack(">H", size),
}


def opened(dialect: str, side: str, modest: str) -> Engine:
    """Return one side of a connection in which the `modest` side asks for smaller frames than the other."""
    sizes = {"client": 60_000, "server": 60_000, modest: AGREED}
    if dialect == "1.0":  # what each side takes is its own to say
        sizes[side] = AGREED
    pair = EnginePair(
        dialect=dialect,
        client=ConnectionTerms("client", max_frame_size=sizes["client"]),
        server=ConnectionTerms("server", max_frame_size=sizes["server"]),
    )
    pair.open()
    engine = pair.client if side == "client" else pair.server
    engine.events()
    return engine


def end(engine: Engine) -> AmqpError | None:
    (ended,) = [event for event in engine.events() if isinstance(event, ConnectionEnded)]
    return ended.error


@pytest.mark.parametrize("modest", ["client", "server"])
@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize("dialect", HEADS)
def test_larger_than_agreed(dialect: str, side: str, modest: str) -> None:
    """One octet more is an error, known from the head alone; the size agreed on is waited for."""
    engine = opened(dialect, side, modest)
    engine.receive_data(HEADS[dialect](AGREED))
    assert not engine.events()
    engine = opened(dialect, side, modest)
    engine.receive_data(HEADS[dialect](AGREED + 1))
    error = end(engine)
    assert error is not None
    around = {"0-9-1": 8, "0-9": 8, "0-9-draft": 9}  # octets of a frame that are not in the size that it states
    assert str(AGREED - around.get(dialect, 0)) in str(error)

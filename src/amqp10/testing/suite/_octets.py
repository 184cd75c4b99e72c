"""Tests of invalid input, without I/O: octets cut off anywhere, in portions of any size, or changed at random."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

from ...engine import (
    ConnectionEnded,
    ConnectionOpened,
    ConnectionTerms,
    Engine,
    Event,
    SessionBegun,
)
from ...engine import dialect as find_dialect
from ...sasl import Authenticator
from ._contract import Contract

ATTEMPTS: Final = 300


class Octets(Contract):
    """On any input, an engine never raises, and ends once."""

    def _engines(self) -> tuple[Engine, Engine]:
        """Return a client engine and a server engine, both started."""
        spoken = find_dialect(self.dialect)
        client = spoken.client(ConnectionTerms("client"), None, True)
        server = spoken.server(ConnectionTerms("server"), Authenticator(None, anonymous=True))
        for engine in (client, server):
            engine.start()
        client.open()
        return client, server

    def _conversation(self, size: int | None = None) -> _Conversation:
        """Open a connection, begin a session and close, with octets in portions of `size`; return the conversation."""
        conversation = _Conversation(*self._engines(), size)
        conversation.carry()
        assert conversation.client.opened, "the client's engine did not open"
        assert conversation.server.opened, "the server's engine did not open"
        conversation.client.begin()
        conversation.carry()
        conversation.client.close()
        conversation.carry()
        return conversation

    def test_portions(self) -> None:
        """Check that both engines emit the same events, whatever the size of the portions in which octets come."""
        whole = self._conversation()
        for size in (1, 3, 50):
            pieces = self._conversation(size)
            assert pieces.events == whole.events

    def test_cut_off(self) -> None:
        """Check that a transport that ends at any octet ends the connection, once, as the last event."""
        conversation = self._conversation()
        for which, data in enumerate((conversation.back, conversation.there)):
            for end in range(0, len(data), max(1, len(data) // 200)):
                engine = self._engines()[which]
                events = _feed(engine, data[:end], end or 1)
                engine.receive_eof()
                events += _act(engine)
                _check_end(events)

    def test_changed(self) -> None:
        """Check that with octets changed at random an engine never raises, and ends once, as its last event."""
        chance = random.Random(self.dialect)
        conversation = self._conversation()
        for which, data in enumerate((conversation.back, conversation.there)):
            for _ in range(ATTEMPTS):
                changed = bytearray(data)
                for _ in range(chance.randrange(1, 5)):
                    place = chance.randrange(len(changed))
                    changed[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
                engine = self._engines()[which]
                events = _feed(engine, bytes(changed), chance.randrange(1, len(changed) + 1))
                engine.receive_eof()
                events += _act(engine)
                _check_end(events)
                assert engine.tick(0.0) is None

    def test_noise(self) -> None:
        """Check that on random octets an engine never raises, and ends once, as its last event."""
        chance = random.Random(self.dialect)
        header = find_dialect(self.dialect).headers[0]
        for _ in range(ATTEMPTS):
            noise = chance.randbytes(chance.randrange(200))
            for engine, data in zip(self._engines(), (noise, header + noise), strict=True):
                events = _feed(engine, data, chance.randrange(1, 60))
                engine.receive_eof()
                _check_end(events + _act(engine))


def _act(engine: Engine) -> list[Event]:
    """Act as an owner that agrees to everything; return all events."""
    seen: list[Event] = []
    while events := engine.events():
        seen += events
        for event in events:
            if isinstance(event, ConnectionOpened) and engine.role.value == "server" and not engine.opened:
                engine.open()
            elif isinstance(event, SessionBegun) and event.session.terms is None:
                event.session.begin()
    return seen


class _Conversation:
    """Two engines, their octets, and their events."""

    def __init__(self, client: Engine, server: Engine, size: int | None) -> None:
        self.client = client
        self.server = server
        self.there = self.back = b""
        self.events: tuple[list[str], list[str]] = ([], [])
        self._size = size

    def carry(self) -> None:
        """Carry octets both ways until there are no more."""
        for _ in range(12):
            data = self.client.data_to_send()
            self.there += data
            self._give(self.server, data, 1)
            answer = self.server.data_to_send()
            self.back += answer
            self._give(self.client, answer, 0)

    def _give(self, engine: Engine, data: bytes, which: int) -> None:
        size = self._size or max(1, len(data))
        for start in range(0, len(data), size):
            engine.receive_data(data[start : start + size])
            self.events[which].extend(type(event).__name__ for event in _act(engine))


def _feed(engine: Engine, data: bytes, size: int) -> list[Event]:
    events: list[Event] = []
    for start in range(0, len(data), size):
        engine.receive_data(data[start : start + size])
        events += _act(engine)
        engine.data_to_send()
    return events


def _check_end(events: Iterable[Event]) -> None:
    ends = [isinstance(event, ConnectionEnded) for event in events]
    assert ends.count(True) == 1
    assert ends[-1]

"""The other end, command by command: what a test says to an engine, and what the engine answers."""

from __future__ import annotations

from typing import Any

from amqp10.dialects.v0_10.wire.controls import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
)
from amqp10.dialects.v0_10.wire.frames import CONTROL, PROTOCOL_HEADER, FrameReader, encode_command, encode_control
from amqp10.dialects.v0_10.wire.struct import Command, Control, decode_command, decode_control
from amqp10.engine import Engine


class Raw:
    """Speaks to one engine.

    Attributes:
        heard: what it said, controls and commands, in order.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.heard: list[Any] = []
        self.bodies: list[bytes] = []
        self._reader = FrameReader()
        self._begun = False
        self.listen()

    def listen(self) -> list[Any]:
        """Return what it has sent since the last call."""
        data = self.engine.data_to_send()
        if not self._begun and data.startswith(PROTOCOL_HEADER):
            self._begun, data = True, data[8:]
        self._reader.feed(data)
        new: list[Any] = []
        while (assembly := self._reader.next()) is not None:
            if assembly.kind == CONTROL:
                new.append(decode_control(assembly.front))
            else:
                new.append(decode_command(assembly.front))
                if assembly.body is not None:
                    self.bodies.append(assembly.payload)
        self.heard += new
        return new

    def names(self, new: list[Any]) -> list[str]:
        return [each.spec_name for each in new]

    def put(self, data: bytes) -> list[Any]:
        """Send octets; what it answers."""
        self.engine.receive_data(data)
        return self.listen()

    def say(self, control: Control, channel: int = 1) -> list[Any]:
        return self.put(encode_control(channel, control.encode()))

    def do(
        self,
        command: Command,
        header: bytes | None = None,
        body: bytes | None = None,
        *,
        sync: bool = True,
        channel: int = 1,
    ) -> list[Any]:
        return self.put(encode_command(channel, command.encode(sync), header, body, 65_523))

    # Opening

    def open_as_client(self, *, session: bool = True) -> None:
        """To a server engine, as nobody in particular."""
        self.put(PROTOCOL_HEADER)
        self.say(ConnectionStartOk({}, "ANONYMOUS", b"", "en_US"), 0)
        self.say(ConnectionTuneOk(256, 65_535, 0), 0)
        self.say(ConnectionOpen("", []), 0)
        self.engine.events()
        self.engine.open()
        assert isinstance(self.listen()[-1], ConnectionOpenOk)
        if session:
            self.say(SessionAttach(b"name"))
            self.say(SessionCommandPoint(0, 0))

    def open_as_server(self, **properties: Any) -> None:
        """To a client engine, letting it in."""
        self.put(PROTOCOL_HEADER)
        self.say(ConnectionStart(properties, ["ANONYMOUS"], ["en_US"]), 0)
        self.say(ConnectionTune(256, 65_535, 0, 100), 0)
        self.say(ConnectionOpenOk([]), 0)

    def attached(self, point: int = 0, channel: int = 1) -> list[Any]:
        """Answer the client's attach; our first command has the id `point`."""
        attach = next(each for each in reversed(self.heard) if isinstance(each, SessionAttach))
        said = self.say(SessionAttached(attach.name), channel)
        return said + self.say(SessionCommandPoint(point, 0), channel)

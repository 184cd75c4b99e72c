"""Clients of the older dialects, octet by octet, with an embedded broker behind the server engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from amqp10.dialects.v0_9.wire.frames import FrameReader
from amqp10.dialects.v0_9.wire.framing import METHOD
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9_1, Variant
from amqp10.dialects.v0_10.wire.commands import ExecutionException
from amqp10.dialects.v0_10.wire.controls import ConnectionOpen as Open
from amqp10.dialects.v0_10.wire.controls import ConnectionStartOk as StartOk
from amqp10.dialects.v0_10.wire.controls import ConnectionTuneOk as TuneOk
from amqp10.dialects.v0_10.wire.controls import SessionAttach, SessionCommandPoint, SessionCompleted
from amqp10.dialects.v0_10.wire.frames import PROTOCOL_HEADER, encode_command
from amqp10.dialects.v0_10.wire.struct import Command

from ..dialects.v0_10.raw_peer import Raw
from ..inside.broker import VirtualHostCore
from .served import Served


def new_vhost() -> VirtualHostCore:
    """A broker's inside, with nothing in it."""
    return VirtualHostCore(clock=lambda: 0.0)


def hosts_of(names: Sequence[str] | None) -> dict[str, VirtualHostCore] | None:
    """A broker's inside for each virtual host."""
    return None if names is None else {each: new_vhost() for each in names}


class Client010(Raw):
    """Commands of 0-10, on channel 1, and what the broker says of them.

    Args:
        vhost: the broker's.
        opens: it asks for a virtual host, and attaches a session.
        virtual_hosts: those that are there; None for one by whatever name.
    """

    def __init__(
        self, vhost: VirtualHostCore | None = None, *, opens: bool = True, virtual_hosts: Sequence[str] | None = None
    ) -> None:
        self.served = Served("0-10", vhost or new_vhost(), virtual_hosts=hosts_of(virtual_hosts))
        super().__init__(self.served.engine)
        self.put(PROTOCOL_HEADER)
        self.say(StartOk({}, "ANONYMOUS", b"", "en_US"), 0)
        self.say(TuneOk(256, 65_535, 0), 0)
        if opens:
            self.say(Open("", []), 0)
            self.say(SessionAttach(uuid4().bytes))
            self.say(SessionCommandPoint(0, 0))

    def put(self, data: bytes) -> list[Any]:
        self.engine.receive_data(data)
        self.served.settle_down()
        return self.listen()

    def encode(
        self, command: Command, header: bytes | None = None, body: bytes | None = None, channel: int = 1
    ) -> bytes:
        return encode_command(channel, command.encode(), header, body, 65_523)

    def refusal(self, command: Command) -> int | None:
        """The code with which a command ends the session; None: it is done."""
        said = self.do(command)
        codes = [each.error_code for each in said if isinstance(each, ExecutionException)]
        assert len(codes) == 1 or any(isinstance(each, SessionCompleted) for each in said)
        return codes[0] if codes else None


class Client09:
    """Methods of 0-9-1, or of one of its kin, on channel 1, and what the broker says to them.

    Args:
        vhost: the broker's.
        variant: the dialect, by its name.
        heartbeat: seconds between heartbeats.
        opens: it opens the channel.
        virtual_hosts: those that are there; None for one by whatever name.
        open_to: the one that it asks for.
        tune: the channel-max, frame-max and heartbeat that it asks for; None: `heartbeat`, and what is usual.

    Attributes:
        opened: what was said to that.
        tuned: what was said to `tune`.
    """

    def __init__(
        self,
        vhost: VirtualHostCore | None = None,
        *,
        name: str = "0-9-1",
        variant: Variant = V0_9_1,
        heartbeat: int = 0,
        opens: bool = True,
        virtual_hosts: Sequence[str] | None = None,
        open_to: str = "/",
        tune: tuple[int, int, int] | None = None,
        **properties: Any,
    ) -> None:
        self.variant = variant
        self.served = Served(name, vhost or new_vhost(), virtual_hosts=hosts_of(virtual_hosts))
        self.engine = self.served.engine
        self.messages: list[tuple[bytes, bytes]] = []
        self._properties = b""
        self._reader = FrameReader(variant.framing, 1 << 20)
        self.put(variant.header)
        self.do(ConnectionStartOk(properties, "ANONYMOUS", b"", "en_US"), channel=0)
        self.tuned = self.do(ConnectionTuneOk(*(tune or (100, 131_072, heartbeat))), channel=0)
        self.opened = self.do(ConnectionOpen(open_to), channel=0)
        if opens:
            self.do(ChannelOpen())

    def put(self, data: bytes) -> list[Any]:
        """Send octets; the methods that come back. Contents are noted in `messages`: properties and body."""
        self._reader.feed(self.served.take(data))
        said: list[Any] = []
        for kind, _, payload in self._reader.frames():
            if kind == METHOD:
                said.append(self.variant.methods.decode(payload))
            elif kind == 2:
                self._properties = payload[12:]
            elif kind == 3:
                self.messages.append((self._properties, payload))
        return said

    def encode(self, method: Method, channel: int = 1) -> bytes:
        return self.variant.framing.frame(METHOD, channel, self.variant.methods.encode(method))

    def do(self, *methods: Method, channel: int = 1) -> list[Any]:
        """Say methods; what comes back."""
        return self.put(b"".join(self.encode(each, channel) for each in methods))

    def content(self, body: bytes, properties: BasicProperties | None = None, octets: bytes | None = None) -> bytes:
        """Return the frames that follow a publish."""
        said = octets if octets is not None else (properties or BasicProperties()).encode(self.variant.tables)
        return self.variant.framing.message(1, 60, said, body, 4096)

"""A connection of a client engine to the broker, whose octets cross when the test says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amqp10.engine import (
    ConnectionTerms,
    Event,
    ReceiverSettleMode,
    SessionTerms,
    dialect,
)
from amqp10.errors import RemoteProtocolError

from ..inside.broker import VirtualHostCore
from .served import Served

TIMEOUT = 60
LASTING: dict[str, Any] = {"expiry_policy": "connection-close", "timeout": TIMEOUT}


@dataclass(frozen=True)
class Setting:
    """What does not change within one life."""

    mode: ReceiverSettleMode
    frame_size: int
    window: int
    streams: bool
    many: bool  # messages by the dozen, with tags so long that few of them fit an attach

    @classmethod
    def numbered(cls, number: int) -> Setting:
        """One of `SETTINGS`."""
        return cls(
            mode="second" if number % 2 else "first",
            frame_size=(512, 4096)[number // 2 % 2],
            window=(2, 100)[number // 4 % 2],
            streams=bool(number // 8 % 2),
            many=bool(number // 16 % 2),
        )


SETTINGS = 32


class Line(Served):
    """One connection: a client engine, the broker's side, and the octets under way."""

    def __init__(self, vhost: VirtualHostCore, setting: Setting, name: str) -> None:
        size, session = setting.frame_size, SessionTerms(incoming_window=setting.window)
        super().__init__("1.0", vhost, offered=ConnectionTerms("broker", max_frame_size=size), session=session)
        self.server = self.engine
        self.client = dialect("1.0").client(ConnectionTerms(name, max_frame_size=size), None, True)
        self.there, self.back = bytearray(), bytearray()
        self.events: list[Event] = []
        self.client.start()
        self.client.open()
        self.session = self.client.begin(session)
        while self.carry(1 << 30, 1 << 30):
            pass

    def carry(self, there: int, back: int) -> bool:
        """Let that many octets cross, each way; whether any did."""
        self.there += self.client.data_to_send()
        portion = bytes(self.there[:there])
        del self.there[:there]
        if portion:
            self.server.receive_data(portion)
            self.handle()
        self.back += self.server.data_to_send()
        answer = bytes(self.back[:back])
        del self.back[:back]
        if answer:
            self.client.receive_data(answer)
        self.events += self.client.events()
        return bool(portion or answer)

    def handle(self) -> None:
        """The broker acts on what came."""
        events = self.server.events()
        no_faults(events)
        self.peer.handle(events)

    def hear(self) -> None:
        """The broker notices that the connection is lost."""
        self.server.receive_eof()
        self.handle()


def no_faults(events: list[Event]) -> None:
    """No end has found a fault of the other's, but for a link that was taken over."""
    for event in events:
        error = getattr(event, "error", None)
        assert not isinstance(error, RemoteProtocolError), event
        assert getattr(error, "condition", None) in (None, "amqp:link:stolen"), event

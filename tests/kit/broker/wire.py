"""A client engine and the broker's side of its connection, with the bytes carried by hand."""

from __future__ import annotations

from typing import Any

from amqp10.engine import (
    ConnectionTerms,
    Event,
    LinkEnded,
    LinkTerms,
    ReceiverLink,
    SenderLink,
    Session,
    SessionTerms,
    dialect,
)
from amqp10.errors import LinkDetached
from amqp10.messaging import (
    Error,
    Message,
    Source,
    Target,
)

from ..inside.broker import Queue, VirtualHostCore
from .served import Served


class Wire(Served):
    """A client engine and the broker's side of its connection, with the bytes carried by hand."""

    def __init__(
        self,
        vhost: VirtualHostCore,
        name: str = "1.0",
        *,
        admit: bool = True,
        session: SessionTerms | None = None,
        max_frame_size: int = 131_072,
        **served: Any,
    ) -> None:
        super().__init__(name, vhost, **served)
        self.server = self.engine
        self.client = dialect(name).client(ConnectionTerms("client", max_frame_size=max_frame_size), None, True)
        self.events: list[Event] = []
        self.full = False
        self._admit = admit
        self.client.start()
        self.client.open()
        self.turn()
        self.session: Session = self.client.begin(session or SessionTerms()) if admit else None  # type: ignore[assignment]
        self.turn()

    def blocked(self) -> bool:
        return self.full

    def opened(self) -> Error | None:
        return None if self._admit else Error("amqp:resource-limit-exceeded", "no")

    def turn(self) -> list[Event]:
        """Carry bytes until both sides are quiet; what the client was told by that."""
        seen: list[Event] = []
        while True:
            there = self.client.data_to_send()
            if there:
                self.server.receive_data(there)
                self.settle_down()
            back = self.server.data_to_send()
            if back:
                self.client.receive_data(back)
            self.crossed(there, back)
            seen += self.client.events()
            if not there and not back:
                self.events += seen
                return seen

    def crossed(self, there: bytes, back: bytes) -> None:
        """Hear what the client said, and what it was answered."""

    def send_to(self, target: Any, *, source: Source | None = None, **terms: Any) -> SenderLink:
        """A sender link of the client's."""
        asked = target if target is None or not isinstance(target, str) else Target(address=target)
        name = terms.pop("name", f"to-{target}")
        link = self.session.attach_sender(LinkTerms(name, source=source or Source(), target=asked, **terms))
        self.turn()
        return link

    def receive_from(self, source: Any, *, credit: int = 0, **terms: Any) -> ReceiverLink:
        """A receiver link of the client's."""
        asked = source if source is None or not isinstance(source, str) else Source(address=source)
        name = terms.pop("name", f"from-{source}")
        target = terms.pop("target", Target())
        link = self.session.attach_receiver(LinkTerms(name, source=asked, target=target, **terms))
        if credit:
            link.flow(credit)
        self.turn()
        return link

    def refusal(self) -> LinkDetached:
        """Why the link that ended last was ended."""
        ended = [event for event in self.events if isinstance(event, LinkEnded)][-1]
        assert isinstance(ended.error, LinkDetached)
        return ended.error


def queue_of(vhost: VirtualHostCore, name: str) -> Queue:
    """That queue."""
    queue = vhost.nodes[name]
    assert isinstance(queue, Queue)
    return queue


def bodies(link: ReceiverLink) -> list[Any]:
    """Bodies of what came in, in order."""
    return [Message.decode(delivery.payload).body for delivery in link.incoming]

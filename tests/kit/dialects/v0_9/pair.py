"""Both engines of 0-9-1, back to back."""

from __future__ import annotations

from amqp10.dialects.v0_9 import DIALECT
from amqp10.engine import (
    ConnectionOpened,
    ConnectionTerms,
    DeclareQueue,
    Event,
    LinkAttached,
    LinkTerms,
    QueueFacts,
    ReceiverLink,
    RequestReceived,
    SenderLink,
    SessionBegun,
)
from amqp10.messaging import Error
from amqp10.sasl import Authenticator, Plain


class Pair:
    """A client and a server engine; `run` carries what they write to each other until they have nothing to say."""

    def __init__(self, password: str = "secret") -> None:
        authenticator = Authenticator({"user": "secret"}).for_connection(secure=True)
        self.client = DIALECT.client(ConnectionTerms("client"), (Plain("user", password),), True)
        self.server = DIALECT.server(ConnectionTerms("server", properties={"product": "test"}), authenticator)
        self.heard: list[Event] = []
        self.told: list[Event] = []
        self.octets = b""
        self.client.start()
        self.server.start()
        self.client.open()

    def run(self) -> None:
        moved = True
        while moved:
            moved = False
            for engine, other in ((self.client, self.server), (self.server, self.client)):
                data = engine.data_to_send()
                if data:
                    moved = True
                    self.octets += data if engine is self.client else b""
                    other.receive_data(data)
                self._collect()

    def _collect(self) -> None:
        self.heard += self.client.events()
        while events := self.server.events():
            for event in events:
                self.told.append(event)
                self.act(event)

    def act(self, event: Event) -> None:
        """Act as the owner of the server."""
        if isinstance(event, ConnectionOpened):
            self.server.open()
        elif isinstance(event, SessionBegun):
            event.session.begin()
        elif isinstance(event, RequestReceived):
            asked = event.request.request
            if isinstance(asked, DeclareQueue) and asked.name == "nonesuch":
                event.request.session.refuse(event.request, Error("amqp:not-found", "no such queue"))
            elif isinstance(asked, DeclareQueue):
                event.request.session.answer(event.request, QueueFacts(asked.name or "made-up", 3, 1))
            else:
                event.request.session.answer(event.request, None)
        elif isinstance(event, LinkAttached):
            link = event.link
            assert link.remote is not None
            link.attach(LinkTerms(link.name, link.remote.source, link.remote.target))
            if isinstance(link, ReceiverLink):
                link.flow(10)

    def attached(self, link: SenderLink | ReceiverLink) -> SenderLink | ReceiverLink:
        self.run()
        assert link.attached
        return link

    def publisher(self) -> ReceiverLink:
        """The server's link for what the client publishes."""
        return next(
            event.link
            for event in self.told
            if isinstance(event, LinkAttached) and isinstance(event.link, ReceiverLink)
        )

    def consumer(self) -> SenderLink:
        """The server's link for what the client consumes."""
        found = [e.link for e in self.told if isinstance(e, LinkAttached) and isinstance(e.link, SenderLink)]
        return found[-1]


def opened() -> Pair:
    pair = Pair()
    pair.run()
    assert pair.client.opened
    assert pair.server.opened
    return pair

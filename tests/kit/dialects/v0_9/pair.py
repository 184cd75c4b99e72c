"""Both engines of 0-9-1, back to back."""

from __future__ import annotations

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
from amqp10.testing import EnginePair


class Pair(EnginePair):
    """Both engines; the server's owner takes what it is asked for."""

    def __init__(self, password: str = "secret") -> None:
        super().__init__(
            server=ConnectionTerms("server", properties={"product": "test"}),
            mechanisms=(Plain("user", password),),
            authenticator=Authenticator({"user": "secret"}).for_connection(secure=True),
            dialect="0-9-1",
        )
        self._acted = 0
        self.client.open()

    def run(self, chunk: int | None = None) -> None:
        """Carry bytes, and act on what the server hears, until neither has anything to say."""
        super().run(chunk)
        while self._acted < len(self.server_events):
            self._acted += 1
            self.act(self.server_events[self._acted - 1])
            super().run(chunk)

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

    def until_attached(self, link: SenderLink | ReceiverLink) -> SenderLink | ReceiverLink:
        self.run()
        assert link.attached
        return link

    def publisher(self) -> ReceiverLink:
        """The server's link for what the client publishes."""
        return next(
            event.link
            for event in self.server_events
            if isinstance(event, LinkAttached) and isinstance(event.link, ReceiverLink)
        )

    def consumer(self) -> SenderLink:
        """The server's link for what the client consumes."""
        found = [e.link for e in self.server_events if isinstance(e, LinkAttached) and isinstance(e.link, SenderLink)]
        return found[-1]


def opened() -> Pair:
    pair = Pair()
    pair.run()
    assert pair.client.opened
    assert pair.server.opened
    return pair

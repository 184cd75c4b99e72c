"""Two engines back to back: a client and a server connected in memory, without I/O, tasks or a clock."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Literal

from .._arguments import checked
from ..engine import (
    ConnectionOpened,
    ConnectionTerms,
    CreditChanged,
    Engine,
    Event,
    LinkAttached,
    LinkTerms,
    ReceiverLink,
    SenderLink,
    Session,
    SessionBegun,
    SessionTerms,
)
from ..engine import dialect as find_dialect
from ..messaging import Source, Target
from ..sasl import Authenticator, Mechanism

Side = Literal["client", "server"]


@checked
class EnginePair:
    """A client engine and a server engine, and the bytes between them.

        pair = EnginePair()
        pair.open()
        sender, receiver = pair.attach("orders", credit=10)      # the client sends, the server receives
        sender.send(Message("hello").encode())
        pair.run()
        receiver.incoming.popleft().payload

    Bytes move only in `run`, which the shortcuts call. The test owns both engines: events gather in `client_events` and
    `server_events`, and the test answers those that the shortcuts do not.

    Args:
        client: the terms of the client's open.
        server: the terms of the server's open.
        mechanisms: the client's SASL mechanisms; None for no SASL layer.
        authenticator: the server's authenticator; None to let anybody in.
        chunk: the size of portions in which bytes are carried; None for whole writes.
        dialect: the dialect of both engines.
    """

    def __init__(
        self,
        *,
        client: ConnectionTerms | None = None,
        server: ConnectionTerms | None = None,
        mechanisms: tuple[Mechanism, ...] | None = None,
        authenticator: Authenticator | None = None,
        chunk: int | None = None,
        dialect: str = "1.0",
    ) -> None:
        spoken = find_dialect(dialect)
        client = client if client is not None else ConnectionTerms("client")
        server = server if server is not None else ConnectionTerms("server")
        if authenticator is None:
            authenticator = Authenticator(None, anonymous=True).for_connection(secure=True)
        self.client: Engine = spoken.client(client, mechanisms, True)
        self.server: Engine = spoken.server(server, authenticator)
        self.chunk = chunk
        self.client_events: list[Event] = []
        self.server_events: list[Event] = []
        self.session: Session | None = None
        self._names = itertools.count(1)
        self.client.start()
        self.server.start()

    def __repr__(self) -> str:
        return f"<EnginePair of {type(self.client).__name__} and {type(self.server).__name__}>"

    # Moving bytes

    def run(self, chunk: int | None = None) -> None:
        """Carry bytes both ways until neither side writes.

        Args:
            chunk: the size of a portion, in place of the pair's own.
        """
        chunk = chunk if chunk is not None else self.chunk
        while True:
            there = self._carry(self.client, self.server, chunk)
            back = self._carry(self.server, self.client, chunk)
            self.client_events += self.client.events()
            self.server_events += self.server.events()
            if not (there or back):
                return

    def _carry(self, writer: Engine, reader: Engine, chunk: int | None) -> bool:
        data = writer.data_to_send()
        size = chunk or max(1, len(data))
        for start in range(0, len(data), size):
            reader.receive_data(data[start : start + size])
        return bool(data)

    def lose(self, side: Side | None = None) -> None:
        """Lose the transport with all uncarried bytes, and report its end to `side`, or to both sides."""
        for name, engine in (("client", self.client), ("server", self.server)):
            engine.data_to_send()
            if side in (None, name):
                engine.receive_eof()
        self.run()

    def take(self, side: Side) -> list[Event]:
        """Return the events of `side` since the last call, in order."""
        self.run()
        mine = self.client_events if side == "client" else self.server_events
        taken = list(mine)
        mine.clear()
        return taken

    # The usual beginning

    def open(self) -> None:
        """Open the connection from both sides."""
        self.client.open()
        self.run()
        if any(isinstance(event, ConnectionOpened) for event in self.server_events):
            self.server.open()
        self.run()
        if not (self.client.opened and self.server.opened):
            raise AssertionError(f"not open: client {self.client_events}, server {self.server_events}")
        self._answered(ConnectionOpened())

    def begin(
        self, client: SessionTerms | None = None, server: SessionTerms | None = None, *, by: Side = "client"
    ) -> tuple[Session, Session]:
        """Begin a session; return the client's and the server's end.

        Args:
            client, server: the terms of each begin.
            by: the side that begins; the other side answers.
        """
        starter, (mine, theirs) = (self.client, (client, server)) if by == "client" else (self.server, (server, client))
        first = starter.begin(mine)
        self.run()
        events = self.server_events if by == "client" else self.client_events
        second = next(event.session for event in events if isinstance(event, SessionBegun))
        second.begin(theirs)
        self.run()
        self._answered(SessionBegun(first), SessionBegun(second))
        return (first, second) if by == "client" else (second, first)

    def attach(
        self,
        address: str = "queue",
        *,
        credit: int | None = None,
        sender: Side = "client",
        session: Session | None = None,
        terms: LinkTerms | None = None,
        answer: LinkTerms | None = None,
    ) -> tuple[SenderLink, ReceiverLink]:
        """Attach a link by the client; return the sending end and the receiving end.

        Args:
            address: the address of both termini, unless `terms` sets them.
            credit: the credit that the receiver grants; None for no credit.
            sender: the side that sends.
            session: the client's end of the session; None for the last one begun here, or a new one.
            terms: the client's terms, whose name must be new.
            answer: the server's terms; None for the client's termini and modes.
        """
        if session is None:
            session = self.session if self.session is not None and self.session.begun else self.begin()[0]
        self.session = session
        if terms is None:
            terms = LinkTerms(f"link-{next(self._names)}", Source(address), Target(address))
        if terms.source is None and terms.target is None:
            terms = replace(terms, source=Source(address), target=Target(address))
        mine = session.attach_sender(terms) if sender == "client" else session.attach_receiver(terms)
        self.run()
        theirs = next(event.link for event in self.server_events if isinstance(event, LinkAttached))
        assert theirs.remote is not None
        theirs.attach(answer if answer is not None else replace(theirs.remote, initial_delivery_count=0))
        self.run()
        ends = (mine, theirs) if sender == "client" else (theirs, mine)
        sending, receiving = ends
        assert isinstance(sending, SenderLink)
        assert isinstance(receiving, ReceiverLink)
        if credit is not None:
            receiving.flow(credit)
            self.run()
        self._answered(LinkAttached(sending), LinkAttached(receiving), CreditChanged(sending))
        return sending, receiving

    def _answered(self, *done: Event) -> None:
        """Drop the events that a shortcut has handled, and keep the others for the test."""
        for events in (self.client_events, self.server_events):
            events[:] = [event for event in events if event not in done]

"""A client and a server engine, what drives them, and a line between the two that can be cut after any frame."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from amqp10 import Message, Source, Target
from amqp10.dialects.v0_10 import DIALECT
from amqp10.engine import (
    BeginBranch,
    ConnectionEnded,
    ConnectionOpened,
    ConnectionTerms,
    CreditChanged,
    DeclareQueue,
    DeliveriesReceived,
    Engine,
    Event,
    LinkAttached,
    LinkEnded,
    LinkTerms,
    OutcomesReceived,
    OutgoingDelivery,
    QueryExchange,
    QueryQueue,
    QueueFacts,
    ReceiverLink,
    RequestReceived,
    SenderLink,
    Session,
    SessionBegun,
    SessionEngine,
    SessionKeeper,
    SessionResumed,
    SessionTerms,
    SessionUnmapped,
    SettlementsReceived,
)
from amqp10.messaging import ACCEPTED, Coordinator, Declare, Declared, TransactionalState
from amqp10.sasl import Authenticator
from amqp10.types import as_composite

TERMS = ConnectionTerms("client", idle_timeout=None)


def frames(data: bytes) -> Iterator[bytes]:
    """Headers and frames, one by one."""
    while data:
        size = 8 if data.startswith(b"AMQP") else int.from_bytes(data[2:4], "big")
        yield data[:size]
        data = data[size:]


class Keeper(SessionKeeper):
    """Keeps all sessions for ever."""

    longest = 1000

    def __init__(self) -> None:
        self.sessions: dict[bytes, Session] = {}

    def keep(self, session: Session, name: bytes, timeout: int) -> None:
        self.sessions[name] = session

    def take(self, engine: SessionEngine, name: bytes) -> Session | None:
        session = self.sessions.get(name)
        if session is not None and not session.suspended:
            session.suspend()
        return session

    def detached(self) -> None:
        """Count no time."""


class ServerApplication:
    """Takes what is sent, sends what waits in `stock` to who subscribes, and notes both.

    Attributes:
        got: bodies that were transferred, in order.
        taken: bodies of what clients accepted, in order.
        returned: those of what they released.
    """

    def __init__(self, stock: list[Any]) -> None:
        self.keeper = Keeper()
        self.stock = deque(stock)
        self.got: list[Any] = []
        self.taken: list[Any] = []
        self.returned: list[Any] = []
        self.ended: list[object] = []
        self.links: list[Any] = []
        self.events: list[Event] = []
        self.answer: Callable[[Any], Any] = lambda request: None
        self.outcome: Any = ACCEPTED
        self.engine = self.new_engine()

    def new_engine(self) -> Engine:
        self.engine = DIALECT.server(TERMS, Authenticator(anonymous=True))
        self.engine.session_keeper = self.keeper
        self.engine.start()
        return self.engine

    def handle(self, events: list[Event]) -> None:
        self.events += events
        for event in events:
            if isinstance(event, ConnectionOpened):
                self.engine.open()
            elif isinstance(event, SessionBegun):
                session: Any = event.session
                session.begin()
            elif isinstance(event, LinkAttached):
                self.attached(event.link)
            elif isinstance(event, DeliveriesReceived):
                self.take(event.link)
            elif isinstance(event, CreditChanged):
                self.send(event.link)
            elif isinstance(event, OutcomesReceived):
                for delivery in event.deliveries:
                    kept = self.taken if delivery.remote_state == ACCEPTED else self.returned
                    kept.append(Message.decode(delivery.payload).body)
            elif isinstance(event, RequestReceived):
                session = event.request.session
                request = event.request.request
                answer = self.answer(request)
                if answer is None and isinstance(request, QueryQueue | DeclareQueue):
                    answer = QueueFacts(request.name)
                if isinstance(request, BeginBranch):
                    answer = True
                session.answer(event.request, answer)
            elif isinstance(event, SessionUnmapped | LinkEnded | ConnectionEnded):
                self.ended.append(event)

    def attached(self, link: Any) -> None:
        self.links.append(link)
        link.attach(LinkTerms(link.name, link.remote.source, link.remote.target))
        if isinstance(link, ReceiverLink):
            link.flow(1000)

    def take(self, link: ReceiverLink) -> None:
        while link.incoming and link.attached:
            delivery = link.incoming.popleft()
            message = Message.decode(delivery.payload)
            assert link.remote is not None
            if isinstance(link.remote.target, Coordinator):
                declares = isinstance(as_composite(message.body), Declare)
                link.settle(delivery, Declared(b"txn") if declares else ACCEPTED)
                continue
            self.got.append(message.body)
            state = delivery.remote_state
            outcome = self.outcome
            link.settle(
                delivery,
                TransactionalState(state.txn_id, outcome) if isinstance(state, TransactionalState) else outcome,
            )

    def send(self, link: SenderLink) -> None:
        while self.stock and link.credit > 0:
            link.send(Message(self.stock.popleft()).encode())
        if link.drain:
            link.drained()


class ClientApplication:
    """Sends `work` on one link, receives on another and accepts, and notes what it hears.

    Attributes:
        told: outcomes of what was sent: body -> how often.
        got: bodies that were received, in order.
    """

    def __init__(self) -> None:
        self.told: dict[Any, list[Any]] = {}
        self.got: list[Any] = []
        self.settled: list[Any] = []
        self.ended: list[object] = []
        self.session: Session | None = None
        self.resumed = 0
        self.events: list[Event] = []
        self.on_open: Callable[[Engine], None] | None = None
        self.engine = self.new_engine()

    def new_engine(self) -> Engine:
        self.engine = DIALECT.client(TERMS, None, True)
        self.engine.start()
        self.engine.open()
        return self.engine

    def handle(self, events: list[Event]) -> None:
        self.events += events
        for event in events:
            if isinstance(event, ConnectionOpened):
                if self.session is not None and self.session.suspended:
                    self.engine.resume(self.session)
                elif self.on_open is not None:
                    self.on_open(self.engine)
            elif isinstance(event, OutcomesReceived):
                for delivery in event.deliveries:
                    self.told.setdefault(Message.decode(delivery.payload).body, []).append(delivery.remote_state)
            elif isinstance(event, DeliveriesReceived):
                while event.link.incoming:
                    received = event.link.incoming.popleft()
                    self.got.append(Message.decode(received.payload).body)
                    if event.link.attached:
                        event.link.settle(received, ACCEPTED)
            elif isinstance(event, SettlementsReceived):
                self.settled += event.deliveries
            elif isinstance(event, SessionResumed):
                self.resumed += 1
            elif isinstance(event, SessionUnmapped | LinkEnded | ConnectionEnded):
                self.ended.append(event)

    # Short cuts

    def begin(self, timeout: int = 0) -> Session:
        self.session = self.engine.begin(SessionTerms(timeout=timeout))
        return self.session

    def sender(self, address: str | None = "q", name: str = "s") -> SenderLink:
        assert self.session is not None
        return self.session.attach_sender(LinkTerms(name, Source(), Target(address), settle_mode="unsettled"))

    def receiver(self, address: str = "q", name: str = "r", **terms: Any) -> ReceiverLink:
        assert self.session is not None
        return self.session.attach_receiver(LinkTerms(name, Source(address), Target(), **terms))


class Line:
    """Between the two; `passed` counts what went over it. It is cut after so many frames, its successor after so many
    of its own, and so on, as `cuts` say.
    """

    def __init__(self, client: ClientApplication, server: ServerApplication) -> None:
        self.client = client
        self.server = server
        self.passed = 0
        self.cuts: list[int] = []
        self.said: dict[object, list[bytes]] = {client: [], server: []}
        self.since = 0

    def run(self) -> None:
        """Until both are silent; a line that is cut on the way is replaced by a new one."""
        client, server = self.client, self.server
        while True:
            moved = False
            for one, other in ((client, server), (server, client)):
                data = one.engine.data_to_send()
                one.handle(one.engine.events())
                for frame in frames(data):
                    if self.cuts and self.passed - self.since >= self.cuts[0]:
                        self.cuts.pop(0)
                        self.cut()
                        moved = True
                        break
                    self.passed += 1
                    self.said[one].append(frame)
                    moved = True
                    other.engine.receive_data(frame)
                    other.handle(other.engine.events())
            if not moved and not client.engine.output_size and not server.engine.output_size:
                return

    def cut(self) -> None:
        """Lose the bytes under way. Both ends find that out, and the client connects again."""
        self.since = self.passed
        for one in (self.client, self.server):
            one.engine.receive_eof()
            one.handle(one.engine.events())
        self.server.new_engine()
        self.client.new_engine()


def pair(stock: list[Any] | None = None) -> tuple[ClientApplication, ServerApplication, Line]:
    """Both, with a line between them."""
    client, server = ClientApplication(), ServerApplication(stock or [])
    return client, server, Line(client, server)


def bodies(deliveries: list[OutgoingDelivery]) -> list[Any]:
    return [Message.decode(each.payload).body for each in deliveries]


__all__ = ("ClientApplication", "Line", "QueryExchange", "ServerApplication", "bodies", "frames", "pair")

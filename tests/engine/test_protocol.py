"""The loop in the contract drives every dialect from its beginning to the end of the transport."""

from __future__ import annotations

import inspect
import socket
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import monotonic

import pytest

import amqp10.engine._protocol as protocol
from amqp10.engine import (
    ConnectionEnded,
    ConnectionOpened,
    ConnectionTerms,
    CreditChanged,
    DeliveriesReceived,
    Engine,
    Event,
    LinkAttached,
    LinkTerms,
    OutcomesReceived,
    OutgoingDelivery,
    QueueFacts,
    ReceiverLink,
    RequestReceived,
    Role,
    SenderLink,
    SessionBegun,
    dialect,
    dialect_names,
)
from amqp10.errors import ConnectionClosed
from amqp10.messaging import Accepted, Message, Source, Target
from amqp10.sasl import Authenticator

PAYLOAD = Message("hello").encode()


def the_loop() -> str:
    """Return the loop that the contract's page shows."""
    page = inspect.getdoc(protocol) or ""
    start = page.index("    engine.start()")
    return textwrap.dedent(page[start : page.index("\n\n", start)])


def drive(engine: Engine, transport: socket.socket, act: Callable[[Event], None]) -> None:
    """Run the contract's own loop over a socket."""

    def read(deadline: float | None) -> bytes | None:
        transport.settimeout(None if deadline is None else max(0.001, deadline - monotonic()))
        try:
            return transport.recv(65_536)
        except TimeoutError:
            return None

    def write(data: bytes) -> None:
        if data:
            transport.settimeout(None)
            transport.sendall(data)

    given = {"engine": engine, "act": act, "read": read, "write": write, "close": transport.close}
    with transport:  # whatever fails, the other end hears of it
        exec(the_loop(), {**given, "clock": monotonic, "Role": Role, "ConnectionEnded": ConnectionEnded})


class Sending:
    """A client that sends one message, and closes when it is accepted."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.events: list[Event] = []
        self.delivery: OutgoingDelivery | None = None

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        match event:
            case ConnectionOpened():
                self.engine.begin().attach_sender(LinkTerms("out", Source(), Target("q")))
            case CreditChanged(link) if link.credit and self.delivery is None:
                assert isinstance(link, SenderLink)
                self.delivery = link.send(PAYLOAD)
            case OutcomesReceived():
                self.engine.close()


class Taking:
    """A server that answers everything, and accepts what it gets."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.events: list[Event] = []
        self.bodies: list[object] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        match event:
            case ConnectionOpened():
                self.engine.open()
            case SessionBegun(session):
                session.begin()
            case LinkAttached(link):
                assert isinstance(link, ReceiverLink)
                assert link.remote is not None
                link.attach(replace(link.remote, initial_delivery_count=0))
                link.flow(1)
            case RequestReceived(pending):  # whether there is the queue
                pending.session.answer(pending, QueueFacts("q", 0, 0))
            case DeliveriesReceived(link):
                delivery = link.incoming.popleft()
                self.bodies.append(Message.decode(delivery.payload).body)
                link.settle(delivery, Accepted())


@pytest.mark.parametrize("name", dialect_names())
def test_the_loop_is_all(name: str) -> None:
    """The loop on the contract's page carries a message from its beginning to the transport's end."""
    spoken = dialect(name)
    nobody = Authenticator(None, anonymous=True).for_connection(secure=True)
    here, there = socket.socketpair()
    client = Sending(spoken.client(ConnectionTerms("client"), None, True))
    server = Taking(spoken.server(ConnectionTerms("server"), nobody))
    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(drive, server.engine, there, server)
        drive(client.engine, here, client)
        served.result()
    assert server.bodies == ["hello"]
    for end, over in ((client, None), (server, ConnectionClosed)):
        last = end.events[-1]
        assert isinstance(last, ConnectionEnded)
        assert isinstance(last.error, over) if over else last.error is None

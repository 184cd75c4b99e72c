"""A whole conversation, with octets changed, cut out and put in: engines end what is broken, and never raise."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqp10 import Message
from amqp10.dialects.v0_10 import DIALECT
from amqp10.engine import ConnectionEnded, Engine, LinkAttached, SenderLink
from amqp10.errors import LocalProtocolError

from ...kit.dialects.v0_10.pair import ClientApplication, ServerApplication, pair


def conversation() -> tuple[bytes, bytes]:
    """Return the bytes of a client and a server while one message is sent and another received."""
    client, server, line = pair(["stock"])

    def start(engine: Engine) -> None:
        client.begin()
        client.sender()
        client.receiver().flow(10)

    client.on_open = start
    line.run()
    link: Any = next(e.link for e in client.events if isinstance(e, LinkAttached) and isinstance(e.link, SenderLink))
    link.send(Message("sent", application_properties={"n": 1}).encode())
    line.run()
    assert (server.got, client.got) == (["sent"], ["stock"])
    return b"".join(line.said[client]), b"".join(line.said[server])


BY_CLIENT, BY_SERVER = conversation()


@st.composite
def mutants(draw: st.DrawFn, data: bytes) -> bytes:
    """Something like it: a few octets changed, removed or added, and cut off anywhere."""
    octets = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(8, len(octets) - 1))
        kind = draw(st.integers(0, 2))
        if kind == 0:
            octets[at] = draw(st.integers(0, 255))
        elif kind == 1:
            del octets[at : at + draw(st.integers(1, 20))]
        else:
            octets[at:at] = draw(st.binary(min_size=1, max_size=20))
        if len(octets) < 10:
            break
    return bytes(octets[: draw(st.integers(1, len(octets)))])


def feed(application: ClientApplication | ServerApplication, data: bytes, portion: int) -> None:
    """Give it all that; then the transport ends, and so does the connection, once."""
    for at in range(0, len(data), portion):
        application.engine.receive_data(data[at : at + portion])
        application.handle(application.engine.events())
        application.engine.data_to_send()
    application.engine.receive_eof()
    application.handle(application.engine.events())
    assert sum(isinstance(event, ConnectionEnded) for event in application.ended) == 1
    assert application.engine.events() == []


@settings(max_examples=2 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
@given(mutants(BY_CLIENT), st.integers(1, 200))
def test_a_server_with_a_broken_client(data: bytes, portion: int) -> None:
    """The server engine, and what drives it, get through it."""
    feed(ServerApplication(["stock"]), data, portion)


@settings(max_examples=2 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
@given(mutants(BY_SERVER), st.integers(1, 200))
def test_a_client_with_a_broken_server(data: bytes, portion: int) -> None:
    """The client engine does; what it has sent by then is what it would have sent."""
    client = ClientApplication()

    def start(engine: Engine) -> None:
        with suppress(LocalProtocolError):  # it is over already
            client.begin()
            client.sender()
            client.receiver().flow(10)

    client.on_open = start
    feed(client, data, portion)


def test_the_trace_of_it() -> None:
    """The tracer reads the same, a line a frame; secrets are left out, and garbage is said to be that."""
    tracer = DIALECT.tracer(True)
    lines = [*tracer.sent(BY_CLIENT), *tracer.received(BY_SERVER)]
    assert lines[0] == "> header AMQP 0-10"
    assert any("message.transfer" in line and "b'sent'" in line for line in lines)
    assert any("connection.start-ok" in line and "response='<secret>'" not in line for line in lines)
    assert any("response=<secret>" in line for line in lines)
    assert any(line.endswith("sync") or " sync " in line for line in lines)
    broken = DIALECT.tracer(False)
    assert broken.sent(b"AMQP\1\1\0\n" + b"\xff" * 12)[-1].startswith("> no frames from here on")
    assert broken.sent(b"123") == ["> 3 bytes"]

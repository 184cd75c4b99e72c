"""Our client against Apache Qpid Broker-J: what it does in its own way, and the main paths once more."""

from __future__ import annotations

import secrets
import ssl
from typing import Any

import pytest

from amqp10 import (
    TLS,
    Accepted,
    AuthenticationFailed,
    Connection,
    ConnectionClosed,
    ConnectionLost,
    External,
    LinkDetached,
    Message,
    ScramSha1,
    ScramSha256,
    Source,
)

from ._cases import ANNOTATION, BODIES, KEPT, PRIMITIVES, body_of, everything, exchange, same
from .brokers import Server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.capability("send and receive"),
]

on_trio = pytest.mark.parametrize("anyio_backend", ["trio"])


# Messages


@on_trio
async def test_bodies(broker_j: Server, address: str) -> None:
    """Bodies of all kinds come back the same in value and type."""
    async with Connection(broker_j.url()) as connection:
        messages = await exchange(connection, address, *map(Message, BODIES.values()))
    for kind, message in zip(BODIES, messages, strict=True):
        assert same(message.body, BODIES[kind]), kind


@on_trio
async def test_fields(broker_j: Server, address: str) -> None:
    """All fields, and every primitive type as an application property."""
    async with Connection(broker_j.url()) as connection:
        (message,) = await exchange(connection, address, everything(application_properties=PRIMITIVES))
    for name, value in {**KEPT, "application_properties": PRIMITIVES}.items():
        assert same(getattr(message, name), value), name
    assert ANNOTATION.items() <= message.message_annotations.items()


@pytest.mark.parametrize("size", [1, 1000, 131_072, 1 << 20, 10 << 20])
@on_trio
async def test_size(broker_j: Server, address: str, size: int) -> None:
    """From one byte to ten mebibytes; its frames are of 32 KiB."""
    body = body_of(size)
    async with Connection(broker_j.url()) as connection:
        (message,) = await exchange(connection, address, body)
        assert message.body == body


# Settlement


async def test_presettled(broker_j: Server, address: str) -> None:
    """Sent and received settled."""
    async with Connection(broker_j.url()) as connection:
        async with connection.sender(address, settle_mode="settled") as sender:
            await sender.send_many(range(50))
        async with connection.receiver(address, settle_mode="settled") as receiver:
            assert [(await receiver.receive()).message.body for _ in range(50)] == list(range(50))


async def test_outcomes(broker_j: Server, address: str) -> None:
    """Released: again, uncounted. Modified with delivery-failed: again, counted. Accepted: not again."""
    async with Connection(broker_j.url()) as connection:
        async with connection.sender(address) as sender:
            assert await (await sender.submit("x")).outcome() == Accepted()
        async with connection.receiver(address, credit=1) as receiver:
            first = await receiver.receive()
            first.release()
            second = await receiver.receive()
            second.modify(delivery_failed=True)
            third = await receiver.receive()
            assert (second.message.delivery_count, third.message.delivery_count) == (0, 1)
            third.accept()
            await receiver.drain()
            assert receiver.buffered == 0


async def test_settle_second(broker_j: Server, address: str) -> None:
    """receiver-settle-mode "second": the outcome counts when the broker has settled, and it does."""
    async with Connection(broker_j.url()) as connection:
        async with connection.sender(address) as sender:
            await sender.send_many(range(3))
        async with connection.receiver(address, receiver_settle_mode="second") as receiver:
            for number in range(3):
                delivery = await receiver.receive()
                assert delivery.message.body == number
                delivery.accept()
                await delivery.wait_settled()
            assert receiver.unsettled == 0


# Credit


async def test_drain(broker_j: Server, address: str) -> None:
    """Drain returns on an empty queue and leaves the link usable."""
    async with Connection(broker_j.url()) as connection, connection.receiver(address, credit=0) as receiver:
        receiver.add_credit(5)
        await receiver.drain()
        assert (receiver.credit, receiver.buffered) == (0, 0)
        async with connection.sender(address) as sender:
            await sender.send("x")
        receiver.add_credit(5)
        with await receiver.receive() as message:
            assert message.body == "x"


@on_trio
async def test_window(broker_j: Server, address: str) -> None:
    """Many times the session's window; this broker ends a session whose window or ids are wrong."""
    count = 3000
    async with Connection(broker_j.url()) as connection, connection.session(incoming_window=50) as session:
        async with session.sender(address) as sender:
            assert await sender.send_many(b"%d" % number for number in range(count)) == count
        async with session.receiver(address, credit=1000) as receiver:
            for number in range(count):
                with await receiver.receive() as message:
                    assert message.body == b"%d" % number


# Termini


async def test_dynamic_and_anonymous(broker_j: Server) -> None:
    """A reply through the anonymous terminus to a node that was made for the receiver."""
    async with Connection(broker_j.url()) as connection:
        async with connection.receiver(dynamic=True) as replies, connection.sender(None) as anonymous:
            await anonymous.send(Message("reply", to=replies.address))
            with await replies.receive() as message:
                assert message.body == "reply"


async def test_browse(broker_j: Server, address: str) -> None:
    """distribution-mode "copy" leaves the messages where they are."""
    async with Connection(broker_j.url()) as connection:
        async with connection.sender(address) as sender:
            await sender.send_many(range(3))
        for mode in ("copy", "move"):
            async with connection.receiver(Source(address, distribution_mode=mode), credit=3) as receiver:
                for number in range(3):
                    with await receiver.receive() as message:
                        assert message.body == number


async def test_refused_link(broker_j: Server) -> None:
    """A node that is not made on demand: the broker's condition, and the connection works on."""
    async with Connection(broker_j.url()) as connection:
        with pytest.raises(LinkDetached) as refused:
            async with connection.receiver(f"amq.{secrets.token_hex(4)}"):
                pass
        assert refused.value.condition == "amqp:not-found"
        async with connection.receiver(dynamic=True) as receiver:
            assert receiver.address


# Security


@pytest.mark.parametrize("sasl", [None, ScramSha256("user", "secret"), ScramSha1("user", "secret")])
async def test_mechanisms(broker_j: Server, address: str, sasl: Any) -> None:
    """PLAIN and SCRAM on the same port: the strongest when nothing is said, else what is asked for."""
    async with Connection(broker_j.url(), sasl=sasl) as connection:
        assert connection.mechanism == ("SCRAM-SHA-256" if sasl is None else sasl.name)
        (message,) = await exchange(connection, address, "x")
        assert message.body == "x"


async def test_unknown_hostname(broker_j: Server) -> None:
    """A virtual host that is not there: the broker's word on it, though the open before it breaks the rules."""
    with pytest.raises(ConnectionClosed) as refused:
        async with Connection(broker_j.url(), hostname="nowhere"):
            pass
    assert refused.value.condition == "amqp:not-found"


async def test_wrong_password(broker_j: Server) -> None:
    """Refused by SCRAM as by PLAIN."""
    with pytest.raises(AuthenticationFailed):
        async with Connection(broker_j.url(password="wrong")):
            pass


@pytest.mark.parametrize("sasl", [None, False])
async def test_anonymous(broker_j: Server, address: str, sasl: Any) -> None:
    """ANONYMOUS, and no SASL layer at all, which this broker's port takes."""
    async with Connection(broker_j.url("anonymous", user=None), sasl=sasl) as connection:
        assert connection.mechanism == (None if sasl is False else "ANONYMOUS")
        (message,) = await exchange(connection, address, "x")
        assert message.body == "x"


async def test_tls(broker_j: Server, address: str) -> None:
    """Over TLS with its certificate verified; refused when its authority is not trusted."""
    async with Connection(broker_j.url("amqps"), tls=TLS(ca=broker_j.certificates / "ca.pem")) as connection:
        (message,) = await exchange(connection, address, body_of(1 << 20))
        assert message.body == body_of(1 << 20)
    with pytest.raises(ConnectionLost, match="certificate") as failed:
        async with Connection(broker_j.url("amqps"), tls=TLS(ca=broker_j.certificates / "stranger.pem")):
            pass
    assert isinstance(failed.value.__cause__, ssl.SSLCertVerificationError)


async def test_external(broker_j: Server, address: str) -> None:
    """The client's certificate is the user."""
    folder = broker_j.certificates
    tls = TLS(ca=folder / "ca.pem", certificate=folder / "client.pem", key=folder / "client.key")
    async with Connection(broker_j.url("external", user=None), tls=tls, sasl=External()) as connection:
        assert connection.mechanism == "EXTERNAL"
        (message,) = await exchange(connection, address, "x")
        assert message.body == "x"

"""Our client against Apache Artemis."""

from __future__ import annotations

import secrets
import ssl
from datetime import timedelta
from typing import Any

import anyio
import pytest

import amqp10
from amqp10 import (
    TLS,
    Accepted,
    Anonymous,
    AuthenticationFailed,
    Connection,
    ConnectionLost,
    External,
    LinkDetached,
    Message,
    Plain,
    ScramSha256,
    ScramSha512,
    Source,
    Symbol,
)

from ._cases import ANNOTATION, BODIES, KEPT, MOMENT, PRIMITIVES, body_of, everything, exchange, same
from .brokers import Server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.capability("send and receive"),
]

# For what is heavy, or says nothing about the event loop: one backend is enough.
on_trio = pytest.mark.parametrize("anyio_backend", ["trio"])
DEAD = "dead"


# Messages


async def test_one_off(artemis: Server, address: str) -> None:
    """The two helpers of the first page of the documentation."""
    await amqp10.send(artemis.url(), address, "a", b"b", Message({"c": 1}))
    messages = await amqp10.receive(artemis.url(), address, count=3)
    assert [message.body for message in messages] == ["a", b"b", {"c": 1}]


@pytest.mark.parametrize("kind", BODIES)
@on_trio
async def test_body(artemis: Server, address: str, kind: str) -> None:
    """A body of any kind comes back the same in value and type."""
    async with Connection(artemis.url()) as connection:
        (message,) = await exchange(connection, address, Message(BODIES[kind]))
        assert same(message.body, BODIES[kind]), message.body


async def test_application_properties(artemis: Server, address: str) -> None:
    """Every primitive type survives as an application property."""
    async with Connection(artemis.url()) as connection:
        (message,) = await exchange(connection, address, Message(b"", application_properties=PRIMITIVES))
        assert same(message.application_properties, PRIMITIVES)


async def test_fields(artemis: Server, address: str) -> None:
    """Header, annotations, properties and footer arrive as they were sent."""
    async with Connection(artemis.url()) as connection:
        (message,) = await exchange(connection, address, everything())
    for name, value in KEPT.items():
        assert same(getattr(message, name), value), name
    assert message.ttl is not None
    assert timedelta() < message.ttl <= timedelta(hours=1)
    assert ANNOTATION.items() <= message.message_annotations.items()


@pytest.mark.parametrize("size", [1, 255, 256, 1000, 131_072, 1 << 20, 10 << 20])
@on_trio
async def test_size(artemis: Server, address: str, size: int) -> None:
    """From one byte to ten mebibytes, there and back, in as many frames as it takes."""
    body = body_of(size)
    async with Connection(artemis.url()) as connection:
        (message,) = await exchange(connection, address, body)
        assert message.body == body


@on_trio
async def test_large_among_small(artemis: Server, address: str) -> None:
    """A message of many frames on one link, small ones on another of the same session, all whole."""
    large, small = body_of(5 << 20), [body_of(size) for size in range(0, 2000, 10)]
    async with Connection(artemis.url()) as connection, anyio.create_task_group() as tasks:
        results: dict[str, list[Any]] = {}

        async def run(name: str, *bodies: bytes) -> None:
            results[name] = [message.body for message in await exchange(connection, f"{address}-{name}", *bodies)]

        tasks.start_soon(run, "large", large)
        tasks.start_soon(run, "small", *small)
    assert results == {"large": [large], "small": small}


# Settlement


async def test_presettled(artemis: Server, address: str) -> None:
    """Sent settled and received settled: at most once, no outcome is asked for."""
    async with Connection(artemis.url()) as connection:
        async with connection.sender(address, settle_mode="settled") as sender:
            for number in range(50):
                await sender.send(number)
        async with connection.receiver(address, settle_mode="settled") as receiver:
            bodies = []
            for _ in range(50):
                delivery = await receiver.receive()
                assert delivery.local_settled
                bodies.append(delivery.message.body)
    assert bodies == list(range(50))


async def test_mixed(artemis: Server, address: str) -> None:
    """On one link some settled, some not, as each send says."""
    async with Connection(artemis.url()) as connection:
        async with connection.sender(address, settle_mode="mixed") as sender:
            for number in range(20):
                await sender.send(number, settled=number % 2 == 0)
        async with connection.receiver(address) as receiver:
            bodies = []
            for _ in range(20):
                with await receiver.receive() as message:
                    bodies.append(message.body)
    assert bodies == list(range(20))


async def test_accepted(artemis: Server, address: str) -> None:
    """What was accepted does not come again."""
    async with Connection(artemis.url()) as connection:
        async with connection.sender(address) as sender:
            delivery = await sender.submit("once")
            assert await delivery.outcome() == Accepted()
        async with connection.receiver(address) as receiver:
            (await receiver.receive()).accept()
    async with Connection(artemis.url()) as connection, connection.receiver(address, credit=0) as receiver:
        receiver.add_credit(1)
        await receiver.drain()
        assert receiver.buffered == 0


async def test_released_modified_rejected(artemis: Server, address: str) -> None:
    """Released: again, uncounted. Modified with delivery-failed: again, counted. Rejected: a dead letter."""
    mark = secrets.token_hex(8)
    async with Connection(artemis.url()) as connection:
        async with connection.sender(address) as sender:
            await sender.send(Message(mark, durable=True))
        async with connection.receiver(address, credit=1) as receiver:
            first = await receiver.receive()
            first.release()
            second = await receiver.receive()
            second.modify(delivery_failed=True)
            third = await receiver.receive()
            third.reject("amqp:decode-error", "said by a test")
        counts = [delivery.message.delivery_count for delivery in (first, second, third)]
        assert (counts[0], counts[2] - counts[1]) == (0, 1)
        assert [delivery.message.body for delivery in (first, second, third)] == [mark] * 3
        async with connection.receiver(DEAD) as dead:
            while (await dead.receive()).message.body != mark:
                pass


async def test_modified_undeliverable_here(artemis: Server, address: str) -> None:
    """What is undeliverable here comes to another link."""
    async with Connection(artemis.url()) as connection:
        async with connection.sender(address) as sender:
            await sender.send("not for the first")
        async with connection.receiver(address, credit=1) as first:
            (await first.receive()).modify(undeliverable_here=True)
            async with connection.receiver(address, credit=1) as second:
                with await second.receive() as message:
                    assert message.body == "not for the first"


async def test_unsettled_comes_again(artemis: Server, address: str) -> None:
    """What was taken and not settled when the connection closed is delivered again."""
    async with Connection(artemis.url()) as connection:
        async with connection.sender(address) as sender:
            await sender.send("x")
        async with connection.receiver(address) as receiver:
            await receiver.receive()
    async with Connection(artemis.url()) as connection, connection.receiver(address) as receiver:
        with await receiver.receive() as message:
            assert message.body == "x"


# Credit


async def test_prefetched_is_given_back(artemis: Server, address: str) -> None:
    """What was prefetched and not taken is there for the next receiver, in its order."""
    async with Connection(artemis.url()) as connection:
        async with connection.sender(address) as sender:
            await sender.send_many(range(30))
        async with connection.receiver(address, credit=30) as receiver:
            (await receiver.receive()).accept()
        async with connection.receiver(address) as receiver:
            bodies = []
            for _ in range(29):
                with await receiver.receive() as message:
                    bodies.append(message.body)
    assert sorted(bodies) == list(range(1, 30))


async def test_drain(artemis: Server, address: str) -> None:
    """Drain returns on an empty queue and on one with less than the credit; the link goes on."""
    async with Connection(artemis.url()) as connection, connection.receiver(address, credit=0) as receiver:
        receiver.add_credit(10)
        await receiver.drain()
        assert (receiver.credit, receiver.buffered) == (0, 0)
        async with connection.sender(address) as sender:
            await sender.send_many(["a", "b"])
            receiver.add_credit(10)
            await receiver.drain()
            assert (receiver.credit, receiver.buffered) == (0, 2)
            await sender.send("c")
            receiver.add_credit(1)
            for expected in "abc":
                with await receiver.receive() as message:
                    assert message.body == expected


async def test_manual_credit(artemis: Server, address: str) -> None:
    """One credit, one message."""
    async with Connection(artemis.url()) as connection:
        async with connection.sender(address) as sender:
            await sender.send_many(range(5))
        async with connection.receiver(address, credit=0) as receiver:
            for number in range(5):
                receiver.add_credit(1)
                with await receiver.receive() as message:
                    assert message.body == number
                assert (receiver.credit, receiver.buffered) == (0, 0)


@on_trio
async def test_much_credit(artemis: Server, address: str) -> None:
    """More messages than the session window, with more credit than messages, the window not being asked to help."""
    count = 5000
    async with Connection(artemis.url()) as connection:
        async with connection.session(incoming_window=100) as session:
            async with session.sender(address) as sender:
                assert await sender.send_many(b"%d" % number for number in range(count)) == count
            async with session.receiver(address, credit=20_000) as receiver:
                for number in range(count):
                    delivery = await receiver.receive()
                    assert delivery.message.body == b"%d" % number
                    delivery.accept()


@on_trio
async def test_batches(artemis: Server, address: str) -> None:
    """Twenty thousand messages through a pipeline, taken in batches, accepted in ranges, each once and in order."""
    count = 20_000
    async with Connection(artemis.url()) as connection, anyio.create_task_group() as tasks:

        async def send() -> None:
            async with connection.sender(address) as sender:
                assert await sender.send_many(Message(number) for number in range(count)) == count

        tasks.start_soon(send)
        async with connection.receiver(address, credit=1000) as receiver:
            bodies: list[Any] = []
            while len(bodies) < count:
                for delivery in await receiver.receive_batch(500, max_wait=1):
                    bodies.append(delivery.message.body)
                    delivery.accept()
    assert bodies == list(range(count))


@on_trio
async def test_unsettled_link_stalls_no_other(artemis: Server, address: str) -> None:
    """A receiver that settles nothing leaves its session open to others."""
    async with Connection(artemis.url(), incoming_window=64) as connection:
        async with connection.sender(address) as sender, connection.sender(f"{address}-b") as other:
            await sender.send_many(range(500))
            await other.send_many(range(500))
        async with connection.receiver(address, credit=500) as idle, connection.receiver(f"{address}-b") as busy:
            held = [await idle.receive() for _ in range(100)]
            for number in range(500):
                with await busy.receive() as message:
                    assert message.body == number
            assert len(held) == 100
            assert idle.unsettled >= 100


# Termini


async def test_dynamic_and_anonymous(artemis: Server) -> None:
    """A reply goes to a node that was made for the receiver, sent through the anonymous terminus."""
    async with Connection(artemis.url()) as connection:
        async with connection.receiver(dynamic=True) as replies, connection.sender(None) as anonymous:
            assert replies.address
            await anonymous.send(Message("reply", to=replies.address))
            with await replies.receive() as message:
                assert (message.body, message.to) == ("reply", replies.address)


async def test_topic(artemis: Server) -> None:
    """Each of two subscribers gets each message."""
    name = f"topic.{secrets.token_hex(6)}"
    async with Connection(artemis.url()) as connection:
        async with (
            connection.receiver(Source(name, capabilities=("topic",))) as one,
            connection.receiver(Source(name, capabilities=("topic",))) as two,
            connection.sender(name) as sender,
        ):
            await sender.send_many(range(10))
            for receiver in (one, two):
                for number in range(10):
                    with await receiver.receive() as message:
                        assert message.body == number


async def test_browse(artemis: Server, address: str) -> None:
    """distribution-mode "copy" leaves the messages where they are."""
    async with Connection(artemis.url()) as connection:
        async with connection.sender(address) as sender:
            await sender.send_many(range(3))
        for mode in ("copy", "move"):
            async with connection.receiver(Source(address, distribution_mode=mode), credit=3) as receiver:
                for number in range(3):
                    with await receiver.receive() as message:
                        assert message.body == number


async def test_refused_link(artemis: Server) -> None:
    """A link that is not allowed fails with the broker's condition, and the connection works on."""
    async with Connection(artemis.url()) as connection:
        with pytest.raises(LinkDetached) as refused:
            async with connection.receiver("forbidden.queue"):
                pass
        assert refused.value.condition == "amqp:unauthorized-access"
        with pytest.raises(LinkDetached) as refused:
            async with connection.sender("forbidden.queue") as sender:
                await sender.send("x")
        assert refused.value.condition == "amqp:unauthorized-access"
        async with connection.receiver(dynamic=True) as receiver:
            assert receiver.address


async def test_expiry(artemis: Server, address: str) -> None:
    """A message whose time to live is over comes no more; the broker took ttl and annotations as they were meant."""
    async with Connection(artemis.url()) as connection:
        async with connection.sender(address) as sender:
            await sender.send(Message("gone", ttl=timedelta(milliseconds=1), creation_time=MOMENT))
            await sender.send("stays")
        async with connection.receiver("expired") as expired:
            while (delivery := await expired.receive()).message.body != "gone":
                delivery.accept()
            delivery.accept()
        async with connection.receiver(address) as receiver:
            with await receiver.receive() as message:
                assert message.body == "stays"


async def test_sessions(artemis: Server, address: str) -> None:
    """Several sessions on one connection, several connections at a time."""
    async with Connection(artemis.url()) as one, Connection(artemis.url()) as two:
        async with one.session() as first, one.session() as second, two.session() as third:
            async with first.sender(address) as a, second.sender(address) as b, third.sender(address) as c:
                for number, sender in enumerate((a, b, c)):
                    await sender.send(number)
            async with second.receiver(address) as receiver:
                bodies = []
                for _ in range(3):
                    with await receiver.receive() as message:
                        bodies.append(message.body)
    assert bodies == [0, 1, 2]


# Security


@pytest.mark.parametrize("mechanism", ["PLAIN", "ANONYMOUS"])
async def test_mechanism_by_url(artemis: Server, mechanism: str) -> None:
    """With credentials in the URL the strongest that fits, without any ANONYMOUS."""
    url = artemis.url(user="user" if mechanism == "PLAIN" else None)
    async with Connection(url) as connection:
        assert connection.mechanism == mechanism
        assert "ANONYMOUS-RELAY" in connection.offered_capabilities
        assert connection.remote_properties[Symbol("product")] == "apache-activemq-artemis"


@pytest.mark.parametrize(
    "sasl", [Plain("user", "wrong"), Plain("nobody", "secret"), ScramSha256("user", "secret")], ids=lambda m: m.name
)
async def test_refused_credentials(artemis: Server, sasl: Any) -> None:
    """A wrong password, an unknown user, a mechanism that is not offered: AuthenticationFailed, without the secret."""
    with pytest.raises(AuthenticationFailed) as failed:
        async with Connection(artemis.url(user=None), sasl=sasl):
            pass
    assert "secret" not in str(failed.value)
    assert "wrong" not in str(failed.value)


async def test_explicit_anonymous(artemis: Server) -> None:
    """ANONYMOUS when it is asked for."""
    async with Connection(artemis.url(user=None), sasl=Anonymous("a trace")) as connection:
        assert connection.mechanism == "ANONYMOUS"


@pytest.mark.parametrize("sasl", [ScramSha256, ScramSha512])
async def test_scram(artemis: Server, address: str, sasl: Any) -> None:
    """SCRAM, the broker's signature verified; a wrong password is refused."""
    url = artemis.url("scram", user=None)
    async with Connection(url, sasl=sasl("user", "secret")) as connection:
        assert connection.mechanism == sasl("user", "secret").name
        (message,) = await exchange(connection, address, "x")
        assert message.body == "x"
    with pytest.raises(AuthenticationFailed):
        async with Connection(url, sasl=sasl("user", "wrong")):
            pass


async def test_strongest_mechanism(artemis: Server) -> None:
    """Of what the port offers, the strongest that the URL's credentials can do."""
    async with Connection(artemis.url("scram")) as connection:
        assert connection.mechanism == "SCRAM-SHA-512"


@pytest.mark.parametrize("size", [10, 1 << 20])
async def test_tls(artemis: Server, address: str, size: int) -> None:
    """PLAIN over TLS, the broker's certificate verified."""
    tls = TLS(ca=artemis.certificates / "ca.pem")
    async with Connection(artemis.url("amqps"), tls=tls) as connection:
        (message,) = await exchange(connection, address, body_of(size))
        assert message.body == body_of(size)


@pytest.mark.parametrize("ca", ["stranger.pem", None])
async def test_untrusted_certificate(artemis: Server, ca: str | None) -> None:
    """A certificate of an authority that is not trusted ends the connection before anything secret is said."""
    tls = None if ca is None else TLS(ca=artemis.certificates / ca)
    with pytest.raises(ConnectionLost, match="certificate") as failed:
        async with Connection(artemis.url("amqps"), tls=tls):
            pass
    assert isinstance(failed.value.__cause__, ssl.SSLCertVerificationError)


async def test_wrong_hostname(artemis: Server) -> None:
    """The certificate must be for the host that was asked for."""
    tls = TLS(ca=artemis.certificates / "ca.pem", server_hostname="example.org")
    with pytest.raises(ConnectionLost, match=r"example\.org"):
        async with Connection(artemis.url("amqps"), tls=tls):
            pass


@pytest.mark.parametrize("form", ["pem", "pkcs12"])
async def test_external(artemis: Server, address: str, form: str) -> None:
    """A client certificate, from PEM and from PKCS#12, is the user."""
    folder = artemis.certificates
    if form == "pem":
        tls = TLS(ca=folder / "ca.pem", certificate=folder / "client.pem", key=folder / "client.key")
    else:
        tls = TLS(ca=folder / "ca.pem", pkcs12=folder / "client.p12", password="changeit")
    async with Connection(artemis.url("external", user=None), tls=tls, sasl=External()) as connection:
        assert connection.mechanism == "EXTERNAL"
        (message,) = await exchange(connection, address, "x")
        assert message.body == "x"

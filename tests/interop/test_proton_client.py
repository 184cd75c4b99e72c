"""python-qpid-proton, a peer that shares no code with us, as the client of the embedded broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread
import pytest

from amqp10.broker import Broker
from amqp10.net import TLS

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")
from proton import handlers, reactor, utils  # noqa: E402

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.capability("send and receive")]
T = TypeVar("T")
SECONDS = 20


@pytest.fixture(params=["trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The broker's side is the same on both backends; one is enough for another client's view of it."""
    backend: str = request.param
    return backend


async def on_thread(function: Callable[[], T]) -> T:
    """Proton's blocking client beside the broker's event loop."""
    return await anyio.to_thread.run_sync(function, abandon_on_cancel=True)


@contextmanager
def connected(url: str, **options: Any) -> Iterator[Any]:
    """A blocking connection of proton's."""
    connection = utils.BlockingConnection(url, timeout=SECONDS, **options)
    try:
        yield connection
    finally:
        connection.close()


def exchange(url: str, *messages: Any, address: str = "q", options: Any = None, **connect: Any) -> list[Any]:
    """Send, then receive and accept as many."""
    with connected(url, **connect) as connection:
        sender = connection.create_sender(address, options=options)
        for message in messages:
            sender.send(message)
        receiver = connection.create_receiver(address, credit=len(messages))
        received = []
        for _ in messages:
            received.append(receiver.receive(timeout=SECONDS))
            receiver.accept()
        return received


BODIES = [
    None,
    True,
    "text",
    "",
    b"bytes",
    7,
    proton.ubyte(1),
    proton.ushort(2),
    proton.uint(3),
    proton.ulong(4),
    proton.byte(-1),
    proton.short(-2),
    proton.int32(-3),
    1.5,
    proton.float32(2.5),
    proton.char("c"),
    proton.symbol("sym"),
    proton.timestamp(1_700_000_000_000),
    uuid.UUID(int=5),
    proton.decimal64(0x31C0000000000001),
    [1, "two", None],
    {"k": [1, {"n": b"x"}]},
    proton.Described(proton.symbol("x:y"), [1, 2]),
]


async def test_body_kinds() -> None:
    """Every kind of body comes back with its value and its type."""
    async with Broker() as broker:
        received = await on_thread(lambda: exchange(broker.url, *(proton.Message(body=body) for body in BODIES)))
        assert [message.body for message in received] == BODIES
        kinds = [bytes if isinstance(message.body, memoryview) else type(message.body) for message in received]
        assert kinds == [type(body) for body in BODIES]
        assert broker.queue("q").dequeued == len(BODIES)


async def test_sections_and_fields() -> None:
    """Data, sequence and value sections, and all the fields, arrive as they were sent."""
    fields = {
        "id": "id-1",
        "user_id": b"me",
        "subject": "s",
        "reply_to": "back",
        "correlation_id": proton.ulong(9),
        "content_type": proton.symbol("text/plain"),
        "group_id": "g",
        "group_sequence": 4,
        "durable": True,
        "priority": 9,
        "properties": {"a": 1, "b": "two", "c": False},
        "annotations": {proton.symbol("x-opt-a"): 1},
    }
    sent = [
        proton.Message(body=b"data", inferred=True, **fields),
        proton.Message(body=[1, "two"], inferred=True, **fields),
        proton.Message(body={"v": 1}, **fields),
    ]
    async with Broker() as broker:
        received = await on_thread(lambda: exchange(broker.url, *sent))
    for one, other in zip(sent, received, strict=True):
        assert (other.body, other.inferred) == (one.body, one.inferred)
        for field in fields:
            assert getattr(other, field) == getattr(one, field), field


@pytest.mark.parametrize("size", [1, 1000, 131_072, 1 << 20, 10 << 20])
async def test_sizes(size: int) -> None:
    """From one byte to ten mebibytes."""
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    async with Broker() as broker:
        (received,) = await on_thread(lambda: exchange(broker.url, proton.Message(body=body, inferred=True)))
        assert bytes(received.body) == body


@pytest.mark.parametrize("mode", ["AtMostOnce", "AtLeastOnce"])
async def test_settle_modes(mode: str) -> None:
    """Presettled and unsettled senders and receivers."""
    option = getattr(reactor, mode)

    def client(url: str) -> list[Any]:
        with connected(url) as connection:
            sender = connection.create_sender("q", options=option())
            for number in range(20):
                sender.send(proton.Message(body=number))
            receiver = connection.create_receiver("q", credit=20, options=option())
            bodies = []
            for _ in range(20):
                bodies.append(receiver.receive(timeout=SECONDS).body)
                if mode == "AtLeastOnce":
                    receiver.accept()
            return bodies

    async with Broker() as broker:
        assert await on_thread(lambda: client(broker.url)) == list(range(20))
        facts = broker.queue("q")
        assert (facts.depth, facts.dequeued, facts.unsettled) == (0, 20, 0)


async def test_outcomes() -> None:
    """Released: again, not counted. Modified: again, counted. Rejected: to the dead letters. Accepted: gone."""

    def client(url: str) -> list[Any]:
        seen = []
        with connected(url) as connection:
            connection.create_sender("q").send(proton.Message(body="x"))
            receiver = connection.create_receiver("q", credit=1)
            for outcome in ("released", "modified", "rejected"):
                message = receiver.receive(timeout=SECONDS)
                seen.append((message.body, message.delivery_count))
                if outcome == "rejected":
                    receiver.reject()
                else:
                    receiver.fetcher.unsettled[0].local.failed = True
                    receiver.release(delivered=outcome == "modified")
            dead = connection.create_receiver("dead-letter", credit=1)
            message = dead.receive(timeout=SECONDS)
            seen.append((message.body, message.annotations["x-opt-dead-letter-reason"]))
            dead.accept()
        return seen

    async with Broker() as broker:
        assert await on_thread(lambda: client(broker.url)) == [("x", 0), ("x", 0), ("x", 1), ("x", "rejected")]
        assert (broker.queue("q").depth, broker.queue("dead-letter").depth) == (0, 0)


async def test_lost_connection_gives_back() -> None:
    """What a client held when it went comes back, marked as tried."""

    def client(url: str) -> Any:
        with connected(url) as first:
            first.create_sender("q").send(proton.Message(body="x"))
            first.create_receiver("q", credit=1).receive(timeout=SECONDS)
        with connected(url) as second:
            receiver = second.create_receiver("q", credit=1)
            message = receiver.receive(timeout=SECONDS)
            receiver.accept()
            return message

    async with Broker() as broker:
        message = await on_thread(lambda: client(broker.url))
        assert (message.body, message.delivery_count) == ("x", 1)


async def test_browse() -> None:
    """distribution-mode copy leaves the messages where they are."""

    def client(url: str) -> list[Any]:
        with connected(url) as connection:
            sender = connection.create_sender("q")
            for number in range(3):
                sender.send(proton.Message(body=number))
            browser = connection.create_receiver("q", credit=3, options=reactor.Copy())
            return [browser.receive(timeout=SECONDS).body for _ in range(3)]

    async with Broker() as broker:
        assert await on_thread(lambda: client(broker.url)) == [0, 1, 2]
        assert (broker.queue("q").depth, broker.queue("q").copied) == (3, 3)


async def test_topic() -> None:
    """Each subscriber of a topic gets its copy."""

    def client(url: str) -> list[Any]:
        with connected(url) as connection:
            receivers = [connection.create_receiver("news", credit=2, name=name) for name in ("one", "two")]
            connection.create_sender("news").send(proton.Message(body="x"))
            return [receiver.receive(timeout=SECONDS).body for receiver in receivers]

    async with Broker(topics=["news"]) as broker:
        assert await on_thread(lambda: client(broker.url)) == ["x", "x"]


async def test_dynamic_and_anonymous_relay() -> None:
    """A dynamic source has an address, to which a sender without address can send; it ends with its link."""

    def client(url: str) -> tuple[Any, str]:
        with connected(url) as connection:
            receiver = connection.create_receiver(None, credit=1, dynamic=True)
            address = receiver.link.remote_source.address
            connection.create_sender(None).send(proton.Message(body="x", address=address))
            body = receiver.receive(timeout=SECONDS).body
            receiver.accept()
            receiver.close()
            with pytest.raises(utils.SendException):
                connection.create_sender(None).send(proton.Message(body="x", address=address))
            return body, address

    async with Broker(auto_create=False) as broker:
        body, address = await on_thread(lambda: client(broker.url))
        assert body == "x"
        with pytest.raises(KeyError):
            broker.queue(address)


async def test_refused() -> None:
    """An unknown address is refused with a reason when none is made on demand."""

    def client(url: str) -> None:
        with connected(url) as connection:
            for create in (connection.create_sender, connection.create_receiver):
                with pytest.raises(utils.LinkDetached, match="not-found"):
                    create("nowhere")

    async with Broker(auto_create=False, queues=["q"]) as broker:
        await on_thread(lambda: client(broker.url))


async def test_selector() -> None:
    """Proton's own selector option is applied and echoed; a wrong one is refused with the place."""

    def job(url: str) -> tuple[list[int], list[int], dict[Any, Any], str]:
        with connected(url) as connection:
            sender = connection.create_sender("q")
            for number in range(6):
                sender.send(proton.Message(body=number, properties={"n": number, "region": ("eu", "us")[number % 2]}))
            chosen = connection.create_receiver(
                "q", name="one", credit=10, options=reactor.Selector("region = 'us' AND n > 1")
            )
            got = []
            for _ in range(2):
                got.append(chosen.receive(timeout=SECONDS).body)
                chosen.accept()
            chosen.link.remote_source.filter.rewind()
            chosen.link.remote_source.filter.next()
            echo = chosen.link.remote_source.filter.get_object()
            browser = connection.create_receiver(
                "q",
                name="two",
                credit=10,
                options=[reactor.Copy(), reactor.Filter({proton.symbol("f"): property_filter})],
            )
            copied = [browser.receive(timeout=SECONDS).body for _ in range(1)]
            with pytest.raises(utils.LinkDetached) as caught:
                connection.create_receiver("q", name="three", options=reactor.Selector("region LIKE 5"))
            return got, copied, echo, str(caught.value)

    property_filter = proton.Described(proton.ulong(0x174), {"n": 4})
    async with Broker() as broker:
        got, copied, echo, refusal = await on_thread(lambda: job(broker.url))
    assert (got, copied) == ([3, 5], [4])
    assert [described.value for described in echo.values()] == ["region = 'us' AND n > 1"]
    assert "amqp:invalid-field" in refusal
    assert "character 13: expected a quoted string: region LIKE >>>5" in refusal


async def test_an_unknown_filter_is_not_granted() -> None:
    """A filter that is not applied is not in the answered source, so that the client can tell."""

    def client(url: str) -> Any:
        unknown = reactor.Filter({proton.symbol("f"): proton.Described(proton.symbol("example:f"), 1)})
        with connected(url) as connection:
            receiver = connection.create_receiver("q", options=unknown)
            return receiver.link.remote_source.filter.get_dict() if receiver.link.remote_source.filter.next() else None

    async with Broker() as broker:
        assert not await on_thread(lambda: client(broker.url))


async def test_drain() -> None:
    """Draining gets what is there, ends, and leaves the link usable."""

    class Drainer(handlers.MessagingHandler):
        def __init__(self, url: str) -> None:
            super().__init__(prefetch=0)
            self.url = url
            self.got: list[Any] = []
            self.rounds = 0

        def on_start(self, event: Any) -> None:
            connection = event.container.connect(self.url, reconnect=False)
            self.sender = event.container.create_sender(connection, "q")
            self.receiver = event.container.create_receiver(connection, "q")
            self.sent = False

        def on_sendable(self, event: Any) -> None:
            if not self.sent:
                self.sent = True
                for number in range(3):
                    event.sender.send(proton.Message(body=number))

        def on_accepted(self, event: Any) -> None:
            if event.link == self.sender and not self.rounds and not self.receiver.draining():
                self.receiver.drain(10)

        def on_message(self, event: Any) -> None:
            self.got.append(event.message.body)
            self._look(event)

        def on_link_flow(self, event: Any) -> None:
            if event.link == self.receiver:
                self._look(event)

        def _look(self, event: Any) -> None:
            if len(self.got) >= 3 and self.receiver.credit == 0 and not self.receiver.draining():
                self.receiver.drained()
                self.rounds += 1
                if self.rounds == 1:
                    self.receiver.drain(5)  # once more, on the empty queue
                else:
                    event.connection.close()

    async with Broker() as broker:
        handler = Drainer(broker.url)
        await on_thread(reactor.Container(handler).run)
        assert sorted(handler.got) == [0, 1, 2]
        assert handler.rounds == 2


@pytest.mark.parametrize("mechanism", ["PLAIN", "ANONYMOUS"])
async def test_sasl(mechanism: str) -> None:
    """Users come in with PLAIN, others not at all; ANONYMOUS where it is allowed."""
    async with Broker(users={"guest": "secret"}, anonymous=mechanism == "ANONYMOUS") as broker:
        plain = broker.url.replace("amqp://", "amqp://guest:secret@")
        url = plain if mechanism == "PLAIN" else broker.url
        (received,) = await on_thread(lambda: exchange(url, proton.Message(body="x"), allowed_mechs=mechanism))
        assert received.body == "x"
        wrong = plain.replace("secret", "wrong")
        with pytest.raises(proton.ConnectionException):
            await on_thread(lambda: exchange(wrong, proton.Message(body="x"), allowed_mechs="PLAIN"))


async def test_bare_header() -> None:
    """A client that skips SASL is served where ANONYMOUS is allowed, and only there."""
    async with Broker() as broker:
        (received,) = await on_thread(lambda: exchange(broker.url, proton.Message(body="x"), sasl_enabled=False))
        assert received.body == "x"
    async with Broker(users={"guest": "secret"}) as broker:
        with pytest.raises(proton.ConnectionException):
            await on_thread(lambda: exchange(broker.url, proton.Message(body="x"), sasl_enabled=False))


async def test_tls(authority: Path) -> None:
    """Over TLS, the server's certificate verified, with PLAIN."""
    tls = TLS(certificate=str(authority / "server.pem"), key=str(authority / "server.key"))
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(authority / "ca.pem"))
    domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER)
    async with Broker(users={"guest": "secret"}, tls=tls) as broker:
        assert broker.url.startswith("amqps://")
        url = broker.url.replace("amqps://", "amqps://guest:secret@")
        (received,) = await on_thread(
            lambda: exchange(url, proton.Message(body="x"), ssl_domain=domain, allowed_mechs="PLAIN")
        )
        assert received.body == "x"


async def test_competing_consumers() -> None:
    """Two clients share a queue: each message goes to one of them, and both get some."""

    def client(url: str) -> tuple[list[int], list[int]]:
        with connected(url) as one, connected(url) as two:
            first = one.create_receiver("q", credit=10)
            second = two.create_receiver("q", credit=10)
            sender = one.create_sender("q")
            for number in range(20):
                sender.send(proton.Message(body=number))
            bodies: tuple[list[int], list[int]] = ([], [])
            for receiver, into in zip((first, second), bodies, strict=True):
                deadline = time.monotonic() + SECONDS
                while len(into) < 10 and time.monotonic() < deadline:
                    into.append(receiver.receive(timeout=SECONDS).body)
                    receiver.accept()
            return bodies

    async with Broker() as broker:
        one, two = await on_thread(lambda: client(broker.url))
        assert sorted(one + two) == list(range(20))

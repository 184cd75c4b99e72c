"""Our client in AMQP 0-10 against Apache Qpid Broker-J and the embedded broker, and through both to AMQP 1.0."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from amqp10 import (
    Accepted,
    AuthenticationFailed,
    Connection,
    ConnectionClosed,
    LinkDetached,
    Message,
    MessageReleased,
    Plain,
    Reconnect,
    ScramSha1,
    ScramSha256,
    Selector,
    SessionEnded,
    Source,
    StaleDelivery,
    TransactionRolledBack,
)
from amqp10.client.internals import receiver_delivery
from amqp10.testing import FaultProxy
from amqp10.types import Array

from ._cases import BODIES, KEPT, PRIMITIVES, body_of, everything, same
from .brokers import Server

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.capability("AMQP 0-10")]

on_trio = pytest.mark.parametrize("anyio_backend", ["trio"])


@pytest.fixture(params=["broker_j", "embedded"])
def server(request: pytest.FixtureRequest) -> Server:
    """Both brokers that speak 0-10, in turn."""
    found: Server = request.getfixturevalue(request.param)
    return found


@asynccontextmanager
async def connected(server: Server, **settings: object) -> AsyncIterator[Connection]:
    """A connection that speaks 0-10, for half a minute at most."""
    with anyio.fail_after(60):
        async with Connection(server.url(), dialect="0-10", **settings) as connection:  # type: ignore[arg-type]
            yield connection


async def test_send_and_receive(server: Server, address: str) -> None:
    """Sent, confirmed by completion, received, accepted, gone."""
    async with connected(server) as connection:
        assert connection.dialect == "0-10"
        assert connection.profile.name in ("broker-j", "embedded")
        async with connection.receiver(address) as receiver, connection.sender(address) as sender:
            await sender.send(Message("hello", subject="greeting", application_properties={"n": 1}))
            with await receiver.receive() as message:
                assert (message.body, message.subject, message.application_properties) == (
                    "hello",
                    "greeting",
                    {"n": 1},
                )
                assert message.to == f"/queues/{address}"
        async with connection.receiver(address, credit=0) as receiver:
            receiver.add_credit(1)
            await receiver.drain()
            assert receiver.buffered == 0


@on_trio
async def test_many(server: Server, address: str) -> None:
    """5,000 messages in flight at once, in order, none twice; far more than a window, and than 256 completions."""
    async with connected(server) as connection:
        async with connection.receiver(address, credit=300) as receiver, connection.sender(address) as sender:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sender.send_many, [Message(n) for n in range(5000)])
                for n in range(5000):
                    with await receiver.receive() as message:
                        assert message.body == n


@on_trio
async def test_messages(server: Server, address: str) -> None:
    """Bodies of all kinds, all fields, every primitive type as an application property."""
    sent = [*map(Message, BODIES.values()), everything(application_properties=PRIMITIVES, user_id=b"user")]
    async with connected(server) as connection:
        async with connection.receiver(address) as receiver, connection.sender(address) as sender:
            await sender.send_many(sent)
            got = []
            for _ in sent:
                with await receiver.receive() as message:
                    message.check()
                    got.append(message)
    for kind, message in zip(BODIES, got[:-1], strict=True):
        assert same(message.body, BODIES[kind]), kind
    for name, value in {**KEPT, "application_properties": PRIMITIVES, "user_id": b"user"}.items():
        if name not in ("to", "first_acquirer", "message_annotations", "delivery_annotations", "absolute_expiry_time"):
            ours = getattr(got[-1], name)
            if isinstance(value, dict):
                assert ours.keys() == value.keys()
                assert all(same(ours[key], each) for key, each in value.items()), name
            else:
                assert same(ours, value), name


@pytest.mark.parametrize("size", [1, 65_523, 65_524, 131_072, 10 << 20])
@on_trio
async def test_size(server: Server, address: str, size: int) -> None:
    """From one byte to ten mebibytes, in as many frames as that takes; whole frames and one byte more among them."""
    body = body_of(size)
    async with connected(server) as connection:
        async with connection.receiver(address) as receiver, connection.sender(address) as sender:
            await sender.send(body)
            with await receiver.receive() as message:
                assert message.body == body


async def test_outcomes(server: Server, address: str) -> None:
    """Released comes again as it was, modified counts the failure, rejected does not come again."""
    async with connected(server) as connection:
        async with connection.receiver(address) as receiver, connection.sender(address) as sender:
            await sender.send("m")
            delivery = await receiver.receive()
            assert delivery.message.delivery_count == 0
            delivery.release()
            delivery = await receiver.receive()
            delivery.modify(delivery_failed=True)
            delivery = await receiver.receive()
            assert delivery.message.delivery_count > 0
            delivery.reject("amqp:decode-error", "why")
            await sender.send("last")
            with await receiver.receive() as message:
                assert message.body == "last"


async def test_settled(server: Server, address: str) -> None:
    """At most once, both ways: accept-mode none."""
    async with connected(server) as connection:
        async with connection.sender(address, settle_mode="settled") as sender:
            await sender.send_many(range(100))
        async with connection.receiver(address, settle_mode="settled") as receiver:
            got = [await receiver.receive() for _ in range(100)]
        assert [delivery.message.body for delivery in got] == list(range(100))
        assert all(delivery.local_settled for delivery in got)


async def test_second(server: Server, address: str) -> None:
    """Receiver settles second: settled when the accept is completed."""
    async with connected(server) as connection:
        async with connection.sender(address) as sender:
            await sender.send("once")
        async with connection.receiver(address, receiver_settle_mode="second") as receiver:
            delivery = await receiver.receive()
            delivery.accept()
            assert not delivery.local_settled
            await delivery.wait_settled()
            assert receiver_delivery(delivery).remote_settled


@on_trio
async def test_credit(server: Server, address: str) -> None:
    """Credit is exact: not one more comes; drained, it is zero; lowered, what is left comes later."""
    async with connected(server) as connection:
        async with connection.receiver(address, credit=0) as receiver, connection.sender(address) as sender:
            await sender.send_many(range(10))
            receiver.add_credit(3)
            assert [(await receiver.receive()).message.body for _ in range(3)] == [0, 1, 2]
            receiver.add_credit(2)
            await receiver.drain()
            assert (receiver.buffered, receiver.credit) == (2, 0)
            receiver.add_credit(100)
            await receiver.drain()
            assert receiver.buffered == 7
            for _ in range(7):
                (await receiver.receive()).accept()


async def test_what_was_prefetched_goes_back(server: Server, address: str) -> None:
    """Who leaves gives back what nobody took, so that the next one has it, in order."""
    async with connected(server) as connection:
        async with connection.receiver(address, credit=50) as receiver, connection.sender(address) as sender:
            await sender.send_many(range(20))
            (await receiver.receive()).accept()
        async with connection.receiver(address) as receiver:
            assert [(await receiver.receive()).message.body for _ in range(19)] == list(range(1, 20))


async def test_selector(server: Server, address: str) -> None:
    """A selector goes with the subscription, and is answered as applied."""
    async with connected(server) as connection:
        source = Source(address, filter={"selector": Selector("n > 1")})
        async with connection.receiver(source) as receiver, connection.sender(address) as sender:
            await sender.send_many([Message(n, application_properties={"n": n}) for n in range(4)])
            got = [(await receiver.receive()).message.body for _ in range(2)]
            assert got == [2, 3]
        async with connection.receiver(address) as receiver:
            for _ in range(4):
                (await receiver.receive()).accept()


async def test_browse(server: Server, address: str) -> None:
    """A browser sees what stays."""
    async with connected(server) as connection:
        async with connection.sender(address) as sender:
            await sender.send_many(range(3))
        async with connection.browser(address) as browser:
            assert [delivery.message.body async for delivery in browser] == [0, 1, 2]
        async with connection.receiver(address) as receiver:
            assert [(await receiver.receive()).message.body for _ in range(3)] == [0, 1, 2]


async def test_nodes(server: Server) -> None:
    """Dynamic queues, the anonymous terminus, exchanges with a key and without."""
    async with connected(server) as connection:
        async with connection.receiver(dynamic=True) as replies, connection.sender(None) as anonymous:
            assert replies.address is not None
            await anonymous.send(Message("reply", to=replies.address))
            with await replies.receive() as message:
                assert message.body == "reply"
        async with connection.sender("/exchanges/amq.direct/nobody") as sender:
            with pytest.raises(MessageReleased, match="amqp:no-route") as released:
                await sender.send("unroutable")
            assert released.value.info["reply-code"] == 1
        with pytest.raises(LinkDetached, match="amqp:not-found") as caught:
            async with connection.sender("/exchanges/nowhere/key"):
                pass
        assert caught.value.info["reply-code"] == 404


@pytest.mark.parametrize(
    ("exchange", "key", "comes"),
    [
        ("amq.topic", "/a.%23", ["a.b", "a.b.c"]),  # the binding key a.#
        ("amq.topic", "", ["a.b", "b", "a.b.c"]),
        ("amq.direct", "/b", ["b"]),
        ("amq.fanout", "", ["a.b", "b", "a.b.c"]),
    ],
)
async def test_receiving_from_an_exchange(server: Server, exchange: str, key: str, comes: list[str]) -> None:
    """Who receives from an exchange has a queue of its own, bound to it, that is gone with the link."""
    async with connected(server) as connection:
        async with (
            connection.receiver(f"/exchanges/{exchange}{key}") as one,
            connection.receiver(f"/exchanges/{exchange}{key}") as other,
            connection.sender(f"/exchanges/{exchange}") as sender,
        ):
            assert one.address == f"/exchanges/{exchange}{key}"
            await sender.send_many([Message("m", subject=each) for each in comes])
            for receiver in (one, other):
                got = []
                for _ in comes:
                    with await receiver.receive() as message:
                        got.append(message.subject)
                assert got == comes
            await one.close()
            await other.close()
            with pytest.raises(MessageReleased):
                await sender.send(Message("m", subject=comes[0]))


async def test_receiving_from_no_such_exchange(server: Server) -> None:
    """Or from one that needs a key, or a binding with arguments, to give messages: the link is refused, and only it."""
    refusals = {
        "/exchanges/nowhere/key": "not-found.*no exchange",
        "/exchanges/amq.direct": "invalid-field.*their keys",
        "/exchanges/amq.match/key": "invalid-field.*bind a queue",
    }
    async with connected(server) as connection:
        for address, reason in refusals.items():
            with pytest.raises(LinkDetached, match=reason):
                async with connection.receiver(address):
                    pass


async def test_names(server: Server, address: str) -> None:
    """A link of any name, none and one without end among them, has a destination of its own."""
    async with connected(server) as connection, connection.sender(address) as sender:
        for name in ("", "é" * 200, "x" * 300):
            async with connection.receiver(address, name=name) as receiver:
                assert receiver.name == name
                await sender.send(f"to {name}")
                with await receiver.receive() as message:
                    assert message.body == f"to {name}"


async def test_larger_than_is_taken(server: Server, address: str) -> None:
    """A message above the receiver's limit ends its link, and is the broker's again."""
    async with connected(server) as connection, connection.sender(address) as sender:
        async with connection.receiver(address, max_message_size=1000) as receiver:
            await sender.send(b"x" * 100)
            (await receiver.receive()).accept()
            await sender.send(b"x" * 2000)
            with pytest.raises(LinkDetached, match="more than 1000 octets, the max_message_size") as caught:
                await receiver.receive()
            assert caught.value.condition == "amqp:link:message-size-exceeded"
        async with connection.receiver(address) as receiver:
            with await receiver.receive() as message:
                assert len(message.body) == 2000


async def test_behind_an_exception(embedded: Server, address: str) -> None:
    """What is transferred behind a command that fails is not done: the session was over by then."""
    async with connected(embedded) as connection:
        async with connection.session() as session, session.sender(None) as sender:
            queue = f"/queues/{address}"
            await connection.native.declare_queue(address)
            sent = [
                await sender.submit(Message(body, to=to))
                for body, to in (("before", queue), ("failing", "/exchanges/nowhere/key"), ("behind", queue))
            ]
            assert await sent[0].outcome() == Accepted()
            for each in sent[1:]:
                with pytest.raises(SessionEnded):
                    await each.outcome()
        async with connection.receiver(address, credit=0) as receiver:
            receiver.add_credit(10)
            await receiver.drain()
            assert receiver.buffered == 1


async def test_request_and_reply(server: Server, address: str) -> None:
    """Requests and replies over reply-to, which is an exchange and a key here."""
    async with connected(server) as connection, anyio.create_task_group() as tasks:
        async with connection.receiver(address) as receiver, connection.sender(None) as answers:

            async def serve() -> None:
                with await receiver.receive() as message:
                    reply = Message(f"re: {message.body}", to=message.reply_to)
                    reply.correlation_id = message.correlation_id or message.message_id
                    await answers.send(reply)

            tasks.start_soon(serve)
            async with connection.requester(address) as requester:
                assert (await requester.request(Message("ping"))).body == "re: ping"


async def test_transactions(server: Server, address: str) -> None:
    """Nothing before the commit, all of it after; nothing after a rollback; refused if a message is not routed."""
    async with connected(server) as connection:
        async with connection.receiver(address) as receiver, connection.sender(address) as sender:
            await sender.send("first")
            async with connection.transaction() as transaction:
                await sender.send("second", transaction=transaction)
                delivery = await receiver.receive()
                assert delivery.message.body == "first"
                delivery.accept(transaction=transaction)
                with anyio.move_on_after(0.3) as waited:
                    await receiver.receive()
                assert waited.cancelled_caught
            delivery = await receiver.receive()
            assert delivery.message.body == "second"
            with pytest.raises(ZeroDivisionError):
                async with connection.transaction() as transaction:
                    delivery.accept(transaction=transaction)
                    await sender.send("never", transaction=transaction)
                    raise ZeroDivisionError
            delivery = await receiver.receive()
            assert delivery.message.body == "second"
            await sender.send("plain, after that")
            delivery.accept()
            with await receiver.receive() as message:
                assert message.body == "plain, after that"
            async with connection.sender("/exchanges/amq.direct/nobody") as nowhere:
                with pytest.raises(TransactionRolledBack, match="rejected") as rolled_back:
                    async with connection.transaction() as transaction:
                        await sender.send("with it", transaction=transaction)
                        await nowhere.send("unroutable", transaction=transaction)
                assert rolled_back.value.info["reply-code"] == 1
                assert isinstance(rolled_back.value.__cause__, MessageReleased)


@on_trio
async def test_crossing_dialects(server: Server, address: str) -> None:
    """What is sent in one dialect arrives in the other through the broker, with the fields that both have."""
    message = Message(
        b"octets",
        subject="s",
        correlation_id="c",
        content_type="image/png",
        priority=7,
        ttl=timedelta(minutes=5),
        application_properties={"n": 1, "text": "t", "flag": True},
    )
    # Broker-J 10.1.0 would shut down over it, or keep it, if it were said in 0-10's own words.
    odd = Message(
        b"octets",
        absolute_expiry_time=datetime.now(UTC) + timedelta(days=100),
        message_annotations={"x-list": [1], "x-map": {"a": 1}, "x-array": Array("int", [1])},
    )
    async with connected(server) as old, Connection(server.url()) as new:
        for sends, receives in ((old, new), (new, old)):
            async with receives.receiver(address) as receiver, sends.sender(address) as sender:
                await sender.send(message)
                with await receiver.receive() as got:
                    assert bytes(got.body) == b"octets"
                    assert (got.correlation_id, got.priority) == ("c", 7)
                    assert got.application_properties["n"] == 1
                    assert got.application_properties["text"] == "t"
                    assert got.application_properties["flag"] is True
                if sends is old:
                    await sender.send(odd)
                    with await receiver.receive() as got:
                        assert bytes(got.body) == b"octets"


@pytest.mark.parametrize("mechanism", [Plain, ScramSha1, ScramSha256])
@on_trio
async def test_login(server: Server, mechanism: type[Plain]) -> None:
    """Each mechanism lets the user in, and no one else."""
    async with connected(server, sasl=mechanism("user", "secret")) as connection:
        assert connection.mechanism == mechanism.name
    with pytest.raises(AuthenticationFailed):
        async with connected(server, sasl=mechanism("user", "wrong")):
            pass


@on_trio
async def test_no_such_host(broker_j: Server) -> None:
    """A virtual host that is not there: the connection is closed, and says so."""
    with pytest.raises(ConnectionClosed, match="amqp:not-found"):
        async with connected(broker_j, hostname=f"no-{secrets.token_hex(4)}"):
            pass


@on_trio
async def test_heartbeats(server: Server, address: str) -> None:
    """Silence is filled with heartbeats from both sides, so nobody gives up."""
    async with connected(server, idle_timeout=4) as connection:
        await anyio.sleep(5)  # the interval is two seconds, and real
        async with connection.sender(address) as sender:
            await sender.send("still here")
        async with connection.receiver(address) as receiver:
            with await receiver.receive() as message:
                assert message.body == "still here"


@on_trio
async def test_reconnect(server: Server, address: str) -> None:
    """Through connections that break: no message is lost, and those that nobody confirmed come once more at most."""
    async with FaultProxy(server.url()) as proxy:
        async with Connection(proxy.url, dialect="0-10", reconnect=Reconnect(initial_delay=0.05)) as connection:
            got: set[int] = set()
            async with connection.receiver(address) as receiver, connection.sender(address) as sender:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(sender.send_many, [Message(n) for n in range(600)])
                    while len(got) < 600:
                        delivery = await receiver.receive()
                        if delivery.message.body in (100, 300) and delivery.message.body not in got:
                            proxy.cut()
                        got.add(delivery.message.body)
                        with suppress(StaleDelivery):
                            delivery.accept()
            assert got == set(range(600))

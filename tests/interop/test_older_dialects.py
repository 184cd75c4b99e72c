"""The older dialects, each with each broker that speaks it: the second table of the interop page."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import anyio
import pytest

from amqp10 import (
    AuthenticationFailed,
    Connection,
    Data,
    LinkDetached,
    Message,
    MessageReleased,
    Reconnect,
    Selector,
    Source,
    Unsupported,
)
from amqp10.testing import FaultProxy

from ._matrix import Serving, fresh_name

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("anyio_backend", ["trio"]),
    pytest.mark.capability("older dialects"),
]

PEERS = [
    "rabbitmq 0-9-1",
    "broker_j 0-9-1",
    "broker_j 0-9",
    "broker_j 0-10",
    "embedded 0-9-1",
    "embedded 0-9",
    "embedded 0-9-draft",
    "embedded 0-10",
    "embedded fast",
]
COUNT = 300


@dataclass(frozen=True)
class Spoken:
    """A broker, and the dialect to speak with it."""

    broker: str
    dialect: str
    server: Serving
    said: list[tuple[str, object]] = field(default_factory=list)

    def connected(self, url: str | None = None, **settings: object) -> AbstractAsyncContextManager[Connection]:
        return Connection(url or self.server.url(), dialect=self.dialect, **settings)  # type: ignore[arg-type]

    async def queue(self, connection: Connection) -> str:
        """A new queue."""
        name = fresh_name()
        if "requests" in connection.capabilities and self.broker != "broker_j":  # which makes it when it is asked for
            await connection.native.declare_queue(name)
        return name

    def can(self, connection: Connection, capability: str) -> bool:
        """Whether the dialect lists it; if not, the table says what is raised, as the test is to show."""
        has = capability in connection.capabilities
        if not has:
            self.lacks("`Unsupported`")
        return has

    def lacks(self, what: str) -> None:
        self.said.append(("lacks", what))

    def note(self, what: str) -> None:
        self.said.append(("note", what))


@pytest.fixture(params=PEERS)
def spoken(request: pytest.FixtureRequest) -> Spoken:
    """Each of them in turn."""
    broker, dialect = request.param.split()
    said = request.node.user_properties
    said.append(("peer", request.param))
    return Spoken(broker, dialect, request.getfixturevalue(broker), said)


@pytest.mark.matrix("sent, received, accepted, in order")
async def test_in_order(spoken: Spoken) -> None:
    """Each once, with an outcome for each."""
    async with spoken.connected() as connection:
        queue = await spoken.queue(connection)
        async with connection.sender(queue) as sender, connection.receiver(queue, credit=50) as receiver:
            await sender.send_many(Message(b"%d" % number) for number in range(COUNT))
            for number in range(COUNT):
                delivery = await receiver.receive()
                assert delivery.message.body == b"%d" % number
                delivery.accept()


@pytest.mark.matrix("sent and received settled")
async def test_settled(spoken: Spoken) -> None:
    """Nobody says anything of them."""
    async with spoken.connected() as connection:
        queue = await spoken.queue(connection)
        async with connection.sender(queue, settle_mode="settled") as sender:
            await sender.send("one")
            async with connection.receiver(queue, settle_mode="settled") as receiver:
                delivery = await receiver.receive()
                assert (delivery.message.body, delivery.local_settled) == ("one", True)


@pytest.mark.matrix("properties and headers of a message")
async def test_properties(spoken: Spoken) -> None:
    """They come back as they were sent, in the dialect that they were sent in; so do the sections of the body."""
    message = Message(
        Data(b"bo", b"", b"dy"),
        durable=True,
        priority=6,
        message_id="id",
        correlation_id="about",
        subject="subject",
        reply_to="answers",
        content_type="text/plain",
        content_encoding="none",  # Broker-J would decompress gzip for a consumer of 0-10
        group_id="group",
        application_properties={"text": "t", "number": 5, "yes": True, "float": 1.5},
    )
    async with spoken.connected() as connection:
        queue = await spoken.queue(connection)
        async with connection.sender(queue) as sender, connection.receiver(queue) as receiver:
            await sender.send(message)
            delivery = await receiver.receive()
            got = delivery.message
            for name in ("body", "durable", "priority", "message_id", "correlation_id", "subject", "reply_to"):
                assert getattr(got, name) == getattr(message, name), name
            for name in ("content_type", "content_encoding", "group_id", "application_properties"):
                assert getattr(got, name) == getattr(message, name), name
            delivery.accept()


@pytest.mark.matrix("a message of 1 MiB")
async def test_large(spoken: Spoken) -> None:
    """It takes several frames, or fragments, in both directions."""
    body = bytes(range(256)) * 4096
    async with spoken.connected() as connection:
        queue = await spoken.queue(connection)
        async with connection.sender(queue) as sender, connection.receiver(queue) as receiver:
            await sender.send(body)
            delivery = await receiver.receive()
            assert delivery.message.body == body
            delivery.accept()


@pytest.mark.matrix("sent in it, received in 1.0, and the other way")
async def test_crossing(spoken: Spoken) -> None:
    """The broker has one queue for all that it speaks."""
    async with spoken.connected() as connection, Connection(spoken.server.url()) as newer:
        queue = await spoken.queue(connection)
        address = f"/queues/{queue}" if spoken.broker == "rabbitmq" else queue
        for one, other, here, there in ((connection, newer, queue, address), (newer, connection, address, queue)):
            async with one.sender(here) as sender, other.receiver(there) as receiver:
                await sender.send(Message(b"body", message_id="id", application_properties={"n": 1}))
                delivery = await receiver.receive()
                assert delivery.message.body == b"body"
                assert delivery.message.application_properties["n"] == 1
                if (spoken.broker, spoken.dialect) == ("broker_j", "0-10"):
                    spoken.note("a message-id that is no UUID is in the application properties")
                else:
                    assert delivery.message.message_id == "id"
                delivery.accept()


@pytest.mark.matrix("released: comes again")
async def test_released(spoken: Spoken) -> None:
    """To the same receiver, or to another."""
    async with spoken.connected() as connection:
        queue = await spoken.queue(connection)
        async with connection.sender(queue) as sender, connection.receiver(queue, credit=1) as receiver:
            await sender.send("it")
            (await receiver.receive()).release()
            again = await receiver.receive()
            assert again.message.body == "it"
            again.accept()


@pytest.mark.matrix("rejected: gone")
async def test_rejected(spoken: Spoken) -> None:
    """What is sent after it comes next."""
    async with spoken.connected() as connection:
        queue = await spoken.queue(connection)
        async with connection.sender(queue) as sender, connection.receiver(queue, credit=1) as receiver:
            await sender.send("bad")
            delivery = await receiver.receive()
            if not spoken.can(connection, "rejected"):
                with pytest.raises(Unsupported):
                    delivery.reject()
                delivery.accept()
                return
            delivery.reject()
            await sender.send("good")
            following = await receiver.receive()
            if spoken.broker == "broker_j" and spoken.dialect != "0-10":
                assert following.message.body == "bad"
                spoken.lacks("comes again, counted as a failed delivery")
            else:
                assert following.message.body == "good"
            following.accept()


@pytest.mark.matrix("no more messages than there is credit for")
async def test_credit(spoken: Spoken) -> None:
    """What is not taken is others'."""
    async with spoken.connected() as connection:
        queue = await spoken.queue(connection)
        async with connection.sender(queue) as sender, connection.receiver(queue, credit=0) as receiver:
            await sender.send_many(range(5))
            receiver.add_credit(2)
            first, second = await receiver.receive(), await receiver.receive()
            async with connection.receiver(queue, credit=0) as other:
                other.add_credit(1)
                third = await other.receive()
                assert [each.message.body for each in (first, second, third)] == [0, 1, 2]
                for each in (first, second, third):
                    each.accept()
            assert receiver.buffered == 0


@pytest.mark.matrix("drain: all that is there, and an end")
async def test_drain(spoken: Spoken) -> None:
    """The receiver knows that there was no more."""
    async with spoken.connected() as connection:
        queue = await spoken.queue(connection)
        async with connection.sender(queue) as sender, connection.receiver(queue, credit=0) as receiver:
            await sender.send_many(range(3))
            receiver.add_credit(10)
            await receiver.drain()
            assert receiver.buffered == 3
            for delivery in await receiver.receive_batch(10):
                delivery.accept()


@pytest.mark.matrix("unroutable: the sender is told")
async def test_unroutable(spoken: Spoken) -> None:
    """No queue is bound to the exchange with that key: `MessageReleased`."""
    async with spoken.connected() as connection, connection.sender("/exchanges/amq.direct/nobody") as sender:
        with pytest.raises(MessageReleased):
            await sender.send("lost")


@pytest.mark.matrix("a queue that is not there is refused")
async def test_not_there(spoken: Spoken) -> None:
    """The link only: `LinkDetached`, `amqp:not-found`."""
    async with spoken.connected() as connection:
        if spoken.broker == "embedded":
            spoken.note("unless run with `auto_create=False`, it makes it for this client")
            async with connection.receiver(fresh_name()):
                return
        if spoken.broker == "broker_j":
            spoken.note("with policies for that, as in these tests, it makes it")
            async with connection.receiver(fresh_name()):
                return
        for _ in range(2):
            with pytest.raises(LinkDetached) as caught:
                async with connection.receiver(fresh_name()):
                    pass
            assert caught.value.condition == "amqp:not-found"
        assert connection.open


@pytest.mark.matrix("login with a wrong password is refused")
async def test_wrong_password(spoken: Spoken) -> None:
    """As what it is."""
    with pytest.raises(AuthenticationFailed):
        async with spoken.connected(spoken.server.url(password="wrong")):
            pass


@pytest.mark.matrix("dynamic address")
async def test_dynamic(spoken: Spoken) -> None:
    """The server names it, and it works."""
    async with spoken.connected() as connection, connection.receiver(dynamic=True) as receiver:
        assert receiver.address
        async with connection.sender(receiver.address) as sender:
            await sender.send("here")
            delivery = await receiver.receive()
            assert delivery.message.body == "here"
            delivery.accept()


@pytest.mark.matrix("anonymous terminus: each message says where it goes")
async def test_anonymous(spoken: Spoken) -> None:
    """One sender for two queues."""
    async with spoken.connected() as connection, connection.sender(None) as sender:
        for _ in range(2):
            queue = await spoken.queue(connection)
            async with connection.receiver(queue) as receiver:
                await sender.send(Message("it", to=queue))
                delivery = await receiver.receive()
                assert delivery.message.body == "it"
                delivery.accept()


@pytest.mark.matrix("browse: looked at, and left")
async def test_browse(spoken: Spoken) -> None:
    """All of it, twice."""
    async with spoken.connected() as connection:
        queue = await spoken.queue(connection)
        async with connection.sender(queue) as sender:
            await sender.send_many(range(3))
        if not spoken.can(connection, "browse"):
            with pytest.raises(Unsupported):
                async with connection.browser(queue):
                    pass
            return
        for _ in range(2):
            async with connection.browser(queue) as browser:
                assert [delivery.message.body async for delivery in browser] == [0, 1, 2]


@pytest.mark.matrix("selector: only what it selects comes")
async def test_selector(spoken: Spoken) -> None:
    """Only what it selects comes."""
    async with spoken.connected() as connection:
        queue = await spoken.queue(connection)
        source = Source(queue, filters=[Selector("region = 'eu'")])
        if not spoken.can(connection, "filters"):
            with pytest.raises(Unsupported):
                async with connection.receiver(source):
                    pass
            return
        async with connection.sender(queue) as sender, connection.receiver(source, credit=1) as receiver:
            for region in ("us", "eu"):
                await sender.send(Message(region, application_properties={"region": region}))
            delivery = await receiver.receive()
            assert delivery.message.body == "eu"
            delivery.accept()


@pytest.mark.matrix("declare, bind, empty and delete: `connection.native`")
async def test_requests(spoken: Spoken) -> None:
    """A queue bound to an exchange gets what is sent to that."""
    async with spoken.connected() as connection:
        if "requests" not in connection.capabilities:
            spoken.lacks("it has no words for that")
            assert not hasattr(connection.native, "declare_queue")
            return
        native, queue = connection.native, fresh_name()
        await native.declare_queue(queue, durable=True)
        await native.bind(queue, "amq.topic", "order.#")
        async with connection.sender("/exchanges/amq.topic/order.new") as sender:
            await sender.send("one")
        assert (await native.queue(queue)).messages == 1
        assert await native.purge_queue(queue) in (1, None)
        await native.delete_queue(queue)
        if spoken.broker != "broker_j":  # which makes it again to look at it
            assert await native.queue(queue) is None


@pytest.mark.matrix("transactions: all or nothing")
async def test_transactions(spoken: Spoken) -> None:
    """Committed, and rolled back."""
    async with spoken.connected() as connection:
        queue, results = await spoken.queue(connection), await spoken.queue(connection)
        async with (
            connection.sender(queue) as sender,
            connection.sender(results) as forward,
            connection.receiver(queue, credit=1) as receiver,
            connection.receiver(results, credit=10) as done,
        ):
            await sender.send("work")
            delivery = await receiver.receive()
            with pytest.raises(KeyError):
                async with connection.transaction() as transaction:
                    delivery.accept(transaction=transaction)
                    await forward.send("not done", transaction=transaction)
                    raise KeyError
            delivery = await receiver.receive()
            async with connection.transaction() as transaction:
                delivery.accept(transaction=transaction)
                await forward.send("done", transaction=transaction)
            result = await done.receive()
            assert result.message.body == "done"
            result.accept()


@pytest.mark.matrix("a body that is sent while it comes to be")
async def test_streaming(spoken: Spoken) -> None:
    """Part by part."""
    async with spoken.connected() as connection:
        queue = await spoken.queue(connection)
        async with connection.sender(queue) as sender:
            if not spoken.can(connection, "streaming"):
                with pytest.raises(Unsupported):
                    await sender.stream(Message(), size=200_000).__aenter__()
                return
            async with sender.stream(Message(), size=200_000) as body:
                for _ in range(20):
                    await body.send(b"x" * 10_000)
        async with connection.receiver(queue) as receiver:
            delivery = await receiver.receive()
            assert delivery.message.body == b"x" * 200_000
            delivery.accept()


@pytest.mark.matrix("reconnect: nothing is lost through a broken connection")
async def test_reconnect(spoken: Spoken) -> None:
    """Cut twice, while messages go in and out: each arrives, perhaps twice."""
    quick = Reconnect(initial_delay=0.02, max_delay=0.2)
    async with FaultProxy(spoken.server.url()) as proxy, spoken.connected(proxy.url, reconnect=quick) as connection:
        queue = await spoken.queue(connection)
        seen: set[object] = set()
        async with connection.sender(queue) as sender, connection.receiver(queue, credit=20) as receiver:
            with anyio.fail_after(60):
                for number in range(60):
                    await sender.send(number)
                    if number in (20, 40):
                        proxy.cut()
                while len(seen) < 60:
                    with await receiver.receive() as message:
                        seen.add(message.body)
        assert seen == set(range(60))
        assert proxy.cuts == 2

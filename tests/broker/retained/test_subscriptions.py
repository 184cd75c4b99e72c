"""Subscriptions that outlive their links, or are shared by several, as peers of the broker see them."""

from __future__ import annotations

from collections.abc import Iterable

import anyio
import anyio.lowlevel
import pytest

from amqp10 import (
    Connection,
    LinkDetached,
    Message,
    NoLocal,
    Receiver,
    Selector,
    Source,
    Unsupported,
)
from amqp10.broker import Broker
from amqp10.messaging import TerminusExpiryPolicy
from amqp10.types import Symbol

pytestmark = [pytest.mark.anyio, pytest.mark.capability("subscriptions")]


async def tell(broker: Broker, *bodies: object, topic: str = "topic.t") -> None:
    """Send these to the topic, from a container of their own."""
    async with broker.connect() as connection, connection.sender(topic) as sender:
        await sender.send_many([Message(body) for body in bodies])


async def take(receiver: Receiver) -> list[object]:
    """What is there for this receiver now, accepted."""
    await receiver.drain()
    deliveries = await receiver.receive_batch(100, max_wait=0)
    for delivery in deliveries:
        delivery.accept()
    return [delivery.message.body for delivery in deliveries]


def kept(broker: Broker, topic: str = "topic.t") -> int:
    """How many subscriptions the topic has."""
    return len(broker.topic(topic).subscriptions)


async def heard(broker: Broker, name: str, container: str = "c", **settings: object) -> list[object]:
    """What waits for a subscription, taken by a receiver that comes and goes."""
    async with broker.connect(container_id=container) as connection:
        async with connection.subscription("topic.t", name, **settings) as receiver:  # type: ignore[arg-type]
            return await take(receiver)


@pytest.mark.spec("2.6.3", "a terminus outlives its link, and is found again by the link's name")
async def test_goes_on() -> None:
    """What comes while nobody is there waits, for that container and that name only."""
    async with Broker() as broker:
        assert await heard(broker, "s") == []
        await tell(broker, 1, 2)
        assert await heard(broker, "s", "other") == []
        assert await heard(broker, "t") == []
        assert await heard(broker, "s") == [1, 2]
        assert await heard(broker, "s") == []
        assert kept(broker) == 3


async def test_unsettled_come_back() -> None:
    """What a lost link held waits for the next one, and counts as a failed attempt."""
    async with Broker() as broker:
        async with broker.connect(container_id="c") as connection:
            async with connection.subscription("topic.t", "s") as receiver:
                await tell(broker, 1)
                await receiver.receive()
        async with broker.connect(container_id="c") as connection:
            async with connection.subscription("topic.t", "s") as receiver:
                delivery = await receiver.receive()
                assert (delivery.message.body, delivery.message.delivery_count) == (1, 1)


@pytest.mark.spec("2.6.6", "closing a link ends its terminus")
async def test_closing_ends_it() -> None:
    """A closing detach ends the subscription, and so does `unsubscribe`, once."""
    async with Broker() as broker:
        async with broker.connect(container_id="c") as connection:
            async with connection.subscription("topic.t", "s") as receiver:
                await receiver.close()
            assert kept(broker) == 0
            async with connection.subscription("topic.t", "s"):
                async with broker.connect(container_id="c") as another:
                    with pytest.raises(LinkDetached) as caught:
                        await another.unsubscribe("s")
                    assert caught.value.condition == "amqp:resource-locked"
            await tell(broker, 1)
            await connection.unsubscribe("s")
            assert kept(broker) == 0
            with pytest.raises(LinkDetached) as caught:
                await connection.unsubscribe("s")
            assert caught.value.condition == "amqp:not-found"
        assert await heard(broker, "s") == []


@pytest.mark.parametrize("change", ["filter", "topic"])
async def test_replaced(change: str) -> None:
    """With another filter or topic the subscription begins anew: what waited is gone (Jakarta Messaging 8.3.4)."""
    async with Broker() as broker:
        await heard(broker, "s")
        await tell(broker, 1)
        async with broker.connect(container_id="c") as connection:
            topic = "topic.t" if change == "filter" else "topic.u"
            filters = [Selector("n = 1")] if change == "filter" else []
            async with connection.subscription(topic, "s", filters=filters) as receiver:
                assert await take(receiver) == []
        assert kept(broker) == (change == "filter")


async def test_no_local_is_of_the_connection() -> None:
    """A subscription without what its own connection sends is the same on the next connection."""
    async with Broker() as broker:
        assert await heard(broker, "s", filters=[NoLocal()]) == []
        await tell(broker, 1)
        async with broker.connect(container_id="c") as connection:
            async with connection.subscription("topic.t", "s", filters=[NoLocal()]) as receiver:
                assert await take(receiver) == [1]
                async with connection.sender("topic.t") as sender:
                    await sender.send("my own")
                assert await take(receiver) == []


@pytest.mark.spec("2.6.1", "a link of the same name steals: the first one is detached with amqp:link:stolen")
@pytest.mark.parametrize("same", [False, True])
async def test_stolen(same: bool) -> None:
    """The second of one name has it, on another connection or session, with what the first one had not accepted."""
    async with Broker() as broker, broker.connect(container_id="c") as one, broker.connect(container_id="c") as other:
        two = one.session() if same else other.session()
        async with two, one.subscription("topic.t", "s") as first:
            await tell(broker, 1)
            await first.receive()
            async with two.subscription("topic.t", "s") as second:
                assert await take(second) == [1]
                with pytest.raises(LinkDetached) as caught:
                    await first.receive()
                assert caught.value.condition == "amqp:link:stolen"
        assert kept(broker) == 1


@pytest.mark.in_memory
@pytest.mark.spec("3.5.6", "the expiry policy says what starts the time")
@pytest.mark.parametrize(
    ("policy", "after_link", "after_session", "after_connection"),
    [("link-detach", 0, 0, 0), ("session-end", 1, 0, 0), ("connection-close", 1, 1, 0), ("never", 1, 1, 1)],
)
async def test_expiry(policy: TerminusExpiryPolicy, after_link: int, after_session: int, after_connection: int) -> None:
    """It ends with the link, its session, its connection, or never; the answer says which."""
    async with Broker() as broker:
        async with broker.connect(container_id="c") as connection:
            async with connection.session() as session:
                source = Source("topic.t", durable="unsettled-state", expiry_policy=policy)
                async with session.receiver(source, name="s") as receiver:
                    assert receiver.source is not None
                    assert (receiver.source.durable, receiver.source.expiry_policy) == ("none", policy)
                    await receiver.detach()
                assert kept(broker) == after_link
            assert kept(broker) == after_session
        assert kept(broker) == after_connection


@pytest.mark.spec("3.5.3", "timeout: the terminus expires that many seconds later")
async def test_timeout() -> None:
    """It lives its seconds without a link; a link that comes back stops the time."""
    async with Broker() as broker:
        subscriptions, now = broker._hosts.usual.subscriptions, anyio.current_time()
        async with broker.connect(container_id="c") as connection:
            async with connection.subscription("topic.t", "s", timeout=50) as receiver:
                assert receiver.source is not None
                assert (receiver.source.expiry_policy, receiver.source.timeout) == ("link-detach", 50)
            deadline = subscriptions.expire(now + 49)
            assert deadline is not None
            assert deadline >= now + 50
            async with connection.subscription("topic.t", "s", timeout=50):
                assert subscriptions.expire(now + 1000) is None
            assert kept(broker) == 1
            assert subscriptions.expire(now + 1000) is None
            assert kept(broker) == 0


async def test_timeout_in_time() -> None:
    """The broker ends it by itself."""
    async with Broker() as broker:
        await heard(broker, "s", timeout=1)
        assert kept(broker) == 1
        assert broker._hosts.usual.next_expiry is not None


def shares(connection: Connection, *names: str, durable: bool = True, global_: bool = False) -> Iterable[Receiver]:
    """Receivers of shared subscriptions."""
    return [connection.subscription("topic.t", name, shared=True, durable=durable, global_=global_) for name in names]


@pytest.mark.parametrize("durable", [False, True])
async def test_shared(durable: bool) -> None:
    """Each message goes to one of those who share; with the last one the subscription stays, or ends."""
    async with Broker() as broker, broker.connect(container_id="c") as connection:
        assert "SHARED-SUBS" in connection.remote.offered_capabilities
        one, two = shares(connection, "s", "s", durable=durable)
        async with two:
            async with one:
                assert one.source is not None
                assert Symbol("shared") in one.source.capabilities
                await tell(broker, *range(6))
                assert sorted([*await take(one), *await take(two)], key=str) == list(range(6))
            await tell(broker, 6)
            assert await take(two) == [6]
            assert kept(broker) == 1
        assert kept(broker) == durable
        if durable:
            await connection.unsubscribe("s", shared=True)
            assert kept(broker) == 0


async def test_shared_across_containers() -> None:
    """A global one is shared by containers; one that is not is of its container."""
    async with Broker() as broker, broker.connect() as here, broker.connect() as there:
        for global_, count in ((True, 1), (False, 2)):
            (one,), (two,) = (shares(each, "s", global_=global_, durable=False) for each in (here, there))
            async with one, two:
                assert kept(broker) == count
                assert one.source is not None
                assert (Symbol("global") in one.source.capabilities) is global_
        async with here.subscription("topic.t", "d", shared=True, global_=True):
            pass
        await there.unsubscribe("d", shared=True, global_=True)
        assert kept(broker) == 0


async def test_shared_with_another_filter() -> None:
    """While others share it, it is what it is."""
    async with Broker() as broker, broker.connect(container_id="c") as connection:
        async with connection.subscription("topic.t", "s", shared=True):
            with pytest.raises(LinkDetached) as caught:
                async with connection.subscription("topic.t", "s", shared=True, filters=[Selector("a = 1")]):
                    pass
            assert caught.value.condition == "amqp:not-allowed"
        assert kept(broker) == 1


async def test_of_a_user() -> None:
    """The name of a container is no secret: who is not the same user neither takes nor ends what is kept for it."""
    async with Broker(users={"a": "a", "b": "b"}) as broker:

        def by(user: str) -> Connection:
            return broker.connect(f"amqp://{user}:{user}@localhost", container_id="c")

        async with by("a") as one, by("b") as other:
            async with one.subscription("topic.t", "s") as receiver, other.subscription("topic.t", "s"):
                assert receiver.open
                assert kept(broker) == 2
            with pytest.raises(LinkDetached, match="not-found"):
                await other.unsubscribe("nothing")
            await other.unsubscribe("s")
            assert kept(broker) == 1
            async with by("a") as one_again:
                await one_again.unsubscribe("s")
        assert kept(broker) == 0


async def test_kept_for_less() -> None:
    """A broker may keep subscriptions for less than they ask, and says so: whoever wants more is told."""
    async with Broker(max_subscription_timeout=60) as broker, broker.connect(container_id="c") as connection:
        with pytest.raises(Unsupported, match="timeout 60 s"):
            async with connection.subscription("topic.t", "for ever"):
                pass
        async with connection.subscription("topic.t", "s", timeout=60) as receiver:
            assert receiver.source is not None
            assert (receiver.source.expiry_policy, receiver.source.timeout) == ("link-detach", 60)
        assert kept(broker) == 2
        assert broker._hosts.usual.subscriptions.expire(anyio.current_time() + 61) is None
        assert kept(broker) == 0
        source = Source("topic.t", expiry_policy="connection-close", timeout=1000)
        async with connection.receiver(source, name="r") as receiver:
            assert receiver.source is not None
            assert (receiver.source.expiry_policy, receiver.source.timeout) == ("connection-close", 60)


@pytest.mark.parametrize("limit", [0, -1])
def test_no_time_at_all(limit: int) -> None:
    """A limit that lets nothing through is a mistake."""
    with pytest.raises(ValueError, match="must be 1 or more"):
        Broker(max_subscription_timeout=limit)


@pytest.mark.parametrize("end", ["taken", "unsubscribed", "expired"])
async def test_full(end: str) -> None:
    """A full subscription that nobody takes from holds the senders of its topic back, until it has room or is gone."""
    async with Broker(max_queue_messages=5) as broker, broker.connect(container_id="c") as connection:
        async with connection.subscription("topic.t", "s", timeout=1000):
            pass
        async with connection.sender("topic.t") as sender, anyio.create_task_group() as tasks:
            await sender.send_many(range(5))
            with anyio.move_on_after(0.05) as waiting:
                await sender.send(5)
            assert waiting.cancelled_caught
            tasks.start_soon(sender.send, 5)
            if end == "taken":
                async with connection.subscription("topic.t", "s", timeout=1000) as receiver:
                    assert (await receiver.receive()).message.body == 0
                    assert (await receiver.receive()).message.body == 1
                    await receiver.close()
            elif end == "unsubscribed":
                await connection.unsubscribe("s")
            else:
                broker._hosts.usual.subscriptions.expire(anyio.current_time() + 1001)
                broker._hosts.usual.flush()
        assert broker.topic("topic.t").enqueued == 6


@pytest.mark.spec("3.5.6", "a connection that is lost was closed, and its sessions ended")
@pytest.mark.parametrize("policy", ["link-detach", "session-end", "connection-close", "never"])
@pytest.mark.parametrize("detached", [False, True])
async def test_lost(policy: TerminusExpiryPolicy, detached: bool) -> None:
    """With a connection that just breaks all goes that was to go with it; what the links held comes again."""
    async with Broker() as broker:
        source = Source("topic.t", expiry_policy=policy, timeout=0 if policy == "never" else 100)
        stream = broker.open_stream()
        async with Connection.over(stream, container_id="c") as connection:
            async with connection.receiver(source, name="s") as receiver:
                await tell(broker, 1)
                await receiver.receive()
                if detached:
                    await receiver.detach()
                await stream.aclose()
                while connection.open:
                    await anyio.lowlevel.checkpoint()
        while broker.connections:
            await anyio.lowlevel.checkpoint()
        assert kept(broker) == 1
        deadline = broker._hosts.usual.subscriptions.expire(anyio.current_time())
        assert (deadline is None) is (policy == "never")
        async with broker.connect(container_id="c") as connection, connection.receiver(source, name="s") as receiver:
            delivery = await receiver.receive()
            assert (delivery.message.body, delivery.message.delivery_count) == (1, 1)
            assert broker._hosts.usual.subscriptions.expire(anyio.current_time() + 1000) is None
            assert kept(broker) == 1


async def test_a_session_that_ends_later_is_another() -> None:
    """Once a link on another session has taken it over, the end of the first session is nothing to it."""
    async with Broker() as broker, broker.connect(container_id="c") as connection:
        source = Source("topic.t", durable="configuration", expiry_policy="session-end")
        async with connection.session() as second:
            async with connection.session() as first, first.receiver(source, name="s") as receiver:
                await receiver.detach()
                async with second.receiver(source, name="s") as another:
                    await another.detach()
            assert kept(broker) == 1
        assert kept(broker) == 0


async def test_refused_too_late() -> None:
    """A link that cannot be answered, here for the peer's small frames, leaves no subscription behind."""
    async with Broker() as broker, broker.connect(container_id="c", max_frame_size=512) as connection:
        long = Selector(" OR ".join(f"a = {number}" for number in range(100)))
        with pytest.raises(LinkDetached, match="frame-size-too-small"):
            async with connection.subscription("topic.t", "s", filters=[long]):
                pass
        assert kept(broker) == 0


async def test_facts() -> None:
    """Each subscription of a topic says for whom it is kept, if it is."""
    async with Broker() as broker, broker.connect(container_id="c") as connection:
        async with (
            connection.receiver("topic.t"),
            connection.subscription("topic.t", "own"),
            connection.subscription("topic.t", "all", shared=True, global_=True),
            connection.subscription("topic.t", "ours", shared=True, durable=False),
        ):
            facts = broker.topic("topic.t").subscriptions
        assert [(each.subscription, each.container, each.shared, each.temporary, each.consumers) for each in facts] == [
            (None, None, False, True, 1),
            ("own", "c", False, False, 1),
            ("all", None, True, False, 1),
            ("ours", "c", True, False, 1),
        ]


async def test_the_answer_grants_no_more_than_there_is() -> None:
    """Sharing is for subscriptions, global is shared, and who only looks is never the only one."""
    async with Broker() as broker, broker.connect(container_id="c") as connection:
        words = (Symbol("shared"), Symbol("global"))
        async with connection.receiver(Source("q", capabilities=words)) as receiver:
            assert receiver.source is not None
            assert not {*words} & {*receiver.source.capabilities}
        own = Source("topic.t", expiry_policy="never", capabilities=words[1:])
        async with connection.receiver(own, name="s") as receiver:
            assert receiver.source is not None
            assert words[1] not in receiver.source.capabilities
        with pytest.raises(Unsupported, match="exclusive"):
            async with connection.receiver(Source("q", distribution_mode="copy"), exclusive=True):
                pass


async def test_exclusive() -> None:
    """An exclusive consumer is the only one, but for browsers; who asks too late is refused."""
    async with Broker() as broker, broker.connect() as connection:
        async with connection.receiver("q", exclusive=True), connection.browser("q"):
            with pytest.raises(LinkDetached) as caught:
                async with connection.receiver("q"):
                    pass
            assert caught.value.condition == "amqp:resource-locked"
        async with connection.receiver("q"):
            with pytest.raises(LinkDetached, match="the only one"):
                async with connection.receiver("q", exclusive=True):
                    pass


@pytest.mark.parametrize("name", ["priority", "rabbitmq:priority"])
async def test_priority(name: str) -> None:
    """Those of higher priority come first while they have credit; equal ones take turns."""
    async with Broker() as broker, broker.connect() as connection:
        high = {Symbol(name): 3}
        async with (
            connection.receiver("q", credit=0) as low,
            connection.receiver("q", credit=0, properties=high) as one,
            connection.receiver("q", credit=0, properties=high) as two,
            connection.receiver("q", credit=0, priority=-1) as last,
        ):
            assert one.remote.properties == {Symbol("priority"): 3}
            for receiver, credit in ((last, 10), (low, 2), (one, 2), (two, 2)):
                receiver.add_credit(credit)
            async with connection.sender("q") as sender:
                await sender.send_many([Message(number) for number in range(8)])
            taken = [await take(receiver) for receiver in (one, two, low, last)]
            assert [len(bodies) for bodies in taken] == [2, 2, 2, 2]
            assert sorted(taken[0] + taken[1], key=str) == [0, 1, 2, 3]
            assert taken[2:] == [[4, 5], [6, 7]]

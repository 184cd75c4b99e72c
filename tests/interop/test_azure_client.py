"""Our client of Service Bus opposite Microsoft's own, on one emulator: what the one does, the other sees."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import MessageLockLostError, MessageNotFoundError, SessionCannotBeLockedError

from amqp10 import Described, Message, Symbol
from amqp10.azure import (
    CorrelationRuleFilter,
    MessageLockLost,
    MessageNotFound,
    Rule,
    ServiceBus,
    ServiceBusSession,
    SessionCannotBeLocked,
    SqlRuleFilter,
)
from amqp10.broker import Broker, SasRule, TokenRules
from amqp10.broker.azure import AzureConfig, AzureControls, QueueConfig, TopicConfig, connection_string
from amqp10.worker import DeadLetter, SessionWorker

from ._azure import KEY, WAIT, Runs, client_of, nothing_comes, receive, send

pytestmark = [pytest.mark.slow, pytest.mark.capability("Service Bus client")]

T = TypeVar("T")
HOUR = timedelta(hours=1)


Pair = Callable[[ServiceBus, ServiceBusClient, AzureControls], Awaitable[None]]
"""What both clients do and see, and what moves the emulator's clock."""


class Pairs(Runs[Pair]):
    """Those of both clients."""

    def _run(self, behavior: Pair) -> None:
        anyio.run(self._drive, behavior, backend="trio")

    async def _drive(self, behavior: Pair) -> None:
        rule = SasRule("both", KEY)
        with anyio.fail_after(60):
            async with Broker(azure=CONFIG, tokens=TokenRules([rule], required=True)) as broker:
                async with ServiceBus(connection_string(broker.url, rule)) as bus:
                    with client_of(broker.url) as sdk:
                        await behavior(bus, sdk, broker.azure)


behavior = Pairs()
CONFIG = AzureConfig(
    [QueueConfig("orders", max_delivery_count=5), QueueConfig("sessions", requires_session=True)],
    [TopicConfig("events", ["all", "some"])],
)


async def theirs(function: Callable[..., T], *arguments: Any) -> T:
    """Do something with Microsoft's client, which blocks."""
    return await to_thread.run_sync(function, *arguments)


def take(sdk: ServiceBusClient, queue: str, use: Callable[..., T], **how: Any) -> T:
    """Receive a message with Microsoft's client, and use it."""
    with sdk.get_queue_receiver(queue, **how) as receiver:
        return use(receiver, *receive(receiver))


@behavior
async def sent_by_theirs(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """What theirs sends comes to ours with all its fields, with str for text, and is gone when completed."""
    sent = ServiceBusMessage(
        b"body",
        message_id="m",
        correlation_id="c",
        subject="s",
        content_type="text/plain",
        reply_to="r",
        to="t",
        time_to_live=HOUR,
        application_properties={"text": "x", "number": 1},
    )
    await theirs(send, sdk, "orders", sent)
    async with bus.receiver("orders") as receiver:
        delivery = await receiver.receive()
        async with delivery as message:
            assert message.body == b"body"
            assert (message.message_id, message.correlation_id, message.subject) == ("m", "c", "s")
            assert (message.content_type, message.reply_to, message.to, message.ttl) == ("text/plain", "r", "t", HOUR)
            assert message.application_properties == {"text": "x", "number": 1}  # str, not bytes
            assert (delivery.sequence_number, delivery.delivery_count) == (1, 0)
    assert await theirs(take_nothing, sdk, "orders")


@behavior
async def described_properties(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """A property with a type of Azure's SDKs for Java and .NET comes to ours whole, to theirs untyped."""
    span = Described(Symbol("com.microsoft:timespan"), 54_000_000_000)
    async with bus.sender("orders") as sender:
        for _ in range(2):
            await sender.send(Message(b"x", application_properties={"span": span}))
    async with bus.receiver("orders") as receiver, await receiver.receive() as message:
        assert message.application_properties == {"span": span}
    assert await theirs(take, sdk, "orders", lambda _, found: found.application_properties) == {b"span": span.value}


@behavior
async def a_worker_on_sessions(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """What theirs sends to sessions a worker handles, each session's in order; theirs finds its dead letters."""
    seen: dict[str, list[str]] = {name: [] for name in "abcde"}
    done = anyio.Event()

    async def handle(message: Message, session: ServiceBusSession) -> None:
        if message.body == b"2":
            raise DeadLetter("twos are not sold")
        seen[session.session_id].append(message.body.decode())
        if sum(map(len, seen.values())) == 15:
            done.set()

    messages = [ServiceBusMessage(str(number), session_id=name) for number in range(4) for name in seen]
    await theirs(send, sdk, "sessions", *messages)
    async with SessionWorker(bus, "sessions", handle, sessions=2, idle_time=0.1) as worker:
        await done.wait()
    assert seen == {name: ["0", "1", "3"] for name in "abcde"}
    assert (worker.handled, worker.dead_lettered, worker.sessions_lost) == (15, 5, 0)

    def dead() -> set[Any]:
        with sdk.get_queue_receiver("sessions", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
            found = receive(receiver, 5)
            return {(str(each), each.session_id, each.dead_letter_error_description) for each in found}

    assert await theirs(dead) == {("2", name, "twos are not sold") for name in seen}


def take_nothing(sdk: ServiceBusClient, queue: str) -> bool:
    with sdk.get_queue_receiver(queue) as receiver:
        return nothing_comes(receiver) and not receiver.peek_messages(sequence_number=1)


@behavior
async def sent_by_ours(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """And the reverse."""
    async with bus.sender("orders") as sender:
        await sender.send(
            Message(
                b"body",
                message_id="m",
                correlation_id="c",
                subject="s",
                ttl=HOUR,
                message_annotations={Symbol("x-opt-partition-key"): "k"},
                application_properties={"text": "x", "number": 1},
            )
        )

    def use(receiver: Any, message: Any) -> None:
        assert b"".join(message.body) == b"body"
        assert (message.message_id, message.correlation_id, message.subject) == ("m", "c", "s")
        assert (message.time_to_live, message.partition_key) == (HOUR, "k")
        assert message.application_properties == {b"text": b"x", b"number": 1}
        receiver.complete_message(message)

    await theirs(take, sdk, "orders", use)
    async with bus.receiver("orders") as receiver:
        assert await receiver.peek() == []


@behavior
async def batches(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """A batch of either comes to the other message by message, in order."""
    async with bus.sender("orders") as sender, bus.receiver("orders") as receiver:
        batch = sender.batch()
        for number in range(10):
            assert batch.add(Message(b"%d" % number * 100, message_id=str(number)))
        await sender.send(batch)

        def use(receiver: Any, *messages: Any) -> None:
            found = [*messages, *receive(receiver, 9)]
            assert [each.message_id for each in found] == [str(number) for number in range(10)]
            for each in found:
                receiver.complete_message(each)

        await theirs(take, sdk, "orders", use)

        def send_batch() -> int:
            with sdk.get_queue_sender("orders") as sender:
                batch = sender.create_message_batch()
                for number in range(10):
                    batch.add_message(ServiceBusMessage(b"%d" % number, message_id=str(number)))
                sender.send_messages(batch)
                return batch.size_in_bytes

        assert await theirs(send_batch) > 100
        messages = await receiver.receive_batch(10, max_wait=WAIT)
        assert [each.message.message_id for each in messages] == [str(number) for number in range(10)]


@behavior
async def a_batch_is_as_large_as_theirs(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """Ours holds at least as many messages of the same size as theirs within a limit."""

    def fill() -> int:
        with sdk.get_queue_sender("orders") as sender:
            batch = sender.create_message_batch(max_size_in_bytes=10_000)
            for number in range(1000):
                try:
                    batch.add_message(ServiceBusMessage(bytes(300), message_id="m"))
                except ValueError:
                    return number
        raise AssertionError("there is a limit")

    async with bus.sender("orders") as sender:
        batch = sender.batch(10_000)
        while batch.add(Message(bytes(300), message_id="m")):
            pass
        assert len(batch) >= await theirs(fill) > 10


@behavior
async def settled_by_ours(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """What ours abandons, defers and puts among the dead letters, theirs receives so."""
    await theirs(send, sdk, "orders", "abandoned", "deferred", "dead")
    async with bus.receiver("orders") as receiver:
        abandoned, deferred, dead = await receiver.receive_batch(3, max_wait=WAIT)
        await deferred.defer({"why": "later"})
        await dead.dead_letter("bad", "very bad", {"by": "ours"})
        await abandoned.abandon({"again": True})

    def use(receiver: Any, message: Any) -> None:
        assert (str(message), message.delivery_count, message.application_properties) == (
            "abandoned",
            1,
            {b"again": True},
        )
        receiver.complete_message(message)
        [aside] = receiver.receive_deferred_messages([deferred.sequence_number])
        assert (str(aside), aside.application_properties[b"why"]) == ("deferred", b"later")
        receiver.complete_message(aside)

    await theirs(take, sdk, "orders", use)

    def look(receiver: Any, message: Any) -> None:
        assert (str(message), message.dead_letter_reason, message.dead_letter_error_description) == (
            *("dead", "bad", "very bad"),
        )
        assert message.application_properties[b"by"] == b"ours"

    dead_letters = {
        "sub_queue": ServiceBusSubQueue.DEAD_LETTER,
        "receive_mode": ServiceBusReceiveMode.RECEIVE_AND_DELETE,
    }
    await theirs(lambda: take(sdk, "orders", look, **dead_letters))


@behavior
async def settled_by_theirs(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """What theirs abandons, defers and puts among the dead letters, ours receives so."""
    async with bus.sender("orders") as sender:
        await sender.send_many([b"abandoned", b"deferred", b"dead"])

    def use(receiver: Any, *messages: Any) -> int:
        abandoned, deferred, dead = list(messages) + receive(receiver, 2)
        receiver.abandon_message(abandoned)
        receiver.defer_message(deferred)
        receiver.dead_letter_message(dead, reason="bad", error_description="very bad")
        return int(deferred.sequence_number)

    number = await theirs(take, sdk, "orders", use)
    async with bus.receiver("orders") as receiver:
        delivery = await receiver.receive()
        assert (delivery.message.body, delivery.delivery_count) == (b"abandoned", 1)
        await delivery.complete()
        assert [(each.sequence_number, each.state) for each in await receiver.peek()] == [(number, "deferred")]
        [aside] = await receiver.receive_deferred(number)
        async with aside as message:
            assert message.body == b"deferred"
        with pytest.raises(MessageNotFound):
            await receiver.receive_deferred(number)
    async with bus.receiver("orders", dead_letters=True, mode="receive-and-delete") as receiver:
        dead = await receiver.receive()
        assert (dead.dead_letter_reason, dead.dead_letter_description) == ("bad", "very bad")
        assert dead.dead_letter_source is None


@behavior
async def scheduled_by_ours(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """Theirs sees what ours has scheduled, and cancels it."""
    at = datetime.now(UTC).replace(microsecond=0) + HOUR
    async with bus.sender("orders") as sender:
        numbers = await sender.schedule_many([b"one", b"two"], at)

        def cancel() -> None:
            with sdk.get_queue_receiver("orders") as receiver:
                seen = receiver.peek_messages(2, sequence_number=1)
                assert [each.sequence_number for each in seen] == numbers
                assert {each.state for each in seen} == {ServiceBusMessageState.SCHEDULED}
                assert {each.scheduled_enqueue_time_utc for each in seen} == {at}
            with sdk.get_queue_sender("orders") as sender:
                sender.cancel_scheduled_messages(numbers)

        await theirs(cancel)
        with pytest.raises(MessageNotFound):
            await sender.cancel_scheduled(numbers[0])


@behavior
async def scheduled_by_theirs(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """Ours sees what theirs has scheduled, cancels some, and receives the rest in time."""
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=20)

    def schedule(*bodies: str) -> list[int]:
        with sdk.get_queue_sender("orders") as sender:
            return sender.schedule_messages([ServiceBusMessage(each) for each in bodies], at)

    first, second = await theirs(schedule, "one", "two")
    async with bus.receiver("orders") as receiver, bus.sender("orders") as sender:
        assert [(each.sequence_number, each.state, each.scheduled_for) for each in await receiver.peek()] == [
            (first, "scheduled", at),
            (second, "scheduled", at),
        ]
        await sender.cancel_scheduled(first)
        azure.advance(21)
        async with await receiver.receive() as message:
            assert message.body == b"two"

    def cancel() -> None:
        with sdk.get_queue_sender("orders") as sender, pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages([first])

    await theirs(cancel)


@behavior
async def locks(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """A lock of ours keeps a message from theirs, as long as it is renewed, and the reverse."""
    await theirs(send, sdk, "orders", "x")
    async with bus.receiver("orders") as receiver:
        delivery = await receiver.receive()
        azure.advance(50)
        await delivery.renew_lock()
        azure.advance(50)
        assert await theirs(lambda: take_nothing_now(sdk, "orders"))
        azure.advance(11)

        def use(theirs_: Any, message: Any) -> None:
            assert (str(message), message.delivery_count) == ("x", 1)
            with pytest.raises(MessageLockLost):
                from_ours(delivery.complete)
            theirs_.renew_message_lock(message)
            anyio.from_thread.run_sync(azure.lose_locks, "orders")
            with pytest.raises(MessageLockLostError):
                theirs_.complete_message(message)

        await theirs(take, sdk, "orders", use)
        assert (await receiver.receive()).delivery_count == 2


def from_ours(function: Callable[..., Any], *arguments: Any) -> Any:
    return anyio.from_thread.run(function, *arguments)


def take_nothing_now(sdk: ServiceBusClient, queue: str) -> bool:
    with sdk.get_queue_receiver(queue) as receiver:
        return nothing_comes(receiver)


@behavior
async def received_and_deleted(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """What ours receives and deletes is gone for theirs."""
    await theirs(send, sdk, "orders", "x")
    async with bus.receiver("orders", mode="receive-and-delete") as receiver:
        assert (await receiver.receive()).message.body == b"x"
    assert await theirs(take_nothing, sdk, "orders")


@behavior
async def a_session_of_ours(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """Sent by theirs; locked, half done and remembered by ours; gone on with by theirs."""
    messages = [ServiceBusMessage(f"{name}{n}", session_id=name) for n in range(2) for name in ("a", "b")]
    await theirs(send, sdk, "sessions", *messages)
    async with bus.session("sessions", "a") as session:
        delivery = await session.receive()
        assert (delivery.message.body, delivery.session_id) == (b"a0", "a")
        await delivery.complete()
        await session.set_state(b"a0 is done")

        def locked() -> None:
            with pytest.raises(SessionCannotBeLockedError):
                sdk.get_queue_receiver("sessions", session_id="a").__enter__()

        await theirs(locked)

    def go_on(receiver: Any, message: Any) -> None:
        assert str(message) == "a1"
        assert bytes(receiver.session.get_state()) == b"a0 is done"
        receiver.session.set_state("a1 is done")
        receiver.complete_message(message)

    await theirs(lambda: take(sdk, "sessions", go_on, session_id="a"))
    async with bus.session("sessions", "a") as session:
        assert await session.state() == b"a1 is done"
        assert await session.peek() == []


@behavior
async def a_session_of_theirs(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """What theirs has locked ours does not get; the state that it sets, ours reads."""
    async with bus.sender("sessions") as sender:
        await sender.send_many(Message(name.encode(), group_id=name) for name in ("a", "b"))

    def use(receiver: Any, message: Any) -> None:
        assert (str(message), message.session_id, receiver.session.session_id) == ("a", "a", "a")
        receiver.session.renew_lock()
        from_ours(refused)
        assert from_ours(following) == "b"
        receiver.session.set_state(b"kept")
        receiver.complete_message(message)

    async def refused() -> None:
        with pytest.raises(SessionCannotBeLocked):
            async with bus.session("sessions", "a"):
                raise AssertionError("it is locked")

    async def following() -> str:
        async with bus.next_session("sessions") as session:
            return session.session_id

    await theirs(lambda: take(sdk, "sessions", use, session_id="a"))
    assert sorted(await bus.list_sessions("sessions")) == ["a", "b"]
    assert await bus.list_sessions("sessions", updated_after=datetime.now(UTC) - HOUR) == ["a"]


@behavior
async def sessions_listed_by_both(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """Also where there are more than one answer has."""
    async with bus.sender("sessions") as sender:
        await sender.send_many(Message(b"", group_id=f"s{n:03}") for n in range(130))
    names = sorted(await bus.list_sessions("sessions"))
    assert names == [f"s{n:03}" for n in range(130)]

    def listed() -> list[str]:
        return sorted(sdk.list_queue_sessions("sessions"))

    assert await theirs(listed) == names


@behavior
async def several_of_a_session_at_once(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """Messages of one session are with several tasks of ours at a time."""
    messages = [ServiceBusMessage(str(n), session_id="one") for n in range(5)]
    await theirs(send, sdk, "sessions", *messages)
    async with bus.next_session("sessions", prefetch=10) as session, anyio.create_task_group() as tasks:
        done: list[int] = []

        async def work(delivery: Any) -> None:
            async with delivery as message:
                await anyio.lowlevel.checkpoint()
                done.append(int(message.body))

        for _ in range(5):
            tasks.start_soon(work, await session.receive())
    assert sorted(done) == list(range(5))


@behavior
async def rules_of_ours(bus: ServiceBus, sdk: ServiceBusClient, azure: AzureControls) -> None:
    """What theirs sends goes where the rules that ours has made say."""
    rules = bus.rules("events", "some")
    await rules.add(Rule("red", SqlRuleFilter("color = 'red' AND n > 1"), "SET seen = TRUE"))
    await rules.add(Rule("big", CorrelationRuleFilter(label="big")))
    await rules.remove("$Default")
    assert {rule.name for rule in await rules.list()} == {"red", "big"}

    def publish() -> None:
        with sdk.get_topic_sender("events") as sender:
            sender.send_messages(
                [
                    ServiceBusMessage("red", application_properties={"color": "red", "n": 2}),
                    ServiceBusMessage("small red", application_properties={"color": "red", "n": 1}),
                    ServiceBusMessage("big", subject="big"),
                ]
            )

    await theirs(publish)

    def received(subscription: str, wanted: int) -> list[tuple[str, Any]]:
        with sdk.get_subscription_receiver("events", subscription, receive_mode="receiveanddelete") as receiver:
            found = [
                (str(each), (each.application_properties or {}).get(b"seen")) for each in receive(receiver, wanted)
            ]
            assert nothing_comes(receiver)
            return found

    assert await theirs(received, "some", 2) == [("red", True), ("big", None)]
    async with bus.receiver("events", subscription="all", mode="receive-and-delete") as receiver:
        batch = await receiver.receive_batch(3, max_wait=WAIT)
        assert [each.message.body for each in batch] == [b"red", b"small red", b"big"]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Callable[[Pair], None]]:
    """How each behavior went."""
    with behavior.running(request) as runs:
        yield runs


@pytest.mark.parametrize("behavior", behavior.all, ids=lambda behavior: behavior.__name__)
def test_behavior(behavior: Pair, runs: Callable[[Pair], None]) -> None:
    """What both clients do and see; each behavior says what that is."""
    runs(behavior)

"""The emulator, as the asynchronous half of Microsoft's SDK for Python drives it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.aio import AutoLockRenewer, ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import (
    MessageLockLostError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    SessionLockLostError,
)

from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import (
    EMULATOR_RULE,
    AzureConfig,
    QueueConfig,
    Rule,
    SqlRuleFilter,
    SubscriptionConfig,
    TopicConfig,
    connection_string,
)

from ._azure import RETRYING, TO_BE_SURE, WAIT, Runs

pytestmark = [pytest.mark.slow, pytest.mark.capability("Service Bus emulator")]

CONFIG = AzureConfig(
    [
        QueueConfig("orders", lock_duration=300.0, max_delivery_count=2),
        QueueConfig("steps", requires_session=True, lock_duration=300.0),
    ],
    [TopicConfig("events", [SubscriptionConfig("red", rules=[Rule("red", SqlRuleFilter("color = 'red'"))])])],
)


class Emulator:
    """A broker in the event loop of the SDK's client for it."""

    def __init__(self, broker: Broker, client: ServiceBusClient) -> None:
        self.azure = broker.azure
        self.client = client

    async def send(self, queue: str, *messages: ServiceBusMessage | str) -> None:
        async with self.client.get_queue_sender(queue) as sender:
            await sender.send_messages(
                [each if isinstance(each, ServiceBusMessage) else ServiceBusMessage(each) for each in messages]
            )


AsyncBehavior = Callable[[Emulator], Awaitable[None]]


class AsyncBehaviors(Runs[AsyncBehavior]):
    """Each in an event loop of its own: that of asyncio, for the SDK knows no other."""

    def _run(self, behavior: AsyncBehavior) -> None:
        anyio.run(self._drive, behavior, backend="asyncio")

    async def _drive(self, behavior: AsyncBehavior) -> None:
        async with Broker(azure=CONFIG, tokens=TokenRules([EMULATOR_RULE], required=True)) as broker:
            text = connection_string(broker.url)
            with anyio.fail_after(60):
                async with ServiceBusClient.from_connection_string(text, **RETRYING, keep_alive=0) as client:
                    await behavior(Emulator(broker, client))


behavior = AsyncBehaviors()


async def receive(receiver: ServiceBusReceiver, count: int = 1) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        more = await receiver.receive_messages(count - len(found), max_wait_time=WAIT)
        assert more, f"{count} messages are to come, and {len(found)} did"
        found += map(str, more)
    return found


async def nothing_comes(receiver: ServiceBusReceiver) -> bool:
    return not await receiver.receive_messages(1, max_wait_time=TO_BE_SURE)


@behavior
async def send_receive_complete(emulator: Emulator) -> None:
    """A batch comes message by message; completed, they are gone."""
    async with emulator.client.get_queue_sender("orders") as sender:
        batch = await sender.create_message_batch()
        for number in range(3):
            batch.add_message(ServiceBusMessage(f"m{number}", application_properties={"n": number}))
        await sender.send_messages(batch)
    async with emulator.client.get_queue_receiver("orders", max_wait_time=WAIT) as receiver:
        found = []
        async for message in receiver:
            found.append((str(message), message.application_properties))
            await receiver.complete_message(message)
            if len(found) == 3:
                break
        assert found == [(f"m{number}", {b"n": number}) for number in range(3)]
        assert await receiver.peek_messages() == []


@behavior
async def abandon_and_dead_letter(emulator: Emulator) -> None:
    """What is abandoned comes again until it is a dead letter; what is dead-lettered has its reason."""
    await emulator.send("orders", "x", "y")
    async with emulator.client.get_queue_receiver("orders") as receiver:
        for _ in range(2):
            [message] = await receiver.receive_messages(1, max_wait_time=WAIT)
            await receiver.abandon_message(message)
        [message] = await receiver.receive_messages(1, max_wait_time=WAIT)
        await receiver.dead_letter_message(message, reason="bad", error_description="very bad")
    dead = emulator.client.get_queue_receiver(
        "orders", sub_queue=ServiceBusSubQueue.DEAD_LETTER, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
    )
    async with dead as receiver:
        found = await receiver.receive_messages(2, max_wait_time=WAIT)
        found += await receiver.receive_messages(1, max_wait_time=WAIT) if len(found) < 2 else []
        assert [(str(each), each.dead_letter_reason) for each in found] == [
            ("x", "MaxDeliveryCountExceeded"),
            ("y", "bad"),
        ]


@behavior
async def defer(emulator: Emulator) -> None:
    """A deferred message comes by its number, and is settled through the management node."""
    await emulator.send("orders", "x")
    async with emulator.client.get_queue_receiver("orders") as receiver:
        [message] = await receiver.receive_messages(1, max_wait_time=WAIT)
        await receiver.defer_message(message)
        assert await nothing_comes(receiver)
        assert message.sequence_number is not None
        [deferred] = await receiver.receive_deferred_messages(message.sequence_number)
        await receiver.complete_message(deferred)
        assert await receiver.peek_messages(sequence_number=1) == []


@behavior
async def locks(emulator: Emulator) -> None:
    """A renewed lock holds beyond its first end; one that has ended is lost."""
    await emulator.send("orders", "x")
    async with emulator.client.get_queue_receiver("orders") as receiver:
        [message] = await receiver.receive_messages(1, max_wait_time=WAIT)
        emulator.azure.advance(200)
        await receiver.renew_message_lock(message)
        emulator.azure.advance(200)
        assert await nothing_comes(receiver)
        emulator.azure.advance(101)
        with pytest.raises(MessageLockLostError):
            await receiver.complete_message(message)
        assert await receive(receiver) == ["x"]


@behavior
async def renewer(emulator: Emulator) -> None:
    """The SDK's own renewer renews what it was given, ten seconds before the lock ends."""
    await emulator.send("orders", "x")
    async with emulator.client.get_queue_receiver("orders") as receiver, AutoLockRenewer() as renewer:
        [message] = await receiver.receive_messages(1, max_wait_time=WAIT)
        emulator.azure.advance(200)
        # Renewed when less than ten seconds are left: by the SDK's clock that is now.
        first = message._expiry = datetime.now(UTC) + timedelta(seconds=9)
        renewer.register(receiver, message, max_lock_renewal_duration=60)
        while message.locked_until_utc == first:  # noqa: ASYNC110 - the SDK says it in no other way
            await anyio.sleep(0.05)
        assert message.locked_until_utc is not None
        assert message.locked_until_utc > first
        emulator.azure.advance(200)
        await receiver.complete_message(message)
        assert await emulator.client.get_queue_receiver("orders").peek_messages() == []


@behavior
async def schedule_and_cancel(emulator: Emulator) -> None:
    """A scheduled message comes when it is due; one that was cancelled does not."""
    due = datetime.now(UTC) + timedelta(hours=1)
    async with emulator.client.get_queue_sender("orders") as sender:
        numbers = await sender.schedule_messages([ServiceBusMessage("keep"), ServiceBusMessage("drop")], due)
        await sender.cancel_scheduled_messages(numbers[1])
    async with emulator.client.get_queue_receiver("orders") as receiver:
        assert await nothing_comes(receiver)
    emulator.azure.advance(3601)
    async with emulator.client.get_queue_receiver("orders") as receiver:
        assert await receive(receiver) == ["keep"]


@behavior
async def session(emulator: Emulator) -> None:
    """A session has its messages in order and its state; who asks for the next gets one with messages, or none."""
    await emulator.send(
        "steps", *(ServiceBusMessage(f"{name}{n}", session_id=name) for n in range(2) for name in ("a", "b"))
    )
    async with emulator.client.get_queue_receiver("steps", session_id="b") as receiver:
        assert await receive(receiver, 2) == ["b0", "b1"]
        await receiver.session.set_state("half")
        assert await receiver.session.get_state() == b"half"
        async with emulator.client.get_queue_receiver("steps", session_id=NEXT_AVAILABLE_SESSION) as other:
            assert other.session.session_id == "a"
        emulator.azure.advance(301)
        with pytest.raises(SessionLockLostError):
            await receiver.session.set_state("whole")


@behavior
async def no_session(emulator: Emulator) -> None:
    """Who asks for the next session, and there is none, is told so after the time that it says."""
    with pytest.raises(OperationTimeoutError):
        async with emulator.client.get_queue_receiver(
            "steps", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=TO_BE_SURE
        ):
            pass


@behavior
async def topic_and_rules(emulator: Emulator) -> None:
    """Rules decide what a subscription gets."""
    async with emulator.client.get_topic_sender("events") as sender:
        await sender.send_messages(
            [ServiceBusMessage(color, application_properties={"color": color}) for color in ("blue", "red")]
        )
    async with emulator.client.get_subscription_receiver("events", "red") as receiver:
        assert await receive(receiver) == ["red"]


@behavior
async def missing_entity(emulator: Emulator) -> None:
    """What is not in the configuration is not there; `$cbs` says so, and so the SDK takes it for a wrong login."""
    with pytest.raises(ServiceBusAuthenticationError):
        await emulator.send("missing", "x")


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Callable[[AsyncBehavior], None]]:
    """How each behavior went."""
    with behavior.running(request) as runs:
        yield runs


@pytest.mark.parametrize("behavior", behavior.all, ids=lambda behavior: behavior.__name__)
def test_behavior(behavior: AsyncBehavior, runs: Callable[[AsyncBehavior], None]) -> None:
    """What the SDK does and sees; each behavior says what that is."""
    runs(behavior)

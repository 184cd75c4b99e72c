"""Queues of the emulator, as Microsoft's own SDK for Python drives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from azure.eventhub import EventData, EventHubProducerClient
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusMessageState, ServiceBusReceiveMode
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
)

from amqp10.broker.azure import AzureConfig, QueueConfig
from amqp10.testing import BackgroundServiceBus

from ._azure import (
    AT_ONCE,
    RETRYING,
    WAIT,
    Behavior,
    Behaviors,
    Clock,
    client_of,
    dead_letters,
    nothing_comes,
    receive,
    run,
    send,
)

pytestmark = [pytest.mark.slow, pytest.mark.capability("Service Bus emulator")]

CONFIG = [
    QueueConfig("orders", lock_duration=300.0, max_delivery_count=3),
    QueueConfig("unique", duplicate_window=60.0),
    QueueConfig("mortal", ttl=5.0, dead_letter_expired=True),
]
behavior = Behaviors(AzureConfig(CONFIG))


@behavior
def send_receive_complete(client: ServiceBusClient, clock: Clock) -> None:
    """A message comes as it was sent, with what the service says of it; completed, it is gone."""
    own = ServiceBusMessage(
        b"body", message_id="m", subject="s", correlation_id="c", application_properties={"k": 1, "t": "x"}
    )
    send(client, "Orders", own)
    with client.get_queue_receiver("orders") as receiver:
        [message] = receive(receiver)
        assert b"".join(message.body) == b"body"  # type: ignore[arg-type]
        assert (message.message_id, message.subject, message.correlation_id) == ("m", "s", "c")
        assert message.application_properties == {b"k": 1, b"t": b"x"}
        assert (message.sequence_number, message.enqueued_sequence_number, message.delivery_count) == (1, 1, 0)
        assert message.state == ServiceBusMessageState.ACTIVE
        assert message.enqueued_time_utc is not None
        assert message.locked_until_utc is not None
        assert 299 < (message.locked_until_utc - message.enqueued_time_utc).total_seconds() < 360
        receiver.complete_message(message)
        assert nothing_comes(receiver)
        assert receiver.peek_messages(sequence_number=1) == []


@behavior
def own_annotations(client: ServiceBusClient, clock: Clock) -> None:
    """Annotations and the footer of a sender come with its message; the lock token is beside them."""
    own: dict[str, Any] = {"own": "x"}
    sent = AmqpAnnotatedMessage(data_body=b"x", delivery_annotations=own, annotations=own, footer=own)
    with client.get_queue_sender("orders") as sender:
        sender.send_messages(sent)
        sender.send_messages([sent])
    with client.get_queue_receiver("orders") as receiver:
        for message in receive(receiver, 2):
            raw = message.raw_amqp_message
            assert raw.delivery_annotations == {b"own": b"x", b"x-opt-lock-token": message.lock_token}
            assert raw.annotations is not None
            assert (raw.annotations[b"own"], raw.footer) == (b"x", {b"own": b"x"})


@behavior
def batches(client: ServiceBusClient, clock: Clock) -> None:
    """Each message of a batch comes by itself, in order."""
    with client.get_queue_sender("orders") as sender:
        batch = sender.create_message_batch()
        for number in range(20):
            batch.add_message(ServiceBusMessage(f"m{number}", message_id=str(number)))
        sender.send_messages(batch)
    with client.get_queue_receiver("orders", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        messages = receive(receiver, 20)
        assert [str(message) for message in messages] == [f"m{number}" for number in range(20)]
        assert [message.sequence_number for message in messages] == list(range(1, 21))
        assert receiver.peek_messages(sequence_number=1) == []


@behavior
def abandon_until_dead(client: ServiceBusClient, clock: Clock) -> None:
    """An abandoned message comes again, with its count, until it is a dead letter that says so."""
    send(client, "orders", "x")
    with client.get_queue_receiver("orders") as receiver:
        for attempt in range(3):
            [message] = receive(receiver)
            assert message.delivery_count == attempt
            receiver.abandon_message(message)
        assert nothing_comes(receiver)
    with dead_letters(client, "orders") as receiver:
        [dead] = receive(receiver)
        assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"


@behavior
def dead_letter(client: ServiceBusClient, clock: Clock) -> None:
    """A dead letter has its reason and its description; of where it was nothing is said as long as it is there."""
    send(client, "orders", "first", "second")
    with client.get_queue_receiver("orders") as receiver:
        first, second = receive(receiver, 2)
        receiver.complete_message(first)
        receiver.dead_letter_message(second, reason="bad", error_description="very bad")
    with dead_letters(client, "orders") as receiver:
        [dead] = receive(receiver)
        assert (str(dead), dead.dead_letter_reason, dead.dead_letter_error_description) == ("second", "bad", "very bad")
        assert (dead.dead_letter_source, dead.sequence_number, dead.enqueued_sequence_number) == (None, 1, 2)


@behavior
def defer(client: ServiceBusClient, clock: Clock) -> None:
    """A deferred message comes by its number only, and is settled through the management node."""
    send(client, "orders", "x", "y")
    with client.get_queue_receiver("orders") as receiver:
        first, second = receive(receiver, 2)
        receiver.defer_message(first)
        receiver.complete_message(second)
        assert nothing_comes(receiver)
        [peeked] = receiver.peek_messages(5, sequence_number=1)
        assert peeked.state == ServiceBusMessageState.DEFERRED
        assert first.sequence_number is not None
        [deferred] = receiver.receive_deferred_messages(first.sequence_number)
        assert str(deferred) == "x"
        receiver.renew_message_lock(deferred)
        receiver.complete_message(deferred)
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(first.sequence_number)


@behavior
def renew(client: ServiceBusClient, clock: Clock) -> None:
    """A renewed lock holds beyond its first end."""
    send(client, "orders", "x")
    with client.get_queue_receiver("orders") as receiver:
        [message] = receive(receiver)
        clock.ahead += 200
        until = receiver.renew_message_lock(message)
        assert 200 < until.timestamp() - clock() < 300.1
        clock.ahead += 150
        receiver.complete_message(message)
        assert receiver.peek_messages(sequence_number=1) == []


@behavior
def renewed_in_threads(client: ServiceBusClient, clock: Clock) -> None:
    """Many locks are renewed at once: the SDK then gives one delivery-id, and one tag, to several requests."""
    send(client, "orders", *map(str, range(AT_ONCE)))
    with client.get_queue_receiver("orders") as receiver:
        messages = receive(receiver, AT_ONCE)
        clock.ahead += 200
        with ThreadPoolExecutor(AT_ONCE) as threads:
            ends = list(threads.map(receiver.renew_message_lock, messages))
        assert all(200 < end.timestamp() - clock() < 300.1 for end in ends)


@behavior
def lost_lock(client: ServiceBusClient, clock: Clock) -> None:
    """A message whose lock has ended is settled by nobody; another receiver gets it, as a further attempt."""
    send(client, "orders", "x")
    with client.get_queue_receiver("orders") as receiver:
        [message] = receive(receiver)
        clock.ahead += 301
        with pytest.raises(MessageLockLostError):
            receiver.renew_message_lock(message)
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(message)
        [again] = receive(receiver)
        assert again.delivery_count == 1
        receiver.complete_message(again)


@behavior
def closed_receiver_releases(client: ServiceBusClient, clock: Clock) -> None:
    """What a receiver had fetched ahead and not given out is there for others when it closes."""
    send(client, "orders", *(f"m{number}" for number in range(5)))
    with client.get_queue_receiver("orders", prefetch_count=5) as receiver:
        [message] = receive(receiver)
        receiver.complete_message(message)
    with client.get_queue_receiver("orders", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        assert [str(message) for message in receive(receiver, 4)] == ["m1", "m2", "m3", "m4"]


@behavior
def schedule_and_cancel(client: ServiceBusClient, clock: Clock) -> None:
    """A scheduled message comes when it is due; one that was cancelled does not."""
    due = datetime.now(UTC) + timedelta(hours=1)
    with client.get_queue_sender("orders") as sender:
        numbers = sender.schedule_messages([ServiceBusMessage("keep"), ServiceBusMessage("drop")], due)
        sender.cancel_scheduled_messages(numbers[1])
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(numbers[1])
    with client.get_queue_receiver("orders") as receiver:
        [peeked] = receiver.peek_messages(5)
        assert (peeked.sequence_number, peeked.state) == (numbers[0], ServiceBusMessageState.SCHEDULED)
        assert peeked.scheduled_enqueue_time_utc is not None
        assert abs((peeked.scheduled_enqueue_time_utc - due).total_seconds()) < 1
        assert nothing_comes(receiver)
    clock.ahead += 3601
    with client.get_queue_receiver("orders") as receiver:
        [message] = receive(receiver)
        assert (str(message), message.sequence_number) == ("keep", 3)
        receiver.complete_message(message)


@behavior
def peek(client: ServiceBusClient, clock: Clock) -> None:
    """Peeking goes on where it was, and takes nothing."""
    send(client, "orders", *(f"m{number}" for number in range(5)))
    with client.get_queue_receiver("orders") as receiver:
        pages = [receiver.peek_messages(2) for _ in range(4)]
        assert [[str(message) for message in page] for page in pages] == [["m0", "m1"], ["m2", "m3"], ["m4"], []]
        assert len(receive(receiver, 5)) == 5


@behavior
def duplicates(client: ServiceBusClient, clock: Clock) -> None:
    """A message that is sent again within the window is taken and dropped."""
    for _ in range(2):
        send(client, "unique", ServiceBusMessage("x", message_id="a"))
    clock.ahead += 61
    send(client, "unique", ServiceBusMessage("y", message_id="a"))
    with client.get_queue_receiver("unique", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        assert [str(message) for message in receive(receiver, 2)] == ["x", "y"]


@behavior
def expired(client: ServiceBusClient, clock: Clock) -> None:
    """What is too old becomes a dead letter, where that was asked for."""
    send(client, "mortal", "x")
    clock.ahead += 6
    with client.get_queue_receiver("mortal") as receiver:
        assert nothing_comes(receiver)
    with dead_letters(client, "mortal") as receiver:
        assert receive(receiver)[0].dead_letter_reason == "TTLExpiredException"


@behavior
def missing_entity(client: ServiceBusClient, clock: Clock) -> None:
    """What is not in the configuration is not there; `$cbs` says so, and so the SDK takes it for a wrong login."""
    with pytest.raises(ServiceBusAuthenticationError):
        send(client, "missing", "x")
    with pytest.raises(ServiceBusAuthenticationError):
        client.get_queue_receiver("missing").receive_messages(max_wait_time=WAIT)


def test_restart(tmp_path: Path) -> None:
    """With a store, what the SDK had sent, locked, deferred, scheduled and buried is there after a restart."""
    queues = [QueueConfig("orders", lock_duration=300.0), QueueConfig("steps", requires_session=True)]
    config = AzureConfig(queues, event_hubs=["telemetry"])
    store = str(tmp_path / "emulator.db")

    def bus(emulator: BackgroundServiceBus) -> ServiceBusClient:
        return ServiceBusClient.from_connection_string(emulator.connection_string, **RETRYING, keep_alive=0)

    def hub(emulator: BackgroundServiceBus) -> EventHubProducerClient:
        return EventHubProducerClient.from_connection_string(emulator.connection_string, eventhub_name="telemetry")

    with BackgroundServiceBus(config, store=store) as emulator, bus(emulator) as client, hub(emulator) as producer:
        producer.send_event(EventData("event"), partition_id="0")
        send(client, "orders", "locked", "deferred", "dead", "left")
        with client.get_queue_sender("orders") as sender:
            sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC) + timedelta(hours=1))
        with client.get_queue_receiver("orders") as receiver:
            locked, deferred, dead = receive(receiver, 3)
            assert deferred.sequence_number == 2
            receiver.defer_message(deferred)
            receiver.dead_letter_message(dead, reason="bad")
        send(client, "steps", ServiceBusMessage("step", session_id="a"))
        with client.get_queue_receiver("steps", session_id="a") as receiver:
            receiver.session.set_state("half")
    with BackgroundServiceBus(config, store=store) as emulator, bus(emulator) as client, hub(emulator) as producer:
        assert producer.get_partition_properties("0")["last_enqueued_sequence_number"] == 0
        with client.get_queue_receiver("orders") as receiver:
            assert [str(each) for each in receiver.peek_messages(9)] == ["locked", "deferred", "left", "later"]
            [left] = receive(receiver)
            assert str(left) == "left"
            [again] = receiver.receive_deferred_messages(2)
            assert str(again) == "deferred"
            receiver._settle_message_via_mgmt_link("completed", [locked.lock_token])  # type: ignore[list-item]
            for message in (left, again):
                receiver.complete_message(message)
            emulator.advance(3601)
            [later] = receive(receiver)
            assert str(later) == "later"
        with dead_letters(client, "orders") as receiver:
            assert receive(receiver)[0].dead_letter_reason == "bad"
        with client.get_queue_receiver("steps", session_id="a") as receiver:
            assert receiver.session.get_state() == b"half"
            assert str(receive(receiver)[0]) == "step"


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Callable[[Behavior], None]]:
    """How each behavior went."""
    with behavior.running(request) as runs:
        yield runs


@pytest.mark.parametrize("behavior", behavior.all, ids=lambda behavior: behavior.__name__)
def test_behavior(behavior: Behavior, runs: Callable[[Behavior], None]) -> None:
    """What the SDK does and sees; each behavior says what that is."""
    runs(behavior)


@pytest.mark.parametrize(("policy", "allowed"), [("listen", "receive"), ("send", "send"), ("unknown", None)])
def test_rights(policy: str, allowed: str | None) -> None:
    """Who may only listen cannot send, and the reverse; who has another key may do nothing."""

    def use(url: str) -> None:
        with client_of(url, policy) as client:
            tries: dict[str, Callable[[], Any]] = {
                "send": partial(send, client, "orders", "x"),
                "receive": partial(client.get_queue_receiver("orders").peek_messages),
            }
            for name, attempt in tries.items():
                if name == allowed:
                    attempt()
                else:
                    with pytest.raises((ServiceBusAuthorizationError, ServiceBusError)):
                        attempt()

    anyio.run(run, AzureConfig(CONFIG), Clock(), use, backend="trio")

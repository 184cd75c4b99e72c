"""Sessions of the emulator, as Microsoft's own SDK for Python drives them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    AutoLockRenewer,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
)
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from amqp10.broker.azure import AzureConfig, QueueConfig

from ._azure import TO_BE_SURE, WAIT, Behavior, Behaviors, Clock, dead_letters, nothing_comes, receive

pytestmark = [pytest.mark.slow, pytest.mark.capability("Service Bus emulator")]

CONFIG: list[QueueConfig | str] = [
    QueueConfig("steps", requires_session=True, lock_duration=300.0, max_delivery_count=3),
    "plain",
]
behavior = Behaviors(AzureConfig(CONFIG))


def send(client: ServiceBusClient, session: str, *bodies: str, **settings: Any) -> None:
    with client.get_queue_sender("steps") as sender:
        sender.send_messages([ServiceBusMessage(body, session_id=session, **settings) for body in bodies])


def accept(client: ServiceBusClient, session: Any, **settings: Any) -> ServiceBusReceiver:
    return client.get_queue_receiver("steps", session_id=session, **settings)


def texts(messages: list[Any]) -> list[str]:
    return [str(message) for message in messages]


@behavior
def named(client: ServiceBusClient, clock: Clock) -> None:
    """A session is accepted by its id; its messages come in order, and those of others do not."""
    send(client, "a", "a1", "a2")
    send(client, "b", "b1")
    send(client, "a", "a3")
    with accept(client, "a") as receiver:
        messages = receive(receiver, 3)
        assert texts(messages) == ["a1", "a2", "a3"]
        assert {message.session_id for message in messages} == {"a"}
        for message in messages:
            receiver.complete_message(message)
        assert nothing_comes(receiver)
    with accept(client, "b", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        assert texts(receive(receiver)) == ["b1"]


@behavior
def lock_is_told(client: ServiceBusClient, clock: Clock) -> None:
    """The receiver knows its session and when the lock ends; a renewal tells the new end."""
    send(client, "a", "x")
    with accept(client, "a") as receiver:
        session = receiver.session
        assert session.session_id == "a"
        assert session.locked_until_utc is not None
        assert 200 < session.locked_until_utc.timestamp() - clock() < 300.1
        clock.ahead += 200
        until = session.renew_lock()
        assert 200 < until.timestamp() - clock() < 300.1
        assert session.locked_until_utc == until
        clock.ahead += 200
        [message] = receive(receiver)
        receiver.complete_message(message)


@behavior
def held_by_one(client: ServiceBusClient, clock: Clock) -> None:
    """A session that one receiver has is not to be had for another, until it is closed."""
    send(client, "a", "x")
    with accept(client, "a"):
        with pytest.raises(SessionCannotBeLockedError):
            accept(client, "a").__enter__()
    with accept(client, "a") as receiver:
        assert texts(receive(receiver)) == ["x"]


@behavior
def next_free(client: ServiceBusClient, clock: Clock) -> None:
    """The next free session is that with the oldest message; who asks again gets another."""
    send(client, "old", "1")
    send(client, "new", "2")
    with accept(client, NEXT_AVAILABLE_SESSION) as first, accept(client, NEXT_AVAILABLE_SESSION) as second:
        assert (first.session.session_id, second.session.session_id) == ("old", "new")
        assert texts(receive(first) + receive(second)) == ["1", "2"]
        with pytest.raises(OperationTimeoutError):
            accept(client, NEXT_AVAILABLE_SESSION, max_wait_time=TO_BE_SURE).__enter__()


@behavior
def next_to_come(client: ServiceBusClient, clock: Clock) -> None:
    """Who asks for any session waits for one, and gets that whose message comes first."""

    def send_late() -> None:
        time.sleep(TO_BE_SURE)
        send(client, "late", "x")

    thread = Thread(target=send_late)
    thread.start()
    with accept(client, NEXT_AVAILABLE_SESSION, max_wait_time=WAIT) as receiver:
        assert receiver.session.session_id == "late"
        assert texts(receive(receiver)) == ["x"]
    thread.join()


@behavior
def lost_lock(client: ServiceBusClient, clock: Clock) -> None:
    """A session whose lock has ended is another's; who had it settles nothing; that was an attempt at each message."""
    send(client, "a", "1", "2")
    with accept(client, "a") as late:
        messages = receive(late, 2)
        clock.ahead += 301
        with accept(client, "a") as receiver:
            with pytest.raises(ServiceBusError) as lost:
                late.complete_message(messages[0])
            assert isinstance(lost.value, SessionLockLostError)
            again = receive(receiver, 2)
            assert texts(again) == ["1", "2"]
            assert [message.delivery_count for message in again] == [1, 1]


@behavior
def lost_lock_is_not_renewed(client: ServiceBusClient, clock: Clock) -> None:
    """A lock that has ended is not renewed."""
    send(client, "a", "1")
    with accept(client, "a") as receiver:
        clock.ahead += 301
        with pytest.raises(SessionLockLostError):
            receiver.session.renew_lock()


@behavior
def closed_session(client: ServiceBusClient, clock: Clock) -> None:
    """When a receiver closes, its session is free at once; what it had not settled counts for no attempt."""
    send(client, "a", "1", "2", "3")
    with accept(client, "a") as receiver:
        messages = receive(receiver, 2)
        receiver.complete_message(messages[0])
    with accept(client, NEXT_AVAILABLE_SESSION, max_wait_time=WAIT) as receiver:
        messages = receive(receiver, 2)
        assert texts(messages) == ["2", "3"]
        assert [message.delivery_count for message in messages] == [0, 0]


@behavior
def order_after_abandon(client: ServiceBusClient, clock: Clock) -> None:
    """An abandoned message comes before those behind it."""
    send(client, "a", "1", "2")
    with accept(client, "a") as receiver:
        [message] = receive(receiver)
        receiver.abandon_message(message)
        again = receive(receiver, 2)
        assert texts(again) == ["1", "2"]
        assert [message.delivery_count for message in again] == [1, 0]


@behavior
def states(client: ServiceBusClient, clock: Clock) -> None:
    """What is kept with a session is there for its next receiver, whether there are messages or not."""
    with accept(client, "a") as receiver:
        assert receiver.session.get_state() is None
        receiver.session.set_state("half done")
        assert receiver.session.get_state() == b"half done"
    with accept(client, "a") as receiver:
        assert receiver.session.get_state() == b"half done"
        receiver.session.set_state(None)
        assert receiver.session.get_state() is None
    with accept(client, "b") as receiver:
        assert receiver.session.get_state() is None


@behavior
def listed(client: ServiceBusClient, clock: Clock) -> None:
    """Sessions with messages or a state are listed; or those whose state is newer than a time."""
    assert list(client.list_queue_sessions("steps")) == []
    send(client, "with message", "1")
    with accept(client, "with state") as receiver:
        receiver.session.set_state(b"s")
    assert list(client.list_queue_sessions("steps")) == ["with message", "with state"]
    now = datetime.now(UTC)
    newer = partial_list(client, now - timedelta(hours=1))
    assert (newer, partial_list(client, now + timedelta(hours=1))) == (["with state"], [])


def partial_list(client: ServiceBusClient, after: datetime) -> list[str]:
    return list(client.list_queue_sessions("steps", state_updated_after=after))


@behavior
def listed_in_pages(client: ServiceBusClient, clock: Clock) -> None:
    """A hundred sessions are a page; the next page goes on there."""
    names = [f"s{number:03}" for number in range(205)]
    with client.get_queue_sender("steps") as sender:
        sender.send_messages([ServiceBusMessage("x", session_id=name) for name in names])
    assert list(client.list_queue_sessions("steps")) == names


@behavior
def deferred(client: ServiceBusClient, clock: Clock) -> None:
    """A deferred message of a session is received by its number, with that session only."""
    send(client, "a", "1", "2")
    send(client, "b", "3")
    with accept(client, "a") as receiver:
        first, second = receive(receiver, 2)
        number = first.sequence_number or 0
        receiver.defer_message(first)
        receiver.complete_message(second)
        with accept(client, "b") as other, pytest.raises(ServiceBusError, match="another session"):
            other.receive_deferred_messages(number)
        [message] = receiver.receive_deferred_messages(number)
        assert str(message) == "1"
        receiver.complete_message(message)


@behavior
def peeked(client: ServiceBusClient, clock: Clock) -> None:
    """A receiver peeks at the messages of its session only."""
    send(client, "a", "1")
    send(client, "b", "2")
    send(client, "a", "3")
    with accept(client, "a") as receiver:
        assert texts(receiver.peek_messages(5)) == ["1", "3"]


@behavior
def dead_letter(client: ServiceBusClient, clock: Clock) -> None:
    """A dead letter keeps its session id; dead letters are received without sessions."""
    send(client, "a", "1", "2")
    with accept(client, "a") as receiver:
        for message in receive(receiver, 2):
            receiver.dead_letter_message(message, reason="bad")
    with dead_letters(client, "steps") as receiver:
        messages = receive(receiver, 2)
        assert [(str(each), each.session_id, each.dead_letter_reason) for each in messages] == [
            ("1", "a", "bad"),
            ("2", "a", "bad"),
        ]


@behavior
def scheduled(client: ServiceBusClient, clock: Clock) -> None:
    """A scheduled message comes to its session when it is due; before that the session is none to accept."""
    with client.get_queue_sender("steps") as sender:
        sender.schedule_messages(ServiceBusMessage("x", session_id="a"), datetime.now(UTC) + timedelta(hours=1))
    with pytest.raises(OperationTimeoutError):
        accept(client, NEXT_AVAILABLE_SESSION, max_wait_time=TO_BE_SURE).__enter__()
    clock.ahead += 3601
    with accept(client, NEXT_AVAILABLE_SESSION, max_wait_time=WAIT) as receiver:
        assert texts(receive(receiver)) == ["x"]


@behavior
def no_session(client: ServiceBusClient, clock: Clock) -> None:
    """A message without a session, a receiver without one, and a session where there are none, are refused."""
    with client.get_queue_sender("steps") as sender, pytest.raises(ServiceBusError, match="requires sessions"):
        sender.send_messages(ServiceBusMessage("x"))
    with pytest.raises(ServiceBusError, match="requires sessions"):
        client.get_queue_receiver("steps").receive_messages(max_wait_time=WAIT)
    with pytest.raises(ServiceBusError, match="does not require sessions"):
        client.get_queue_receiver("plain", session_id="a").__enter__()


@behavior
def renewer(client: ServiceBusClient, clock: Clock) -> None:
    """The SDK's own renewer keeps a session beyond its first lock."""
    send(client, "a", "x")
    with AutoLockRenewer() as renews, accept(client, "a") as receiver:
        first = receiver.session.locked_until_utc
        assert first is not None
        clock.ahead += 1
        # Renewed when less than ten seconds are left: by the SDK's clock that is now.
        receiver.session._locked_until_utc = datetime.now(UTC) + timedelta(seconds=9)
        renews.register(receiver, receiver.session)
        end = time.monotonic() + WAIT
        while (receiver.session.locked_until_utc or first) <= first:
            assert time.monotonic() < end, "it is not renewed"
            time.sleep(0.05)


@behavior
def many(client: ServiceBusClient, clock: Clock) -> None:
    """Sessions are taken in turns by one receiver after the other, and nothing is left or mixed up."""
    names = [f"s{number}" for number in range(4)]
    with client.get_queue_sender("steps") as sender:
        for round_number in range(3):
            sender.send_messages([ServiceBusMessage(f"{name}-{round_number}", session_id=name) for name in names])
    seen: dict[str, list[str]] = {}
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    for _ in names:
        with accept(client, NEXT_AVAILABLE_SESSION, max_wait_time=WAIT, receive_mode=mode) as receiver:
            seen[receiver.session.session_id] = texts(receive(receiver, 3))
    assert seen == {name: [f"{name}-{number}" for number in range(3)] for name in names}


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Callable[[Behavior], None]]:
    """How each behavior went."""
    with behavior.running(request) as runs:
        yield runs


@pytest.mark.parametrize("behavior", behavior.all, ids=lambda behavior: behavior.__name__)
def test_behavior(behavior: Behavior, runs: Callable[[Behavior], None]) -> None:
    """What the SDK does and sees; each behavior says what that is."""
    runs(behavior)

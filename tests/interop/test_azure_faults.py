"""Faults and time in the emulator, as Microsoft's own SDK for Python sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiver
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityAlreadyExistsError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    ServiceBusServerBusyError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from amqp10.broker.azure import AzureConfig, QueueConfig

from ._azure import WAIT, Behavior, Behaviors, Clock, nothing_comes, receive, send

pytestmark = [pytest.mark.slow, pytest.mark.capability("Service Bus emulator")]

QUEUES = [
    QueueConfig("orders", lock_duration=300.0),
    QueueConfig("small", max_size=1000),
    QueueConfig("steps", requires_session=True),
]
behavior = Behaviors(AzureConfig(QUEUES), retries=0)
ERRORS: dict[str, type[ServiceBusError]] = {
    "com.microsoft:message-lock-lost": MessageLockLostError,
    "com.microsoft:session-lock-lost": SessionLockLostError,
    "com.microsoft:session-cannot-be-locked": SessionCannotBeLockedError,
    "com.microsoft:message-not-found": MessageNotFoundError,
    "com.microsoft:timeout": OperationTimeoutError,
    "com.microsoft:server-busy": ServiceBusServerBusyError,
    "com.microsoft:entity-disabled": MessagingEntityDisabledError,
    "com.microsoft:entity-already-exists": MessagingEntityAlreadyExistsError,
    "com.microsoft:auth-failed": ServiceBusAuthorizationError,
    "amqp:resource-limit-exceeded": ServiceBusQuotaExceededError,
    "amqp:unauthorized-access": ServiceBusAuthorizationError,
    "amqp:not-found": MessagingEntityNotFoundError,
    "amqp:link:message-size-exceeded": MessageSizeExceededError,
    "amqp:link:detach-forced": ServiceBusConnectionError,
    # The SDK has no error of its own for these.
    "com.microsoft:session-not-found": ServiceBusError,
    "com.microsoft:argument-error": ServiceBusError,
    "com.microsoft:argument-out-of-range": ServiceBusError,
    "com.microsoft:precondition-failed": ServiceBusError,
    "com.microsoft:operation-cancelled": ServiceBusError,
    "com.microsoft:container-close": ServiceBusError,
    "com.microsoft:no-matching-subscription": ServiceBusError,
    "amqp:link:stolen": ServiceBusError,
}
"""All conditions of Service Bus, and the SDK's errors for them."""
IDLE = "IdleTimerExpired: Idle timeout: 00:10:00"
"""The emulator's clock is moved, and goes on by itself: each step leaves a slow machine more than a minute."""


def use(client: ServiceBusClient, receiver: ServiceBusReceiver) -> None:
    """Receive a message: then the emulator has seen the receiver's flow."""
    send(client, "orders", "x")
    receiver.complete_message(receive(receiver)[0])


@behavior
def idle_receiver(client: ServiceBusClient, clock: Clock) -> None:
    """A receiver that nobody uses for ten minutes is detached; with the next call the SDK attaches another."""
    with client.get_queue_receiver("orders") as receiver:
        use(client, receiver)
        clock.ahead += 400
        use(client, receiver)
        clock.ahead += 400  # more than ten minutes, but for the use in between
        use(client, receiver)
        clock.ahead += 601
        with pytest.raises(ServiceBusConnectionError, match=IDLE):
            receiver.receive_messages(max_wait_time=WAIT)
        send(client, "orders", "x")
        assert str(receive(receiver)[0]) == "x"


@behavior
def idle_sender(client: ServiceBusClient, clock: Clock) -> None:
    """A sender that nobody uses for ten minutes is detached; the SDK raises in the next send, and attaches another."""
    with client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("1"))
        clock.ahead += 400
        sender.send_messages(ServiceBusMessage("2"))
        clock.ahead += 400
        sender.send_messages(ServiceBusMessage("3"))
        clock.ahead += 601
        with pytest.raises(ServiceBusConnectionError):
            sender.send_messages(ServiceBusMessage("4"))
        sender.send_messages(ServiceBusMessage("5"))
    with client.get_queue_receiver("orders") as receiver:
        assert [str(message) for message in receiver.peek_messages(9)] == ["1", "2", "3", "5"]


@behavior
def renewal_is_a_use(client: ServiceBusClient, clock: Clock) -> None:
    """A receiver that only renews, by requests that name its link, is not idle."""
    send(client, "orders", "x")
    with client.get_queue_receiver("orders") as receiver:
        [message] = receive(receiver)
        for _ in range(4):
            clock.ahead += 200
            receiver.renew_message_lock(message)
        receiver.complete_message(message)
        assert receiver.peek_messages(sequence_number=1) == []


@behavior
def settled_after_detach(client: ServiceBusClient, clock: Clock) -> None:
    """A message whose link is gone is settled through the management node, as long as its lock holds."""
    send(client, "orders", "x")
    assert clock.azure is not None
    with client.get_queue_receiver("orders") as receiver:
        [message] = receive(receiver)
        assert clock.call(clock.azure.detach_links, "orders") >= 1
        with pytest.raises(ServiceBusConnectionError):
            receiver.receive_messages(max_wait_time=WAIT)
        receiver._open_with_retry()  # type: ignore[no-untyped-call]
        receiver._settle_message_via_mgmt_link("completed", [message.lock_token])  # type: ignore[list-item]
        assert receiver.peek_messages(sequence_number=1) == []


@behavior
def stolen(client: ServiceBusClient, clock: Clock) -> None:
    """A link is detached with the condition that the test says."""
    assert clock.azure is not None
    with client.get_queue_receiver("orders") as receiver:
        assert clock.call(clock.azure.detach_links, "Orders", "amqp:link:stolen") == 1
        with pytest.raises(ServiceBusError, match="amqp:link:stolen"):
            receiver.receive_messages(max_wait_time=WAIT)


@behavior
def lock_lost(client: ServiceBusClient, clock: Clock) -> None:
    """A lock that the test takes away is lost: the message comes again, and who had it cannot settle it."""
    send(client, "orders", "x")
    assert clock.azure is not None
    with client.get_queue_receiver("orders") as receiver:
        [message] = receive(receiver)
        assert clock.call(clock.azure.lose_locks, "orders") == 1
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(message)
        [again] = receive(receiver)
        assert again.delivery_count == 1
        receiver.complete_message(again)


@behavior
def session_lost(client: ServiceBusClient, clock: Clock) -> None:
    """A session whose lock is taken away is lost to its receiver, who is told by the end of its link."""
    with client.get_queue_sender("steps") as sender:
        sender.send_messages(ServiceBusMessage("x", session_id="a"))
    assert clock.azure is not None
    with client.get_queue_receiver("steps", session_id="a") as receiver:
        receive(receiver)
        assert clock.call(clock.azure.lose_locks, "steps") == 1
        with pytest.raises(SessionLockLostError):
            receiver.receive_messages(max_wait_time=WAIT)
    with client.get_queue_receiver("steps", session_id="a") as receiver:
        assert receive(receiver)[0].delivery_count == 1


@behavior
def busy(client: ServiceBusClient, clock: Clock) -> None:
    """A busy service refuses messages and requests as often as the test says, and then takes them."""
    assert clock.azure is not None
    with client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("1"))
        clock.call(clock.azure.refuse_next, "orders", 1)
        with pytest.raises(ServiceBusServerBusyError):
            sender.send_messages(ServiceBusMessage("2"))
        sender.send_messages(ServiceBusMessage("3"))
    with client.get_queue_receiver("orders") as receiver:
        receiver.peek_messages()
        clock.call(clock.azure.refuse_next, "orders", 1)
        with pytest.raises(ServiceBusServerBusyError):
            receiver.peek_messages()
        assert [str(message) for message in receiver.peek_messages(9, sequence_number=1)] == ["1", "3"]


def raises(condition: str) -> pytest.RaisesExc[ServiceBusError]:
    """Expect the SDK's error for a condition, and no other kind of it."""
    error = ERRORS[condition]
    return pytest.raises(error, match=condition.partition(":")[2], check=lambda raised: type(raised) is error)


@behavior
def conditions_of_requests(client: ServiceBusClient, clock: Clock) -> None:
    """A request that is refused raises the error that the SDK has for the condition, for each of Service Bus."""
    assert clock.azure is not None
    with client.get_queue_receiver("orders") as receiver:
        receiver.peek_messages()
        for condition in ERRORS:
            clock.call(clock.azure.refuse_next, "orders", 1, condition)
            with raises(condition):
                receiver.peek_messages()


@behavior
def conditions_of_messages(client: ServiceBusClient, clock: Clock) -> None:
    """So does a message that is refused."""
    assert clock.azure is not None
    with client.get_queue_sender("orders") as sender:
        for condition in ERRORS:
            sender.create_message_batch()  # opens the link, if the SDK has closed it for the last condition
            clock.call(clock.azure.refuse_next, "orders", 1, condition)
            with raises(condition):
                sender.send_messages(ServiceBusMessage("x"))


@behavior
def conditions_of_links(client: ServiceBusClient, clock: Clock) -> None:
    """So does a link that is refused."""
    assert clock.azure is not None
    for condition in ERRORS:
        clock.call(clock.azure.refuse_next, "orders", 1, condition)
        with raises(condition), client.get_queue_receiver("orders"):
            raise AssertionError(f"the link is refused: {condition}")


@behavior
def conditions_of_detached_links(client: ServiceBusClient, clock: Clock) -> None:
    """So does a link that ends."""
    assert clock.azure is not None
    for condition in ERRORS:
        with client.get_queue_receiver("orders") as receiver:
            assert clock.call(clock.azure.detach_links, "orders", condition) == 1
            with raises(condition):
                receiver.receive_messages(max_wait_time=WAIT)


@behavior
def tokens_ended(client: ServiceBusClient, clock: Clock) -> None:
    """When the tokens end, links are detached; the SDK puts another with its next link."""
    assert clock.azure is not None
    with client.get_queue_receiver("orders") as receiver:
        clock.call(clock.azure.expire_tokens)
        with pytest.raises(ServiceBusAuthorizationError, match="unauthorized-access"):
            receiver.receive_messages(max_wait_time=WAIT)
        send(client, "orders", "x")
        assert str(receive(receiver)[0]) == "x"


@behavior
def no_room(client: ServiceBusClient, clock: Clock) -> None:
    """A queue that has all the octets it may refuses more, until some leave."""
    with client.get_queue_sender("small") as sender:
        sender.send_messages(ServiceBusMessage(b"x" * 900))
        with pytest.raises(ServiceBusQuotaExceededError):
            sender.send_messages(ServiceBusMessage(b"y" * 900))
        with client.get_queue_receiver("small") as receiver:
            receiver.complete_message(receive(receiver)[0])
        sender.send_messages(ServiceBusMessage(b"z" * 900))


@behavior
def moved_clock(client: ServiceBusClient, clock: Clock) -> None:
    """A receiver that waits gets the message whose lock ends as soon as the clock is moved."""
    send(client, "orders", "x")
    with client.get_queue_receiver("orders") as first, client.get_queue_receiver("orders", prefetch_count=1) as second:
        receive(first)
        assert nothing_comes(second)
        clock.ahead += 301
        assert receive(second)[0].delivery_count == 1


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Callable[[Behavior], None]]:
    """How each behavior went."""
    with behavior.running(request) as runs:
        yield runs


@pytest.mark.parametrize("behavior", behavior.all, ids=lambda behavior: behavior.__name__)
def test_behavior(behavior: Behavior, runs: Callable[[Behavior], None]) -> None:
    """What the SDK does and sees; each behavior says what that is."""
    runs(behavior)

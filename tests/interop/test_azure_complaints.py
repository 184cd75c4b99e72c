"""What users of Microsoft's client complained of: what became of it there, and how it is here, on one emulator.

A number such as #48366 is that of an issue of azure-sdk-for-python. Partitions that move back and forth, or have nobody
(#28338), are in tests/azure/processor/test_balancing.py, and Microsoft's processors in test_azure_processor.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import anyio
import azure.servicebus._common.message as sdk_messages
import pytest
from anyio import to_thread
from azure.core.credentials import AccessToken
from azure.servicebus import AutoLockRenewer, ServiceBusClient, ServiceBusMessage, aio
from azure.servicebus._pyamqp import cbs
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusError

from amqp10.azure import MessageLockLost, ServiceBus
from amqp10.broker import JwtKey, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, QueueConfig
from amqp10.testing import BackgroundServiceBus

from ..kit.token_rig import SECRET, jwt
from ._azure import RETRYING, WAIT, receive, send

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.capability("Service Bus client")]
QUEUES = ["clock", "closing", "idle", "lost", "renewed", "typed", "waiting"]


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


@pytest.fixture(scope="module")
def emulator() -> Iterator[BackgroundServiceBus]:
    with BackgroundServiceBus(AzureConfig([*QUEUES, QueueConfig("session", requires_session=True)])) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def sdk(emulator: BackgroundServiceBus) -> Iterator[ServiceBusClient]:
    text = emulator.connection_string
    with ServiceBusClient.from_connection_string(text, **RETRYING, keep_alive=0) as client:
        yield client


async def test_a_lock_that_looks_expired(
    emulator: BackgroundServiceBus, sdk: ServiceBusClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock 70 s fast theirs does not complete what is locked for 60 s (#34270, #40156); ours asks Azure."""
    ahead = datetime.now(UTC) + timedelta(seconds=70)

    def refused() -> None:
        send(sdk, "clock", "x")
        with sdk.get_queue_receiver("clock") as receiver:
            [message] = receive(receiver)
            monkeypatch.setattr(sdk_messages, "utc_now", lambda: ahead)
            with pytest.raises(MessageLockLostError):
                receiver.complete_message(message)
            monkeypatch.undo()
            receiver.abandon_message(message)

    await to_thread.run_sync(refused)
    async with ServiceBus(emulator.connection_string, clock=lambda: time.time() + 70) as bus:
        async with bus.receiver("clock") as receiver:
            await (await receiver.receive()).complete()
            assert await receiver.peek() == []


async def test_closing_gives_back_what_was_fetched(emulator: BackgroundServiceBus, sdk: ServiceBusClient) -> None:
    """Both do so now (#42917, #35591)."""
    await to_thread.run_sync(lambda: send(sdk, "closing", *map(str, range(10))))

    def fetch() -> None:
        with sdk.get_queue_receiver("closing", prefetch_count=10) as receiver:
            receiver.complete_message(receive(receiver)[0])

    await to_thread.run_sync(fetch)
    async with ServiceBus(emulator.connection_string) as bus:
        async with bus.receiver("closing", prefetch=10) as receiver:
            await (await receiver.receive()).complete()
        async with bus.receiver("closing") as receiver:
            batch = await receiver.receive_batch(10, max_wait=0)
            assert [(each.message.body, each.delivery_count) for each in batch] == [
                (b"%d" % n, 0) for n in range(2, 10)
            ]


async def test_a_receiver_that_was_idle(emulator: BackgroundServiceBus, sdk: ServiceBusClient) -> None:
    """Both settle what they hold when the link was detached (#37298, #10127); ours receives on it, too."""
    await to_thread.run_sync(lambda: send(sdk, "idle", "theirs", "ours", "next"))

    def hold() -> None:
        with sdk.get_queue_receiver("idle") as receiver:
            [message] = receive(receiver)
            emulator.detach_links("idle")
            receiver.complete_message(message)

    await to_thread.run_sync(hold)
    async with ServiceBus(emulator.connection_string) as bus, bus.receiver("idle") as receiver:
        delivery = await receiver.receive()
        emulator.detach_links("idle")
        await delivery.complete()
        async with await receiver.receive() as message:
            assert message.body == b"next"
        assert await receiver.peek() == []


async def test_waiting_on_a_link_that_is_detached(emulator: BackgroundServiceBus, sdk: ServiceBusClient) -> None:
    """Both go on waiting, and get what comes then (#38973); 7.15.0 attaches the link again by itself."""
    found: list[str] = []

    def theirs() -> None:
        with sdk.get_queue_receiver("waiting") as receiver:
            [message] = receive(receiver)
            receiver.complete_message(message)
            found.append(str(message))

    async def ours() -> None:
        async with await receiver.receive() as message:
            found.append(message.body.decode())

    async def detach() -> None:
        while not await to_thread.run_sync(emulator.detach_links, "waiting"):  # noqa: ASYNC110 - a thread of the SDK
            await anyio.sleep(0.01)  # nobody waits yet

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(to_thread.run_sync, theirs)
            await detach()
            await to_thread.run_sync(lambda: send(sdk, "waiting", "theirs"))
        async with ServiceBus(emulator.connection_string) as bus, bus.receiver("waiting") as receiver:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ours)
                await detach()
                await to_thread.run_sync(lambda: send(sdk, "waiting", "ours"))
    assert found == ["theirs", "ours"]


async def test_several_messages_of_one_session(emulator: BackgroundServiceBus, sdk: ServiceBusClient) -> None:
    """Both give several at once, to be completed in any order (#40455): the limit of one is that of Functions."""
    sent = [ServiceBusMessage(str(number), session_id="a") for number in range(6)]
    await to_thread.run_sync(lambda: send(sdk, "session", *sent))

    def theirs() -> None:
        with sdk.get_queue_receiver("session", session_id="a") as receiver:
            messages = receive(receiver, 3)
            assert [str(each) for each in messages] == ["0", "1", "2"]
            for message in reversed(messages):
                receiver.complete_message(message)

    await to_thread.run_sync(theirs)
    async with ServiceBus(emulator.connection_string) as bus, bus.session("session", "a", prefetch=3) as session:
        held = [await session.receive() for _ in range(3)]
        assert [each.message.body for each in held] == [b"3", b"4", b"5"]
        for each in reversed(held):
            await each.complete()
        assert await session.peek() == []


async def test_work_on_a_message_whose_lock_is_lost(emulator: BackgroundServiceBus, sdk: ServiceBusClient) -> None:
    """With theirs it goes on, unless it looks at the lock itself; with ours it is cancelled."""
    await to_thread.run_sync(lambda: send(sdk, "lost", "x"))

    def work() -> None:
        with sdk.get_queue_receiver("lost") as receiver, AutoLockRenewer() as renewer:
            [message] = receive(receiver)
            renewer.register(receiver, message)
            emulator.lose_locks("lost")
            assert not message._lock_expired  # what a program could look at
            with pytest.raises(MessageLockLostError):
                receiver.complete_message(message)

    await to_thread.run_sync(work)
    # By a clock that is 59 s fast a lock of 60 s is renewed at once.
    async with ServiceBus(emulator.connection_string, clock=lambda: time.time() + 59) as bus:
        async with bus.receiver("lost") as receiver:
            delivery = await receiver.receive()
            emulator.lose_locks("lost")
            with anyio.fail_after(60), pytest.raises(MessageLockLost):
                async with delivery.keep_locked():
                    await anyio.sleep_forever()


def test_a_renewer_keeps_what_is_done(emulator: BackgroundServiceBus, sdk: ServiceBusClient) -> None:
    """Theirs has an entry for each message that it ever renewed, until it is closed (#48366).

    Ours keeps nothing: test_keeping_locks_keeps_nothing_else in tests/azure/service_bus/test_locks.py.
    """
    send(sdk, "renewed", *map(str, range(3)))

    async def theirs() -> None:
        client = aio.ServiceBusClient.from_connection_string(emulator.connection_string, **RETRYING)
        async with client, client.get_queue_receiver("renewed") as receiver, aio.AutoLockRenewer() as renewer:
            for number in range(1, 4):
                [message] = await receiver.receive_messages(1, max_wait_time=WAIT)
                renewer.register(receiver, message)
                await receiver.complete_message(message)
                assert len(renewer._futures) == number

    anyio.run(theirs, backend="asyncio")


class FailingOnce:
    """A credential whose session is closed when the second token is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def get_token(self, *scopes: str, **_: object) -> AccessToken:
        self.asked += 1
        if self.asked == 2:
            raise OSError("the session is closed")
        end = int(time.time()) + 3600
        return AccessToken(jwt({"exp": end, "scope": "read:*/* write:*/* configure:*/*"}), end)


def test_a_credential_that_fails_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With theirs the next call raises what the credential did (#23588).

    Ours tries again: test_a_credential_that_fails_for_a_while in tests/azure/service_bus/test_refusals.py.
    """
    tokens = TokenRules([EMULATOR_RULE], [JwtKey(SECRET)], required=True)
    with BackgroundServiceBus(AzureConfig(["orders"]), tokens=tokens) as emulator:
        text, credential = emulator.connection_string, FailingOnce()
        with ServiceBusClient.from_connection_string(text, retry_total=0, keep_alive=0) as client:
            client._credential = credential  # otherwise the SDK requires TLS
            with client.get_queue_receiver("orders") as receiver:
                receiver.peek_messages()
                assert credential.asked == 1
                late = datetime.now(UTC) + timedelta(minutes=56)
                monkeypatch.setattr(cbs, "utc_now", lambda: late)
                with pytest.raises(ServiceBusError, match="the session is closed"):
                    receiver.peek_messages()


async def test_properties_have_the_types_that_were_sent(emulator: BackgroundServiceBus, sdk: ServiceBusClient) -> None:
    """With theirs names and strings come as bytes (#48078); with ours they are strings."""
    sent = [ServiceBusMessage("x", application_properties={"color": "red", "size": 1}) for _ in range(2)]
    await to_thread.run_sync(lambda: send(sdk, "typed", *sent))

    def theirs() -> None:
        with sdk.get_queue_receiver("typed") as receiver:
            [message] = receive(receiver)
            assert message.application_properties == {b"color": b"red", b"size": 1}
            receiver.complete_message(message)

    await to_thread.run_sync(theirs)
    async with ServiceBus(emulator.connection_string) as bus, bus.receiver("typed") as receiver:
        async with await receiver.receive() as message:
            assert message.application_properties == {"color": "red", "size": 1}

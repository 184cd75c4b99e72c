"""What Service Bus and its client refuse, and with which errors, against the emulator."""

from __future__ import annotations

import pickle
from typing import Any

import anyio
import pytest

from amqp10 import (
    LinkDetached,
    MessageRejected,
    SasKey,
    TokenRenewed,
)
from amqp10.azure import (
    MessageLockLost,
    Rule,
    ServerBusy,
    ServiceBus,
    ServiceBusError,
)
from amqp10.broker import Broker, SasRule, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, connection_string

from ...kit.azure.emulated import CONFIG, emulated, emulating
from ...kit.azure.entities import HOUR, put, untyped
from ...kit.token_rig import Source, rules, wall

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("Service Bus client")]


async def test_refused() -> None:
    async with emulated() as (bus, azure):
        with pytest.raises(LinkDetached) as caught:
            async with bus.receiver("nowhere"):
                raise AssertionError("there is no such entity")
        assert caught.value.condition == "amqp:not-found"
        azure.refuse_next("orders")
        with pytest.raises(ServerBusy) as busy:
            async with bus.receiver("orders"):
                raise AssertionError("the service is busy")
        assert isinstance(busy.value.__cause__, LinkDetached)
        async with bus.sender("orders") as sender, bus.receiver("orders") as receiver:
            azure.refuse_next("orders")
            with pytest.raises(MessageRejected, match="server-busy"):
                await sender.send("x")
            await sender.send("x")
            delivery = await receiver.receive()
            azure.refuse_next("orders")
            with pytest.raises(ServerBusy):
                await delivery.renew_lock()
            azure.refuse_next("orders", 1, "com.microsoft:timeout")
            with pytest.raises(ServiceBusError) as late:
                await delivery.renew_lock()
            assert type(late.value) is ServiceBusError  # nobody asked for a session
            await delivery.complete()
        with pytest.raises(LinkDetached):
            async with bus.receiver("sessions"):
                raise AssertionError("it has sessions")


async def test_a_wrong_key() -> None:
    async with emulating() as broker:
        async with ServiceBus(broker.url, SasKey(EMULATOR_RULE.name, "another")) as bus:
            with pytest.raises(Exception, match=r"401|not") as caught:
                async with bus.sender("orders"):
                    raise AssertionError("nobody knows that key")
            assert "another" not in str(caught.value)


async def test_a_token_that_the_service_ends_early() -> None:
    """Whoever attaches next puts another one."""
    async with emulated(reconnect=None) as (bus, azure):
        for _ in range(2):
            await put(bus, "orders", "x")
            azure.expire_tokens()
        async with bus.receiver("orders") as receiver:
            assert len(await receiver.receive_batch(3, max_wait=0)) == 2
    async with emulated() as (bus, azure):
        await put(bus, "orders", "x")
        azure.expire_tokens()
        await put(bus, "orders", "x")


async def test_a_credential_that_fails_for_a_while() -> None:
    """Its token is renewed when the credential works again; the link of a receiver stays, for as many hours as it may.

    With azure-sdk-for-python#23588 no token was renewed after the session of the credential was closed.
    """
    source = Source(lifetime=3600.0)

    def behave(count: int) -> None:
        if count in (1, 2, 4):
            raise OSError("the session is closed")

    source.behave = behave
    config = AzureConfig(["orders"], clock=wall, idle_timeout=None)
    async with Broker(azure=config, tokens=rules(required=True)) as broker:
        async with (
            ServiceBus(broker.url, source, clock=wall, reconnect=None) as bus,
            bus.receiver("orders") as receiver,
        ):
            await anyio.sleep(5 * 3600)
            await put(bus, "orders", "x")
            async with await receiver.receive() as message:
                assert message.body == "x"
    assert len(source.asked) > len(source.given) > 5


async def test_a_token_that_does_not_allow_it() -> None:
    """Another one is put once, and then the refusal is told."""
    listen = SasRule("listen", "key", ["Listen"])
    with anyio.fail_after(60):
        async with Broker(azure=CONFIG, tokens=TokenRules([listen], required=True)) as broker:
            async with ServiceBus(connection_string(broker.url, listen)) as bus, bus.receiver("orders"):
                events = bus.connection.events()
                with pytest.raises(LinkDetached) as caught:
                    async with bus.sender("orders"):
                        raise AssertionError("the token is for receiving")
                assert caught.value.condition == "amqp:unauthorized-access"
        assert [type(event) async for event in events].count(TokenRenewed) == 1


def test_errors_survive_pickling() -> None:
    for error in (MessageLockLost(description="x"), ServiceBusError("a", "b")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), again.condition, str(again)) == (type(error), error.condition, str(error))


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda bus: bus.sender(), "name the queue or topic"),
        (lambda bus: bus.receiver("t", subscription=""), "name the queue or topic"),
        (lambda bus: bus.receiver("q", mode="peek"), "receive-and-delete"),
        (lambda bus: bus.receiver("q", prefetch=-1), "prefetch must be 0 or more"),
        (lambda bus: bus.session("q", "x" * 129), "session_id must have at most 128 characters, not 129"),
        (lambda bus: ServiceBus("Endpoint=sb://h"), "connection string has no key"),
        (lambda bus: bus.next_session("q", max_wait=0), "max_wait"),
        (lambda bus: ServiceBus("h.example", SasKey("a", "b"), request_timeout=0), "request_timeout"),
        (lambda bus: ServiceBus("h.example", SasKey("a", "b"), sasl=False), "leave both out"),
    ],
)
def test_wrong_arguments(make: Any, rule: str) -> None:
    bus = ServiceBus("name.servicebus.windows.net", SasKey("a", "b"))
    with pytest.raises(ValueError, match=rule):
        make(bus)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda bus: ServiceBus(untyped(None)), "where must be a str.*environment variable"),
        (lambda bus: bus.session("q", None), r"next_session\(\)"),
        (lambda bus: bus.next_session("q", max_wait=HOUR), "max_wait must be a number.*timedelta.total_seconds"),
        (lambda bus: bus.rules("topic", None), "subscription must be a str, not None"),
        (lambda bus: Rule("s", untyped("color = 'red'")), "filter must be .*SqlRuleFilter"),
        (lambda bus: Rule(untyped(None)), "the name of a rule must be a str, not the NoneType None"),
    ],
)
def test_wrong_types(make: Any, rule: str) -> None:
    bus = ServiceBus("name.servicebus.windows.net", SasKey("a", "b"))
    with pytest.raises(TypeError, match=rule):
        make(bus)


async def test_rules_of_another_kind() -> None:
    rules = ServiceBus("name.servicebus.windows.net", SasKey("a", "b")).rules("t", "s")
    with pytest.raises(TypeError, match=r"rule must be a Rule, not a str; Rule\(\"red\""):
        await rules.add("x")  # type: ignore[arg-type]


async def test_the_entity_of_the_connection_string() -> None:
    async with emulating() as broker:
        async with ServiceBus(connection_string(broker.url) + "EntityPath=orders") as bus:
            async with bus.sender() as sender, bus.receiver() as receiver:
                await sender.send("x")
                await (await receiver.receive()).complete()
            for wrong in ("sessions", "orders2"):
                with pytest.raises(ValueError, match=f"for 'orders' alone.*'{wrong}' is asked for"):
                    bus.sender(wrong)
            for right in ("Orders", "orders/$DeadLetterQueue"):
                async with bus.receiver(right) as receiver:
                    assert await receiver.peek() == []

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import anyio
import pytest

from amqp10.azure import ServiceBus
from amqp10.broker import Broker, SasRule, TokenRules
from amqp10.broker.azure import (
    AzureConfig,
    CorrelationFilter,
    QueueConfig,
    Rule,
    SubscriptionConfig,
    TopicConfig,
    connection_string,
)
from amqp10.client import Connection
from amqp10.errors import LinkDetached, MessageRejected
from amqp10.messaging import AmqpValue, Message, Source, Target
from amqp10.types import Array, Symbol

from .conftest import Clock

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


async def asked(connection: Connection, operation: str, body: Any) -> Message:
    """What the management node of "orders" answers."""
    node, said = "orders/$management", {"operation": f"com.microsoft:{operation}", "type": "entity-mgmt"}
    request = Message(AmqpValue(body), message_id=uuid4(), reply_to="here", application_properties=said)
    with anyio.fail_after(60):
        async with connection.receiver(node, target=Target("here")) as answers, connection.sender(node) as sender:
            await sender.send(request)
            delivery = await answers.receive()
    assert delivery.message.correlation_id == request.message_id
    return delivery.message


def status(answer: Message) -> tuple[int, str | None]:
    """Its code and condition."""
    said = answer.application_properties
    condition = said.get("errorCondition")
    return said["statusCode"], None if condition is None else str(condition)


class TestLinks:
    async def test_sending_via_another_entity(self) -> None:
        """The messages go to the entity of the link's property, which has to be there."""
        name = "com.microsoft:transfer-destination-address"
        async with Broker(azure=AzureConfig(["orders", "billing"])) as broker, broker.connect() as connection:
            async with connection.sender("orders", properties={name: "BILLING"}) as sender:
                await sender.send(Message(b"x"))
            async with connection.receiver("billing") as receiver:
                assert (await receiver.receive()).message.body == b"x"
            wrong = [("orders", "other", "amqp:not-found"), ("other", "orders", "com.microsoft:argument-error")]
            for via, destination, condition in [*wrong, ("orders", 5, "com.microsoft:argument-error")]:
                with pytest.raises(LinkDetached) as refused:
                    await connection.sender(via, properties={name: destination}).__aenter__()
                assert refused.value.condition == condition

    async def test_addresses(self) -> None:
        """An entity is found by its name in any capitals, and by a URI with that path; nothing else is there."""
        async with Broker(azure=AzureConfig(["Orders"])) as broker, broker.connect() as connection:
            async with connection.sender("amqps://some.host:5671/orders") as sender:
                await sender.send(Message(b"x"))
            async with connection.receiver("ORDERS") as receiver:
                assert (await receiver.receive()).message.body == b"x"
            for missing in ("other", "orders/$deadletter"):
                with pytest.raises(LinkDetached, match="not-found"):
                    await connection.sender(missing).__aenter__()

    async def test_peek_lock(self) -> None:
        """A delivery-tag is the lock token, as .NET lays a GUID out; outcomes are answered one by one."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            async with connection.sender("orders") as sender:
                for number in range(4):
                    await sender.send(Message(number))
            async with connection.receiver("orders") as receiver:
                deliveries = [await receiver.receive() for _ in range(4)]
                assert {len(delivery.tag) for delivery in deliveries} == {16}
                deliveries[0].accept()
                deliveries[1].modify(delivery_failed=True)
                info = {Symbol("DeadLetterReason"): "bad", Symbol("DeadLetterErrorDescription"): "very"}
                deliveries[2].reject("com.microsoft:dead-letter", info=info)
                deliveries[3].release()
                assert [(await receiver.receive()).message.body for _ in range(2)] == [1, 3]
            async with connection.receiver("orders/$DeadLetterQueue") as receiver:
                dead = (await receiver.receive()).message
            assert dead.application_properties == {"DeadLetterReason": "bad", "DeadLetterErrorDescription": "very"}

    async def test_rejected_without_words(self) -> None:
        """A plain rejection makes a dead letter, too."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            async with connection.sender("orders") as sender:
                await sender.send(Message(b"x"))
            async with connection.receiver("orders") as receiver:
                (await receiver.receive()).reject()
            async with connection.receiver("orders/$DeadLetterQueue") as receiver:
                assert (await receiver.receive()).message.body == b"x"

    async def test_copies_are_refused(self) -> None:
        """There is a request for looking at messages; a link cannot."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            with pytest.raises(LinkDetached, match="peek at them"):
                await connection.receiver(Source("orders", distribution_mode="copy")).__aenter__()

    async def test_older_dialects(self) -> None:
        """Their clients do not declare an entity, or lock messages of it; those that ask for none can send to it."""
        async with Broker(azure=AzureConfig(["orders"])) as broker:
            async with broker.connect(dialect="fast") as connection:
                async with connection.sender("orders") as sender:
                    await sender.send(Message("fast"))
                with pytest.raises(LinkDetached, match=r"by AMQP 1\.0 only"):
                    await connection.receiver("orders").__aenter__()
            for dialect in ("0-9-1", "0-10"):
                async with broker.connect(dialect=dialect) as connection:
                    with pytest.raises(LinkDetached, match="of another service"):
                        await connection.receiver("orders").__aenter__()
            async with broker.connect() as connection, connection.receiver("orders") as receiver:
                assert (await receiver.receive()).message.body == "fast"

    async def test_other_virtual_host(self) -> None:
        """Entities are in the usual virtual host only."""
        async with Broker(azure=AzureConfig(["orders"]), virtual_hosts=["/", "other"]) as broker:
            async with broker.connect(hostname="vhost:other") as connection:
                with pytest.raises(LinkDetached, match="not-found"):
                    await connection.receiver("orders").__aenter__()

    async def test_malformed_message(self) -> None:
        """The sender of a message that the entity cannot read hears of that."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            async with connection.sender("orders") as sender:
                with pytest.raises(MessageRejected, match=r"decode-error: .*is a timestamp, not 'soon'"):
                    await sender.send(Message(b"x", message_annotations={"x-opt-scheduled-enqueue-time": "soon"}))


class Broken(dict[str, Any]):
    """Properties that fail when a message is compared with them."""

    def items(self) -> Any:
        raise RuntimeError("broken filter")


class TestTopics:
    async def test_a_rule_that_fails(self, caplog: pytest.LogCaptureFixture) -> None:
        """A fault in a rule is logged; the sender goes on, and so do the other subscriptions."""
        rules = [Rule("broken", CorrelationFilter(properties=Broken(n=1)))]
        faulty = [
            SubscriptionConfig(name, rules=rules, dead_letter_filter_errors=name == "kept") for name in ("kept", "s")
        ]
        azure = AzureConfig(topics=[TopicConfig("t", [*faulty, "all"])])
        async with Broker(azure=azure) as broker, broker.connect() as connection:
            async with connection.sender("t") as sender:
                await sender.send(Message(b"x"))
            for address in ("t/Subscriptions/all", "t/Subscriptions/kept/$DeadLetterQueue"):
                async with connection.receiver(address) as receiver:
                    dead = (await receiver.receive()).message
            assert dead.application_properties["DeadLetterReason"] == "FilterEvaluationException"
            assert dead.application_properties["DeadLetterErrorDescription"] == "broken filter"
            assert broker.azure.lose_locks("t/Subscriptions/s") == 0
        assert "a rule of 't/Subscriptions/s' failed" in caplog.text

    async def test_long_time_to_live(self) -> None:
        """A topic may keep messages for longer than the 49 days that a header can say."""
        azure = AzureConfig(topics=[TopicConfig("t", ["s"], ttl=90 * 86_400.0)])
        async with Broker(azure=azure) as broker, broker.connect() as connection:
            async with connection.sender("t") as sender:
                await sender.send(Message(b"x"))
            async with connection.receiver("t/Subscriptions/s") as receiver:
                message = (await receiver.receive()).message
            assert message.ttl == timedelta(milliseconds=2**32 - 1)

    async def test_receiving_from_a_topic(self) -> None:
        """The error says where its messages are."""
        azure = AzureConfig(topics=[TopicConfig("Fruit", ["red"])])
        async with Broker(azure=azure) as broker, broker.connect() as connection:
            with pytest.raises(LinkDetached, match="receive from its subscriptions: 'Fruit/Subscriptions/NAME'"):
                await connection.receiver("fruit").__aenter__()


class TestLimits:
    async def test_long_ids(self) -> None:
        """Ids of messages and sessions have 128 characters at most, as in Service Bus."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            async with connection.sender("orders") as sender:
                await sender.send(Message(b"x", message_id="i" * 128, group_id="g" * 128))
                wrong = {
                    "a message-id has": Message(b"x", message_id="i" * 129),
                    r"a group-id \(session id\) has": Message(b"x", group_id="g" * 129),
                }
                for said, message in wrong.items():
                    with pytest.raises(MessageRejected, match=f"{said} 128 characters at most, not 129") as refused:
                        await sender.send(message)
                    assert refused.value.condition == "com.microsoft:argument-error"

    async def test_reason_that_is_no_string(self) -> None:
        """The message stays locked, and can be settled as it should be."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            async with connection.sender("orders") as sender:
                await sender.send(Message(b"x"))
            async with connection.receiver("orders") as receiver:
                delivery = await receiver.receive()
                tokens = Array("uuid", [UUID(bytes_le=bytes(delivery.tag))])
                settle = {"disposition-status": "suspended", "lock-tokens": tokens, "deadletter-reason": 5}
                answer = await asked(connection, "update-disposition", settle)
                assert status(answer) == (400, "com.microsoft:argument-error")
                delivery.reject("com.microsoft:dead-letter", info={Symbol("DeadLetterReason"): 5})
                assert status(await asked(connection, "renew-lock", {"lock-tokens": tokens})) == (200, None)

    async def test_time_goes_on(self) -> None:
        """By a number of seconds, and not back."""
        async with Broker(azure=AzureConfig(["orders"])) as broker:
            before = broker.azure.clock()
            for seconds in (float("nan"), float("inf"), -1.0):
                with pytest.raises(ValueError, match=f"0 or more, not by {seconds}"):
                    broker.azure.advance(seconds)
            assert broker.azure.clock() - before < 3600

    async def test_missing_right(self) -> None:
        """The error names it."""
        rule = SasRule("send", "key", ["Send"])
        async with Broker(azure=AzureConfig(["orders"]), tokens=TokenRules([rule])) as broker:
            async with ServiceBus(connection_string(broker.url, rule)) as bus:
                async with bus.sender("orders") as sender:
                    await sender.send(Message(b"x"))
                with pytest.raises(
                    LinkDetached, match=r"read access to 'orders' .* a token with the right Listen allows it"
                ):
                    await bus.receiver("orders").__aenter__()


def test_no_store() -> None:
    """What would not be kept is not said to be."""
    with pytest.raises(ValueError, match="store and azure do not go together"):
        Broker(azure=AzureConfig(["orders"]), store="broker.db")


class TestManagement:
    async def test_lock(self) -> None:
        """A lock is renewed, and settled, by its token; when it is lost that is said (410)."""
        clock = Clock()
        config = AzureConfig([QueueConfig("orders", lock_duration=30.0)], clock=clock)
        async with Broker(azure=config) as broker, broker.connect() as connection:
            async with connection.sender("orders") as sender:
                await sender.send(Message(b"x"))
            async with connection.receiver("orders") as receiver:
                delivery = await receiver.receive()
                tokens = Array("uuid", [UUID(bytes_le=bytes(delivery.tag))])
                clock.now += 20
                answer = await asked(connection, "renew-lock", {"lock-tokens": tokens})
                assert status(answer) == (200, None)
                assert [end.timestamp() for end in answer.body["expirations"]] == [clock.now + 30]
                clock.now += 31
                settle = {"lock-tokens": tokens, "disposition-status": "completed"}
                lost = 410, "com.microsoft:message-lock-lost"
                assert status(await asked(connection, "update-disposition", settle)) == lost
                assert status(await asked(connection, "renew-lock", {"lock-tokens": tokens})) == lost

    @pytest.mark.parametrize(
        ("operation", "body"),
        [
            ("renew-lock", {}),
            ("renew-lock", {"lock-tokens": []}),
            ("renew-lock", {"lock-tokens": ["no uuid"]}),
            ("peek-message", {"from-sequence-number": "1", "message-count": 1}),
            ("peek-message", "no map"),
            ("schedule-message", {"messages": [{"message-id": "a"}]}),
            ("schedule-message", {"messages": [{"message": Message(b"no time").encode()}]}),
            ("schedule-message", {"messages": [3]}),
            ("cancel-scheduled-message", {"sequence-numbers": ["x"]}),
            ("receive-by-sequence-number", {"sequence-numbers": [1], "receiver-settle-mode": 7}),
            ("update-disposition", {"lock-tokens": [uuid4()], "disposition-status": "finished"}),
            ("update-disposition", {"lock-tokens": [uuid4()], "disposition-status": ["completed"]}),
        ],
    )
    async def test_malformed_request(self, operation: str, body: Any) -> None:
        """A request that makes no sense is answered (400), and does nothing."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            assert status(await asked(connection, operation, body)) == (400, "com.microsoft:argument-error")

    async def test_unknown_operation(self) -> None:
        """What it does not know it says (501)."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            assert status(await asked(connection, "brew-coffee", {})) == (501, "amqp:not-implemented")

    async def test_nothing_there(self) -> None:
        """Where there is nothing to peek at, the answer is empty (204)."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            answer = await asked(connection, "peek-message", {"from-sequence-number": 1, "message-count": 5})
            assert status(answer) == (204, None)

    async def test_no_link_for_the_answer(self) -> None:
        """A request is refused whose answer could go nowhere."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            async with connection.sender("orders/$management") as sender:
                with pytest.raises(MessageRejected, match="no link for the answer"):
                    await sender.send(Message({}, message_id="1"))

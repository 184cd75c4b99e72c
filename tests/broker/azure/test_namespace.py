from __future__ import annotations

import math
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import anyio
import pytest

from amqp10 import Anonymous, ConnectionGivenUp
from amqp10.azure import ServiceBus, ServiceBusError
from amqp10.broker import Broker, BrokerLimits, SasRule, TokenRules
from amqp10.broker.azure import (
    EMULATOR_RULE,
    AzureConfig,
    CorrelationRuleFilter,
    EventHubConfig,
    QueueConfig,
    Rule,
    SqlRuleFilter,
    SubscriptionConfig,
    TopicConfig,
    connection_string,
)
from amqp10.client import Connection
from amqp10.errors import AuthenticationFailed, LinkDetached, LocalProtocolError, MessageRejected
from amqp10.messaging import AmqpValue, Message, Source, Target
from amqp10.tokens import SasKey
from amqp10.types import Array, Symbol, Timestamp

from ...kit.azure.queue_bench import NOON
from ...kit.clock import Clock

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


async def test_tokens_for_what_is_not_there() -> None:
    """`$cbs` says what is not there to whoever has a valid token, and to nobody else."""
    config = AzureConfig(["orders"], [TopicConfig("events", ["all"])], event_hubs=[EventHubConfig("telemetry")])
    async with (
        Broker(None, azure=config, tokens=TokenRules([EMULATOR_RULE]), queues=["Own"]) as broker,
        broker.connect() as connection,
        connection.requester("$cbs", reply_to="$cbs") as requester,
    ):

        async def put(path: str, key: str = EMULATOR_RULE.key) -> tuple[int, Any]:
            audience = f"sb://ns/{path}"
            token = (await SasKey(EMULATOR_RULE.name, key).get_token(audience)).value
            said = {"operation": "put-token", "type": "servicebus.windows.net:sastoken", "name": audience}
            answer = await requester.request(Message(AmqpValue(token), application_properties=said))
            found = answer.application_properties
            return found["status-code"], found.get("error-condition")

        there = ["", "Orders", "orders/$management", "orders/$deadletterqueue", "events/Subscriptions/ALL", "own"]
        there += ["$management", "Telemetry/ConsumerGroups/$Default/Partitions/0", "telemetry/$management"]
        for path in there:
            assert await put(path) == (202, None), path
        for path in ("missing", "missing/$management", "events/Subscriptions/none", "orders/x"):
            assert await put(path) == (404, "amqp:not-found"), path
            assert await put(path, "wrong") == (401, "com.microsoft:auth-failed")


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

    async def test_without_tokens(self) -> None:
        """A client that has a token for a broker that takes none is told how to make one that does."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, ServiceBus(connection_string(broker.url)) as bus:
            with pytest.raises(AuthenticationFailed, match=r"takes no tokens\. Make it by Broker\(azure="):
                await bus.sender("orders").__aenter__()

    async def test_copies_are_refused(self) -> None:
        """There is a request for looking at messages; a link cannot."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            with pytest.raises(LinkDetached, match="peek at messages through the management node"):
                await connection.receiver(Source("orders", distribution_mode="copy")).__aenter__()

    async def test_older_dialects(self) -> None:
        """Their clients do not declare an entity, or lock messages of it; those that ask for none can send to it."""
        async with Broker(azure=AzureConfig(["orders"])) as broker:
            async with broker.connect(dialect="fast") as connection:
                async with connection.sender("orders") as sender:
                    await sender.send(Message("fast"))
                with pytest.raises(LinkDetached, match=r"only for receivers that speak AMQP 1\.0"):
                    await connection.receiver("orders").__aenter__()
            for dialect in ("0-9-1", "0-10"):
                async with broker.connect(dialect=dialect) as older:
                    with pytest.raises(LinkDetached, match="of another service"):
                        await older.receiver("orders").__aenter__()
            async with broker.connect() as usual, usual.receiver("orders") as receiver:
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
                with pytest.raises(MessageRejected, match=r"decode-error: .*must be a timestamp, not 'soon'"):
                    await sender.send(Message(b"x", message_annotations={"x-opt-scheduled-enqueue-time": "soon"}))


class Broken(dict[str, Any]):
    """Properties that fail when a message is compared with them."""

    def items(self) -> Any:
        raise RuntimeError("broken filter")


class TestTopics:
    async def test_a_rule_that_fails(self, caplog: pytest.LogCaptureFixture) -> None:
        """A fault in a rule is logged; the sender goes on, and so do the other subscriptions."""
        rules = [Rule("broken", CorrelationRuleFilter(properties=Broken(n=1)))]
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

    async def test_filtered_before_publishing(self) -> None:
        """A topic that filters first refuses what no subscription would get, scheduled or not, and takes the rest."""
        red = [SubscriptionConfig("red", rules=[Rule("r", SqlRuleFilter("color = 'red'"))])]
        topics = [TopicConfig("picky", red, filtering_messages_before_publishing=True), TopicConfig("other", red)]
        broker = Broker(azure=AzureConfig(topics=topics), tokens=TokenRules([EMULATOR_RULE]))
        async with broker, ServiceBus(connection_string(broker.url)) as bus:
            for topic in ("picky", "other"):
                async with bus.sender(topic) as sender:
                    await sender.send(Message(b"x", application_properties={"color": "red"}))
                    if topic == "other":
                        await sender.send(Message(b"y"))
                        continue
                    with pytest.raises(MessageRejected, match="no subscription of 'picky'") as refused:
                        await sender.send(Message(b"y"))
                    assert refused.value.condition == "com.microsoft:no-matching-subscription"
            async with bus.sender("picky") as sender:
                with pytest.raises(ServiceBusError, match="no subscription of 'picky'") as not_scheduled:
                    await sender.schedule(b"y", datetime.now(UTC) + timedelta(hours=1))
                assert not_scheduled.value.condition == "com.microsoft:no-matching-subscription"

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
                    "a message-id must have": Message(b"x", message_id="i" * 129),
                    r"a group-id \(session id\) must have": Message(b"x", group_id="g" * 129),
                }
                for said, message in wrong.items():
                    with pytest.raises(MessageRejected, match=f"{said} at most 128 characters, not 129") as refused:
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
                with pytest.raises(ValueError, match=f"0 or more, not {seconds}"):
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


class TestManagement:
    async def test_lock(self) -> None:
        """A lock is renewed, and settled, by its token; when it is lost that is said (410)."""
        clock = Clock(NOON)
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
            ("renew-lock", {"lock-tokens": ["no uuid"]}),
            ("peek-message", {"from-sequence-number": "1", "message-count": 1}),
            ("peek-message", "no map"),
            ("schedule-message", {"messages": [{"message-id": "a"}]}),
            ("schedule-message", {"messages": [{"message": Message(b"no time").encode()}]}),
            ("schedule-message", {"messages": [3]}),
            ("cancel-scheduled-message", {"sequence-numbers": ["x"]}),
            ("update-disposition", {"lock-tokens": [uuid4()], "disposition-status": "finished"}),
            ("update-disposition", {"lock-tokens": [uuid4()], "disposition-status": ["completed"]}),
        ],
    )
    async def test_malformed_request(self, operation: str, body: Any) -> None:
        """A request that makes no sense is answered (400), and does nothing."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            assert status(await asked(connection, operation, body)) == (400, "com.microsoft:argument-error")

    @pytest.mark.parametrize(
        ("operation", "body"),
        [
            ("renew-lock", {"lock-tokens": []}),
            ("receive-by-sequence-number", {"sequence-numbers": [1], "receiver-settle-mode": 7}),
            ("peek-message", {"from-sequence-number": 1, "message-count": 0}),
            ("get-message-sessions", {"last-updated-time": 0, "skip": -1, "top": 1}),
            ("batch-delete-messages", {"message-count": 4001, "enqueued-time-utc": 0}),
            ("cancel-scheduled-message", {"sequence-numbers": [1] * 1001}),
        ],
    )
    async def test_out_of_range(self, operation: str, body: Any) -> None:
        """So is one with a number that is too small or too large, with a condition of its own."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            assert status(await asked(connection, operation, body)) == (400, "com.microsoft:argument-out-of-range")

    async def test_delete_many(self) -> None:
        """The oldest active messages that came before a time are deleted at once; what is locked stays."""
        clock = Clock(NOON)
        async with Broker(azure=AzureConfig(["orders"], clock=clock)) as broker, broker.connect() as connection:
            async with connection.sender("orders") as sender:
                for number in range(5):
                    await sender.send(Message(number))
                    clock.now += 1
            async with connection.receiver("orders", credit=0) as receiver:
                receiver.add_credit(1)
                locked = await receiver.receive()
                before = Timestamp(int((clock.now - 1) * 1000))
                for count, deleted in ((2, 2), (9, 1), (9, 0)):
                    body = {"message-count": count, "enqueued-time-utc": before}
                    answer = await asked(connection, "batch-delete-messages", body)
                    assert (status(answer), answer.body) == ((200, None), {"message-count": deleted})
                locked.accept()
                receiver.add_credit(1)
                assert (await receiver.receive()).message.body == 4

    @pytest.mark.parametrize(
        ("condition", "code"),
        [
            ("com.microsoft:server-busy", 503),
            ("com.microsoft:auth-failed", 401),
            ("com.microsoft:operation-cancelled", 500),
            ("com.microsoft:container-close", 503),
            ("com.microsoft:precondition-failed", 412),
            ("com.microsoft:something-new", 400),
        ],
    )
    async def test_refused_on_demand(self, condition: str, code: int) -> None:
        """The next messages, links and requests are refused under the condition that a test says."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            broker.azure.refuse_next("orders", 1, condition)
            answer = await asked(connection, "peek-message", {"from-sequence-number": 1, "message-count": 1})
            assert status(answer) == (code, condition)
            async with connection.sender("orders") as sender:
                broker.azure.refuse_next("orders", 1, condition)
                with pytest.raises(MessageRejected) as refused:
                    await sender.send(Message(b"x"))
                assert refused.value.condition == condition
                await sender.send(Message(b"x"))

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


class TestSql:
    """What a rule computes beside comparisons."""

    async def test_parameters_and_functions(self) -> None:
        """Names with "@" stand for values; `newid()` makes an id, and `property(...)` reads one by a computed name."""
        condition = SqlRuleFilter(
            "color = @color AND n < @most AND property(which) = @wanted",
            {
                "@color": "red",
                "@most": 5,
                "@wanted": "yes",
            },
        )
        action = "SET sys.MessageId = newid(); SET id = newid(); SET copied = p('sys.Label'); SET said = @said"
        rule = Rule("r", condition, action, action_parameters={"@said": True})
        topic = TopicConfig("events", [SubscriptionConfig("s", rules=[rule])])
        async with Broker(azure=AzureConfig(topics=[topic])) as broker, broker.connect() as connection:
            said = {"color": "red", "n": 4, "which": "a", "a": "yes"}
            async with connection.sender("events") as sender:
                for changed in ({"n": 5}, {"color": "blue"}, {"which": "n"}, {"which": ""}, {"which": 1}, {}):
                    await sender.send(Message(b"x", subject="label", application_properties={**said, **changed}))
            async with connection.receiver("events/Subscriptions/s") as receiver:
                message = (await receiver.receive()).message
        properties = message.application_properties
        assert UUID(str(message.message_id)) != properties.pop("id")
        assert properties == {**said, "copied": "label", "said": True}

    @pytest.mark.parametrize(
        ("expression", "message"),
        [
            ("color = @other", "character 9: the parameter @other has no value"),
            ("newid(1) = color", "expected \\)"),
            ("property() = 1", "expected a value"),
        ],
    )
    def test_wrong(self, expression: str, message: str) -> None:
        """What is wrong with it is said when it is configured."""
        with pytest.raises(ValueError, match=message):
            SubscriptionConfig("s", rules=[Rule("r", SqlRuleFilter(expression, {"@color": "red"}))])
        with pytest.raises(ValueError, match='must begin with "@"'):
            SqlRuleFilter("color = @color", {"color": "red"})

    async def test_properties_of_these_names(self) -> None:
        """A property may be called as a function is."""
        rules = [Rule("r", SqlRuleFilter("p = 1 AND newid = 2 AND property = 3"))]
        topic = TopicConfig("events", [SubscriptionConfig("s", rules=rules)])
        async with Broker(azure=AzureConfig(topics=[topic])) as broker, broker.connect() as connection:
            async with connection.sender("events") as sender:
                await sender.send(Message(b"x", application_properties={"p": 1, "newid": 2, "property": 3}))
            async with connection.receiver("events/Subscriptions/s") as receiver:
                assert (await receiver.receive()).message.body == b"x"

    async def test_not_by_amqp(self) -> None:
        """The client's request has no place for parameters, so that it refuses them."""
        tokens = TokenRules([SasRule("all", "key")])
        topic = TopicConfig("events", [SubscriptionConfig("s")])
        async with Broker(azure=AzureConfig(topics=[topic]), tokens=tokens) as broker:
            async with ServiceBus(connection_string(broker.url, SasRule("all", "key"))) as bus:
                for rule in (Rule("r", SqlRuleFilter("a = @a", {"@a": 1})), Rule("r", action_parameters={"@a": 1})):
                    with pytest.raises(ValueError, match="has parameters, which AMQP cannot carry"):
                        await bus.rules("events", "s").add(rule)


def there(broker: Broker, address: str) -> bool:
    """Whether the entity is there."""
    try:
        broker.azure.refuse_next(address, 0)
    except KeyError:
        return False
    return True


class TestIdle:
    async def test_deleted(self) -> None:
        """What nobody used for its time is gone, a topic with its subscriptions; what is in use stays."""
        clock = Clock(NOON)
        idle: dict[str, Any] = {"auto_delete_on_idle": 300.0}
        queues = [QueueConfig(name, **idle) for name in ("unused", "sent-to", "received", "due-later", "peeked")]
        config = AzureConfig(
            [*queues, "stays"],
            [
                TopicConfig("quiet", [SubscriptionConfig("all")], **idle),
                TopicConfig("busy", [SubscriptionConfig("on", **idle), SubscriptionConfig("off", **idle)], **idle),
                TopicConfig("passed", [SubscriptionConfig("on", **idle, forward_to="stays")], **idle),
            ],
            clock=clock,
        )
        before = {*(each.name for each in queues), *(each.name for each in config.topics), "stays"}
        before |= {f"{on}/Subscriptions/on" for on in ("busy", "passed")}
        before |= {"quiet/Subscriptions/all", "busy/Subscriptions/off"}
        async with AsyncExitStack() as stack:
            broker = await stack.enter_async_context(Broker(azure=config, tokens=TokenRules([EMULATOR_RULE])))
            bus = await stack.enter_async_context(ServiceBus(connection_string(broker.url), clock=clock))

            def left() -> set[str]:
                return {name for name in before if there(broker, name)}

            async with AsyncExitStack() as links:
                used = await links.enter_async_context(bus.sender("sent-to"))
                for receiving in ("received", "busy/Subscriptions/on"):
                    await links.enter_async_context(bus.receiver(receiving))
                later = datetime.fromtimestamp(clock.now, UTC) + timedelta(hours=1)
                async with bus.sender("due-later") as sender:
                    await sender.schedule(b"x", later)
                broker.azure.advance(200)
                await used.send(Message(b"x"))
                async with bus.receiver("peeked") as receiver:
                    await receiver.peek()
                broker.azure.advance(99)
                assert left() == before
                broker.azure.advance(1)
                gone = {"unused", "quiet", "quiet/Subscriptions/all", "busy/Subscriptions/off"}
                assert left() == before - gone
            broker.azure.advance(200)
            assert before - left() == {*gone, "sent-to", "peeked"}
            broker.azure.advance(100)
            assert left() == {"stays", "due-later", "passed", "passed/Subscriptions/on"}

    def test_too_short(self) -> None:
        """Service Bus takes five minutes at least."""
        with pytest.raises(ValueError, match="auto_delete_on_idle must be at least 300 seconds, or None, not 299"):
            QueueConfig("q", auto_delete_on_idle=299)
        with pytest.raises(ValueError, match="auto_delete_on_idle"):
            TopicConfig("t", auto_delete_on_idle=math.inf)


class TestTime:
    async def test_no_token(self) -> None:
        """A connection without a token is closed after 20 s of the emulator's clock."""
        rule = SasRule("all", "key")
        tokens = TokenRules([rule], required=True)
        async with Broker(azure=AzureConfig(["orders"]), tokens=tokens) as broker:
            async with (
                ServiceBus(connection_string(broker.url, rule)) as bus,
                bus.receiver("orders") as receiver,
                broker.connect(sasl=Anonymous()) as connection,
            ):
                broker.azure.advance(21)
                with anyio.fail_after(60):
                    told = [event async for event in connection.events() if isinstance(event, ConnectionGivenUp)]
                assert "no valid token was put for 20 s" in str(told[0].cause)
                async with bus.sender("orders") as sender:  # who has put one stays
                    await sender.send(Message(b"x"))
                await (await receiver.receive()).complete()

    async def test_many_sessions(self) -> None:
        """One connection has as many sessions as in Azure, for some SDKs have one for each link; or as it is said."""
        async with Broker(azure=AzureConfig(["orders"])) as broker, broker.connect() as connection:
            async with AsyncExitStack() as stack:
                for _ in range(300):
                    session = await stack.enter_async_context(connection.session())
                async with session.sender("orders") as sender:
                    await sender.send(Message(b"x"))
        few = Broker(azure=AzureConfig(["orders"]), limits=BrokerLimits(sessions=20))
        async with few as broker, broker.connect() as connection, AsyncExitStack() as stack:
            with pytest.raises(LocalProtocolError, match="allows 20 sessions"):
                for _ in range(21):
                    await stack.enter_async_context(connection.session())

    async def test_asker_of_an_entity_that_is_deleted(self) -> None:
        """Who waits for a session of a queue that is deleted is told so."""
        config = AzureConfig([QueueConfig("orders", requires_session=True)])
        async with Broker(azure=config) as broker, broker.connect() as connection:
            source = Source("orders", filter={Symbol("com.microsoft:session-filter"): None})

            async def ask() -> None:
                with anyio.fail_after(60), pytest.raises(LinkDetached) as refused:
                    await connection.receiver(source).__aenter__()
                assert refused.value.condition == "amqp:resource-deleted"

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                url = broker.azure.administration(port=0)
                async with url as address:
                    assert await deleted(address, "orders") == 200


async def deleted(url: str, name: str) -> int:
    """The status of a request to delete a queue."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    async with await anyio.connect_tcp(host, int(port)) as stream:
        await stream.send(f"DELETE /{name}?api-version=2021-05 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return int((await stream.receive()).split()[1])

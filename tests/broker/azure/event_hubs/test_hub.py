"""Event hubs as any AMQP 1.0 client sees them, and what Microsoft's SDK for Python has no word for."""

from __future__ import annotations

import random
import string
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote_plus
from uuid import uuid4

import anyio
import pytest
from azure.eventhub._buffered_producer._partition_resolver import generate_hash_code

from amqp10.azure import EventHub
from amqp10.broker import Broker, JwtKey, SasRule, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, EventHubConfig, connection_string
from amqp10.broker.azure._event_hubs.partition_keys import partition_of
from amqp10.client import Connection, Receiver
from amqp10.errors import ConnectionClosed, LinkDetached, LocalProtocolError, ManagementError, MessageRejected
from amqp10.messaging import AmqpValue, Data, Message, Source, Target
from amqp10.tokens import sas_signature
from amqp10.types import Described, Symbol

from ....kit.azure.queue_bench import NOON
from ....kit.clock import Clock
from ....kit.token_rig import SECRET, jwt

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("Event Hubs emulator")]

BATCH = 0x80013700
SELECTOR = "apache.org:selector-filter:string"
KEY = "x-opt-partition-key"
READER = "hub/ConsumerGroups/$Default/Partitions/0"


@asynccontextmanager
async def namespace(config: EventHubConfig | None = None, **settings: Any) -> AsyncIterator[tuple[Broker, Connection]]:
    """A broker with one hub, of one partition unless otherwise said, and a connection to it."""
    azure = AzureConfig(event_hubs=[config or EventHubConfig("hub", 1)], clock=Clock(NOON))
    async with Broker(azure=azure, **settings) as broker, broker.connect() as connection:
        yield broker, connection


async def send(connection: Connection, address: str, *messages: Message, message_format: int = 0) -> None:
    async with connection.sender(address) as sender:
        for message in messages:
            await sender.send_encoded(message.encode(), message_format=message_format)


async def read(connection: Connection, count: int, said: str | None = None, address: str = READER) -> list[Message]:
    filters = None if said is None else {Symbol(SELECTOR): Described(Symbol(SELECTOR), said)}
    with anyio.fail_after(60):
        async with connection.receiver(Source(address, filter=filters)) as receiver:
            return [(await receiver.receive()).message for _ in range(count)]


def batch(*messages: Message, key: str | None = None) -> Message:
    annotations = {KEY: key} if key is not None else {}
    return Message(Data(*(message.encode() for message in messages)), message_annotations=annotations)


def code_of(key: str) -> int:
    """What the buffered producer of Microsoft's SDK computes of a key."""
    return int(generate_hash_code(key))  # type: ignore[no-untyped-call]


class TestKeys:
    def test_as_the_sdk_computes_them(self) -> None:
        """A key means the partition that Azure's own clients compute; short ones, long ones, of any octets."""
        source = random.Random(22)
        for _ in range(2000):
            key = "".join(source.choice(string.printable) for _ in range(source.randint(1, 60)))
            assert partition_of(key, 32) == abs(code_of(key)) % 32

    def test_beyond_ascii(self) -> None:
        """A key is hashed as UTF-8."""
        assert partition_of("é", 1 << 15) == abs(code_of("é".encode().decode("latin-1")))
        assert partition_of("", 7) == 0


class TestEvents:
    async def test_what_the_service_says(self) -> None:
        """It says number, offset and time of an event, whatever the sender said of that; the rest stays."""
        claimed = {"x-opt-sequence-number": 99, "x-opt-offset": "7", "mine": 1, KEY: "k"}
        async with namespace() as (_, connection):
            await send(connection, "hub", Message(b"x", message_annotations=claimed, subject="s"))
            [event] = await read(connection, 1)
        said = event.message_annotations
        assert (said["x-opt-sequence-number"], said["x-opt-offset"], said["mine"], said[KEY]) == (0, "0", 1, "k")
        assert said["x-opt-enqueued-time"].timestamp() == NOON
        assert (event.body, event.subject) == (b"x", "s")

    async def test_key_of_a_batch(self) -> None:
        """The key of a batch is that of its events, whatever they say themselves."""
        async with namespace(EventHubConfig("hub", 8)) as (_, connection):
            events = [Message(b"a"), Message(b"b", message_annotations={KEY: "other"})]
            await send(connection, "hub", batch(*events, key="key"), message_format=BATCH)
            address = READER[:-1] + str(partition_of("key", 8))
            found = await read(connection, 2, address=address)
        assert [(event.body, event.message_annotations[KEY]) for event in found] == [(b"a", "key"), (b"b", "key")]

    async def test_all_or_nothing(self) -> None:
        """Of a batch with something in it that is no event, nothing is taken."""
        async with namespace() as (_, connection):
            wrong = Message(Data(Message(b"a").encode(), b"nonsense"))
            with pytest.raises(MessageRejected, match="decode-error"):
                await send(connection, "hub", wrong, message_format=BATCH)
            await send(connection, "hub", Message(b"b"))
            assert [event.body for event in await read(connection, 1)] == [b"b"]

    @pytest.mark.parametrize("key", [1, b"k", "k" * 129])
    async def test_wrong_key(self, key: object) -> None:
        """A partition key is a string of at most 128 characters."""
        async with namespace() as (_, connection):
            with pytest.raises(MessageRejected, match="at most 128 characters"):
                await send(connection, "hub", Message(b"x", message_annotations={KEY: key}))

    async def test_too_large(self) -> None:
        """A link takes events of 1 MiB at most, and says so; a message by its own address is refused for that, too."""
        large = b"x" * 1_100_000
        async with namespace() as (_, connection):
            for address in ("hub", "hub/Partitions/0", "hub/Publishers/p"):
                async with connection.sender(address) as sender:
                    with pytest.raises(LocalProtocolError, match="max-message-size of 1048576"):
                        await sender.send(Message(large))
            async with connection.sender(None) as sender:
                with pytest.raises(MessageRejected, match="at most 1048576 octets"):
                    await sender.send(Message(large, to="hub"))

    async def test_too_many(self) -> None:
        """A batch of very many small events is refused, instead of keeping all others waiting."""
        many = Message(Data(*[Message(b"").encode()] * 50_001))
        async with namespace() as (_, connection):
            with pytest.raises(MessageRejected, match="at most 50000 messages"):
                await send(connection, "hub", many, message_format=BATCH)

    async def test_transactions(self) -> None:
        """There are none, as in Event Hubs."""
        async with namespace() as (_, connection), connection.sender("hub") as sender:
            with pytest.raises(MessageRejected, match="does not support transactions"):
                async with connection.transaction() as transaction:
                    await sender.send(Message(b"x"), transaction=transaction)

    @pytest.mark.parametrize("address", ["hub", "hub/Partitions/0"])
    async def test_has_no_locks(self, address: str) -> None:
        """Who wants them to be lost is told so, and not that there is no such hub."""
        async with namespace() as (broker, _):
            with pytest.raises(KeyError, match=f"'{address}' is in an event hub, where nothing is locked"):
                broker.azure.lose_locks(address)

    async def test_no_room(self) -> None:
        """A hub that keeps all lets senders wait when it is full; what it has is read all the same."""
        async with namespace(EventHubConfig("hub", 1, retention=None), max_queue_messages=3) as (_, connection):
            async with connection.sender("hub") as sender:
                for number in range(3):
                    await sender.send(Message(number))
                with anyio.move_on_after(0.05) as scope:
                    await sender.send(Message(3))
                assert scope.cancelled_caught
            assert [event.body for event in await read(connection, 3)] == [0, 1, 2]


class TestPublishers:
    async def test_key_is_the_name(self) -> None:
        """All events of a publisher have its name as key, and say who they are from."""
        async with namespace(EventHubConfig("hub", 8)) as (_, connection):
            await send(connection, "HUB/publishers/sensor-1", Message(b"a"), Message(b"b"))
            await send(connection, "hub/Publishers/sensor-1", batch(Message(b"c")), message_format=BATCH)
            found = await read(connection, 3, address=READER[:-1] + str(partition_of("sensor-1", 8)))
        assert [event.body for event in found] == [b"a", b"b", b"c"]
        assert {event.message_annotations[KEY] for event in found} == {"sensor-1"}
        assert {event.message_annotations["x-opt-publisher"] for event in found} == {"sensor-1"}

    async def test_no_other_key(self) -> None:
        """A publisher cannot send with another key."""
        async with namespace() as (_, connection):
            with pytest.raises(MessageRejected, match="partition key of a publisher must be its name 'p'"):
                await send(connection, "hub/Publishers/p", Message(b"x", message_annotations={KEY: "other"}))

    async def test_gone_with_its_links(self) -> None:
        """What a publisher's links lead to ends with the last of them; any number may come one after another."""
        async with namespace() as (broker, connection):
            for number in range(broker.connections + 20):
                await send(connection, f"hub/Publishers/p{number}", Message(number))
            async with connection.sender("hub/Publishers/p") as first:
                await send(connection, "hub/Publishers/p", Message(b"x"))
                await first.send(Message(b"y"))
            assert len(await read(connection, 23)) == 23


class TestAddresses:
    @pytest.mark.parametrize(
        ("address", "condition"),
        [
            ("hub/Partitions/1", "argument-out-of-range"),
            ("hub/Partitions/00", "argument-out-of-range"),
            ("hub/Publishers/", "not-found"),
            ("hub/ConsumerGroups/$Default", "not-found"),
            ("hub/other", "not-found"),
            ("other", "not-found"),
        ],
    )
    async def test_no_place_to_send_to(self, address: str, condition: str) -> None:
        """What is no address of a hub is refused."""
        async with namespace() as (_, connection):
            with pytest.raises(LinkDetached, match=condition):
                await connection.sender(address).__aenter__()

    @pytest.mark.parametrize(
        ("address", "condition"),
        [
            ("hub", "not-allowed"),
            ("hub/Partitions/0", "not-allowed"),
            ("hub/Publishers/p", "not-allowed"),
            ("hub/ConsumerGroups/$Default", "not-allowed"),
            ("hub/ConsumerGroups/other/Partitions/0", "not-found"),
            ("hub/ConsumerGroups/$Default/Partitions/1", "argument-out-of-range"),
        ],
    )
    async def test_no_place_to_read_from(self, address: str, condition: str) -> None:
        """Events are read from partitions, by consumer groups."""
        async with namespace() as (_, connection):
            with pytest.raises(LinkDetached, match=condition):
                await connection.receiver(address).__aenter__()

    async def test_no_such_hub(self) -> None:
        """It is not found, whatever is asked of it: the token for it is refused."""
        async with Broker(azure=AzureConfig(["orders"]), tokens=TokenRules([EMULATOR_RULE])) as broker:
            async with EventHub(connection_string(broker.url) + ";EntityPath=missing") as hub:
                with pytest.raises(LinkDetached, match=r"not-found: .*/missing' could not be found"):
                    await hub.properties()
                with pytest.raises(LinkDetached, match=r"not-found: .*/missing' could not be found"):
                    await hub.reader("0").__aenter__()

    async def test_older_dialects(self) -> None:
        """A partition is not to be consumed from by its name in 0-9-1 either."""
        azure = AzureConfig(event_hubs=[EventHubConfig("hub", 1)])
        async with Broker(azure=azure) as broker, Connection(broker.url, dialect="0-9-1") as connection:
            with pytest.raises(ConnectionClosed, match="events are read from hub/ConsumerGroups"):
                async with connection.receiver("hub/Partitions/0") as receiver:
                    await receiver.receive()


class TestPositions:
    @pytest.mark.parametrize(
        ("said", "bodies"),
        [
            (None, [0, 1, 2]),
            ("amqp.annotation.x-opt-offset > '-1'", [0, 1, 2]),
            ("amqp.annotation.x-opt-offset > '0'", [1, 2]),
            ("amqp.annotation.x-opt-offset >= '64'", [1, 2]),
            ("amqp.annotation.x-opt-offset >= '1'", [1, 2]),
            ("amqp.annotation.x-opt-sequence-number > '-1'", [0, 1, 2]),
            ("amqp.annotation.x-opt-sequence-number > 1", [2]),
            ("amqp.annotation.x-opt-sequence-number>='1'", [1, 2]),
            (f"amqp.annotation.x-opt-enqueued-time >= '{NOON * 1000:.0f}'", [0, 1, 2]),
            (f"amqp.annotation.x-opt-enqueued-time > '{NOON * 1000 - 1:.0f}'", [0, 1, 2]),
            (f"amqp.annotation.x-opt-enqueued-time > '{NOON * 1000:.0f}'", [2]),
        ],
    )
    async def test_each(self, said: str | None, bodies: list[int]) -> None:
        """A reader begins where its filter says, or with the first event."""
        async with namespace() as (broker, connection):
            await send(connection, "hub", Message(0), Message(1))
            broker.azure.advance(1)
            await send(connection, "hub", Message(2))
            assert [event.body for event in await read(connection, len(bodies), said)] == bodies

    @pytest.mark.parametrize("said", ["", "color = 'red'", "amqp.annotation.x-opt-offset > '-2'", "x" * 10_000])
    async def test_nonsense(self, said: str) -> None:
        """Another selector than of a position is refused, instead of being passed over."""
        async with namespace() as (_, connection):
            with pytest.raises(LinkDetached, match="argument-error"):
                await read(connection, 1, said)

    async def test_next_one(self) -> None:
        """The event behind the last one may be named before it came, and none behind that."""
        async with namespace() as (_, connection):
            await send(connection, "hub", Message(0))
            said = "amqp.annotation.x-opt-sequence-number {} '{}'"
            with pytest.raises(LinkDetached, match="sequence number 1 is beyond the last one"):
                await read(connection, 1, said.format(">", 1))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, connection, 1, said.format(">=", 1))
                await anyio.wait_all_tasks_blocked()
                await send(connection, "hub", Message(1))


class TestReaders:
    @asynccontextmanager
    async def reader(self, connection: Connection, epoch: object = None) -> AsyncIterator[Receiver]:
        properties = {} if epoch is None else {"com.microsoft:epoch": epoch, "com.microsoft:receiver-name": "me"}
        async with connection.receiver(READER, properties=properties) as receiver:
            yield receiver

    async def test_stolen_across_connections(self) -> None:
        """A higher owner level takes the partition from another connection at once, and says who has it now."""
        async with namespace() as (broker, connection), broker.connect() as other:
            await send(connection, "hub", Message(0))
            async with self.reader(connection, 1) as first:
                await first.receive()
                async with self.reader(other, 2) as second:
                    assert (await second.receive()).message.body == 0
                    with pytest.raises(LinkDetached, match=r"stolen: the reader 'me' with the owner level 2"):
                        await first.receive()

    @pytest.mark.parametrize("epoch", [-1, "1", True, 1.0])
    async def test_no_level(self, epoch: object) -> None:
        """An owner level is a number."""
        async with namespace() as (_, connection):
            with pytest.raises(LinkDetached, match="argument-error"):
                await self.reader(connection, epoch).__aenter__()

    async def test_wrong_position_steals_nothing(self) -> None:
        """Who cannot be let in takes nothing from others."""
        async with namespace() as (_, connection):
            async with self.reader(connection, 1) as first:
                wrong = {Symbol(SELECTOR): Described(Symbol(SELECTOR), "amqp.annotation.x-opt-offset > '1000'")}
                source = Source(READER, filter=wrong)
                with pytest.raises(LinkDetached, match="argument-error"):
                    await connection.receiver(source, properties={"com.microsoft:epoch": 5}).__aenter__()
                await send(connection, "hub", Message(0))
                assert (await first.receive()).message.body == 0

    async def test_drained(self) -> None:
        """A reader that asks for what there is just now is told when that was all."""
        async with namespace() as (_, connection):
            await send(connection, "hub", Message(0))
            async with connection.receiver(READER, credit=0) as receiver:
                receiver.add_credit(5)
                await receiver.drain()
                assert (receiver.buffered, receiver.credit) == (1, 0)

    async def test_outcomes_mean_nothing(self) -> None:
        """Whatever a reader says of an event, it stays."""
        async with namespace() as (_, connection):
            await send(connection, "hub", Message(0))
            async with connection.receiver(READER) as receiver:
                (await receiver.receive()).reject()
            assert [event.body for event in await read(connection, 1)] == [0]


def sas_token(resource: str, rule: str = "all", key: str = "k", ends: float = NOON + 60) -> str:
    encoded, expiry = quote_plus(resource), f"{ends:.0f}"
    signature = quote_plus(sas_signature(key, encoded, expiry))
    return f"SharedAccessSignature sr={encoded}&sig={signature}&se={expiry}&skn={rule}"


class TestManagement:
    async def asked(self, connection: Connection, node: str = "$management", **said: Any) -> Message:
        request = Message(AmqpValue(None), message_id=uuid4(), reply_to="here", application_properties=said)
        with anyio.fail_after(60):
            async with connection.receiver(node, target=Target("here")) as answers, connection.sender(node) as sender:
                await sender.send(request)
                answer = (await answers.receive()).message
        assert answer.correlation_id == request.message_id
        return answer

    async def test_hub(self) -> None:
        """A hub tells what it is, at the namespace's node and at its own."""
        async with namespace(EventHubConfig("Hub", 2)) as (_, connection):
            for node in ("$management", "hub/$Management"):
                answer = await self.asked(connection, node, operation="READ", type="com.microsoft:eventhub", name="HUB")
                assert answer.application_properties["status-code"] == 200
                assert answer.body["partition_ids"] == ["0", "1"]
                assert (answer.body["name"], answer.body["partition_count"]) == ("Hub", 2)
                assert answer.body["created_at"].timestamp() == NOON

    @pytest.mark.parametrize(
        ("token", "status"),
        [
            (sas_token("amqp://here/Hub"), 200),
            (sas_token("amqp://here/"), 200),
            (sas_token("amqp://here/other"), 401),
            (sas_token("amqp://here/hub", "listen"), 200),
            (sas_token("amqp://here/hub", ends=NOON - 1), 401),
            (sas_token("amqp://here/hub", key="wrong"), 401),
            (sas_token("no URI"), 401),
            (jwt({"exp": NOON + 60, "scope": "read:*/*"}), 200),
            (jwt({"exp": NOON + 60, "scope": "read:*/other"}), 401),
            (jwt({"exp": NOON + 60, "scope": "read:*/*"}, "wrong"), 401),
            ("SharedAccessSignature nonsense", 401),
            (1, 401),
            (None, 401),
        ],
    )
    async def test_by_the_token_of_a_request(self, token: object, status: int) -> None:
        """A request that carries a token needs none at `$cbs`, as Microsoft's SDK for Java has it; it counts once."""
        sas = [SasRule("all", "k"), SasRule("listen", "k", ["Listen"])]
        rules = TokenRules(sas, [JwtKey(SECRET)], clock=Clock(NOON))
        async with namespace(EventHubConfig("hub", 2), tokens=rules) as (_, connection):
            read = {"operation": "READ", "type": "com.microsoft:eventhub", "name": "hub"}
            answer = await self.asked(connection, **read, security_token=token)
            assert answer.application_properties["status-code"] == status
            answer = await self.asked(connection, **read)
            assert answer.application_properties["status-code"] == 401

    async def test_by_the_draft(self) -> None:
        """`connection.management()` asks there, too, when it is told where the answers come from."""
        async with namespace(EventHubConfig("hub", 2)) as (_, connection):
            async with connection.management(reply_to="$management") as management:
                answer = await management.request("READ", "com.microsoft:partition", "hub", partition="1")
                assert answer.body["is_partition_empty"]
                with pytest.raises(ManagementError, match="404: there is no event hub 'other'"):
                    await management.request("READ", "com.microsoft:eventhub", "other")

    @pytest.mark.parametrize(
        ("said", "status", "condition"),
        [
            ({}, 501, "amqp:not-implemented"),
            ({"operation": "DELETE"}, 501, "amqp:not-implemented"),
            ({"operation": "READ", "type": "com.microsoft:other", "name": "hub"}, 501, "amqp:not-implemented"),
            ({"operation": "READ", "type": "com.microsoft:eventhub"}, 400, "com.microsoft:argument-error"),
            ({"operation": "READ", "type": "com.microsoft:eventhub", "name": 1}, 400, "com.microsoft:argument-error"),
            ({"operation": "READ", "type": "com.microsoft:eventhub", "name": "other"}, 404, "amqp:not-found"),
            (
                {"operation": "READ", "type": "com.microsoft:partition", "name": "hub"},
                400,
                "com.microsoft:argument-out-of-range",
            ),
            (
                {"operation": "READ", "type": "com.microsoft:partition", "name": "hub", "partition": 0},
                400,
                "com.microsoft:argument-out-of-range",
            ),
        ],
    )
    async def test_wrong_requests(self, said: dict[str, Any], status: int, condition: str) -> None:
        """A request that makes no sense is answered with what is wrong."""
        async with namespace() as (_, connection):
            answer = await self.asked(connection, **said)
            properties = answer.application_properties
            assert (properties["status-code"], str(properties["error-condition"])) == (status, condition)


class TestIdle:
    async def test_sender(self) -> None:
        """A sender is detached after half an hour without an event, as Azure's is."""
        async with namespace() as (broker, connection), connection.sender("hub") as idle:
            await idle.send(Message(0))
            async with connection.sender("hub/Partitions/0") as other:
                broker.azure.advance(1799)
                await other.send(Message(1))  # the hub, by this connection, is in use
                broker.azure.advance(1799)
                await idle.send(Message(2))
                broker.azure.advance(1800)
                for sender in (idle, other):
                    with pytest.raises(LinkDetached, match=r"AmqpEventHubPublisher\.IdleTimerExpired.*00:30:00"):
                        await sender.send(Message(3))

    async def test_reader(self) -> None:
        """So is a reader without credit; one that waits for events stays."""
        async with namespace() as (broker, connection):
            async with connection.receiver(READER) as waits, connection.receiver(READER, credit=0) as idle:
                broker.azure.advance(1800)
                with anyio.fail_after(60), pytest.raises(LinkDetached, match=r"AmqpEventHubConsumer\.IdleTimerExpired"):
                    await idle.receive()
                await send(connection, "hub", Message(1))
                assert (await waits.receive()).message.body == 1

    async def test_never(self) -> None:
        """Where the configuration says so they stay."""
        azure = AzureConfig(event_hubs=[EventHubConfig("hub", 1)], hub_idle_timeout=None, clock=Clock(NOON))
        async with Broker(azure=azure) as broker, broker.connect() as connection:
            async with connection.sender("hub") as sender:
                broker.azure.advance(100_000)
                await sender.send(Message(0))
            assert [event.body for event in await read(connection, 1)] == [0]

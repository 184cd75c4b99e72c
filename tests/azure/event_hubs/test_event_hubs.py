"""Event Hubs, as its users hold it: events, batches, positions, owner levels and metadata, against the emulator."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from amqp10 import (
    DecodeError,
    EventPosition,
    LinkDetached,
    ManagementError,
    Message,
    MessageRejected,
    Reconnect,
    RemoteProtocolError,
    SasKey,
)
from amqp10.azure import EventHub, OwnershipLost, ReceivedEvent
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, EventHubConfig, connection_string
from amqp10.testing import FaultProxy

from ...kit.azure.malformed_events import MALFORMED, pass_on_malformed
from ...kit.inside.broker import management as node

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("Event Hubs client")]

QUICK = Reconnect(initial_delay=0.01, max_delay=0.05, jitter=0)
CONFIG = AzureConfig(event_hubs=[EventHubConfig("telemetry", 2, ["audit"])])


@asynccontextmanager
async def emulating() -> AsyncIterator[Broker]:
    """Run an emulator that lets nobody in without a token."""
    with anyio.fail_after(60):
        async with Broker(azure=CONFIG, tokens=TokenRules([EMULATOR_RULE], required=True)) as broker:
            yield broker


@asynccontextmanager
async def emulated(**settings: Any) -> AsyncIterator[tuple[EventHub, Any]]:
    """Run an emulator, and a client of it; yield the client, and what moves the emulator's clock."""
    async with emulating() as broker:
        async with EventHub(connection_string(broker.url), "telemetry", **{"reconnect": QUICK, **settings}) as hub:
            yield hub, broker.azure


async def put(hub: EventHub, *events: object, partition: str = "0") -> None:
    async with hub.sender(partition=partition) as sender:
        assert await sender.send_many(events) == len(events)


async def take(hub: EventHub, count: int, partition: str = "0", **how: Any) -> list[ReceivedEvent]:
    async with hub.reader(partition, **how) as reader:
        return [await reader.receive() for _ in range(count)]


class TestMaking:
    def test_where(self) -> None:
        """A hub is named, or the connection string has it; a namespace wants a credential."""
        text = connection_string("amqp://127.0.0.1:5673", entity="telemetry")
        assert EventHub(text).name == "telemetry"
        assert EventHub(text, "Telemetry").name == "Telemetry"
        assert EventHub("mine.servicebus.windows.net", "hub", SasKey("policy", "key")).name == "hub"
        assert "hub" in repr(EventHub("mine.servicebus.windows.net", "hub", SasKey("policy", "key")))

    @pytest.mark.parametrize(
        ("arguments", "settings", "words"),
        [
            ((connection_string("amqp://127.0.0.1"),), {}, "hub must be the name of an event hub"),
            ((connection_string("amqp://127.0.0.1"), "a/b"), {}, "hub must be the name of an event hub"),
            (("mine.servicebus.windows.net", "hub"), {}, "give a credential"),
            ((connection_string("amqp://h", entity="a"), "b"), {}, "for 'a' alone.*'b' is asked for"),
            ((connection_string("amqp://h"), "hub"), {"tokens": None}, "the credential determines tokens and sasl"),
            ((connection_string("amqp://h"), "hub"), {"request_timeout": 0}, "request_timeout must be more"),
        ],
    )
    def test_wrong(self, arguments: Any, settings: Any, words: str) -> None:
        """What makes no sense is said, without the key."""
        with pytest.raises(ValueError, match=words) as raised:
            EventHub(*arguments, **settings)
        assert "SAS_KEY" not in str(raised.value)

    def test_wrong_parts(self) -> None:
        """So are senders and readers that cannot be."""
        hub = EventHub(connection_string("amqp://127.0.0.1"), "hub")
        with pytest.raises(ValueError, match="for a partition or for a publisher, not for both"):
            hub.sender(partition="0", publisher="p")
        for how in ({"owner_level": -1}, {"prefetch": 0}, {"group": ""}):
            with pytest.raises(ValueError, match=r"owner_level must be 0|prefetch must be 1|group must be the name"):
                hub.reader("0", **how)
        start: Any
        for start in ("-1", None):
            with pytest.raises(TypeError, match="start must be an EventPosition"):
                hub.reader("0", start=start)

    async def test_wrong_partition(self) -> None:
        """A partition has an id, or is said by its number."""
        hub: Any = EventHub(connection_string("amqp://127.0.0.1"), "hub")
        for wrong, error in (
            ("", ValueError),
            (-1, ValueError),
            (None, TypeError),
            (0.0, TypeError),
            (True, TypeError),
        ):
            with pytest.raises(error, match=r"partition must be .*; hub.properties|partition must be an id"):
                hub.reader(wrong)
            with pytest.raises(error, match=r"partition must be .*; hub.properties|partition must be an id"):
                await hub.partition_properties(wrong)
        for wrong in ("", -1, 0.0):
            with pytest.raises((TypeError, ValueError), match="partition must be"):
                hub.sender(partition=wrong)

    @pytest.mark.parametrize(
        ("make", "error", "words"),
        [
            (lambda: EventPosition.sequence_number(-5), ValueError, "or more, not -5"),
            (lambda: EventPosition.sequence_number("7"), TypeError, "number must be an int"),  # type: ignore[arg-type]
            (lambda: EventPosition.offset(None), TypeError, "must be a str .*, not None"),  # type: ignore[arg-type]
            (lambda: EventPosition.enqueued_time(7), TypeError, "moment must be a datetime"),  # type: ignore[arg-type]
        ],
    )
    def test_wrong_positions(self, make: Any, error: Any, words: str) -> None:
        """Positions that cannot be are refused where they are made."""
        with pytest.raises(error, match=words):
            make()


class TestSending:
    async def test_key(self) -> None:
        """Events of one key are in one partition, in order, however they were sent."""
        async with emulated() as (hub, _):
            async with hub.sender() as sender:
                await sender.send(b"0", key="device")
                assert await sender.send_many([b"1", b"2"], key="device") == 2
                batch = sender.batch(key="device")
                assert batch.add(b"3")
                assert batch.add(Message(b"4", subject="s"))
                await sender.send(batch)

                async def more() -> AsyncIterator[bytes]:
                    yield b"5"

                await sender.send_many(more(), key="device")
            [partition] = [
                each for each in ("0", "1") if (await hub.partition_properties(each)).last_sequence_number >= 0
            ]
            events = await take(hub, 6, partition)
        assert [event.body for event in events] == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert {event.partition_key for event in events} == {"device"}
        assert [event.sequence_number for event in events] == list(range(6))
        assert events[4].message.subject == "s"
        assert events[0].enqueued_at is not None
        assert "0 of partition" in repr(events[0])

    async def test_publisher(self) -> None:
        """A publisher's events have its name for a key."""
        async with emulated() as (hub, _):
            async with hub.sender(publisher="sensor") as sender:
                await sender.send(b"x")
                with pytest.raises(ValueError, match="accepts no key"):
                    await sender.send(b"x", key="other")
            found = [each for each in ("0", "1") if not (await hub.partition_properties(each)).empty]
            [event] = await take(hub, 1, found[0])
        assert (event.publisher, event.partition_key) == ("sensor", "sensor")

    async def test_full_batch(self) -> None:
        """A batch takes 1 MiB, as the service says, and no more."""
        async with emulated() as (hub, _):
            async with hub.sender(partition="0") as sender:
                batch = sender.batch()
                assert batch.max_size == 1_048_576
                count = 0
                while batch.add(b"x" * 100_000):
                    count += 1
                assert (len(batch), count) == (10, 10)
                await sender.send(batch)
                with pytest.raises(ValueError, match="max_size must be 1048576 or less"):
                    sender.batch(max_size=2_000_000)
                with pytest.raises(ValueError, match="this message alone makes it"):
                    sender.batch(max_size=100).add(b"x" * 100)
                with pytest.raises(ValueError, match="gets its key when it is made"):
                    await sender.send(batch, key="k")
                with pytest.raises(ValueError, match="accepts no key"):
                    sender.batch(key="k")
            assert len(await take(hub, 10)) == 10

    async def test_wrong_key(self) -> None:
        """A key is a str."""
        async with emulated() as (hub, _), hub.sender() as sender:
            key: Any = 7
            for act in (lambda: sender.send(b"x", key=key), lambda: sender.send_many([b"x"], key=key)):
                with pytest.raises(TypeError, match="key must be a str"):
                    await act()
            with pytest.raises(TypeError, match="key must be a str"):
                sender.batch(key=key)

    async def test_partition_by_number(self) -> None:
        """Numbers are as good as ids, everywhere."""
        async with emulated() as (hub, _):
            async with hub.sender(partition=0) as sender:
                await sender.send(b"x")
            assert (await hub.partition_properties(0)).last_sequence_number == 0
            async with hub.reader(0) as reader:
                event = await reader.receive()
                assert (reader.partition, event.partition) == ("0", "0")
                with pytest.raises(
                    TypeError, match=r"max_wait must be a number or None, not .*timedelta.total_seconds"
                ):
                    await reader.receive_batch(1, max_wait=timedelta(1))  # type: ignore[arg-type]

    async def test_busy(self) -> None:
        """What a busy hub refuses is told."""
        async with emulated() as (hub, azure), hub.sender() as sender:
            azure.refuse_next("telemetry")
            with pytest.raises(MessageRejected, match="server-busy"):
                await sender.send(b"x")
            with pytest.raises(ValueError, match="1 to 128 characters"):
                await sender.send(b"x", key="k" * 129)

    async def test_nothing_there(self) -> None:
        """A hub or a partition that is not there is said so."""
        async with emulated() as (hub, _):
            with pytest.raises(LinkDetached, match="argument-out-of-range"):
                await hub.sender(partition="7").__aenter__()
            with pytest.raises(LinkDetached, match="argument-out-of-range"):
                await hub.reader("7").__aenter__()
            with pytest.raises(LinkDetached, match="not-found"):
                await hub.reader("0", group="other").__aenter__()


class TestReading:
    async def test_positions(self) -> None:
        """A reader begins with the first event, or where it is told to."""
        async with emulated() as (hub, azure):
            await put(hub, 0, 1)
            azure.advance(10)
            await put(hub, 2)
            events = await take(hub, 3)
            assert [event.body for event in events] == [0, 1, 2]
            assert events[1].offset is not None
            for start, bodies in (
                (EventPosition.offset(events[1].offset), [2]),
                (EventPosition.offset(events[1].offset, inclusive=True), [1, 2]),
                (EventPosition.sequence_number(0), [1, 2]),
                (EventPosition.enqueued_time(events[1].enqueued_at or datetime.now(UTC)), [2]),
            ):
                assert [event.body for event in await take(hub, len(bodies), start=start)] == bodies
            assert [event.body for event in await take(hub, 3, group="audit")] == [0, 1, 2]

    async def test_from_now_on(self) -> None:
        """A reader that begins with the next event has all from then on, also those that come while it is lost."""
        async with emulated() as (hub, azure):
            await put(hub, 0)
            async with hub.reader("0", start=EventPosition.latest()) as reader:
                azure.detach_links("telemetry/Partitions/0")
                await put(hub, 1, 2)
                assert [(await reader.receive()).body for _ in range(2)] == [1, 2]
            async with hub.reader("1", start=EventPosition.latest()) as reader:
                await put(hub, 3, partition="1")
                assert (await reader.receive()).body == 3

    async def test_batches(self) -> None:
        """Several events come at once."""
        async with emulated() as (hub, _):
            await put(hub, *range(5))
            async with hub.reader("0", prefetch=3) as reader:
                found = [event.body for event in await reader.receive_batch(2, max_wait=5)]
                while len(found) < 5:
                    found += [event.body for event in await reader.receive_batch(10)]
                assert found == list(range(5))
                assert await reader.receive_batch(1, max_wait=0.01) == []

    async def test_malformed_in_a_batch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An event that is no message takes no other with it: those before it come first, the others afterwards."""
        pass_on_malformed(monkeypatch)
        async with emulated() as (hub, _):
            await put(hub, 0, 1, MALFORMED, 3, MALFORMED, 5)
            async with hub.reader("0") as reader:
                while reader.receiver.buffered < 6:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
                for size, bodies in ((5, [0, 1]), (5, None), (1, [3]), (5, None), (5, [5])):
                    if bodies is not None:
                        assert [each.body for each in await reader.receive_batch(size)] == bodies
                    else:
                        with pytest.raises(DecodeError):
                            await reader.receive_batch(size)
                await put(hub, 6, MALFORMED, 8, 9)
                while reader.receiver.buffered < 4:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
                assert [each.body for each in await reader.receive_batch(4)] == [6]
                with pytest.raises(DecodeError):
                    await reader.receive()
                assert [(await reader.receive()).body for _ in range(2)] == [8, 9]

    async def test_goes_on(self) -> None:
        """After a loss a reader goes on behind the last event that came: none is lost, none comes twice."""
        async with emulating() as broker, FaultProxy(broker.url) as proxy:
            async with EventHub(connection_string(proxy.url), "telemetry", reconnect=QUICK) as hub:
                found: list[int] = []
                async with hub.sender(partition="0") as sender, hub.reader("0", prefetch=7) as reader:
                    for number in range(60):
                        await sender.send(number)
                        if number % 20 == 10:
                            proxy.cut()
                        if number % 3 == 0:
                            found.append((await reader.receive()).body)
                    while len(found) < 60:
                        found.append((await reader.receive()).body)
                # A sender that is lost with an event under way raises; here each was answered before the cut.
                assert found == list(range(60))

    async def test_detached(self) -> None:
        """A reader whose link the service ends comes back, and goes on behind what it had."""
        async with emulated() as (hub, azure):
            await put(hub, 0, 1)
            async with hub.reader("0") as reader:
                assert (await reader.receive()).body == 0
                azure.detach_links("telemetry/Partitions/0")
                await put(hub, 2)
                assert [(await reader.receive()).body for _ in range(2)] == [1, 2]

    async def test_without_reconnect(self) -> None:
        """Without `reconnect` a reader that is detached says why."""
        async with emulated(reconnect=None) as (hub, azure), hub.reader("0") as reader:
            azure.detach_links("telemetry/Partitions/0")
            with pytest.raises(LinkDetached, match="detach-forced"):
                await reader.receive()

    async def test_owner_levels(self) -> None:
        """A higher owner level takes the partition, and a lower one, or none, is kept out; nobody fights for it."""
        async with emulated() as (hub, _):
            await put(hub, 0)
            async with hub.reader("0", owner_level=1, name="first") as first:
                await first.receive()
                async with hub.reader("0", owner_level=2, name="second") as second:
                    assert (await second.receive()).body == 0
                    with pytest.raises(OwnershipLost, match="'second' with the owner level 2"):
                        await first.receive()
                    for level in (1, None):
                        with pytest.raises(OwnershipLost):
                            await hub.reader("0", owner_level=level).__aenter__()
                    await put(hub, 1)
                    assert (await second.receive()).body == 1

    async def test_too_many(self) -> None:
        """There are five readers of a partition at most."""
        async with emulated() as (hub, _), hub.reader("0"), hub.reader("0"), hub.reader("0"), hub.reader("0"):
            async with hub.reader("0"), hub.reader("0", group="audit"):
                with pytest.raises(LinkDetached, match="resource-limit-exceeded"):
                    await hub.reader("0").__aenter__()

    async def test_last_event(self) -> None:
        """A reader that asks for it hears of the last event with each."""
        async with emulated() as (hub, _):
            await put(hub, 0, 1)
            [first] = await take(hub, 1, track_last=True)
            [plain] = await take(hub, 1)
        assert plain.last is None
        assert first.last is not None
        assert (first.last.sequence_number, first.last.offset) == (1, "64")
        assert first.last.enqueued_at is not None
        assert first.last.told_at is not None
        assert first.last.told_at - first.last.enqueued_at < timedelta(minutes=1)

    async def test_cancelled(self) -> None:
        """A cancelled receive loses no event."""
        async with emulated() as (hub, _), hub.reader("0") as reader:
            with anyio.move_on_after(0.01):
                await reader.receive()
            await put(hub, 0)
            assert (await reader.receive()).body == 0

    def test_error(self) -> None:
        """Its error is a `LinkDetached`, and crosses processes."""
        error = pickle.loads(pickle.dumps(OwnershipLost("amqp:link:stolen", "gone", {})))
        assert isinstance(error, LinkDetached)
        assert str(error) == "amqp:link:stolen: gone"


class TestProperties:
    async def test_hub(self) -> None:
        """A hub says its partitions."""
        async with emulated() as (hub, azure):
            said = await hub.properties()
            assert (said.name, said.partitions) == ("telemetry", ("0", "1"))
            assert said.created_at is not None
            assert abs(said.created_at.timestamp() - azure.clock()) < 60

    async def test_partition(self) -> None:
        """A partition says what it has, and that it has nothing."""
        async with emulated() as (hub, azure):
            empty = await hub.partition_properties("0")
            assert (empty.first_sequence_number, empty.last_sequence_number, empty.empty) == (0, -1, True)
            assert (empty.last_offset, empty.last_enqueued_at) == (None, None)
            await put(hub, 0, 1)
            said = await hub.partition_properties("0")
            assert (said.last_sequence_number, said.last_offset, said.empty) == (1, "64", False)
            azure.advance(86_401)
            old = await hub.partition_properties("0")
            assert (old.first_sequence_number, old.last_sequence_number, old.empty) == (2, 1, True)

    async def test_all_at_once(self) -> None:
        """Whoever asks meanwhile gets the answer to its own question."""
        found: dict[str, int] = {}

        async def ask(partition: str) -> None:
            found[partition] = (await hub.partition_properties(partition)).last_sequence_number

        async with emulated() as (hub, _):
            await put(hub, 0, 1, partition="1")
            async with anyio.create_task_group() as tasks:
                for partition in ("0", "1"):
                    tasks.start_soon(ask, partition)
        assert found == {"0": -1, "1": 1}

    async def test_refused(self) -> None:
        """What the service does not tell is an error with its status."""
        async with emulating() as broker:
            text = connection_string(broker.url)
            async with EventHub(text, "other") as hub:
                with pytest.raises(LinkDetached, match=r"/other' could not be found") as raised:
                    await hub.properties()
                assert raised.value.condition == "amqp:not-found"
            async with EventHub(text, "telemetry") as hub:
                with pytest.raises(ManagementError, match=r"400: com\.microsoft:argument-out-of-range"):
                    await hub.partition_properties("9")

    async def test_says_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An answer without what was asked for is an error, and not a hub or a partition with nothing in it."""
        monkeypatch.setattr(node, "_hub", lambda hub: {"name": hub.name})
        monkeypatch.setattr(node, "_partition", lambda partition: {"begin_sequence_number": "0"})
        async with emulated() as (hub, _):
            with pytest.raises(RemoteProtocolError, match="lacks the partitions of 'telemetry'"):
                await hub.properties()
            with pytest.raises(RemoteProtocolError, match="lacks the events of partition '0'"):
                await hub.partition_properties("0")

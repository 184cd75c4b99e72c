"""Event hubs of the emulator, as Microsoft's own SDK for Python drives them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.amqp import AmqpAnnotatedMessage
from azure.eventhub.exceptions import (
    AuthenticationError,
    ConnectError,
    ConnectionLostError,
    EventHubError,
)

from amqp10.broker.azure import EventHubConfig

from ._azure import WAIT, Clock
from ._event_hubs import UNRETRIED, Behavior, HubBehaviors, Sdk, SharedStore, bodies

pytestmark = [pytest.mark.slow, pytest.mark.capability("Event Hubs emulator")]

behavior = HubBehaviors(
    EventHubConfig("Telemetry", 4, ["audit", "billing"]), EventHubConfig("short", 1, retention=60.0)
)
ALL = ["0", "1", "2", "3"]


# Sending


@behavior
def event_as_sent(sdk: Sdk, clock: Clock) -> None:
    """An event comes as it was sent, with what the service says of it."""
    event = EventData(b"body")
    event.properties = {"n": 1, "t": "x"}
    event.message_id, event.correlation_id, event.content_type = "m", "c", "text/plain"
    with sdk.producer() as producer:
        producer.send_event(event, partition_id="2")
    [found] = sdk.read(1, "2")
    assert b"".join(found.body) == b"body"  # type: ignore[arg-type]
    assert found.properties == {b"n": 1, b"t": b"x"}
    assert (found.message_id, found.correlation_id, found.content_type) == ("m", "c", "text/plain")
    assert (found.sequence_number, found.offset, found.partition_key) == (0, "0", None)
    assert found.enqueued_time is not None
    assert abs(found.enqueued_time.timestamp() - clock()) < WAIT


@behavior
def batch_in_order(sdk: Sdk, clock: Clock) -> None:
    """The events of a batch come one by one, in order; offsets are no sequence numbers."""
    with sdk.producer() as producer:
        batch = producer.create_batch(partition_id="1")
        for number in range(50):
            batch.add(EventData(f"e{number}"))
        producer.send_batch(batch)
    events = sdk.read(50, "1")
    assert bodies(events) == [f"e{number}" for number in range(50)]
    assert [event.sequence_number for event in events] == list(range(50))
    offsets = [int(event.offset or "") for event in events]
    assert offsets == sorted(offsets)
    assert offsets[1] > 1


@behavior
def batch_by_key(sdk: Sdk, clock: Clock) -> None:
    """All events of a key are in one partition, in the order in which they were sent, and say their key."""
    with sdk.producer() as producer:
        for begin in (0, 10):
            batch = producer.create_batch(partition_key="device-7")
            for number in range(begin, begin + 10):
                batch.add(EventData(str(number)))
            producer.send_batch(batch)
    with sdk.reading(None) as reading:
        events = reading.wait(20)
    assert bodies(events) == [str(number) for number in range(20)]
    assert len({partition for partition, _ in reading.events}) == 1
    assert {event.partition_key for event in events} == {b"device-7"}


@behavior
def keys_spread(sdk: Sdk, clock: Clock) -> None:
    """Keys are spread over all partitions; the same one goes where it went before, single or in a batch."""
    with sdk.producer() as producer:
        for number in range(24):
            producer.send_event(EventData(f"k{number}"), partition_key=f"k{number}")
        for number in range(24):
            producer.send_batch([EventData(f"k{number}")], partition_key=f"k{number}")
    with sdk.reading(None) as reading:
        reading.wait(48)
    places = {(partition, event.body_as_str()) for partition, event in reading.events}
    assert len(places) == 24
    assert {partition for partition, _ in places} == set(ALL)


@behavior
def without_key_in_turn(sdk: Sdk, clock: Clock) -> None:
    """What has no key goes to each partition in turn."""
    with sdk.producer() as producer:
        for number in range(8):
            producer.send_event(EventData(str(number)))
        counts = [producer.get_partition_properties(each)["last_enqueued_sequence_number"] for each in ALL]
    assert counts == [1, 1, 1, 1]


@behavior
def buffered_producer(sdk: Sdk, clock: Clock) -> None:
    """The buffered producer spreads what it gathers, and tells of all that was sent."""
    sent: list[Any] = []
    failed: list[Any] = []
    settings: dict[str, Any] = {
        "buffered_mode": True,
        "on_success": lambda events, partition: sent.extend(events),
        "on_error": lambda events, partition, error: failed.append(error),
        "max_wait_time": 0.1,
    }
    with sdk.producer(**settings) as producer:
        for number in range(40):
            producer.send_event(EventData(str(number)), partition_key=f"k{number % 5}")
        producer.flush(timeout=WAIT)
        assert (len(sent), failed) == (40, [])
    with sdk.reading(None) as reading:
        reading.wait(40)
    for key in range(5):
        of_it = [(at, int(event.body_as_str())) for at, event in reading.events if event.partition_key == b"k%d" % key]
        assert len({partition for partition, _ in of_it}) == 1
        assert [number for _, number in of_it] == list(range(key, 40, 5))


@behavior
def full_batch(sdk: Sdk, clock: Clock) -> None:
    """A batch takes as much as the service says, 1 MiB; all of that arrives."""
    with sdk.producer() as producer:
        batch = producer.create_batch(partition_id="0")
        assert batch.max_size_in_bytes == 1_048_576
        with pytest.raises(ValueError, match="size limit"):
            while True:
                batch.add(EventData(b"x" * 50_000))
        producer.send_batch(batch)
    assert len(sdk.read(len(batch))) == 20


@behavior
def too_large(sdk: Sdk, clock: Clock) -> None:
    """A larger event is refused."""
    with sdk.producer() as producer:
        with pytest.raises((ValueError, EventHubError)):
            producer.send_event(EventData(b"x" * 1_100_000), partition_id="0")
    with sdk.producer() as producer:
        assert producer.get_partition_properties("0")["is_empty"]


@behavior
def other_bodies(sdk: Sdk, clock: Clock) -> None:
    """A body need not be data."""
    with sdk.producer() as producer:
        producer.send_event(AmqpAnnotatedMessage(value_body={"a": 1}), partition_id="0")
        producer.send_batch([AmqpAnnotatedMessage(sequence_body=[[1, 2], [3]])], partition_id="0")
    value, sequence = sdk.read(2)
    assert value.raw_amqp_message.body == {b"a": 1}
    assert list(sequence.raw_amqp_message.body) == [[1, 2], [3]]


@behavior
def own_annotations(sdk: Sdk, clock: Clock) -> None:
    """Delivery annotations, which this SDK puts behind the body, come with their events, alone or in a batch."""
    sent = AmqpAnnotatedMessage(data_body=b"x", delivery_annotations={"own": "x"}, footer={"own": "y"})
    with sdk.producer() as producer:
        producer.send_event(sent, partition_id="0")
        producer.send_batch([sent], partition_id="0")
    for event in sdk.read(2):
        raw = event.raw_amqp_message
        assert (raw.delivery_annotations, raw.footer) == ({b"own": b"x"}, {b"own": b"y"})


# Positions


@behavior
def first_and_next(sdk: Sdk, clock: Clock) -> None:
    """A reader begins with the first event, or with the next one to come."""
    sdk.send("a", "b")
    with sdk.reading("0", "@latest") as late, sdk.producer() as producer:
        while not late.events:  # until it is attached, and one comes
            producer.send_event(EventData("later"), partition_id="0")
        assert set(bodies(late.wait(1))) == {"later"}
    assert bodies(sdk.read(2))[:2] == ["a", "b"]


@behavior
def by_sequence_number(sdk: Sdk, clock: Clock) -> None:
    """A reader begins behind a sequence number, or with it."""
    sdk.send("a", "b", "c")
    assert bodies(sdk.read(1, position=1)) == ["c"]
    assert bodies(sdk.read(2, position=1, starting_position_inclusive=True)) == ["b", "c"]


@behavior
def by_offset(sdk: Sdk, clock: Clock) -> None:
    """A reader begins behind an offset, or with it: what a checkpoint says."""
    sdk.send("a", "b", "c")
    second = sdk.read(3)[1].offset
    assert bodies(sdk.read(1, position=second)) == ["c"]
    assert bodies(sdk.read(2, position=second, starting_position_inclusive=True)) == ["b", "c"]


@behavior
def by_time(sdk: Sdk, clock: Clock) -> None:
    """A reader begins with what came after a time, or at it."""
    sdk.send("a")
    clock.ahead += 10
    sdk.send("b")
    times = [event.enqueued_time for event in sdk.read(2)]
    assert times[0] is not None
    assert times[1] is not None
    assert 9 < (times[1] - times[0]).total_seconds() < 10 + WAIT
    assert bodies(sdk.read(1, position=times[0])) == ["b"]
    assert bodies(sdk.read(2, position=times[0], starting_position_inclusive=True)) == ["a", "b"]
    between = datetime.fromtimestamp(times[0].timestamp() + 5, UTC)
    assert bodies(sdk.read(1, position=between)) == ["b"]


@behavior
def for_each_partition(sdk: Sdk, clock: Clock) -> None:
    """Each partition can have a position of its own."""
    sdk.send("a", "b", partition="0")
    sdk.send("c", "d", partition="1")
    with sdk.reading(None, {"0": 0, "1": "-1", "2": "-1", "3": "-1"}) as reading:
        assert sorted(bodies(reading.wait(3))) == ["b", "c", "d"]


@behavior
def beyond_the_end(sdk: Sdk, clock: Clock) -> None:
    """A position beyond the last event is refused, as one of another hub would be."""
    sdk.send("a")
    with sdk.reading("0", 488, consumer=sdk.consumer(**UNRETRIED)) as reading:
        assert "sequence number 488 is beyond the last one" in str(reading.failure())
    with sdk.reading("0", "4096", consumer=sdk.consumer(**UNRETRIED)) as reading:
        assert "offset 4096 is beyond the last one" in str(reading.failure())


@behavior
def as_they_come(sdk: Sdk, clock: Clock) -> None:
    """A reader that waits gets what is sent later."""
    with sdk.reading("0") as reading:
        for count in range(1, 4):
            sdk.send(f"e{count}")
            reading.wait(count)
    assert bodies([event for _, event in reading.events]) == ["e1", "e2", "e3"]


# Consumer groups and partitions


@behavior
def all_partitions(sdk: Sdk, clock: Clock) -> None:
    """One consumer reads all partitions, each in order."""
    for partition in ALL:
        sdk.send(*(f"{partition}.{number}" for number in range(10)), partition=partition)
    with sdk.reading(None) as reading:
        reading.wait(40)
    for partition in ALL:
        of_it = [event.body_as_str() for at, event in reading.events if at == partition]
        assert of_it == [f"{partition}.{number}" for number in range(10)]


@behavior
def groups_apart(sdk: Sdk, clock: Clock) -> None:
    """Each consumer group reads all, whatever others have read."""
    sdk.send("a", "b")
    for group in ("$Default", "audit", "Billing"):
        assert bodies(sdk.read(2, consumer=sdk.consumer(group=group))) == ["a", "b"]


@behavior
def capitals(sdk: Sdk, clock: Clock) -> None:
    """Names of hubs and groups are the same in capitals."""
    sdk.send("a", hub="TELEMETRY")
    assert bodies(sdk.read(1, consumer=sdk.consumer("teleMetry", "AUDIT"))) == ["a"]


@behavior
def no_such_group(sdk: Sdk, clock: Clock) -> None:
    """A consumer group that is not there is said so."""
    with sdk.reading(consumer=sdk.consumer(group="other", **UNRETRIED)) as reading:
        assert "has no consumer group 'other'" in str(reading.failure())


@behavior
def no_such_hub(sdk: Sdk, clock: Clock) -> None:
    """So is a hub; `$cbs` says so, and so the SDK takes it for a wrong login."""
    with sdk.producer("other") as producer:
        with pytest.raises(AuthenticationError, match="CBS Token authentication failed"):
            producer.get_eventhub_properties()
    with sdk.reading(consumer=sdk.consumer("other")) as reading:
        assert "CBS Token authentication failed" in str(reading.failure())


@behavior
def no_such_partition(sdk: Sdk, clock: Clock) -> None:
    """So is a partition; the SDK asks which there are before it reads or sends."""
    with sdk.reading("9") as reading:
        assert "Wrong partition id:9" in str(reading.failure())
    with sdk.producer() as producer:
        with pytest.raises(ConnectError, match="Status code: 400"):
            producer.get_partition_properties("9")
        with pytest.raises(ConnectError, match="Invalid partition 9"):
            producer.send_event(EventData("x"), partition_id="9")


# Owner levels


@behavior
def higher_level_steals(sdk: Sdk, clock: Clock) -> None:
    """A reader of a higher owner level takes the partition from the one that has it."""
    sdk.send("a")
    with sdk.reading(owner_level=1) as first:
        first.wait(1)
        with sdk.reading(owner_level=2) as second:
            assert bodies(second.wait(1)) == ["a"]
            assert "link:stolen" in str(first.failure())
            assert isinstance(first.failure(), ConnectionLostError)


@behavior
def same_level_steals(sdk: Sdk, clock: Clock) -> None:
    """So does one of the same level, as when processors balance their loads."""
    sdk.send("a")
    with sdk.reading(owner_level=0) as first:
        first.wait(1)
        with sdk.reading(owner_level=0) as second:
            second.wait(1)
            assert "link:stolen" in str(first.failure())


@behavior
def lower_level_kept_out(sdk: Sdk, clock: Clock) -> None:
    """A reader of a lower level is refused, and one without a level; the one that reads goes on."""
    sdk.send("a")
    with sdk.reading(owner_level=7) as first:
        first.wait(1)
        with sdk.reading(owner_level=6) as second:
            assert "higher owner level 7" in str(second.failure())
        with sdk.reading() as third:
            assert "without a level is kept out" in str(third.failure())
        sdk.send("b")
        assert bodies(first.wait(2)) == ["a", "b"]


@behavior
def level_puts_out_others(sdk: Sdk, clock: Clock) -> None:
    """A reader with a level puts out those without."""
    sdk.send("a")
    with sdk.reading() as first:
        first.wait(1)
        with sdk.reading(owner_level=0) as second:
            second.wait(1)
            assert "link:stolen" in str(first.failure())


@behavior
def level_ends_with_its_reader(sdk: Sdk, clock: Clock) -> None:
    """When the reader with a level is gone, all may read again."""
    sdk.send("a")
    assert bodies(sdk.read(1, owner_level=5)) == ["a"]
    assert bodies(sdk.read(1)) == ["a"]


@behavior
def level_of_a_group(sdk: Sdk, clock: Clock) -> None:
    """An owner level is for one partition and one consumer group."""
    sdk.send("a", partition="0")
    sdk.send("b", partition="1")
    with sdk.reading(owner_level=5) as owner:
        owner.wait(1)
        assert bodies(sdk.read(1, consumer=sdk.consumer(group="audit"))) == ["a"]
        assert bodies(sdk.read(1, "1")) == ["b"]


@behavior
def five_readers(sdk: Sdk, clock: Clock) -> None:
    """A partition has five readers of a group that have no level, and no more."""
    sdk.send("a")
    readings = [sdk.reading() for _ in range(5)]
    try:
        for each in readings:
            each.__enter__().wait(1)
        with sdk.reading(consumer=sdk.consumer(**UNRETRIED)) as sixth:
            assert "resource-limit-exceeded" in str(sixth.failure())
    finally:
        for each in readings:
            each.__exit__()


# What is said of hubs and partitions


@behavior
def hub_properties(sdk: Sdk, clock: Clock) -> None:
    """A hub says its name, its partitions, and since when it is there."""
    with sdk.producer() as producer, sdk.consumer() as consumer:
        for client in (producer, consumer):
            said = client.get_eventhub_properties()
            assert (said["eventhub_name"], said["partition_ids"]) == ("Telemetry", ALL)
            assert abs(said["created_at"].timestamp() - clock()) < 60
        assert producer.get_partition_ids() == ALL


@behavior
def partition_properties(sdk: Sdk, clock: Clock) -> None:
    """A partition says what it has, also when that is nothing."""
    with sdk.producer() as producer:
        empty = producer.get_partition_properties("3")
        assert (empty["is_empty"], empty["last_enqueued_sequence_number"], empty["last_enqueued_offset"]) == (
            True,
            -1,
            "-1",
        )
        assert empty["last_enqueued_time_utc"].year == 1
        producer.send_batch([EventData("a"), EventData("b")], partition_id="3")
        said = producer.get_partition_properties("3")
    assert (said["eventhub_name"], said["id"], said["is_empty"]) == ("Telemetry", "3", False)
    assert (said["beginning_sequence_number"], said["last_enqueued_sequence_number"]) == (0, 1)
    last = sdk.read(2, "3")[-1]
    assert (said["last_enqueued_offset"], said["last_enqueued_time_utc"]) == (last.offset, last.enqueued_time)


@behavior
def last_event_tracked(sdk: Sdk, clock: Clock) -> None:
    """A reader that asks for it hears of the last event with each of those that it reads."""
    sdk.send("a", "b", "c")
    with sdk.reading(track_last_enqueued_event_properties=True, max_batch_size=1) as reading:
        events = reading.wait(3)
        assert reading.context is not None
        said = reading.context.last_enqueued_event_properties
    assert said is not None
    assert (said["sequence_number"], said["offset"], said["enqueued_time"]) == (
        2,
        events[2].offset,
        events[2].enqueued_time,
    )
    assert abs(said["retrieval_time"].timestamp() - clock()) < 60


@behavior
def retention(sdk: Sdk, clock: Clock) -> None:
    """Old events go by the clock; a reader that would begin before them begins with the first one left."""
    sdk.send("old", "old too", hub="short")
    clock.ahead += 30
    sdk.send("new", hub="short")
    clock.ahead += 31
    with sdk.producer("short") as producer:
        said = producer.get_partition_properties("0")
        assert (said["beginning_sequence_number"], said["last_enqueued_sequence_number"]) == (2, 2)
        assert bodies(sdk.read(1, position=0, consumer=sdk.consumer("short"))) == ["new"]
        clock.ahead += 60
        said = producer.get_partition_properties("0")
        assert (said["is_empty"], said["beginning_sequence_number"], said["last_enqueued_sequence_number"]) == (
            True,
            3,
            2,
        )
    sdk.send("next", hub="short")
    [event] = sdk.read(1, consumer=sdk.consumer("short"))
    assert (event.body_as_str(), event.sequence_number) == ("next", 3)


# Rights and faults


@behavior
def rights(sdk: Sdk, clock: Clock) -> None:
    """Who may send may not listen, and the reverse; both may ask which partitions there are."""
    with sdk.producer(policy="send") as producer:
        assert producer.get_partition_ids() == ALL
        producer.send_event(EventData("a"), partition_id="0")
    assert bodies(sdk.read(1, consumer=sdk.consumer(policy="listen"))) == ["a"]
    with sdk.reading(consumer=sdk.consumer(policy="send", **UNRETRIED)) as reading:
        assert "unauthorized-access" in str(reading.failure())
    with sdk.producer(policy="listen", **UNRETRIED) as producer:
        assert producer.get_partition_ids() == ALL
        with pytest.raises(EventHubError, match="unauthorized-access"):
            producer.send_event(EventData("b"), partition_id="0")


@behavior
def wrong_key(sdk: Sdk, clock: Clock) -> None:
    """A token that is not signed with the key counts for nothing."""
    text = sdk.connection_string(key="somebody else's")
    with (
        EventHubProducerClient.from_connection_string(text, eventhub_name="telemetry", retry_total=0) as producer,
        pytest.raises(AuthenticationError),
    ):
        producer.send_event(EventData("a"))


@behavior
def busy(sdk: Sdk, clock: Clock) -> None:
    """A busy hub refuses as often as the test says; the SDK sends what was refused again."""
    assert clock.azure is not None
    with sdk.producer(**UNRETRIED) as producer:
        producer.send_event(EventData("1"), partition_id="0")
        clock.call(clock.azure.refuse_next, "telemetry", 1)
        producer.send_event(EventData("2"), partition_id="0")
        clock.call(clock.azure.refuse_next, "telemetry/partitions/0", 1)
        with pytest.raises(ConnectError, match="503"):
            producer.get_eventhub_properties()
    assert bodies(sdk.read(2)) == ["1", "2"]


@behavior
def detached_reader(sdk: Sdk, clock: Clock) -> None:
    """A reader whose link is detached attaches again where it was: nothing is lost, nothing comes twice."""
    assert clock.azure is not None
    sdk.send("a", "b")
    settings: dict[str, Any] = {"retry_total": 3, "retry_backoff_factor": 0.01}
    with sdk.reading(consumer=sdk.consumer(**settings)) as reading:
        reading.wait(2)
        assert clock.call(clock.azure.detach_links, "Telemetry/Partitions/0") == 1
        sdk.send("c")
        assert bodies(reading.wait(3)) == ["a", "b", "c"]


@behavior
def detached_sender(sdk: Sdk, clock: Clock) -> None:
    """A sender whose link is detached attaches again."""
    assert clock.azure is not None
    with sdk.producer(retry_total=3, retry_backoff_factor=0.01) as producer:
        producer.send_event(EventData("a"), partition_id="0")
        assert clock.call(clock.azure.detach_links, "telemetry") == 1
        producer.send_event(EventData("b"), partition_id="0")
    assert bodies(sdk.read(2)) == ["a", "b"]


@behavior
def tokens_ended(sdk: Sdk, clock: Clock) -> None:
    """When the tokens end, readers are told; the SDK puts another with its next link, and goes on."""
    assert clock.azure is not None
    sdk.send("a")
    settings: dict[str, Any] = {"retry_total": 3, "retry_backoff_factor": 0.01}
    with sdk.reading(consumer=sdk.consumer(**settings)) as reading:
        reading.wait(1)
        clock.call(clock.azure.expire_tokens)
        sdk.send("b")
        assert bodies(reading.wait(2)) == ["a", "b"]


@behavior
def many_at_once(sdk: Sdk, clock: Clock) -> None:
    """Senders beside each other fill one partition without gaps or doubles."""

    def send(name: str) -> None:
        with sdk.producer() as producer:
            for number in range(20):
                producer.send_event(EventData(f"{name}{number}"), partition_id="0")

    threads = [threading.Thread(target=send, args=[name]) for name in "abc"]
    for thread in threads:
        thread.start()
    events = sdk.read(60)
    for thread in threads:
        thread.join(WAIT)
    assert [event.sequence_number for event in events] == list(range(60))
    for name in "abc":
        of_it = [body for body in bodies(events) if body.startswith(name)]
        assert of_it == [f"{name}{number}" for number in range(20)]


@behavior
def two_processors(sdk: Sdk, clock: Clock) -> None:
    """Two consumers with one checkpoint store share the partitions; each begins behind the checkpoint of the other."""
    store = SharedStore()
    for partition in ALL:
        sdk.send("before", partition=partition)
    settings: dict[str, Any] = {"checkpoint_store": store, "load_balancing_interval": 0.2}
    with sdk.reading(None, consumer=sdk.consumer(**settings), checkpoints=True) as first:
        first.wait(4)
        with sdk.reading(None, consumer=sdk.consumer(**settings), checkpoints=True) as second:
            assert store.shared_by(2)
            for partition in ALL:
                sdk.send("after", partition=partition)
            assert second.until(lambda: len(first.events) + len(second.events) >= 8)
            after = [event.body_as_str() for reading in (first, second) for _, event in reading.events]
    assert sorted(set(after)) == ["after", "before"]
    assert {partition for reading in (first, second) for partition, _ in reading.events} == set(ALL)
    assert after.count("after") == 4


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Callable[[Behavior], None]]:
    """How each behavior went."""
    with behavior.running(request) as runs:
        yield runs


@pytest.mark.parametrize("behavior", behavior.all, ids=lambda behavior: behavior.__name__)
def test_behavior(behavior: Behavior, runs: Callable[[Behavior], None]) -> None:
    """What the SDK does and sees; each behavior says what that is."""
    runs(behavior)

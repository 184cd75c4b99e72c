"""Messages that look alike are read many at a time: what comes of it is what each by itself would give."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp10.dialects.v0_9.message.from_basic import FromBasic
from amqp10.dialects.v0_9.message.streams import OFFSET
from amqp10.dialects.v0_9.wire.bulk import MIN_RUN
from amqp10.dialects.v0_9.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicReject,
    ConnectionClose,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.tables import TABLES
from amqp10.dialects.v0_9.wire.variant import V0_9_1, Variant
from amqp10.dialects.v0_9.wire.well_formed import is_well_formed
from amqp10.engine import Dialect, Engine, ReceiverLink
from amqp10.errors import DecodeError
from amqp10.messaging import ACCEPTED, Message
from amqp10.messaging.payloads import ForeignPayload
from amqp10.types import Int

from ....kit.dialects.v0_9.client_engine import DIALECTS, frames, said
from ....kit.dialects.v0_9.method_peer import channel_of
from ....kit.dialects.v0_9.runs import MALFORMED, OWN, PLACES, TURNS, Like, receiver, stream
from ....kit.inside.engines import LazyRun

likes = st.tuples(
    st.integers(1, 3) | st.integers(MIN_RUN, MIN_RUN + 4),
    st.booleans(),
    st.sampled_from(("q", "other", "")),
    st.integers(0, MALFORMED - 1) | st.integers(0, MALFORMED),
    st.sampled_from((0, 1, 5, 5, 5, 300)),
)


def heard(engine: Engine, link: ReceiverLink, octets: bytes, portion: int, credit: int) -> list[object]:
    """All that comes of it: what is told, taken, and said, portion by portion; the owner accepts some."""
    found: list[object] = []
    for at in range(0, len(octets), portion):
        engine.receive_data(octets[at : at + portion])
        found.append([type(event) for event in engine.events()])
        link.materialize(3)
        for _ in range(min(3, len(link.incoming))):
            delivery = link.incoming.popleft()
            found.append((delivery.delivery_id, delivery.tag, delivery.payload, delivery.local_settled))
            if link.attached:
                link.settle(delivery, ACCEPTED)
        if link.attached and link.credit < credit // 2:
            link.flow(credit)
        found += [link.credit, list(link.unsettled) if at % 2 else None, engine.data_to_send()]
    link.materialize(link.unmaterialized)
    found += [(each.delivery_id, each.tag, each.payload) for each in link.incoming]
    return found


def agree(
    dialect: tuple[Dialect, Variant],
    octets: bytes,
    portion: int,
    credit: int,
    mode: str,
    lazy: bool,
    limit: int = 0,
) -> list[object]:
    each_by_itself, other = receiver(*dialect, credit, mode, limit)
    channel_of(other).has_runs = False
    expected = heard(each_by_itself, other, octets, portion, credit)
    engine, link = receiver(*dialect, credit, mode, limit)
    link.lazy = lazy
    assert heard(engine, link, octets, portion, credit) == expected
    assert engine.opened == each_by_itself.opened
    assert link.attached == other.attached
    if link.attached:
        assert left_behind(link) == left_behind(other)
    return expected


def left_behind(link: ReceiverLink) -> list[Any]:
    """Return what the link knows of the last message, and its counts."""
    known = vars(link)
    counted = [known["_last"], known["_prefetch"].unacked, known["_prefetch"].count, known["_route"]]
    counted.append(channel_of(link).properties_octets)
    return [*counted, known["_acks"].done, known["_acks"].counted_from]


@settings(deadline=None)
@given(
    st.sampled_from(DIALECTS),
    st.lists(likes, min_size=1, max_size=4),
    st.integers(1, 2000),
    st.integers(1, 40),
    st.sampled_from(("mixed", "settled")),
    st.booleans(),
    st.data(),
)
def test_all_octets(
    dialect: tuple[Dialect, Variant],
    runs: list[Like],
    portion: int,
    credit: int,
    mode: str,
    lazy: bool,
    data: st.DataObject,
) -> None:
    """Whatever follows each other, is cut anywhere, or has octets changed: the same is taken, told and said."""
    octets = bytearray(stream(dialect[1], runs, data.draw(st.sampled_from((4096, 100)))))
    for _ in range(data.draw(st.integers(0, 2))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    agree(dialect, bytes(octets), portion, credit, mode, lazy, data.draw(st.sampled_from((0, 0, 200))))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.slow
def test_each_octet_of_a_run(which: int) -> None:
    """A run in which any octet of one message is another: what there is of it counts, up to there."""
    runs: list[Like] = [(1, False, "q", which, 5), (MIN_RUN + 1, False, "q", which, 5)]
    octets = stream(V0_9_1, runs)
    length = len(stream(V0_9_1, [(2, False, "q", which, 5)])) - len(stream(V0_9_1, [(1, False, "q", which, 5)]))
    begin = octets.index(b"\1\0\1", len(stream(V0_9_1, runs[:1]))) + 4 * length
    for place in range(begin, begin + length):
        for value in (0, octets[place] ^ 1, 255):
            changed = octets[:place] + bytes((value,)) + octets[place + 1 :]
            agree(DIALECTS[0], changed, len(octets), 100, "mixed", True)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_follows_a_close(dialect: tuple[Dialect, Variant]) -> None:
    """After a channel was closed for its first message nothing of the next is read: it may be anything."""
    octets = bytearray(stream(dialect[1], [(1, False, "q", PLACES, 5), (3, True, "q", PLACES, 5)]))
    begin = octets.index(b"\x01r") + 2  # the first message's number: the second one's is then a fault
    octets[begin] = 1
    third = octets.index(b"\x01r", octets.index(b"\x01r", begin) + 2) + 2
    for place in range(third, third + 60):
        changed = octets[:place] + bytes((octets[place] ^ 255,)) + octets[place + 1 :]
        agree(dialect, bytes(changed), len(octets), 3, "mixed", False)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.slow
def test_cut_at_each_octet(dialect: tuple[Dialect, Variant]) -> None:
    """A run that comes in two reads, whatever the first one ends with."""
    octets = stream(dialect[1], [(2, False, "q", 3, 5), (MIN_RUN, False, "q", 3, 5)])
    whole = agree(dialect, octets, len(octets), 100, "mixed", False)
    for portion in range(len(octets) // 2, len(octets)):
        agree(dialect, octets, portion, 100, "mixed", portion % 2 == 0)
    assert len(whole) > MIN_RUN


@pytest.mark.parametrize(
    ("runs", "taken"),
    [
        ([(30, False, "q", 0, 5)], [29]),
        ([(30, False, "q", OWN, 5)], [29]),
        ([(30, False, "q", TURNS, 5)], [29]),
        ([(5, False, "q", TURNS, 5), (30, False, "q", OWN, 5)], [4, 30]),
        ([(1, False, "q", 0, 5), (MIN_RUN + 2, False, "q", 3, 5)], [MIN_RUN + 2]),
        ([(1, False, "q", 0, 5), (1, False, "q", 1, 7), (1, False, "q", 2, 300)], [1, 1]),
        ([(2, False, "q", 0, 5), (2, True, "q", 0, 5), (2, True, "q", 4, 5)], [1]),
    ],
)
def test_many_at_a_time(runs: list[Like], taken: list[int]) -> None:
    """Those that come by one route are runs, whatever else they say, but for the first of all and what cannot wait."""
    engine, link = receiver(*DIALECTS[0], 100, "mixed")
    found: list[int] = []
    arrive = link._arrive_many  # type: ignore[attr-defined]

    def note(run: LazyRun) -> None:
        found.append(len(run.tags))
        arrive(run)

    vars(link)["_arrive_many"] = note
    engine.receive_data(stream(V0_9_1, runs))
    assert found == taken
    assert len(link.unsettled) == sum(count for count, *_ in runs)


@pytest.mark.parametrize("count", [1, 2, MIN_RUN, 2 * MIN_RUN])
def test_the_place_after_a_run(count: int) -> None:
    """The next consumer of a stream begins behind the last message of a run: none comes again, none is left out."""
    engine, link = receiver(*DIALECTS[0], count, "mixed")
    link.refills = False
    engine.receive_data(stream(V0_9_1, [(count, False, "q", PLACES, 5)]))
    link.materialize(count)
    assert [Message.decode(each.payload).message_annotations[OFFSET] for each in link.incoming] == [
        1001 + each for each in range(count)
    ]
    for delivery in link.incoming:
        link.settle(delivery, ACCEPTED)
    assert [each.consumer_tag for each in said(engine) if isinstance(each, BasicCancel)] == ["r"]
    engine.receive_data(frames(V0_9_1, 1, BasicCancelOk("r")))
    link.flow(count)
    assert [each.arguments for each in said(engine) if isinstance(each, BasicConsume)] == [{OFFSET: 1001 + count}]


@pytest.mark.parametrize("more", [0, 5])
def test_the_place_of_what_goes_back(more: int) -> None:
    """The rest of a run is given back when the credit is used up: the next consumer begins with its first message."""
    engine, link = receiver(*DIALECTS[0], 20, "mixed")
    link.refills = False
    octets = stream(V0_9_1, [(20, False, "q", PLACES, 5), (15, False, "q", PLACES, 5)])
    first = len(stream(V0_9_1, [(20, False, "q", PLACES, 5)]))
    engine.receive_data(octets[:first])
    link.materialize(20)
    for delivery in link.incoming:
        link.settle(delivery, ACCEPTED)
    assert BasicCancel("r") in said(engine)
    engine.receive_data(octets[first:])
    link.flow(more)
    said(engine)
    engine.receive_data(frames(V0_9_1, 1, BasicCancelOk("r")))
    link.flow(20)
    methods = said(engine)
    assert [each.delivery_tag for each in methods if isinstance(each, BasicReject)] == [*range(21 + more, 36)]
    assert [each.arguments for each in methods if isinstance(each, BasicConsume)] == [{OFFSET: 1021 + more}]


def test_what_is_malformed_is_the_peers_fault() -> None:
    """Properties that cannot be read end the connection when they come, be it that nobody asks for them."""
    engine, _ = receiver(*DIALECTS[0], 100, "mixed")
    engine.receive_data(stream(V0_9_1, [(1, False, "q", 0, 5), (2, False, "q", MALFORMED, 5)]))
    assert [each.reply_code for each in said(engine) if isinstance(each, ConnectionClose)] == [502]


values = st.sampled_from(("text", b"octets", 7, Int(7), True, None, 0.5, [1, "a"], {"a": {"b": 1}}))


@given(
    st.builds(
        BasicProperties,
        content_type=st.none() | st.just("text/plain"),
        headers=st.none() | st.dictionaries(st.text(max_size=5), values, max_size=4),
        priority=st.none() | st.integers(0, 255),
        message_id=st.none() | st.text(max_size=5),
        cluster_id=st.none() | st.text(max_size=5),
    ),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=2),
    st.integers(0, 200),
)
@example(BasicProperties(headers={"a": "b"}), [(5, 255)], 200)
@example(BasicProperties(headers={"a": None}), [(5, 4)], 200)
@example(BasicProperties(cluster_id=""), [(1, 6)], 200)
def test_what_is_sound(properties: BasicProperties, changes: list[tuple[int, int]], cut: int) -> None:
    """Properties taken as well-formed can be decoded. Plain ones are taken, and map to the same fields later."""
    octets = bytearray(properties.encode(TABLES))
    if not changes and len(octets) <= cut:
        plain = not any(isinstance(value, list | dict) for value in (properties.headers or {}).values())
        assert is_well_formed(bytes(octets)) is plain
    for place, value in changes:
        if place < len(octets):
            octets[place] = value
    changed = bytes(octets[: max(2, cut)])
    if not is_well_formed(changed):
        return
    BasicProperties.decode(changed, TABLES)
    incoming = FromBasic(TABLES)
    if incoming.can_wait(changed):
        payload = ForeignPayload((incoming.head, b"\1\1e\1k", changed, b"body"))
        assert bytes(payload) == incoming.map(b"\1\1e\1k", changed, b"body")
        assert Message.decode(payload) == Message.decode(bytes(payload))


def test_one_that_is_not_sound() -> None:
    """One that cannot be decoded is not, nor does it wait to be found out."""
    for octets in (b"\x80\0\xff", b"\0\2", b"\x80\0", b"\0\0\0", b"\x20\0\0\0\0\x09\1aS\0\0\0\0\0"):
        assert not is_well_formed(octets)
        assert not FromBasic(TABLES).can_wait(octets)
        with pytest.raises(DecodeError):
            BasicProperties.decode(octets, TABLES)

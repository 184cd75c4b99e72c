"""Runs of transfers that look alike are received many at a time, and it makes no difference (§2.6.12, §2.5.6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp10.dialects.v1_0.wire import bulk
from amqp10.dialects.v1_0.wire import frames as _frames
from amqp10.dialects.v1_0.wire.frames import FrameReader, TransferTemplate, encode_frame
from amqp10.dialects.v1_0.wire.performatives import Transfer
from amqp10.errors import DecodeError, RemoteProtocolError
from amqp10.messaging import ACCEPTED, TransactionalState

from ....kit.dialects.v1_0.streams import FIRST, became, by_turns, engine, in_form, streams, transfer

LIST32 = (True, False, False)


MANY = b"".join(transfer(n, 0, n.to_bytes(4, "big"), False, 0, 5, False) for n in range(40))
TURNS = b"".join(transfer(n, n & 1, n.to_bytes(4, "big"), False, 0, 5, False) for n in range(40))
FLAGS = b"".join(transfer(n, 0, n.to_bytes(4, "big"), n < 2, 0, 5, False) for n in range(4))  # settled, then not


@settings(deadline=None, max_examples=3 * settings().max_examples)
@given(
    streams(),
    st.sampled_from([1, 2, 7, 30, 1000]),
    st.tuples(st.sampled_from([0, 3, 20, 100]), st.sampled_from([0, 20])),
    st.sampled_from([0, 0, 100]),
    st.booleans(),
    st.sampled_from([2, 3, bulk.MIN_RUN]),
)
@example(MANY, 30, (100, 0), 0, False, 2)
@example(MANY, 1000, (20, 0), 0, False, bulk.MIN_RUN)
@example(TURNS, 30, (100, 20), 0, False, bulk.MIN_RUN)
@example(TURNS, 1000, (20, 3), 0, True, bulk.MIN_RUN)
@example(TURNS + transfer(40, 0, b"\0\0\0\4", False, 0, 5, False), 1000, (100, 100), 0, False, bulk.MIN_RUN)
@example(FLAGS, 1000, (100, 0), 0, False, bulk.MIN_RUN)
def test_many_at_a_time_or_octet_by_octet(
    data: bytes, window: int, credit: tuple[int, int], limit: int, drain: bool, fewest: int
) -> None:
    """Frames are read alike in one piece, octet by octet, and without the layouts of known frames."""
    terms = (window, credit, limit, drain)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "MIN_RUN", fewest)
        found = became(data, len(data), *terms)
        assert found == became(data, 1, *terms)
        patch.setattr(_frames, "layout_of", lambda *_: None)
        assert found == became(data, len(data), *terms)


@settings(deadline=None, max_examples=3 * settings().max_examples)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.sampled_from([0, 5, 300]), st.booleans()), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 255)), max_size=2),
    st.integers(1, 100),
    st.integers(0, 40),
)
def test_runs_of_one_size(
    lengths: list[tuple[int, int, bool]], changed: list[tuple[int, int]], most: int, cut: int
) -> None:
    """A run is the same whether frames are compared octet by octet or one by one, whatever octets of it are wrong."""
    frames = [
        transfer(offset, 0, offset.to_bytes(4, "big"), settled, 0, size, False)
        for length, size, settled in lengths
        for offset in range(length)
    ]
    start = transfer(0, 0, b"\0\0\0\0", lengths[0][2], 0, lengths[0][1], False)
    data = bytearray(b"".join(frames))
    for place, octet in changed:
        data[place % len(data)] = octet
    given = bytes(data[: len(data) - cut])
    reader = FrameReader(600, reuses=True)
    reader.feed(start * 3 + start)
    assert all(reader.next() for _ in range(3))
    layout = reader.alike
    assert layout is not None
    runs = []
    with pytest.MonkeyPatch.context() as patch:
        for fewest in (2, 1000):
            patch.setattr(bulk, "MIN_RUN", fewest)
            runs.append(bulk.read_run(given, 0, 3, layout, most, 600))
    assert runs[0] == runs[1]


@pytest.mark.spec("2.7.1", "max-frame-size: larger frames are refused in a run of transfers, too")
@pytest.mark.parametrize(("usual", "large"), [(3, 1), (4, 1), (3, 40), (40, 40)])
def test_a_run_ends_before_what_is_too_large(usual: int, large: int) -> None:
    """The others of its form are read, and it is refused when its turn comes."""
    reader = FrameReader(600, reuses=True)
    reader.feed(transfer(0, 0, b"usua", False, 0, 5, False) * usual)
    reader.feed(transfer(1, 0, b"larg", False, 0, 700, False) * large)
    assert all(reader.next() for _ in range(3))
    layout = reader.alike
    assert layout is not None
    assert reader.run(3, layout, 100) == [(FIRST, b"usua", b"ppppp")] * (usual - 3)
    with pytest.raises(RemoteProtocolError, match="exceeds the limit of 600"):
        reader.next()


def test_those_with_a_state_are_received_together() -> None:
    """So that a run of them costs what another does, and each delivery has the state."""
    client, links = engine(1000, (100, 0), 0, False)
    link: Any = links[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FrameReader, "_generic", None)
        client.receive_data(b"".join(transfer(n, 0, n.to_bytes(4, "big"), True, 0, 5, False, True) for n in range(40)))
    assert [each.remote_state for each in link.incoming] == [ACCEPTED] * 40


def said(count: int, **fields: Any) -> bytes:
    """Return transfers that say more than usual."""
    numbers = [FIRST + n & 0xFFFF_FFFF for n in range(count)]
    return b"".join(
        encode_frame(3, Transfer(0, number, number.to_bytes(4, "big"), 0, **fields), b"p") for number in numbers
    )


@pytest.mark.parametrize("fields", [{"rcv_settle_mode": 0}, {"state": TransactionalState(b"txn")}])
def test_those_that_say_more_are_received_together(fields: dict[str, Any]) -> None:
    """A settle mode that is the link's own, and the transaction that a message is part of, are no exception."""
    client, links = engine(1000, (100, 0), 0, False)
    link: Any = links[0]
    seen: list[int] = []
    receive = type(link).receive_messages

    def noted(self: Any, like: Transfer, run: list[Any], expected: int) -> Any:
        seen.append(len(run))
        return receive(self, like, run, expected)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FrameReader, "_generic", None)
        patch.setattr(type(link), "receive_messages", noted)
        client.receive_data(said(15, **fields))
    assert seen == [12]
    assert [each.remote_state for each in link.incoming] == [fields.get("state")] * 15


@pytest.mark.spec("2.7.5", "rcv-settle-mode second is illegal where the link settles first, in a run of transfers, too")
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_settle_modes_in_a_run(mode: int) -> None:
    """It is the same whether the transfers come together or octet by octet."""
    terms = 1000, (100, 0), 0, False
    data = said(4) + said(15, rcv_settle_mode=mode)[4 * len(said(1, rcv_settle_mode=mode)) :]
    assert became(data, len(data), *terms) == became(data, 1, *terms)
    client, links = engine(*terms)
    client.receive_data(data)
    assert links[0].attached is (mode == 0)


def test_those_of_links_by_turns_are_received_together() -> None:
    """The first of each link is looked at by itself, and one more; the others are not."""
    client, links = engine(1000, (100, 100), 0, False)
    looked_at = []
    with pytest.MonkeyPatch.context() as patch:
        whole = FrameReader.next

        def noted(reader: FrameReader) -> Any:
            frame = whole(reader)
            looked_at.append(frame)
            return frame

        patch.setattr(FrameReader, "next", noted)
        client.receive_data(by_turns(40, 2))
    assert len([frame for frame in looked_at if frame is not None]) == 3
    assert [len(link.incoming) for link in links] == [20, 20]


def test_where_two_look_alike_a_run_begins() -> None:
    """Reading by turns ends there, and before a frame that is incomplete, of another channel or too large."""
    start = by_turns(3, 2)
    alike = [transfer(n, 0, b"same", False, 0, 5, False) for n in (3, 4)]
    other_channel = TransferTemplate(4, 1).head(FIRST + 4, b"othr", False, 5) + b"ppppp"
    for rest in (
        alike[0],
        transfer(3, 1, b"cut_", False, 0, 5, False) + transfer(4, 0, b"cut_", False, 0, 5, False)[:-1],
        transfer(3, 1, b"size", False, 0, 5, False) + transfer(4, 0, b"size", False, 0, 700, False),
        transfer(3, 1, b"chan", False, 0, 5, False) + other_channel,
        transfer(3, 1, b"more", False, 0, 5, False) + transfer(4, 0, b"more", False, 0, 5, True),
        transfer(3, 1, b"none", False, 0, 5, False),
    ):
        reader = FrameReader(600, reuses=True)
        reader.feed(start + rest)
        assert all(reader.next() for _ in range(3))
        wanted = 0 if rest is alike[0] else 1
        assert [each[1] for each in reader.by_turns(3, 100)] == [FIRST + 3] * wanted
        assert reader.by_turns(3, 0) == []


WIDE = b"".join(in_form(transfer(n, n & 1, n.to_bytes(4, "big"), False, 0, 5, False), LIST32) for n in range(5))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("cut", range(1, len(WIDE)))
def test_wide_ones_of_links_by_turns_are_cut_anywhere(cut: int) -> None:
    """The first octets of a list32 do not tell links apart, and the data may end within those that do."""
    client, links = engine(1000, (100, 100), 0, False)
    client.receive_data(WIDE[:cut])
    client.receive_data(WIDE[cut:])
    assert [[each.tag[-1] for each in link.incoming] for link in links] == [[0, 2, 4], [1, 3]]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("octets", range(8, len(WIDE) // 5))
def test_a_frame_that_ends_within_its_key_is_refused(octets: int) -> None:
    """Even where those before it had this key."""
    frame = WIDE[: len(WIDE) // 5]
    reader = FrameReader(600, reuses=True)
    reader.feed(frame * 3)
    assert all(reader.next() for _ in range(3))
    reader.feed(octets.to_bytes(4, "big") + frame[4:octets])
    if octets == 8:
        assert reader.next() == (0, 3, None, b"")  # an empty frame
    elif octets < len(frame) - 5:
        with pytest.raises(DecodeError):
            reader.next()
    else:
        assert reader.next()[3] == frame[-5:octets]  # type: ignore[index]


def test_runs_of_two_cost_what_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Links that send two by two, all of one size: the data behind them is not gone through for each two."""
    client, links = engine(1000, (100, 100), 0, False)
    monkeypatch.setattr(bulk, "_read_even", None)
    frames = (
        in_form(transfer(n, n // 2 % 2, b"%04d" % n, False, 0, 5, False), (False, True, False)) for n in range(80)
    )
    client.receive_data(b"".join(frames))
    assert [len(link.incoming) for link in links] == [40, 40]


@pytest.mark.parametrize("limit", [0, 5])
def test_they_are_received_together(limit: int) -> None:
    """Forty transfers in one piece: the first two are looked at one by one, the others are not; nor for their size."""
    client, links = engine(1000, (100, 0), limit, False)
    link: Any = links[0]
    one_by_one = []
    receive = link.receive_transfer

    def watched(frame: Any, payload: bytes) -> None:
        one_by_one.append(frame.delivery_id)
        receive(frame, payload)

    link.receive_transfer = watched
    client.receive_data(MANY)
    assert [each.delivery_id for each in link.incoming] == [FIRST + n & 0xFFFF_FFFF for n in range(40)]
    assert len(one_by_one) <= 3
    assert link.credit == 60


def test_those_with_small_numbers_are_received_together() -> None:
    """Delivery-ids of one octet make no difference, but for the few with which they begin."""
    client, links = engine(1000, (100, 0), 0, False)
    link: Any = links[0]
    one_by_one = []
    receive = link.receive_transfer

    def watched(frame: Any, payload: bytes) -> None:
        one_by_one.append(frame.delivery_id)
        receive(frame, payload)

    link.receive_transfer = watched
    frames = [transfer(n, 0, n.to_bytes(4, "big"), False, 0, 5, False) for n in range(80)]
    client.receive_data(b"".join(in_form(frame, (False, False, True)) for frame in frames))
    assert [each.delivery_id for each in link.incoming] == [FIRST + n & 0xFFFF_FFFF for n in range(80)]
    assert len(one_by_one) <= 6


def test_those_of_ever_other_sizes_are_compared_one_by_one() -> None:
    """The columns for comparing frames of one size are not made for them, though the first frames are small."""
    client, links = engine(1000, (1000, 0), 0, False)
    link: Any = links[0]
    sizes = [n % 300 for n in range(200)]
    made = bulk._columns.cache_info().misses
    client.receive_data(
        b"".join(transfer(n, 0, n.to_bytes(4, "big"), False, 0, size, False) for n, size in enumerate(sizes))
    )
    assert [len(each.payload) for each in link.incoming] == sizes
    assert bulk._columns.cache_info().misses == made

"""Dispositions of one delivery after the other are read as one: nobody can tell it from each by itself (§2.7.6)."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.dialects.v1_0.wire import frames as _frames
from amqp10.dialects.v1_0.wire.frames import FrameReader, encode_disposition, encode_frame
from amqp10.dialects.v1_0.wire.performatives import Disposition
from amqp10.messaging import ACCEPTED, RELEASED, Error, Rejected
from amqp10.types import encode

from ....kit.dialects.v1_0.owner import FIRST, Owner

FORMS = ["ours", "with last", "small", "wide", "symbol", "settled by a wide boolean"]
STATES = [ACCEPTED, ACCEPTED, ACCEPTED, RELEASED, Rejected(Error("a:b", "p" * 9)), None]


def said(form: str, number: int, settled: bool, state: Any) -> bytes:
    """A disposition of one delivery, in one of the ways to say it."""
    whole = Disposition(True, number, number, settled, state).encode()
    if form == "small":
        whole = Disposition(True, number, None, settled, state).encode()
    if form == "ours":
        return encode_disposition(3, True, number, number, settled, state)
    if form == "wide":  # a list of 32 bits, every field in full
        fields = b"\x41\x70" + number.to_bytes(4, "big") + b"\x70" + number.to_bytes(4, "big")
        fields += (b"\x41" if settled else b"\x42") + (b"" if state is None else encode(state))
        count = 4 + (state is not None)
        whole = b"\x00\x53\x15\xd0" + (len(fields) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + fields
    elif form == "symbol":
        whole = b"\x00\xa3\x15amqp:disposition:list" + whole[3:]
    elif form == "settled by a wide boolean":
        fields = b"\x56\x01\x70" + number.to_bytes(4, "big") + b"\x40\x56" + bytes((settled,))
        whole = b"\x00\x53\x15\xc0" + bytes((len(fields) + 1, 4)) + fields
    return (8 + len(whole)).to_bytes(4, "big") + b"\x02\x00\x00\x03" + whole


def frames_of(data: bytes) -> list[bytes]:
    """Cut into frames."""
    frames = []
    while data:
        size = int.from_bytes(data[:4], "big")
        frames.append(data[:size])
        data = data[size:]
    return frames


def payload(seen: Any) -> bytes:
    """Return the payload that tells the deliveries of one link from the other's; b"" for an event of neither."""
    found: bytes = seen[2] if isinstance(seen, tuple) else b""
    return found


RUNS = st.tuples(
    st.sampled_from(FORMS),
    st.integers(0, 14),
    st.integers(1, 8),
    st.booleans(),
    st.sampled_from(STATES),
)


@given(st.lists(st.sampled_from(["post", "hold"]), max_size=14), st.lists(RUNS, max_size=4))
@example(["post"] * 14, [("ours", 0, 8, True, ACCEPTED), ("ours", 8, 6, True, RELEASED)])
@example(["post", "hold", "post"], [("ours", 0, 3, False, STATES[4])])
@example(["post", "hold"] * 7, [("with last", 0, 8, True, ACCEPTED), ("wide", 8, 6, False, ACCEPTED)])
def test_joined(sends: list[str], runs: list[tuple[str, int, int, bool, Any]]) -> None:
    """Whatever is said, of untracked ones and of others, past the end of the numbers: as if it were read one by one."""
    owners = [Owner(True, 100, 100) for _ in range(2)]
    for each in sends:
        for owner in owners:
            if each == "post":
                owner.send(0, "a", 20, False)
            else:
                owner.hold(1)
    frames = [
        said(form, FIRST + at + step & 0xFFFF_FFFF, settled, state)
        for form, at, count, settled, state in runs
        for step in range(count)
    ]
    owners[0].hear(b"".join(frames))
    with patch.object(_frames, "join_dispositions", lambda said, data, at, body, end: end):
        owners[1].hear(b"".join(frames))
    for owner in owners:
        owner.seen.sort(key=payload)  # what is said of one link comes in its order, as with a range
        owner.look()
    (*seen, answers), (*seen_apart, answers_apart) = (owner.all_seen() for owner in owners)
    assert seen == seen_apart
    # That we settle too is said by link: in which order is nobody's business.
    assert sorted(frames_of(answers)) == sorted(frames_of(answers_apart))


@pytest.mark.parametrize("first", [1000, 20])
@pytest.mark.parametrize("form", ["ours", "with last", "wide", "small"])
def test_it_is_one(form: str, first: int) -> None:
    """Neighbors become one, up to what is not here yet; a gap, another state and another channel begin another."""
    numbers = [first, first + 1, first + 2, first + 4, first + 5]
    data = b"".join(said(form, number, True, ACCEPTED) for number in numbers)
    data += said(form, first + 6, True, RELEASED)
    data += encode_frame(4, Disposition(True, first + 7, first + 7, True, RELEASED))
    reader = FrameReader(1 << 20, reuses=True)
    reader.feed(data + said(form, first + 8, True, ACCEPTED) + said(form, first + 9, True, ACCEPTED)[:-1])
    seen = []
    while (frame := reader.next()) is not None:
        found: Any = frame[2]
        seen.append((frame[1], found.first - first, (found.last or found.first) - first))
    assert seen == [(3, 0, 2), (3, 4, 5), (3, 6, 6), (4, 7, 7), (3, 8, 8)]

"""What becomes of a delivery when its link is resumed, and how far a message has come (§2.6.13, §3.4.6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.dialects.v1_0.unsettled_map import (
    ABSENT,
    ReceivedPosition,
    Step,
    cut,
    extent,
    offset_of,
    place_of,
    sender_step,
)
from amqp10.messaging import ACCEPTED, RELEASED, Error, Message, Modified, Received, Rejected, TransactionalState
from amqp10.testing.strategies import messages
from amqp10.types import encode

TOLD = Received(2, 0)


@pytest.mark.parametrize(
    ("ours", "theirs", "step"),
    [
        pytest.param(None, ABSENT, Step.UNKNOWN, id="1"),
        pytest.param(None, Received(3, 0), Step.CONTINUE, id="2"),
        pytest.param(None, ACCEPTED, Step.SETTLE, id="3"),
        pytest.param(None, None, Step.CONTINUE, id="4"),
        pytest.param(TOLD, ABSENT, Step.UNKNOWN, id="5"),
        pytest.param(TOLD, Received(3, 0), Step.CONTINUE, id="6"),
        pytest.param(TOLD, Received(1, 7), Step.ABORT, id="7"),
        pytest.param(TOLD, ACCEPTED, Step.SETTLE, id="8"),
        pytest.param(TOLD, None, Step.ABORT, id="9"),
        pytest.param(ACCEPTED, ABSENT, Step.FINISH, id="10"),
        pytest.param(ACCEPTED, Received(1, 0), Step.CLOSE, id="11"),
        pytest.param(ACCEPTED, ACCEPTED, Step.SETTLE, id="12"),
        pytest.param(ACCEPTED, RELEASED, Step.RESTATE, id="13"),
        pytest.param(ACCEPTED, None, Step.CLOSE, id="14"),
    ],
)
def test_rows(ours: object, theirs: object, step: Step) -> None:
    """The fourteen examples of §3.4.6, by their numbers; 1 and 5 where the receiver may have settled first."""
    assert sender_step(ours, theirs) is step  # type: ignore[arg-type]


def test_absent() -> None:
    """A delivery missing in the receiver's map is sent again if the receiver surely never had it."""
    assert sender_step(None, ABSENT, second=True) is Step.RESEND
    assert sender_step(None, ABSENT, handed_over=False) is Step.RESEND
    assert sender_step(None, ABSENT, second=True, streamed=True) is Step.UNKNOWN
    assert sender_step(None, ABSENT, second=True, incomplete=True) is Step.WAIT
    assert sender_step(ACCEPTED, ABSENT, incomplete=True) is Step.WAIT
    assert sender_step(None, TransactionalState(b"t")) is Step.CONTINUE


@given(messages(), st.data())
def test_places(message: Message, data: st.DataObject) -> None:
    """A place is the same however the octets came, and leads back to where it was taken."""
    payload = message.encode()
    end = data.draw(st.integers(0, len(payload)))
    cuts = sorted(data.draw(st.lists(st.integers(0, end), max_size=6)))
    place = ReceivedPosition()
    for start, stop in zip([0, *cuts], [*cuts, end], strict=True):
        place.feed(payload[start:stop])
    assert place.received == place_of(payload[:end]).received
    assert offset_of(payload, place.received) == end


@given(st.binary(max_size=200), st.data())
def test_places_in_anything(payload: bytes, data: st.DataObject) -> None:
    """The same for a payload that is no message."""
    end = data.draw(st.integers(0, len(payload)))
    middle = data.draw(st.integers(0, end))
    place = place_of(payload[:middle])
    place.feed(payload[middle:end])
    assert offset_of(payload, place.received) == end


@pytest.mark.parametrize(
    "begun",
    [b"", b"\0\xb3\x7f\xff\xff\xff", b"\0\x53\x77" + b"\0\x40" * 100_000],
    ids=["zeros", "a long name", "values in values"],
)
def test_places_in_what_never_ends(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a message that never says how long a section is, a few octets are looked at, and not all of them each time."""
    looked_at = []

    def look(head: bytes) -> int | None:
        looked_at.append(len(head))
        return extent(head)

    monkeypatch.setattr("amqp10.dialects.v1_0.unsettled_map.extent", look)
    payload = begun + bytes(300_000 - len(begun))
    assert place_of(payload).received == Received(0, 300_000)
    assert sum(looked_at) < 10_000


def test_place_of_sections() -> None:
    """Sections count from 0, each data section by itself; a whole message ends where the next one would begin."""
    payload = Message(body=b"", subject="s").encode() + b"\0\x53\x75\xa0\x03abc"
    assert place_of(payload).received == Received(3, 0)
    assert place_of(payload[:-1]).received == Received(2, 7)
    assert place_of(b"").received == Received(0, 0)
    assert offset_of(payload, Received(2, 8)) == len(payload)
    assert offset_of(payload, Received(2, 9)) is None
    assert offset_of(payload, Received(4, 0)) is None
    assert offset_of(payload, None) == 0
    assert offset_of(payload, TransactionalState(b"t")) == len(payload)


def test_cut() -> None:
    """A map is cut where it does not fit any more; an outcome that fits nowhere is said without its details."""
    entries = [(bytes([number]), ACCEPTED) for number in range(4)]
    size = len(encode(b"0")) + len(encode(ACCEPTED))
    assert cut(entries, 4 * size) == (dict(entries), False)
    assert cut(entries, 4 * size - 1) == (dict(entries[:3]), True)
    assert cut([], 0) == ({}, False)
    rejected = Rejected(Error("x", "y" * 500))
    modified = Modified(delivery_failed=True, message_annotations={"x": "y" * 500})
    assert cut([(b"0", rejected)], 100) == ({b"0": Rejected(Error("x"))}, False)
    assert cut([(b"0", modified)], 100) == ({b"0": Modified(delivery_failed=True)}, False)

"""Places in a stream, as readers say them, and the filters that only streams have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from amqp10.broker._queues.message import QueuedMessage
from amqp10.broker._queues.selection import Filtering
from amqp10.broker._queues.stream_offsets import StreamPosition, read_stream_filters, seconds
from amqp10.messaging import Message, Selector, StreamFilter, StreamMatchUnfiltered, StreamOffset
from amqp10.types import Described, Symbol, Timestamp, ULong

from ...kit.inside.broker import Refused


def asked(*filters: Any) -> dict[Any, Any]:
    return {each.name: each.described for each in filters}


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("first", StreamPosition("first")),
        ("last", StreamPosition("last")),
        ("next", StreamPosition("next")),
        (7, StreamPosition(offset=7)),
        (ULong(7), StreamPosition(offset=7)),
        (datetime.fromtimestamp(5, UTC), StreamPosition("moment", moment=5)),
        (Timestamp(-5000), StreamPosition("moment", moment=-5)),
    ],
)
def test_places(said: object, place: StreamPosition) -> None:
    """Words, offsets and moments."""
    assert StreamPosition.read(said) == place


def test_how_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval counts back from now."""
    monkeypatch.setattr("time.time", lambda: 1_000_000.0)
    assert StreamPosition.read("2h") == StreamPosition("moment", moment=1_000_000.0 - 7200)
    assert [seconds(each) for each in ("1Y", "1M", "7D", "3m", "9s")] == [31_536_000, 2_592_000, 604_800, 180, 9]


@pytest.mark.parametrize("said", ["", "bad", "1w", "-1s", -1, True, None, 1.5, b"first"])
def test_what_is_no_place(said: object) -> None:
    """It is refused, with 406 where the dialect has codes."""
    with pytest.raises(Refused) as caught:
        read_stream_filters({Symbol("f"): Described(StreamOffset.descriptor_name, said)}, None, None)
    assert caught.value.error.info == {Symbol("reply-code"): 406}


def test_filter_values() -> None:
    """Messages with one of the values pass, without any if asked for, and other filters hold beside it."""

    def message(value: str | None) -> QueuedMessage:
        annotations = {} if value is None else {Symbol("x-stream-filter-value"): value}
        return QueuedMessage(Message(1, message_annotations=annotations).encode())

    def passing(filtering: Filtering | None) -> list[str | None]:
        assert filtering is not None
        return [each for each in ("a", "b", "c", None) if filtering.passes(message(each))]

    _, applied, filtering = read_stream_filters(asked(StreamFilter("a", "b")), None, None)
    assert (passing(filtering), applied) == (["a", "b"], asked(StreamFilter("a", "b")))
    _, _, filtering = read_stream_filters(asked(StreamFilter("a"), StreamMatchUnfiltered()), None, None)
    assert passing(filtering) == ["a", None]
    never = Filtering("x", lambda entry: False)
    selector = asked(Selector("x = 1"))
    _, applied, filtering = read_stream_filters(selector | asked(StreamFilter("a")), selector, never)
    assert (passing(filtering), applied) == ([], selector | asked(StreamFilter("a")))
    assert filtering is not None
    _, _, filtering = read_stream_filters(asked(StreamFilter("a")), None, None)
    assert filtering is not None
    assert not filtering.passes(QueuedMessage(b"\xff\xff"))


@pytest.mark.parametrize("value", [None, 5, [1], [], {}])
def test_values_that_are_none(value: object) -> None:
    """They are refused; an empty list is no filter that anybody means."""
    with pytest.raises(Refused):
        read_stream_filters({Symbol("f"): Described(StreamFilter.descriptor_name, value)}, None, None)


def test_nothing_asked() -> None:
    """From now on, and every message."""
    assert read_stream_filters(None, None, None) == (StreamPosition("next"), None, None)

"""The arithmetic of offsets: every one is read once, whatever the limits and partitions."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from hypothesis import given
from hypothesis import strategies as st

from amqp10.spark._logs.offsets import (
    Bounds,
    add_new_partitions,
    find_recreated,
    next_batch,
    resolve_offsets,
    restart_recreated,
    spark_offset,
    task_ranges,
    with_min_ranges,
)

from ...kit.inside.spark import DataLoss, report_lost_offsets

BOUNDS = {"a": Bounds(5, 10), "b": Bounds(0, 0)}


def test_words_and_numbers() -> None:
    """`earliest`, `latest`, and by partition; what is not named is as usual."""
    assert resolve_offsets(None, BOUNDS, "earliest") == {"a": 5, "b": 0}
    assert resolve_offsets("latest", BOUNDS, "earliest") == {"a": 10, "b": 0}
    assert resolve_offsets({"a": 7}, BOUNDS, "latest") == {"a": 7, "b": 0}
    assert resolve_offsets({"a": "earliest", "b": 3}, BOUNDS, "latest") == {"a": 5, "b": 3}
    with pytest.raises(ValueError, match="no partition 'c'; there are a, b"):
        resolve_offsets({"c": 1}, BOUNDS, "latest")


def test_an_offset_is_the_same_text_each_time() -> None:
    """Spark compares its JSON: the partitions are in order, whatever order they come in."""
    assert list(spark_offset({"b": 1, "a": 0}, {"b": 2, "a": 1})) == ["a", "b"]
    assert spark_offset({"a": 5}, {"a": 3}) == {"a": {"from": 5, "to": 5}}


def test_a_limit_is_shared_in_proportion_to_the_lag() -> None:
    """As Kafka's source does it, rounded up so that the shortest partition gets on, too."""
    done = spark_offset({"a": 0, "b": 0, "c": 7}, {"a": 0, "b": 0, "c": 7})
    batch = next_batch(done, {"a": 900, "b": 99, "c": 7}, 100)
    assert batch == {"a": {"from": 0, "to": 91}, "b": {"from": 0, "to": 10}, "c": {"from": 7, "to": 7}}
    assert next_batch(done, {"a": 900, "b": 99, "c": 7}, None)["a"] == {"from": 0, "to": 900}


@given(
    st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1),
    st.integers(1, 40),
    st.integers(1, 9),
)
def test_every_offset_is_read_once(partitions: dict[str, tuple[int, int]], most: int, at_least: int) -> None:
    """Batch after batch, in ranges that are never empty, until there is nothing left; none is much above the limit."""
    starts = {name: start for name, (start, _) in partitions.items()}
    ends = {name: start + more for name, (start, more) in partitions.items()}
    batch, seen = spark_offset(starts, starts), []
    while any(batch[name]["to"] < ends[name] for name in ends):
        batch = next_batch(batch, ends, most)
        parts = task_ranges(with_min_ranges(batch, at_least))
        found = [(part.partition, offset) for part in parts for offset in range(part.start, part.end)]
        assert all(part.start < part.end for part in parts)
        assert 0 < len(found) < most + len(ends)
        seen += found
    assert len(seen) == len(set(seen))
    assert set(seen) == {(name, offset) for name in ends for offset in range(starts[name], ends[name])}


def test_what_retention_has_removed() -> None:
    """It is an error that says which offsets, or a warning."""
    with pytest.raises(DataLoss, match="offsets 3 to 7 of 'a' are gone"):
        report_lost_offsets("a", 3, 8, fail=True)
    report_lost_offsets("a", 3, 8, fail=False)


def test_a_log_that_ends_before_what_was_read() -> None:
    """It was made anew: an error that says so, or it is read from its beginning; others go on where they are."""
    done = spark_offset({"a": 3, "b": 0}, {"a": 11, "b": 0})
    bounds = {"a": Bounds(2, 10), "b": Bounds(0, 5), "d": Bounds(0, 1)}
    assert find_recreated(done, bounds) == ["a"]
    with pytest.raises(DataLoss, match=r"'a' ends at offset 10, before 11, which is the next to be read: .* made anew"):
        restart_recreated(done, bounds, fail=True)
    begun = restart_recreated(done, bounds, fail=False)
    assert begun == {**done, "a": {"from": 2, "to": 2}}
    assert next_batch(begun, {"a": 10, "b": 5, "d": 1}, None)["a"] == {"from": 2, "to": 10}
    assert restart_recreated(begun, bounds, fail=True) == begun


def test_a_partition_that_is_gone() -> None:
    """An error that says how far it was read, or it is forgotten; the others go on."""
    done = spark_offset({"a": 3, "b": 0}, {"a": 11, "b": 4})
    with pytest.raises(DataLoss, match=r"partition 'a', read up to offset 11, is gone: it was deleted"):
        restart_recreated(done, {"b": Bounds(0, 5)}, fail=True)
    assert restart_recreated(done, {"b": Bounds(0, 5)}, fail=False) == {"b": {"from": 0, "to": 4}}


def test_partitions_that_are_new() -> None:
    """They are read from their first offset, once they have something."""
    done = spark_offset({"a": 0}, {"a": 4})
    bounds = {"a": Bounds(0, 4), "b": Bounds(3, 8), "c": Bounds(0, 0)}
    begun = add_new_partitions(done, bounds)
    assert begun == {**done, "b": {"from": 3, "to": 3}}
    assert next_batch(begun, {"a": 4, "b": 8, "c": 0}, None)["b"] == {"from": 3, "to": 8}

"""Offsets of logs: from where to where a batch reads, and how it is shared out. Pure arithmetic.

An offset of Spark's is `{"<partition>": {"from": 5, "to": 9}}`: what a batch reads, `to` excluded; the next one begins
at its `to`. So the end of a batch alone says all about it, whatever Spark takes for its start. Where a batch is split
into more ranges than there are partitions it says that, too (`parts`): one that is repeated has the same tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from .._data_loss import report

Offsets = dict[str, dict[str, int]]
Wanted = str | Mapping[str, int | str] | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a partition has.

    Attributes:
        first: the oldest offset that is kept.
        end: the one after the newest.
    """

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Range:
    """What one task reads of a partition: the offsets from `start` to `end`, that one excluded."""

    partition: str
    start: int
    end: int


def find_recreated(done: Offsets, bounds: Mapping[str, Bounds]) -> list[str]:
    """The partitions that end before where we are. A log only grows: they are others than those that were read.

    An empty one does not say: retention may have removed all that was read.
    """
    return [name for name, each in bounds.items() if name in done and each.first < each.end < done[name]["to"]]


def restart_recreated(done: Offsets, bounds: Mapping[str, Bounds], *, fail: bool) -> Offsets:
    """Where we are, without partitions that are gone, and after those that end before that are begun anew.

    Raises:
        DataLoss: that is to be an error.
    """
    for name in done.keys() - bounds.keys():
        fact = f"there is no partition {name!r} any more, which was read up to offset {done[name]['to']}"
        report(fact, "it is forgotten", "it was deleted, or the checkpoint is that of another address", fail=fail)
    firsts = {name: bounds[name].first for name in find_recreated(done, bounds)}
    for name in firsts:
        fact = f"{name!r} ends at offset {bounds[name].end}, before {done[name]['to']}, which is the next to be read"
        report(fact, "it is read from its beginning", fail=fail)
    return {**{name: each for name, each in done.items() if name in bounds}, **spark_offset(firsts, firsts)}


def add_new_partitions(done: Offsets, bounds: Mapping[str, Bounds]) -> Offsets:
    """Where we are, with the partitions that are new and have something: they are read from their beginning."""
    firsts = {name: each.first for name, each in bounds.items() if name not in done and each.first < each.end}
    return {**done, **spark_offset(firsts, firsts)}


def resolve_offsets(wanted: Wanted, bounds: Mapping[str, Bounds], default: str) -> dict[str, int]:
    """The option `startingOffsets` or `endingOffsets` as a number for each partition.

    Raises:
        ValueError: it names a partition that there is not.
    """
    named: Mapping[str, int | str] = wanted if isinstance(wanted, Mapping) else {}
    for name in named:
        if name not in bounds:
            raise ValueError(f"amqp: there is no partition {name!r}; there are {', '.join(bounds)}")
    usual = wanted if isinstance(wanted, str) else default
    found: dict[str, int] = {}
    for name, each in bounds.items():
        where = named.get(name, usual)
        found[name] = each.first if where == "earliest" else each.end if where == "latest" else int(where)
    return found


def spark_offset(starts: Mapping[str, int], ends: Mapping[str, int]) -> Offsets:
    """Spark's offset of a batch, its keys in order: it is compared as text."""
    return {name: {"from": starts[name], "to": max(starts[name], ends[name])} for name in sorted(ends)}


def next_batch(done: Offsets, ends: Mapping[str, int], most: int | None) -> Offsets:
    """The batch that comes after `done`: to `ends`, and of `most` messages in all, shared in proportion to the lag."""
    starts = {name: each["to"] for name, each in done.items()}
    lags = {name: max(0, ends.get(name, 0) - start) for name, start in starts.items()}
    total = sum(lags.values())
    if most is not None and total > most:
        # Rounded up, so that none is stuck: a batch may be larger by one for each partition.
        lags = {name: -(-lag * most // total) for name, lag in lags.items()}
    return spark_offset(starts, {name: start + lags[name] for name, start in starts.items()})


def with_min_ranges(batch: Offsets, at_least: int) -> Offsets:
    """A batch with a note that it is split until it has as many ranges."""
    return {name: {**each, "parts": at_least} if at_least > 1 else each for name, each in batch.items()}


def task_ranges(batch: Offsets) -> list[Range]:
    """What the tasks of a batch read: a range for each partition, or more if it is split."""
    at_least = max((each.get("parts", 1) for each in batch.values()), default=1)
    whole = [Range(name, each["from"], each["to"]) for name, each in batch.items() if each["from"] < each["to"]]
    total = sum(each.end - each.start for each in whole)
    found: list[Range] = []
    for each in whole:
        size = each.end - each.start
        parts = min(size, max(1, round(at_least * size / total)))
        cuts = [each.start + size * part // parts for part in range(parts + 1)]
        found += [Range(each.partition, low, high) for low, high in pairwise(cuts)]
    return found

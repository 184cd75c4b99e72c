"""Offsets of logs: from where to where a batch reads, and how tasks share it. Pure arithmetic.

An offset for Spark is `{"<partition>": {"from": 5, "to": 9}}`: the batch reads these offsets, `to` excluded, and the
next one begins at `to`. So the end of a batch alone defines it, whatever Spark takes for its start. `parts` says that a
batch is split into more ranges than there are partitions: when it is repeated it has the same tasks.
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
    """The offsets that a partition has.

    Attributes:
        first: the oldest offset.
        end: the offset after the newest.
    """

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets of a partition that one task reads: from `start` to `end`, excluding `end`."""

    partition: str
    start: int
    end: int


def find_recreated(done: Offsets, bounds: Mapping[str, Bounds]) -> list[str]:
    """Return the partitions that now end before our position. Logs only grow, so these were recreated.

    An empty partition proves nothing: retention may have removed all that was read.
    """
    return [name for name, each in bounds.items() if name in done and each.first < each.end < done[name]["to"]]


def restart_recreated(done: Offsets, bounds: Mapping[str, Bounds], *, fail: bool) -> Offsets:
    """Return the position without partitions that are gone, and at the beginning of those that were recreated.

    Raises:
        DataLoss: a partition is gone or was recreated, and `fail` is true.
    """
    for name in done.keys() - bounds.keys():
        fact = f"partition {name!r}, read up to offset {done[name]['to']}, is gone"
        report(fact, "it is forgotten", "it was deleted, or the checkpoint is that of another address", fail=fail)
    firsts = {name: bounds[name].first for name in find_recreated(done, bounds)}
    for name in firsts:
        fact = f"{name!r} ends at offset {bounds[name].end}, before {done[name]['to']}, which is the next to be read"
        report(fact, "it is read from its beginning", fail=fail)
    return {**{name: each for name, each in done.items() if name in bounds}, **spark_offset(firsts, firsts)}


def add_new_partitions(done: Offsets, bounds: Mapping[str, Bounds]) -> Offsets:
    """Return the position with new partitions that have messages, which are read from their beginning."""
    firsts = {name: each.first for name, each in bounds.items() if name not in done and each.first < each.end}
    return {**done, **spark_offset(firsts, firsts)}


def resolve_offsets(wanted: Wanted, bounds: Mapping[str, Bounds], default: str) -> dict[str, int]:
    """Return the option `startingOffsets` or `endingOffsets` as a number for each partition.

    Raises:
        ValueError: the option names an unknown partition.
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
    """Return the offset of a batch for Spark, its keys sorted because Spark compares offsets as text."""
    return {name: {"from": starts[name], "to": max(starts[name], ends[name])} for name in sorted(ends)}


def next_batch(done: Offsets, ends: Mapping[str, int], most: int | None) -> Offsets:
    """Return the batch after `done`, up to `ends`; `most` messages in all are shared in proportion to the lags."""
    starts = {name: each["to"] for name, each in done.items()}
    lags = {name: max(0, ends.get(name, 0) - start) for name, start in starts.items()}
    total = sum(lags.values())
    if most is not None and total > most:
        # Rounded up, so that no partition is stuck: a batch may be larger by one message per partition.
        lags = {name: -(-lag * most // total) for name, lag in lags.items()}
    return spark_offset(starts, {name: start + lags[name] for name, start in starts.items()})


def with_min_ranges(batch: Offsets, at_least: int) -> Offsets:
    """Return the batch with a note to split it into at least this many ranges."""
    return {name: {**each, "parts": at_least} if at_least > 1 else each for name, each in batch.items()}


def task_ranges(batch: Offsets) -> list[Range]:
    """Return the ranges that the tasks of a batch read: one for each partition, or more if the batch is split."""
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

"""The tiers of the tests: which tests each one has. `AMQP10_TIER` says which one runs.

`tests/conftest.py` gives the markers that are named here, and leaves out what the tier does not have.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

TIER = os.environ.get("AMQP10_TIER", "all")
"""The tests of a run: "quick" for those of `make check`, "all" for `make test`, "nightly" for `make nightly`."""
if TIER not in ("all", "quick", "nightly"):
    raise pytest.UsageError(f"AMQP10_TIER must be 'all', 'quick' or 'nightly', not {TIER!r}")
QUICK = TIER == "quick"
NIGHTLY = TIER == "nightly"

TESTS = Path(__file__).parents[1]
PLACES = {
    "end_to_end": (
        "bridging",
        "cli",
        "faults",
        "hostile/azure",
        "hostile/broker",
        "hostile/cli",
        "hostile/client",
        "hostile/spark",
        "interop",
        "spark",
        "broker/test_dialect_matrix.py",
        "dialects/v0_10/test_resume_everything.py",
        "sync/test_contract.py",
        "test_benchmarks.py",
        "test_examples.py",
        "testing/suite/test_suite.py",
    ),
    "nightly": (
        "faults",
        "azure/processor/test_balancing.py",
        "broker/retained/test_resume_model.py",
        "broker/transactions/test_walks.py",
        "dialects/v1_0/test_engine_walk.py",
        "fuzz/test_fuzz_frames.py",
        "fuzz/test_fuzz_values.py",
        "hostile/azure",
        "hostile/broker/test_conversations.py",
        "hostile/broker/test_odd_values.py",
        "hostile/client/test_servers.py",
        "hostile/quick/test_v1_0_mutants.py",
        "hostile/spark/test_reads.py",
        "interop/test_spark_killed.py",
        "messaging/test_shapes.py",
        "test_compiled.py",
    ),
}
"""The folders and files whose tests are given a marker, beside those that have it of themselves: whole processes, every
feature with every other, or independent peers; and what `tests/kit/counts.py` lets run more often."""

NOT_QUICK = ("end_to_end", "interop", "slow", "spark")
"""The markers of what the quick tier leaves out."""


@cache
def markers_of(path: Path) -> tuple[str, ...]:
    """Return the markers that the tests of this file are given for its place."""
    return tuple(mark for mark, places in PLACES.items() if any(path.is_relative_to(TESTS / each) for each in places))


def is_left_out(path: Path) -> bool:
    """Return whether the tier leaves out all tests of this folder or file, whatever they are marked with."""
    return QUICK and not set(NOT_QUICK).isdisjoint(markers_of(path))


def mark(item: pytest.Item) -> bool:
    """Give a test the markers of its place; return whether the tier has it."""
    for each in markers_of(item.path):
        item.add_marker(each)
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        item.add_marker("nightly")  # with more examples
    if NIGHTLY:
        return item.get_closest_marker("nightly") is not None
    return not (QUICK and any(map(item.get_closest_marker, NOT_QUICK)))

"""Tests go to the workers as pytest-xdist has it."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

from .scheduling import Scheduling

TESTS = [f"test_{number}.py::test" for number in range(200)]
TESTS += [f"test_{number}.py::test@{group}" for group in ("one", "two", "three") for number in range(20)]


class Worker:
    """One that notes which tests it is given."""

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="worker")
        self.waiting: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.waiting += numbers

    def shutdown(self) -> None:
        self.shutting_down = True


def run(kind: type[Any]) -> tuple[list[tuple[int, int]], int]:
    """Return which of three workers ran which test, in this order, and the most that was kept of one."""
    options = SimpleNamespace(loadscopereorder=True)
    scheduling = kind(SimpleNamespace(option=options, getvalue=lambda _: ["3*popen"]), Producer("", enabled=False))
    workers = [Worker() for _ in range(3)]
    for worker in workers:
        scheduling.add_node(worker)
    for worker in workers:
        scheduling.add_node_collection(worker, list(TESTS))
    scheduling.schedule()
    dice = random.Random(1)
    ran, most = [], 0
    while busy := [worker for worker in workers if worker.waiting]:
        worker = dice.choice(busy)
        number = worker.waiting.pop(0)
        ran.append((workers.index(worker), number))
        scheduling.mark_test_complete(worker, number)
        most = max(most, *map(len, scheduling.assigned_work.values()))
    assert scheduling.tests_finished
    assert not scheduling.has_pending
    return ran, most


def test_as_of_xdist() -> None:
    """The same worker is given the same test in the same order; what is done is not kept."""
    expected, kept = run(LoadGroupScheduling)
    found, few = run(Scheduling)
    assert found == expected
    assert len(found) == len(TESTS)
    assert few <= 4 < kept

"""`amqp10 bridge`: counts, codes, JSON lines, and what a signal leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ..kit.processes.programs import started

Commands = Callable[..., Any]


@pytest.fixture
def address() -> str:
    """A queue that no other test uses."""
    return f"bridge-{uuid.uuid4().hex[:12]}"


def test_from_one_queue_to_another(amqp10: Commands, broker_url: str, address: str) -> None:
    """All of it arrives, and the last line says how many there were."""
    amqp10("send", broker_url, address, "one", "two", "three")
    ends = "--from", broker_url, address, "--to", broker_url, f"{address}-new"
    moved = amqp10("bridge", *ends, "--until-empty")
    assert (moved.code, moved.out) == (0, "")
    assert moved.err.startswith("3 moved; ")
    assert amqp10("receive", broker_url, f"{address}-new", "-n", "3").out == "one\ntwo\nthree\n"


def test_json_lines(amqp10: Commands, broker_url: str, address: str) -> None:
    """The last object says that it is the last, and has the counts."""
    amqp10("send", broker_url, address, "one", "two", "three")
    ends = "--from", broker_url, address, "--to", broker_url, f"{address}-new"
    moved = amqp10("bridge", *ends, "-n", "2", "--json")
    assert (moved.code, moved.err) == (0, "")
    last = json.loads(moved.out.splitlines()[-1])
    assert (last["moved"], last["in_flight"], last["ended"]) == (2, 0, "done")


def test_exactly_once_within_a_broker_and_between_two(
    amqp10: Commands, broker_url: str, other_broker: Callable[..., Any], address: str, tmp_path: Any
) -> None:
    """In transactions, or with a store; a file for nothing is wrong usage."""
    _, other = other_broker()
    amqp10("send", broker_url, address, "one", "two")
    here = "--from", broker_url, address, "--to", broker_url, f"{address}-new"
    assert amqp10("bridge", *here, "--until-empty", "--exactly-once").err.startswith("2 moved; ")
    there = "--from", broker_url, f"{address}-new", "--to", other, address
    store = str(tmp_path / "store")
    assert amqp10("bridge", *there, "--until-empty", "--exactly-once", "--store", store).err.startswith("2 moved; ")
    assert amqp10("receive", other, address, "-n", "2").out == "one\ntwo\n"
    assert amqp10("bridge", *there, "--until-empty", "--exactly-once").err.startswith("without --store")
    assert amqp10("bridge", *there, "--store", store).code == 2


def test_dry_run(amqp10: Commands, broker_url: str, address: str, tmp_path: Any) -> None:
    """It says what waits and where it would go, and all of it stays; an end that does not take it is an error."""
    amqp10("send", broker_url, address, "one", "two")
    ends = "--from", broker_url, address, "--to", broker_url
    found = amqp10("bridge", *ends, f"{address}-new", "--to-dialect", "0-9-1", "--dry-run")
    assert (found.code, found.err) == (0, "")
    lines = found.out.splitlines()
    assert lines[0].startswith(f"from {broker_url.replace('guest:guest@', '')} {address}: amqp10")
    assert lines[1].endswith("dialect 0-9-1")
    assert lines[2] == "2 messages wait; they would be moved at least once, with their properties mapped"
    store = tmp_path / "store"
    exactly = amqp10("bridge", *ends, f"{address}-new", "--exactly-once", "--store", str(store), "--dry-run", "--json")
    plan = json.loads(exactly.out)
    assert (plan["messages"], plan["source"]["address"], plan["guarantee"]) == (2, address, "resume")
    assert not store.exists()
    assert amqp10("browse", broker_url, address, "-n", "2").out == "one\ntwo\n"
    refused = amqp10("bridge", *ends, "/exchanges/nowhere/key", "--dry-run")
    assert refused.code == 5


def test_what_cannot_be(amqp10: Commands, broker_url: str, address: str) -> None:
    """One line, and the code that says what kind of failure it is."""
    ends = "--from", broker_url, address, "--to", broker_url, address
    itself = amqp10("bridge", *ends)
    assert itself.code == 2
    assert "to itself" in itself.err
    assert amqp10("bridge", "--from", "nonsense", "a", "--to", broker_url, "b").code == 2
    lost = amqp10("bridge", "--from", broker_url, "a", "--to", "amqp://127.0.0.1:1", "b")
    assert lost.code == 3


def test_a_message_that_the_target_does_not_accept(amqp10: Commands, broker_url: str, address: str) -> None:
    """The code is 6, and the message is where it was; or with --refused-to elsewhere, and the code is 6, too."""
    amqp10("send", broker_url, address, "one")
    ends = "--from", broker_url, address, "--to", broker_url, "/exchanges/amq.direct/nobody"
    stopped = amqp10("bridge", *ends, "--until-empty", "--json")
    assert stopped.code == 6
    last = json.loads(stopped.out.splitlines()[-1])
    assert (last["moved"], last["refused"], last["returned"]) == (0, 1, 1)
    assert "released" in last["ended"]
    aside = amqp10("bridge", *ends, "--until-empty", "--refused-to", f"{address}-parked")
    assert aside.code == 6
    assert amqp10("receive", broker_url, f"{address}-parked", "-n", "1").out == "one\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal(amqp10: Commands, broker_url: str, address: str, number: signal.Signals) -> None:
    """It ends in order: every message is at one end, none at both."""
    total = 3000
    amqp10("send", broker_url, address, *map(str, range(total)))
    ends = "--from", broker_url, address, "--to", broker_url, f"{address}-new"
    command = [sys.executable, "-m", "amqp10", "bridge", *ends, "--json", "--rate", "1000", "--close-timeout", "300"]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        while not json.loads(process.stdout.readline())["moved"]:
            pass
        process.send_signal(number)
        out, err = process.communicate(timeout=90)  # it does not sit out the time that ending may take
    assert process.returncode == 128 + number, err
    last = json.loads(out.splitlines()[-1])
    assert (last["ended"], last["in_flight"]) == ("stopped", 0)
    moved = last["moved"]
    there = amqp10("browse", broker_url, f"{address}-new", "-n", str(total)).out.split()
    left = amqp10("browse", broker_url, address, "-n", str(total)).out.split()
    assert there == list(map(str, range(moved)))
    assert left == list(map(str, range(moved, total)))

"""The programs on the pages of the brokers run on those brokers, on asyncio and on trio."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ..kit.processes.programs import run_program
from .brokers import Server

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.capability("broker profiles")]

ROOT = Path(__file__).resolve().parents[2]
trio_form = runpy.run_path(str(ROOT / "tools" / "tabs.py"))["trio_form"]


def check(broker: Server, name: str, management: str) -> None:
    """Run a program as it is written, on asyncio, and on trio; `management` is what it asks the broker."""
    path = ROOT / "examples" / "brokers" / name
    each = "each receiver has we are open\n"
    for code in (path.read_text(), trio_form(path.read_text())):
        written = run_program(code, str(path), broker.url("amqp"))
        assert written == f"{management}\none receiver has order 1\n{each}{each}"


def test_artemis_delays(artemis: Server) -> None:
    """A message that arrives later arrives behind one that was sent after it."""
    path = ROOT / "examples" / "brokers" / "delayed.py"
    assert run_program(path.read_text(), str(path), artemis.url("amqp")) == "good morning\ncall back\n"


@pytest.mark.parametrize(
    ("name", "written"),
    [("delays.py", "call back arrived later: True\n"), ("priority.py", "a telegram\na letter\na leaflet\n")],
)
def test_rabbitmq_delays(rabbitmq: Server, name: str, written: str) -> None:
    """Messages that arrive later, and urgent ones that arrive first."""
    path = ROOT / "examples" / name
    assert run_program(path.read_text(), str(path), rabbitmq.url("amqp")) == written


def test_artemis(artemis: Server) -> None:
    """A queue that is made on first use, and a topic."""
    check(artemis, "artemis.py", "there is a queue: True")


def test_broker_j(broker_j: Server) -> None:
    """A queue that is made on first use, and an exchange as a topic."""
    check(broker_j, "broker_j.py", "waiting in the queue: 1")

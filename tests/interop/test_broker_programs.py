"""The programs on the pages of the brokers run on those brokers, on asyncio and on trio."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ..kit.programs import run_program
from .brokers import Server

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.capability("broker profiles")]

ROOT = Path(__file__).resolve().parents[2]
asyncio_form = runpy.run_path(str(ROOT / "tools" / "tabs.py"))["asyncio_form"]
WRITTEN = "one receiver has order 1\neach receiver has we are open\neach receiver has we are open\n"


def check(broker: Server, name: str) -> None:
    """Run a program as it is written and as it is on asyncio."""
    path = ROOT / "examples" / "brokers" / name
    for code in (path.read_text(), asyncio_form(path.read_text())):
        assert run_program(code, str(path), broker.url("amqp")) == WRITTEN


def test_artemis(artemis: Server) -> None:
    """A queue that is made on first use, and a topic."""
    check(artemis, "artemis.py")


def test_broker_j(broker_j: Server) -> None:
    """A queue that is made on first use, and an exchange as a topic."""
    check(broker_j, "broker_j.py")

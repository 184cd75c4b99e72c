"""Machines that are tables: only legal steps change the state, and the docs show the tables."""

from __future__ import annotations

import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import ClassVar

import pytest

from amqp10._machine import HAPPENED, RECEIVED, SENT, Machine, Step
from amqp10.errors import LocalProtocolError, RemoteProtocolError


class Door(Enum):
    SHUT = "nobody comes in"
    AJAR = "who knows it comes in"


class Push(Step):
    SEND_PUSH = SENT, "push"
    RECEIVE_PUSH = RECEIVED, "push"
    STORM = HAPPENED, "storm"


class Room(Machine[Door]):
    noun = "door"
    transitions: ClassVar = {
        (Door.SHUT, Push.SEND_PUSH): Door.AJAR,
        (Door.AJAR, Push.RECEIVE_PUSH): Door.SHUT,
        (Door.SHUT, Push.STORM): Door.AJAR,
    }

    def __init__(self) -> None:
        self.state = Door.SHUT
        self.open = False

    def entered(self, state: Door) -> None:
        self.open = state is Door.AJAR


def test_steps() -> None:
    """Each step of the table changes the state, and what is derived from it."""
    room = Room()
    assert room.may(Push.STORM)
    room.advance(Push.SEND_PUSH)
    assert (room.state, room.open, room.may(Push.STORM)) == (Door.AJAR, True, False)
    room.advance(Push.RECEIVE_PUSH)
    assert (room.state, room.open) == (Door.SHUT, False)


def test_illegal_steps() -> None:
    """A step without an entry changes nothing, and who took it is to blame."""
    room = Room()
    with pytest.raises(RemoteProtocolError, match="the peer sent push in door state SHUT") as caught:
        room.advance(Push.RECEIVE_PUSH)
    assert caught.value.condition == "amqp:illegal-state"
    room.advance(Push.STORM)
    with pytest.raises(LocalProtocolError, match="push is not possible in door state AJAR"):
        room.advance(Push.SEND_PUSH)
    assert (room.state, room.open) == (Door.AJAR, True)


def test_page_is_up_to_date() -> None:
    """docs/reference/states.md is what the tables say."""
    tool = Path(__file__).resolve().parents[1] / "tools" / "states.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

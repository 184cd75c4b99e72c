"""An emulator whose event hubs pass on events that are no messages, as Event Hubs passes on what it was sent."""

from __future__ import annotations

from typing import Any

import pytest

from ..inside.broker import Partition

MALFORMED = "malformed"
"""The body of an event that becomes malformed when the hub has it."""


def pass_on_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all hubs of the test pass on events with the body `MALFORMED` as octets that are no message."""
    stamp = Partition._stamp

    def malformed(partition: Partition, entry: Any) -> None:
        stamp(partition, entry)
        if MALFORMED.encode() in entry.payload:
            entry.payload = b"no message"

    monkeypatch.setattr(Partition, "_stamp", malformed)

"""The peer of the client's tests, as a fixture."""

from __future__ import annotations

import pytest

from ..kit.client.peer import Serve, serving
from ..kit.inside.client import consumer


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver lets others run whenever it looks at the clock: what it does depends on no machine's speed."""
    monkeypatch.setattr(consumer, "TURN", 0.0)


@pytest.fixture
def serve() -> Serve:
    """`async with serve(...) as (peer, connection)`."""
    return serving

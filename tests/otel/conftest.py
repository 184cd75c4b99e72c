"""Where spans and metrics go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from amqp10.otel import instrument, uninstrument

from ..kit.telemetry import Seen


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def everywhere(seen: Seen) -> Iterator[None]:
    instrument(**seen.settings)
    yield
    uninstrument()

"""A vhost, a client of it, and queues, whose clock the test sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amqp10.broker._virtual_host_core import VirtualHostCore

from ..kit.broker.controller import Controller, controller
from ..kit.broker.stored_life import Begin, Life
from ..kit.broker.wire import Wire
from ..kit.clock import Clock
from ..kit.inside.broker import Queue, QueueSettings


@pytest.fixture
def clock() -> Clock:
    """A clock at 1000 s."""
    return Clock()


@pytest.fixture
def vhost(clock: Clock) -> VirtualHostCore:
    """A vhost with the usual settings."""
    return VirtualHostCore(clock=clock)


@pytest.fixture
def wire(vhost: VirtualHostCore) -> Wire:
    """A client of a broker with the usual settings."""
    return Wire(vhost)


@pytest.fixture
def control(wire: Wire) -> Controller:
    """A control link, attached."""
    return controller(wire)


@pytest.fixture
def make_queue(clock: Clock) -> Callable[..., Queue]:
    """Makes queues with the settings that the test names; the test runs them itself."""

    def make(**settings: object) -> Queue:
        return Queue("q", QueueSettings(clock=clock, touch=lambda node: None, **settings))  # type: ignore[arg-type]

    return make


@pytest.fixture
def begin(tmp_path: Path, clock: Clock) -> Iterator[Begin]:
    """Begins a life on the same file; the one before crashes with that."""
    lives: list[Life] = []

    def next_life(**settings: object) -> Life:
        for life in lives:
            life.store.file.close()
        lives.append(Life(tmp_path / "store", clock, **settings))
        return lives[-1]

    yield next_life
    for life in lives:
        life.store.file.close()

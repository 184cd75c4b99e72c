"""The end of a session or a connection costs no more if much is retained for others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp10.engine import SessionTerms
from amqp10.messaging import Source, Target

from ...kit.broker.wire import Wire
from ...kit.inside.broker import VirtualHostCore
from ...kit.steps import steps

LASTING: dict[str, Any] = {"expiry_policy": "never", "timeout": 100}


def subscriptions(wire: Wire, count: int) -> None:
    """Leave durable subscriptions."""
    for number in range(count):
        source = Source("topic", durable="unsettled-state", capabilities=("topic",), **LASTING)
        wire.receive_from(source, name=f"s{number}").detach(closed=False)
    wire.turn()


def producers(wire: Wire, count: int) -> None:
    """Leave links that can be resumed."""
    for number in range(count):
        wire.send_to(Target("q", **LASTING), name=f"s{number}").detach(closed=False)
    wire.turn()


def sessions(wire: Wire, count: int) -> None:
    """Leave sessions of AMQP 0-10 that can be resumed."""
    for first in range(0, count, 100):
        lasting = Wire(wire.vhost, "0-10", session=SessionTerms(timeout=100))
        for _ in range(min(100, count - first) - 1):  # it has begun one
            lasting.client.begin(SessionTerms(timeout=100))
        lasting.turn()
        connection(lasting)


def session(wire: Wire) -> None:
    wire.session.end()
    wire.turn()


def connection(wire: Wire) -> None:
    wire.engine.receive_eof()
    wire.settle_down()


@pytest.mark.parametrize("end", [session, connection])
@pytest.mark.parametrize("leave", [subscriptions, producers, sessions])
def test_an_end_costs_the_same(leave: Callable[[Wire, int], None], end: Callable[[Wire], None]) -> None:
    """With four times as much left by another connection."""

    def cost(count: int) -> int:
        vhost = VirtualHostCore(clock=lambda: 0.0)
        leave(Wire(vhost), count)
        other = Wire(vhost)
        return steps(lambda: end(other))

    cost(1)
    assert cost(400) < 1.1 * cost(100)


def test_a_session_that_can_be_resumed_costs_the_same() -> None:
    """With four times as many left by another connection."""

    def cost(count: int) -> int:
        vhost = VirtualHostCore(clock=lambda: 0.0)
        sessions(Wire(vhost), count)
        other = Wire(vhost, "0-10", session=SessionTerms(timeout=100))

        def begin() -> None:
            assert other.client.begin(SessionTerms(timeout=100)) is not None
            other.turn()

        begin()
        return steps(begin)

    assert cost(400) < 1.1 * cost(100)

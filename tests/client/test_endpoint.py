"""How endpoints end, and what calls get that come too late."""

from __future__ import annotations

import anyio
import pytest

from amqp10.client._core.lifecycle import Lifecycle
from amqp10.client._errors import fresh
from amqp10.errors import ConnectionLost, LinkDetached, LocalProtocolError


def test_not_yet_open() -> None:
    """Using what was not entered is a fault of this side's."""
    assert isinstance(Lifecycle("link").gone(), LocalProtocolError)


def test_entered_once() -> None:
    """The objects are not reusable."""
    endpoint = Lifecycle("link")
    endpoint.enter()
    with pytest.raises(LocalProtocolError, match="once"):
        endpoint.enter()


def test_the_peer_ended_it() -> None:
    """The cause has the peer's words, in a copy of its own for each who raises it."""
    endpoint = Lifecycle("link")
    cause = LinkDetached("amqp:resource-deleted", "gone", {"k": 1})
    endpoint.end_for_good(cause)
    first, second = endpoint.gone(), endpoint.gone()
    assert first is not second
    assert isinstance(first, LinkDetached)
    assert (first.condition, first.description, first.info) == ("amqp:resource-deleted", "gone", {"k": 1})


def test_closed_here_goes_first() -> None:
    """The side that closed it is told so, whatever arrives afterwards."""
    endpoint = Lifecycle("link")
    endpoint.closed = True
    endpoint.end_for_good(ConnectionLost("later"))
    assert isinstance(endpoint.gone(), anyio.ClosedResourceError)


def test_fresh_keeps_the_reason() -> None:
    """The copy of a cause still names what caused it."""
    cause = ConnectionLost("broken")
    cause.__cause__ = OSError("reset")
    copy = fresh(cause)
    assert str(copy) == "broken"
    assert copy.__cause__ is cause.__cause__


@pytest.mark.anyio
async def test_until_wakes_every_waiter() -> None:
    """`changed` lets all who wait look again."""
    endpoint = Lifecycle("link")
    seen = []

    async def wait(number: int) -> None:
        await endpoint.until(lambda: endpoint.over)
        seen.append(number)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, 1)
        tasks.start_soon(wait, 2)
        await anyio.wait_all_tasks_blocked()
        endpoint.changed()
        await anyio.wait_all_tasks_blocked()
        assert seen == []
        endpoint.end_for_good(None)
    assert sorted(seen) == [1, 2]

"""How endpoints end, and what calls get that come too late."""

from __future__ import annotations

import anyio
import pytest

from amqp10.client._endpoint import Endpoint, fresh
from amqp10.errors import ConnectionLost, LinkDetached, LocalProtocolError


def test_not_yet_open() -> None:
    """Using what was not entered is a fault of this side's."""
    assert isinstance(Endpoint()._gone(), LocalProtocolError)


def test_entered_once() -> None:
    """The objects are not reusable."""
    endpoint = Endpoint()
    endpoint._enter()
    with pytest.raises(LocalProtocolError, match="once"):
        endpoint._enter()


def test_the_peer_ended_it() -> None:
    """The cause has the peer's words, in a copy of its own for each who raises it."""
    endpoint = Endpoint()
    cause = LinkDetached("amqp:resource-deleted", "gone", {"k": 1})
    endpoint._on_ended(cause)
    first, second = endpoint._gone(), endpoint._gone()
    assert first is not second
    assert isinstance(first, LinkDetached)
    assert (first.condition, first.description, first.info) == ("amqp:resource-deleted", "gone", {"k": 1})


def test_closed_here_goes_first() -> None:
    """Who closed it is told so, whatever came afterwards."""
    endpoint = Endpoint()
    endpoint._closed = True
    endpoint._on_ended(ConnectionLost("later"))
    assert isinstance(endpoint._gone(), anyio.ClosedResourceError)


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
    endpoint = Endpoint()
    seen = []

    async def wait(number: int) -> None:
        await endpoint._until(lambda: endpoint._over)
        seen.append(number)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, 1)
        tasks.start_soon(wait, 2)
        await anyio.wait_all_tasks_blocked()
        endpoint._changed()
        await anyio.wait_all_tasks_blocked()
        assert seen == []
        endpoint._on_ended(None)
    assert sorted(seen) == [1, 2]

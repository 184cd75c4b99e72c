"""What 0-10 has beyond the topology, from several tasks."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import Connection, Reconnect
from amqp10.broker import Broker
from amqp10.native import amqp_0_10
from amqp10.testing import FaultProxy

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


async def test_tasks_share_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """They ask at once, at the start and again after a loss; a session for each would leave all but one to nobody."""
    begun = []
    begin = Connection.session

    def session(self: Connection) -> object:
        begun.append(self)
        return begin(self)

    monkeypatch.setattr(Connection, "session", session)
    async with (
        Broker(queues=["q"]) as broker,
        FaultProxy(broker.url) as proxy,
        Connection(proxy.url, dialect="0-10", reconnect=Reconnect(initial_delay=0.01)) as connection,
    ):
        native = connection.native
        assert isinstance(native, amqp_0_10.Native)

        async def look() -> None:
            assert not (await native.binding("amq.direct", "q")).bound

        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(look)
            assert len(begun) == 1
            events = connection.events()
            proxy.cut()
            await anext(events)

"""Outcomes that are given while the connection is away: told at the attach, or refused at once."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from amqp10 import Connection, ConnectionInterrupted, ConnectionRestored, EncodeError, Reconnect
from amqp10.broker import Broker
from amqp10.testing import FaultProxy

from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

PATIENT = Reconnect(initial_delay=0.2, max_delay=0.2, jitter=0, on_stale="ignore")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_outcome_that_cannot_be_encoded(stream: bool) -> None:
    """It is refused where it is given: the attach that was to tell it would fail, and with it the connection."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as filling, filling.sender("q") as sender:
            await sender.send("x")
        with anyio.fail_after(60):
            async with Connection(proxy.url, reconnect=PATIENT) as connection:
                receiver_settings: dict[str, Any] = {"stream": True} if stream else {}
                async with connection.receiver("q", **receiver_settings) as receiver:
                    delivery = await receiver.receive()
                    events = connection.events()
                    proxy.cut()
                    while type(await anext(events)) is not ConnectionInterrupted:
                        pass
                    with pytest.raises(EncodeError):
                        delivery.modify(message_annotations={"k": object()})
                    delivery.accept()
                    while type(await anext(events)) is not ConnectionRestored:
                        pass
                    async with connection.sender("q") as sender:
                        await sender.send("y")
                    assert connection.open


@pytest.mark.parametrize("outcome", ["accepted", None])
async def test_outcomes_that_are_never_told(caplog: pytest.LogCaptureFixture, outcome: str | None) -> None:
    """The peer does not come back: who leaves then is told by the log that what was settled here comes again."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        connection = Connection(proxy.url, reconnect=PATIENT, close_timeout=0.2)
        async with connection, connection.receiver("q") as receiver:
            async with connection.sender("q") as sender:
                await sender.send("x")
            delivery = await receiver.receive()
            proxy.stall()
            proxy.cut()
            await until(lambda: receiver._core.interrupted)
            if outcome is not None:
                delivery.accept()
    counts = [getattr(each, "amqp_count", None) for each in caplog.records if "unsettled deliver" in each.getMessage()]
    assert counts == ([1] if outcome else [])
    assert [each.levelname for each in caplog.records if "not tried again" in each.getMessage()] in ([], ["INFO"])

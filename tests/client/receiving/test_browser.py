"""Browsers: they end when all was seen, and leave everything as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from amqp10 import Message, Selector, Source, Unsupported
from amqp10.broker import Broker
from amqp10.client import Connection
from amqp10.engine import CreditChanged, Event
from amqp10.messaging import RELEASED, Error
from amqp10.profiles import RABBITMQ

from ...kit.client.peer import answering

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("subscriptions")]

Serve = Callable[..., Any]


async def test_wrong_wishes() -> None:
    """Settings that contradict each other raise at once."""
    with pytest.raises(ValueError, match="credit"):
        Connection("amqp://localhost").browser("q", credit=0)


async def test_what_it_asks_for() -> None:
    """A copy, unsettled; the source that was given stays as it was."""
    given = Source("q", filters=[Selector("a = 1")])
    terms = Connection("amqp://localhost").browser(given)._core.terms
    source = terms.source
    assert source is not None
    assert (source.address, source.distribution_mode, source.filter) == ("q", "copy", given.filter)
    assert (terms.settle_mode, len(source.outcomes), given.distribution_mode) == ("unsettled", 4, None)


@pytest.mark.parametrize("count", [0, 1, 4, 5, 23])
async def test_it_ends(count: int) -> None:
    """When all was seen, whether the credit was used up or not; and goes on with what came since."""
    async with Broker() as broker, broker.connect() as connection:
        async with connection.sender("q") as sender:
            await sender.send_many([Message(number) for number in range(count)])
            async with connection.browser("q", credit=4) as browser:
                assert [delivery.message.body async for delivery in browser] == list(range(count))
                assert browser.unsettled == 0  # it keeps nothing of what it saw
                await sender.send("later")
                assert [delivery.message.body async for delivery in browser] == ["later"]
                await sender.send("and later")
                assert (await browser.receive()).message.body == "and later"
        facts = broker.queue("q")
        assert (facts.depth, facts.unsettled, facts.dequeued, facts.redelivered) == (count + 2, 0, 0, 0)


@pytest.mark.parametrize("act", ["accept", "reject", "release", "modify", "with", "raise"])
@pytest.mark.parametrize("lent", [False, True])
async def test_outcomes_have_no_effect(serve: Serve, act: str, lent: bool) -> None:
    """Nothing is said of a message but that it is given back: at once, or by the end where it would come again."""
    settings = {"profile": RABBITMQ} if lent else {}
    async with serve(**settings) as (peer, connection), connection:
        async with connection.browser("q") as browser:
            await anyio.wait_all_tasks_blocked()
            sent = peer.send("q", "a", "b")
            delivery = await browser.receive()
            if act == "with":
                with delivery as message:
                    assert message.body == "a"
            elif act == "raise":
                with pytest.raises(KeyError), delivery:
                    raise KeyError
            else:
                getattr(delivery, act)()
            await browser.receive_batch(5)
            await anyio.wait_all_tasks_blocked()
            states = [each.remote_state for each in sent]
            assert states == [None, None] if lent else [RELEASED, RELEASED]
        assert [each.remote_state for each in sent] == [RELEASED, RELEASED]
        assert [event.closed for event in peer.ended] == [True]


@pytest.mark.parametrize("mode", ["move", None])
async def test_a_peer_that_would_take_them(serve: Serve, mode: str | None) -> None:
    """A peer that does not say that it copies is an error before any credit."""
    async with serve() as (peer, connection), connection:
        happened: list[Event] = answering(peer, distribution_mode=mode)
        with pytest.raises(Unsupported, match=f"answered {mode or 'nothing'}"):
            async with connection.browser("q"):
                pytest.fail("it has entered")
        assert not any(isinstance(event, CreditChanged) for event in happened)


async def test_the_link_ends(serve: Serve) -> None:
    """Iteration says why it cannot go on, it does not just end."""
    async with serve() as (peer, connection), connection, connection.browser("q") as browser:
        await anyio.wait_all_tasks_blocked()
        peer.send("q", "a")
        seen = []
        with pytest.raises(Exception, match="enough"):
            async for delivery in browser:
                seen.append(delivery.message.body)
                peer.links["q"].detach(closed=True, error=Error("amqp:internal-error", "enough"))
                peer.pump.wake()
                await anyio.wait_all_tasks_blocked()
        assert seen == ["a"]

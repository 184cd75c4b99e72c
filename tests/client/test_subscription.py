"""Subscriptions and browsers: what the client asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from amqp10 import Connection, Message, Unsupported
from amqp10.broker import Broker
from amqp10.engine import LinkAttached

pytestmark = pytest.mark.anyio

Serve = Callable[..., Any]


async def test_sources() -> None:
    """Durable ones never expire, or in time; the others go with their link. All are topics."""
    connection = Connection("amqp://localhost", container_id="c")
    terms = connection.subscription("t", "s")._terms
    source = terms.source
    assert source is not None
    assert (terms.name, source.address, source.durable, source.expiry_policy) == ("s", "t", "unsettled-state", "never")
    assert source.capabilities == ("topic",)
    timed = connection.subscription("t", "s", timeout=9)._terms.source
    assert timed is not None
    assert (timed.durable, timed.expiry_policy, timed.timeout) == ("unsettled-state", "link-detach", 9)
    volatile = connection.subscription("t", "s", durable=False, shared=True, global_=True)._terms.source
    assert volatile is not None
    assert (volatile.durable, volatile.expiry_policy) == ("none", "link-detach")
    assert volatile.capabilities == ("topic", "shared", "global")


@pytest.mark.parametrize(
    ("durable", "global_", "names"),
    [
        (True, False, ["s", "s|2", "s|3"]),
        (True, True, ["s|global", "s|global2", "s|global3"]),
        (False, False, ["s|volatile1", "s|volatile2", "s|volatile3"]),
        (False, True, ["s|global-volatile1", "s|global-volatile2", "s|global-volatile3"]),
    ],
)
async def test_names_of_shared_links(durable: bool, global_: bool, names: list[str]) -> None:
    """Each link has a name of its own, in the JMS mapping's way, counted on each connection."""
    for _ in range(2):
        connection = Connection("amqp://localhost")
        made = [connection.subscription("t", "s", durable=durable, shared=True, global_=global_) for _ in names]
        assert [receiver.name for receiver in made] == names


async def test_wrong_wishes() -> None:
    """What cannot be meant is said at once."""
    connection = Connection("amqp://localhost")
    with pytest.raises(ValueError, match="shared=True"):
        connection.subscription("t", "s", global_=True)
    for name in ("", "a|b"):
        with pytest.raises(ValueError, match="name"):
            connection.subscription("t", name)
    with pytest.raises(ValueError, match="shared=True"):
        await connection.unsubscribe("s", global_=True)
    with pytest.raises(ValueError, match="name"):
        await connection.unsubscribe("")
    with pytest.raises(ValueError, match="credit"):
        connection.browser("q", credit=0)


async def test_exclusive_not_confirmed(serve: Serve) -> None:
    """A peer that does not say that the receiver is the only one is an error, and the link is gone."""
    async with serve() as (peer, connection), connection:

        def on_event(event: Any) -> bool:
            if isinstance(event, LinkAttached):
                assert event.link.remote is not None
                event.link.attach(replace(event.link.remote, properties={}, initial_delivery_count=0))
                return True
            return False

        peer.on_event = on_event
        with pytest.raises(Unsupported, match="exclusive"):
            async with connection.receiver("q", exclusive=True):
                pytest.fail("it has entered")
        async with connection.receiver("q", priority=4) as receiver:
            assert receiver._terms.properties == {"priority": 4, "rabbitmq:priority": 4}


@pytest.mark.parametrize("count", [0, 1, 4, 5, 23])
async def test_browser(count: int) -> None:
    """It ends when all was seen, whether the credit was used up or not, and leaves all as it was."""
    async with Broker() as broker, broker.connect() as connection:
        async with connection.sender("q") as sender:
            await sender.send_many([Message(number) for number in range(count)])
        for _ in range(2):
            async with connection.browser("q", credit=4) as browser:
                assert [delivery.message.body async for delivery in browser] == list(range(count))
                async with connection.sender("q") as sender:
                    await sender.send("later")
                count += 1
                assert [delivery.message.body async for delivery in browser] == ["later"]
                async with connection.receiver("q") as receiver:
                    for _ in range(count):
                        (await receiver.receive()).release()
            async with connection.receiver("q", credit=0) as receiver:
                receiver.add_credit(100)
                await receiver.drain()
                batch = await receiver.receive_batch(100, max_wait=0)
                assert [each.message.body for each in batch][-1] == "later"
                batch[-1].accept()
                count -= 1

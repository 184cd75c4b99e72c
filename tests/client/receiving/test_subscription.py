"""Subscriptions: what the client asks for, what it makes of the answer, and how they are ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10 import (
    Connection,
    LinkDetached,
    LocalProtocolError,
    NoLocal,
    RemoteProtocolError,
    Selector,
    Source,
    Unsupported,
)
from amqp10.broker import Broker
from amqp10.engine import CreditChanged, Event, LinkAttached, LinkEnded
from amqp10.messaging import Error
from amqp10.profiles import BROKER_J
from amqp10.types import Symbol

from ...kit.client.peer import answering

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Serve = Callable[..., Any]
SHARED_SUBS = Symbol("SHARED-SUBS")


async def test_sources() -> None:
    """Durable ones never expire, or in time; the others go with their link. All are topics."""
    connection = Connection("amqp://localhost", container_id="c")
    terms = connection.subscription("t", "s")._core.terms
    source = terms.source
    assert source is not None
    assert (terms.name, source.address, source.durable, source.expiry_policy) == ("s", "t", "unsettled-state", "never")
    assert source.capabilities == ("topic",)
    timed = connection.subscription("t", "s", timeout=9)._core.terms.source
    assert timed is not None
    assert (timed.durable, timed.expiry_policy, timed.timeout) == ("unsettled-state", "link-detach", 9)
    volatile = connection.subscription("t", "s", durable=False, shared=True, global_=True)._core.terms.source
    assert volatile is not None
    assert (volatile.durable, volatile.expiry_policy) == ("none", "link-detach")
    assert volatile.capabilities == ("topic", "shared", "global")


async def test_a_source_that_says_more() -> None:
    """Filters and capabilities of both count; the source that was given stays as it was."""
    given = Source("t", filters=[Selector("a = 1")], capabilities=(Symbol("mine"), Symbol("topic")))
    terms = Connection("amqp://localhost", container_id="c").subscription(given, "s", filters=[NoLocal()])._core.terms
    source = terms.source
    assert source is not None
    assert source.filter is not None
    assert set(source.filter) == {"jms-selector", "no-local"}
    assert source.capabilities == ("topic", "mine")
    assert (given.durable, given.capabilities, len(given.filter or {})) == ("none", ("mine", "topic"), 1)


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
    """Each link has a name of its own, in the JMS mapping's way: the lowest that the connection does not use."""
    async with Broker() as broker, broker.connect(container_id="c") as connection:
        made = [connection.subscription("t", "s", durable=durable, shared=True, global_=global_) for _ in range(4)]
        async with AsyncExitStack() as links:
            for receiver in made[1:]:
                await links.enter_async_context(receiver)
            assert [receiver.name for receiver in made[1:]] == names
            await made[2].detach()
            await links.enter_async_context(made[0])
            assert made[0].name == names[1]
        assert connection._core.subscriptions == {}


async def test_wrong_wishes() -> None:
    """Settings that contradict each other raise at once."""
    connection = Connection("amqp://localhost", container_id="c")
    with pytest.raises(ValueError, match="shared=True"):
        connection.subscription("t", "s", global_=True)
    for name in ("", "a|b"):
        with pytest.raises(ValueError, match="name"):
            connection.subscription("t", name)
        with pytest.raises(ValueError, match="name"):
            await connection.unsubscribe(name)
    for timeout, durable in ((0, True), (5, False)):
        with pytest.raises(ValueError, match="timeout"):
            connection.subscription("t", "s", timeout=timeout, durable=durable)
    with pytest.raises(ValueError, match="credit"):
        connection.subscription("t", "s", credit=-1)
    with pytest.raises(ValueError, match="shared=True"):
        await connection.unsubscribe("s", global_=True)


async def test_a_made_up_container() -> None:
    """A durable subscription of a name that nobody will have again would wait, and fill up, for ever."""
    nameless = Connection("amqp://localhost")
    for shared in (False, True):
        with pytest.raises(ValueError, match="container_id"):
            nameless.subscription("t", "s", shared=shared)
    assert nameless.subscription("t", "s", durable=False).name == "s"
    assert nameless.subscription("t", "s", shared=True, global_=True).name == "s|global"


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({}, {"expiry_policy": "link-detach"}),
        ({}, {"expiry_policy": "connection-close", "timeout": 1000}),
        ({"timeout": 50}, {"timeout": 49}),
        ({"timeout": 50}, {"expiry_policy": "session-end", "timeout": 0}),
    ],
)
async def test_not_kept(serve: Serve, asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """A peer that says that it keeps the subscription for less is an error that says for how long."""
    async with serve(container_id="c") as (peer, connection), connection:
        happened = answering(peer, **answer)
        with pytest.raises(Unsupported, match=r"does not keep .* timeout"):
            async with connection.subscription("t", "s", **asked):
                pytest.fail("it has entered")
        assert not any(isinstance(event, CreditChanged) for event in happened)
        (ended,) = (event for event in happened if isinstance(event, LinkEnded))
        assert ended.closed is False  # it may be another's, with messages in it
        assert connection._core.subscriptions == {}


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({}, {"durable": "none"}),
        ({"timeout": 50}, {"timeout": 60}),
        ({"timeout": 50}, {"expiry_policy": "never", "timeout": 0}),
        ({"durable": False}, {"expiry_policy": "link-detach"}),
    ],
)
async def test_kept(serve: Serve, asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """Longer is well; what survives the peer itself is its own affair."""
    async with serve(container_id="c") as (peer, connection), connection:
        answering(peer, **answer)
        async with connection.subscription("t", "s", **asked) as receiver:
            assert receiver.credit == 100


@pytest.mark.parametrize("durable", [False, True])
async def test_not_shared(serve: Serve, durable: bool) -> None:
    """Sharing that the peer offers nowhere would be each receiver's own subscription, or none."""
    async with serve(container_id="c") as (peer, connection), connection:
        happened = answering(peer)
        with pytest.raises(Unsupported, match="SHARED-SUBS"):
            async with connection.subscription("t", "s", shared=True, durable=durable):
                pytest.fail("it has entered")
        (ended,) = (event for event in happened if isinstance(event, LinkEnded))
        assert ended.closed is not durable
        answering(peer, offered=(SHARED_SUBS,))
        async with connection.subscription("t", "s", shared=True, durable=durable) as receiver:
            assert receiver.open


async def test_exclusive_not_confirmed(serve: Serve) -> None:
    """A peer that does not say that the receiver is the only one is an error before any credit."""
    async with serve(profile=BROKER_J) as (peer, connection), connection:
        happened = answering(peer)
        with pytest.raises(Unsupported, match="attribute"):
            async with connection.receiver("q", exclusive=True):
                pytest.fail("it has entered")
        assert not any(isinstance(event, CreditChanged) for event in happened)
        async with connection.receiver("q", priority=4) as receiver:
            assert receiver._core.terms.properties == {"priority": 4, "rabbitmq:priority": 4}
        answering(peer, {Symbol("exclusive"): True})
        async with connection.receiver("q", exclusive=True) as receiver:
            assert receiver.open


@pytest.mark.spec("2.6.4", "a durable terminus outlives the link: detach, not close, over a fault too")
@pytest.mark.parametrize("durable", [False, True])
async def test_a_fault_of_the_peer_does_not_end_it(serve: Serve, durable: bool) -> None:
    """A link that ends for a message that is too large is detached from, with the error; what waits behind it stays."""
    async with serve(container_id="c") as (peer, connection), connection:
        source = Source("t", expiry_policy="never" if durable else "link-detach")
        async with connection.receiver(source, max_message_size=100) as receiver:
            await anyio.wait_all_tasks_blocked()
            link = peer.links["t"]
            link.remote = replace(link.remote, max_message_size=None)  # the peer does not care
            peer.send("t", bytes(200))
            with pytest.raises(RemoteProtocolError, match="more than 100 octets, the max_message_size"):
                await receiver.receive()
        await anyio.wait_all_tasks_blocked()
        (ended,) = peer.ended
        assert ended.closed is not durable
        assert ended.error.condition == "amqp:link:message-size-exceeded"


# Unsubscribing


async def test_unsubscribing(serve: Serve) -> None:
    """The link has the subscription's name, no source, and for a global one the words to find it by; it is closed."""
    async with serve() as (peer, connection), connection:
        attached: list[Any] = []
        ended: list[bool] = []

        def on_event(event: Event) -> bool:
            if isinstance(event, LinkAttached):
                attached.append(event.link.remote)
                event.link.attach(replace(attached[-1], source=Source("t"), initial_delivery_count=0))
                return True
            if isinstance(event, LinkEnded):
                ended.append(event.closed)
            return False

        peer.on_event = on_event
        await connection.unsubscribe("s")
        await connection.unsubscribe("s", shared=True)
        await connection.unsubscribe("s", shared=True, global_=True)
        assert [(each.name, each.source, each.desired_capabilities) for each in attached] == [
            ("s", None, ()),
            ("s", None, ("shared",)),
            ("s|global", None, ("shared", "global")),
        ]
        assert ended == [True] * 3


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("error", [None, Error("amqp:not-found", "never heard of it")])
async def test_nothing_to_unsubscribe(serve: Serve, at_once: bool, error: Error | None) -> None:
    """The null source of the answer says it already; the detach says why, in the same read or a later one."""
    async with serve() as (peer, connection), connection:

        def on_event(event: Event) -> bool:
            if isinstance(event, LinkAttached):
                link: Any = event.link
                link.attach(replace(link.remote, initial_delivery_count=0))
                if at_once:
                    link.detach(closed=True, error=error)
                return True
            return False

        peer.on_event = on_event
        with pytest.raises(LinkDetached) as caught:
            await connection.unsubscribe("s")
        if at_once and error is not None:
            assert caught.value.description == "never heard of it"
        elif not at_once:
            assert caught.value.condition == "amqp:not-found"


async def test_a_peer_that_does_not_let_go(serve: Serve) -> None:
    """Broker-J says in its last word that others share the subscription: it is still there."""
    async with serve() as (peer, connection), connection:

        def on_event(event: Event) -> bool:
            if isinstance(event, LinkAttached):
                link: Any = event.link
                link.attach(replace(link.remote, source=Source("t"), initial_delivery_count=0))
                # Its detach and ours cross: it has an error, and comes when ours is out.
                link.detach(closed=True, error=Error("amqp:resource-locked", "there are active consumers"))
                return True
            return False

        peer.on_event = on_event
        with pytest.raises(LinkDetached) as caught:
            await connection.unsubscribe("s", shared=True)
        assert caught.value.condition == "amqp:resource-locked"


@pytest.mark.parametrize("shared", [False, True])
async def test_not_while_it_is_used_here(shared: bool) -> None:
    """A link of that name would steal the subscription from its receiver: said before a byte is written."""
    async with Broker() as broker, broker.connect(container_id="c") as connection:
        async with connection.subscription("topic.t", "s", shared=shared) as receiver:
            with pytest.raises(LocalProtocolError, match="in use by this connection"):
                await connection.unsubscribe("s", shared=shared)
            assert receiver.open
        await connection.unsubscribe("s", shared=shared)
        assert broker.topic("topic.t").subscriptions == ()


async def test_on_a_session_of_its_own(serve: Serve) -> None:
    """A peer that ends the session over it ends no other link."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:

        def on_event(event: Event) -> bool:
            if isinstance(event, LinkAttached):
                event.link.session.end(Error("amqp:not-implemented", "no null sources"))
                return True
            return False

        peer.on_event = on_event
        with anyio.fail_after(60), pytest.raises(Exception, match="no null sources"):
            await connection.unsubscribe("s")
        assert receiver.open

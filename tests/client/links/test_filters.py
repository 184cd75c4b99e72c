"""The echo of filters: what the peer does not say it applies, it does not apply."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10.engine import CreditChanged, LinkAttached
from amqp10.errors import FilterNotApplied, LinkDetached
from amqp10.messaging import Error, NoLocal, Selector, Source
from amqp10.types import Described, Symbol, ULong

from ...kit.client.peer import replace_terminus

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("filters")]

Serve = Callable[..., Any]
SOURCE = Source("q", filters=[Selector("a = 1"), NoLocal()])
BY_NUMBER = {
    Symbol("jms-selector"): Described(ULong(0x0000468C_00000004), "a = 1"),
    Symbol("no-local"): Described(ULong(0x0000468C_00000003), []),
}


def answering(peer: Any, filters: dict[Any, Any] | None) -> list[Any]:
    """Let the peer say that these filters are what it applies; the list gets whatever else happens."""
    happened: list[Any] = []

    def on_event(event: Any) -> bool:
        happened.append(event)
        if isinstance(event, LinkAttached):
            remote = event.link.remote
            assert remote is not None
            source = replace_terminus(remote.source, filter=filters)
            event.link.attach(replace(remote, source=source, unsettled=None, initial_delivery_count=0))
            peer.links["q"] = event.link
            return True
        return False

    peer.on_event = on_event
    return happened


async def test_applied(serve: Serve) -> None:
    """A filter that is echoed, by either descriptor, is applied: the receiver has its credit and the answer."""
    async with serve() as (peer, connection), connection:
        answering(peer, BY_NUMBER)
        async with connection.receiver(SOURCE) as receiver:
            assert receiver.credit == 100
            assert receiver.source.filter == BY_NUMBER


@pytest.mark.spec("3.5.3", "a filter that the answer lacks is not in place")
async def test_not_applied(serve: Serve) -> None:
    """A filter that is missing in the answer is an error that names it; no credit went out, and the link is gone."""
    async with serve() as (peer, connection), connection:
        happened = answering(peer, {Symbol("no-local"): BY_NUMBER[Symbol("no-local")]})
        receiver = connection.receiver(SOURCE)
        with pytest.raises(FilterNotApplied, match="jms-selector") as caught:
            async with receiver:
                pytest.fail("it has entered")
        assert caught.value.filters == {"jms-selector": Selector("a = 1").described}
        assert not any(isinstance(event, CreditChanged) for event in happened)
        (ended,) = peer.ended
        assert (ended.closed, ended.error.condition, ended.link) == (True, None, peer.links["q"])
        async with connection.receiver("other") as other:  # nothing else suffered
            assert other.open


async def test_a_lasting_subscription_is_detached_not_ended(serve: Serve) -> None:
    """The subscription may have been there before, with messages in it."""
    async with serve() as (peer, connection), connection:
        answering(peer, None)
        durable = Source("q", filters=[Selector("a = 1")], durable="unsettled-state", expiry_policy="never")
        with pytest.raises(FilterNotApplied):
            async with connection.receiver(durable, name="sub"):
                pytest.fail("it has entered")
        (ended,) = peer.ended
        assert (ended.closed, ended.error.condition) == (False, None)


async def test_taken_as_it_comes(serve: Serve) -> None:
    """A receiver that does not require the filters gets the link, and the answer shows which filters are applied."""
    async with serve() as (peer, connection), connection:
        answering(peer, None)
        async with connection.receiver(SOURCE, require_filters=False) as receiver:
            assert (receiver.credit, receiver.source.filter) == (100, None)


async def test_raw_filters_are_checked_too(serve: Serve) -> None:
    """A filter set that was written by hand is asked for like any other."""
    async with serve() as (peer, connection), connection:
        answering(peer, {Symbol("mine"): Described(Symbol("example:f"), 1)})
        asked = {"mine": Described(Symbol("example:f"), 1)}
        async with connection.receiver(Source("q", filter=asked)) as receiver:
            assert receiver.open
        with pytest.raises(FilterNotApplied, match="yours"):
            async with connection.receiver(Source("q", filter={**asked, "yours": Described(Symbol("example:g"), 1)})):
                pytest.fail("it has entered")


async def test_refused(serve: Serve) -> None:
    """A peer that refuses the link for its filter says why, as for any other refusal."""
    async with serve() as (peer, connection), connection:
        peer.refusal = Error("amqp:invalid-field", "a selector ends in mid-sentence")
        with pytest.raises(LinkDetached, match="mid-sentence"):
            async with connection.receiver(SOURCE):
                pytest.fail("it has entered")


async def test_messages_that_were_not_asked_for(serve: Serve) -> None:
    """A peer that sends at once gets no credit to send what was not filtered."""
    async with serve() as (peer, connection), connection:
        answering(peer, None)
        with pytest.raises(FilterNotApplied):
            async with connection.receiver(SOURCE):
                pytest.fail("it has entered")
        await anyio.wait_all_tasks_blocked()
        assert peer.links["q"].credit == 0


def test_the_error_can_be_pickled() -> None:
    """As all errors of the package can."""
    error = pickle.loads(pickle.dumps(FilterNotApplied("not applied: s", {"s": Described(Symbol("x"), 1)})))
    assert (str(error), error.filters) == ("not applied: s", {"s": Described(Symbol("x"), 1)})

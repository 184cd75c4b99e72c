"""`connection.health()`: what it says in each state, without a step more for a message; and what the log has of it."""

from __future__ import annotations

import inspect
import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

import amqp10.client
import amqp10.sync
from amqp10 import (
    AuthenticationFailed,
    Connection,
    ConnectionBlocked,
    ConnectionEvent,
    ConnectionLost,
    DeliveryUncertain,
    LinkDetached,
    LinkLost,
    MessagesRepeated,
    Plain,
)
from amqp10.broker import Broker
from amqp10.client import _health
from amqp10.client._health import MAX_LOOKS, UnsettledAges
from amqp10.engine import UnsettledCount
from amqp10.testing import BackgroundBroker

from ..kit.client.hosts import QUICK, connecting, detach, forgetful, hosting
from ..kit.inside.net import pump
from ..kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.capability("health")]


class Clock:
    """Return the test's `time.monotonic`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        for module in (_health, pump):
            monkeypatch.setattr(module, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def records(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    mine = [vars(each) for each in caplog.records if each.name == "amqp10.connection"]
    return [each for each in mine if each.get("amqp_event") == event]


# States


async def test_before_during_and_after() -> None:
    """Connecting, open, closed; live and ready follow from that."""
    async with Broker() as broker:
        connection = Connection(broker.url)
        assert (connection.health().state, connection.health().live) == ("connecting", True)
        assert connection.health().received_age is None
        assert not connection.health().ready
        async with connection, connection.receiver("q", credit=7), connection.sender("q") as sender:
            await until(lambda: sender.credit)
            health = connection.health()
            assert (health.state, health.live, health.ready, health.cause) == ("open", True, True, None)
            assert health.url == connection.url
            assert health.queued == 0
            assert health.credit == sender.credit
            assert health.window is not None
            assert health.window > 0
            assert {(link.kind, link.address, link.open) for link in health.links} == {
                ("receiver", "q", True),
                ("sender", "q", True),
            }
            assert next(link.credit for link in health.links if link.kind == "receiver") == 7
        health = connection.health()
        assert (health.state, health.live, health.ready, health.cause) == ("closed", False, False, None)
        assert health.links == ()


async def test_lost_and_restored(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """While it is away it says why and for how long; afterwards how often that was."""
    caplog.set_level("INFO", "amqp10.connection")
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.receiver("q"):
        clock.now += 60
        assert connection.health().state_age == 60
        hosts.down = {"a"}
        await hosts.cut()
        await until(lambda: connection.health().counts.get("attempt_failed"))
        clock.now += 5
        health = connection.health()
        assert (health.state, health.state_age, health.live, health.ready) == ("interrupted", 5, True, False)
        assert isinstance(health.cause, ConnectionLost)
        assert [link.open for link in health.links] == [False]
        assert (health.queued, health.window) == (0, None)
        hosts.down = set()
        await until(lambda: connection.health().ready)
        health = connection.health()
        assert (health.reconnects, health.cause, health.counts["connection_lost"]) == (1, None, 1)
        assert health.counts["link_restored"] == 1
    (lost,), (back,) = records(caplog, "connection_lost"), records(caplog, "connection_restored")
    assert (lost["amqp_error"], lost["amqp_url"], lost["levelname"]) == ("ConnectionLost", "amqp://a:5672", "WARNING")
    assert back["amqp_url"] == "amqp://a:5672"
    assert back["amqp_downtime"] >= 0
    assert len(records(caplog, "attempt_failed")) == health.counts["attempt_failed"]


async def test_blocked() -> None:
    """A broker that takes no messages for now (0-9-1) makes it unready, and no more."""
    async with Broker(dialects=["0-9-1"]) as broker, Connection(broker.url, dialect="0-9-1") as connection:
        connection._core._on_peer_blocked(SimpleNamespace(reason="low on memory"))  # type: ignore[arg-type]
        assert (connection.health().state, connection.health().ready, connection.health().live) == (
            "blocked",
            False,
            True,
        )
        connection._core._on_peer_blocked(SimpleNamespace(reason=None))  # type: ignore[arg-type]
        assert connection.health().state == "open"
        assert connection.health().window is None
        assert connection.health().counts["connection_blocked"] == 1


async def test_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not tried any more is not live, and says why."""
    async with hosting(monkeypatch) as hosts:
        async with connecting(reconnect=replace(QUICK, attempts=1)) as connection:
            hosts.down = {"a"}
            await hosts.cut()
            await until(lambda: not connection.health().live)
            health = connection.health()
            assert health.state == "closed"
            assert isinstance(health.cause, ConnectionLost)
            assert health.counts["connection_given_up"] == 1


# What crosses, and what waits


async def test_silence(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """Seconds since the last octets each way."""
    async with (
        hosting(monkeypatch) as hosts,
        connecting() as connection,
        connection.sender("q", settle_mode="settled") as sender,
    ):
        await until(lambda: sender.credit)
        clock.now += 30
        health = connection.health()
        assert (health.received_age, health.sent_age) == (30, 30)
        hosts.peer.stream.shut = True
        await sender.submit("x")
        await until(lambda: hosts.peer.received)
        health = connection.health()
        assert (health.received_age, health.sent_age) == (30, 0)
        hosts.peer.stream.shut = False


@pytest.mark.parametrize("dialect", ["1.0", "0-9-1", "0-10"])
async def test_unsettled(dialect: str, clock: Clock) -> None:
    """How many deliveries wait for an outcome, and since when, in each dialect."""
    async with Broker(queues=["q"]) as broker, Connection(broker.url, dialect=dialect) as connection:
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            await sender.send_many(range(3))
            await until(lambda: receiver.unsettled == 3)
            assert (connection.health().unsettled, connection.health().oldest_unsettled) == (3, 0)
            clock.now += 10
            assert connection.health().oldest_unsettled == 10
            (await receiver.receive()).accept()
            await sender.send(3)
            clock.now += 5
            assert (connection.health().unsettled, connection.health().oldest_unsettled) == (3, 15)
            for _ in range(2):
                (await receiver.receive()).accept()
            assert connection.health().oldest_unsettled == 0
            (await receiver.receive()).accept()
            assert (connection.health().unsettled, connection.health().oldest_unsettled) == (0, 0)


@pytest.mark.in_memory
async def test_messages_that_are_no_objects(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """A look makes no objects of what `send_many` has out."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        hosts.peer.outcome = None
        await until(lambda: sender.credit)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sender.send_many, range(50))
            await until(lambda: len(hosts.peer.received) == 50)
            link: Any = sender._core.link
            assert link.untracked == 50
            assert connection.health().unsettled == 50
            clock.now += 4
            assert connection.health().oldest_unsettled == 4
            assert link.untracked == 50
            tasks.cancel_scope.cancel()
        await hosts.cut()


async def test_a_delivery_held_back_by_the_window(clock: Clock) -> None:
    """It has no delivery-id yet; its age counts all the same, and goes on when it has one."""
    ages, link = UnsettledAges(), object()
    assert ages.oldest(link, UnsettledCount(1, None, None), 10) == 0  # type: ignore[arg-type]
    assert ages.oldest(link, UnsettledCount(1, None, None), 13) == 3  # type: ignore[arg-type]
    assert ages.oldest(link, UnsettledCount(1, 5, 5), 14) == 4  # type: ignore[arg-type]
    assert ages.oldest(link, UnsettledCount(1, 6, 6), 15) == 0  # type: ignore[arg-type]
    assert ages.oldest(link, UnsettledCount(0, None, None), 16) == 0  # type: ignore[arg-type]
    assert ages.oldest(link, UnsettledCount(1, None, None), 17) == 0  # type: ignore[arg-type]


async def test_ages_are_bounded_and_serial() -> None:
    """However often it is looked, little is kept; and delivery-ids begin again at 0 (RFC 1982)."""
    ages, link = UnsettledAges(), object()
    first = 2**32 - 2
    for moment in range(1000):
        last = (first + moment) % 2**32
        assert ages.oldest(link, UnsettledCount(moment + 1, first, last), moment) == moment  # type: ignore[arg-type]
        assert len(ages._looks) <= MAX_LOOKS
    assert 0 < ages.oldest(link, UnsettledCount(10, 900, 998), 1000) <= 1000 - 900  # type: ignore[arg-type]


# Events: what is logged is counted


async def test_sent_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """One line says how many messages are sent again after a loss, on which link, and why."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        hosts.prepare = forgetful
        hosts.peer.outcome = None
        for body in range(3):
            await sender.submit(body)
        events = connection.events()
        await until(lambda: len(hosts.peer.received) == 3)
        await hosts.cut()
        await until(lambda: len(hosts.peers) == 2 and len(hosts.peer.received) == 3)
        told = [await anext(events) for _ in range(4)]
        assert isinstance(told[-1], MessagesRepeated)
        assert connection.health().counts["messages_repeated"] == 3
    (record,) = records(caplog, "messages_repeated")
    assert (record["amqp_count"], record["amqp_address"], record["amqp_error"]) == (3, "q", "ConnectionLost")
    assert record["message"].startswith("amqp://a:5672: sender 'q' (link ")


async def test_uncertain(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """With `on_uncertain="raise"` the line says that nobody knows."""
    settings = replace(QUICK, on_uncertain="raise")
    async with hosting(monkeypatch) as hosts, connecting(reconnect=settings) as connection:
        async with connection.sender("q") as sender:
            hosts.prepare = forgetful
            hosts.peer.outcome = None
            delivery = await sender.submit("x")
            await until(lambda: hosts.peer.received)
            await hosts.cut()
            with pytest.raises(DeliveryUncertain):
                await delivery.outcome()
        assert connection.health().counts["messages_uncertain"] == 1
    assert len(records(caplog, "messages_uncertain")) == 1


@pytest.mark.parametrize(("on_lost", "event"), [("raise", "messages_uncertain"), ("resend", "messages_repeated")])
async def test_request_lost(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, on_lost: Any, event: str
) -> None:
    """A request that is not to be sent a second time is told as uncertain, and not as sent again."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        hosts.prepare = forgetful
        hosts.peer.outcome = None
        async with connection.requester("service", reply_to="replies", on_lost=on_lost) as requester:
            with anyio.move_on_after(60) as waiting:
                async with anyio.create_task_group() as tasks:

                    async def lose() -> None:
                        await until(lambda: hosts.peer.received)
                        await hosts.cut()
                        if on_lost == "resend":
                            await until(lambda: len(hosts.peers) == 2 and hosts.peer.received)
                            waiting.cancel()

                    tasks.start_soon(lose)
                    try:
                        await requester.request("x")
                    except DeliveryUncertain:
                        assert on_lost == "raise"
    counts = connection.health().counts
    names = ("messages_uncertain", "messages_repeated")
    assert {name: counts[name] for name in names if name in counts} == {event: 1}
    assert len(records(caplog, event)) == 1


async def test_came_back(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """One line says how many deliveries went back to the peer with a link that was lost."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = forgetful
        async with connecting() as connection, connection.receiver("q") as receiver:
            await hosts.credit("q")
            for _ in range(2):
                hosts.peer.links["q"].send(b"\x00\x53\x77\xa1\x01x")
            hosts.peer.pump.wake()
            await receiver.receive()
            await until(lambda: receiver.unsettled == 2)
            await hosts.cut()
            await until(lambda: connection.health().counts.get("deliveries_returned") == 2)
    (record,) = records(caplog, "deliveries_returned")
    assert (record["amqp_link_kind"], record["amqp_count"]) == ("receiver", 2)


async def test_detached(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A link that the peer detached is one line with its condition, whether it comes back or not."""
    caplog.set_level("INFO", "amqp10.connection")
    async with hosting(monkeypatch) as hosts:
        async with connecting() as connection, connection.receiver("q"):
            await hosts.credit("q")
            detach(hosts, "q")
            await until(lambda: connection.health().counts.get("link_restored"))
        (record,) = records(caplog, "link_detached")
        assert (record["amqp_condition"], record["amqp_address"]) == ("amqp:link:detach-forced", "q")
        async with connecting(reconnect=None) as connection:
            with pytest.raises(LinkDetached):
                async with connection.receiver("q") as receiver:
                    await hosts.credit("q")
                    detach(hosts, "q", "amqp:resource-deleted")
                    await receiver.receive()
            assert connection.health().counts == {"link_lost": 1}
    (record,) = records(caplog, "link_lost")
    assert (record["amqp_condition"], record["levelno"]) == ("amqp:resource-deleted", logging.INFO)
    assert LinkLost.level == logging.INFO


async def test_login_refused(caplog: pytest.LogCaptureFixture) -> None:
    """It is counted under a name of its own, and no secret is told."""
    caplog.set_level("INFO", "amqp10.connection")
    async with Broker(users={"user": "right"}) as broker:
        connection = Connection(broker.url, sasl=Plain("user", "hunter2"))
        with pytest.raises(AuthenticationFailed):
            async with connection:
                pass
        assert connection.health().counts == {"login_refused": 1}
        assert isinstance(connection.health().cause, AuthenticationFailed)
    (record,) = records(caplog, "login_refused")
    assert "hunter2" not in f"{record}"


def test_every_event_has_a_name_and_a_sentence() -> None:
    """No event is counted or logged under the name of their base."""
    public = [getattr(amqp10.client, name) for name in amqp10.client.__all__]
    kinds = [each for each in public if inspect.isclass(each) and issubclass(each, ConnectionEvent)]
    kinds.remove(ConnectionEvent)
    assert len(kinds) > 10
    for each in kinds:
        assert "kind" in vars(each) or "name" in vars(each), each
        assert "describe" in vars(each), each
    names = [each.kind for each in kinds if "kind" in vars(each)]
    assert len(names) == len(set(names))
    page = (Path(__file__).parents[2] / "docs" / "operate" / "health.md").read_text()
    for name in names:
        assert f"`{name}`" in page


def test_old_name_of_describe() -> None:
    """It was called `said` before."""
    event = ConnectionBlocked("low on memory")
    with pytest.warns(DeprecationWarning, match=r"^ConnectionEvent.said is called describe now$"):
        old = getattr(event, "said")()  # noqa: B009 # type checkers report the old name
    assert old == event.describe() == "the broker takes no messages for now: low on memory"


async def test_what_the_peer_says_is_escaped(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """No line of the log is made by the peer's words: line breaks in them are escaped."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.receiver("q"):
        await hosts.credit("q")
        detach(hosts, "q", "x:y\n2026-01-01 ERROR all is lost")
        await until(lambda: connection.health().counts.get("link_restored"))
    (record,) = records(caplog, "link_detached")
    assert "\n" not in record["message"]


def test_sync() -> None:
    """The synchronous form has the same."""
    with BackgroundBroker() as broker, amqp10.sync.Connection(broker.url) as connection:
        with connection.sender("q") as sender:
            sender.send("x")
            health = connection.health()
            assert health.ready
            assert [link.kind for link in health.links] == ["sender"]

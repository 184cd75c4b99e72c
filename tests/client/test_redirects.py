"""Redirects and lists of other hosts: the login goes along, whoever said it, and they are followed again and again."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10 import Connection, ConnectionDetails, ConnectionLost, ConnectionRestored, Plain, Reconnect
from amqp10.broker import Broker
from amqp10.engine import ConnectionOpened, ConnectionTerms, Event, LinkAttached
from amqp10.messaging import Error
from amqp10.sasl import Authenticator
from amqp10.testing import FaultProxy
from amqp10.types import Symbol

from .hosts import QUICK, Hosts, connecting, hosting

pytestmark = pytest.mark.anyio

TO_B = {Symbol("network-host"): "b"}


def details() -> ConnectionDetails:
    return ConnectionDetails("amqp://a", sasl=Plain("u", "p"))


def leads_to_b(hosts: Hosts) -> None:
    """Host `a` sends every connection to `b`."""

    def prepare(peer: Any) -> None:
        def on_event(event: Event) -> bool:
            if isinstance(event, ConnectionOpened):
                peer.engine.open()
                peer.engine.close(Error(Symbol("amqp:connection:redirect"), "go", TO_B))
            return True

        if hosts.asked[-1] == "a":
            peer.on_event = on_event

    hosts.prepare = prepare


async def restored(events: Any) -> None:
    with anyio.fail_after(5):
        while type(await anext(events)) is not ConnectionRestored:
            pass


async def test_the_login_of_a_callable_goes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a connection is redirected, what the callable said for that attempt is used there."""
    async with hosting(monkeypatch) as hosts:
        hosts.authenticator = Authenticator({"u": "p"})
        leads_to_b(hosts)
        async with connecting(details, reconnect=replace(QUICK, first_attempts=3)) as connection:
            assert connection.url == "amqp://b:5672"


async def test_the_login_of_a_callable_goes_along_with_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where a link is redirected to another host."""
    async with hosting(monkeypatch) as hosts:
        hosts.authenticator = Authenticator({"u": "p"})

        def prepare(peer: Any) -> None:
            def on_event(event: Event) -> bool:
                if isinstance(event, LinkAttached):
                    event.link.refuse(Error(Symbol("amqp:link:redirect"), "go", TO_B))
                    return True
                return False

            if hosts.asked[-1] == "a":
                peer.on_event = on_event

        hosts.prepare = prepare
        async with connecting(details) as connection, connection.sender("q") as sender:
            assert sender.connection.url == "amqp://b:5672"


async def test_a_balancer_that_redirects_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the connection is lost soon after: each redirect leads to a connection, so each is followed."""
    async with hosting(monkeypatch) as hosts:
        leads_to_b(hosts)
        async with connecting("amqp://a", reconnect=replace(QUICK, attempts=math.inf)) as connection:
            for _ in range(13):
                events = connection.events()
                await hosts.cut()
                await restored(events)
                assert (connection.open, connection.url) == (True, "amqp://b:5672")


async def test_the_name_that_a_redirect_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """§2.8.16: the network is asked for network-host, and the host there for hostname."""
    async with hosting(monkeypatch) as hosts:
        said = []

        def prepare(peer: Any) -> None:
            def on_event(event: Event) -> bool:
                if isinstance(event, ConnectionOpened):
                    said.append((hosts.asked[-1], peer.engine.remote.hostname))
                return False

            peer.on_event = on_event

        hosts.prepare = prepare
        async with connecting() as connection:
            events = connection.events()
            info = {Symbol("network-host"): "10.0.0.5", Symbol("hostname"): "broker-2.example", Symbol("port"): 99}
            hosts.peer.engine.close(Error(Symbol("amqp:connection:redirect"), "go", info))
            hosts.peer.pump.wake()
            await restored(events)
        assert said[-1] == ("10.0.0.5", "broker-2.example")


async def test_other_hosts_after_a_callable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hosts that the peer names for failover are tried after what the callable says."""
    async with hosting(monkeypatch) as hosts:
        spare = [{"network-host": "spare", "port": 1}]
        hosts.terms = ConnectionTerms("peer", properties={Symbol("failover-server-list"): spare})
        async with connecting(lambda: "amqp://a") as connection:
            hosts.down = {"a"}
            events = connection.events()
            await hosts.cut()
            await restored(events)
            assert connection.url == "amqp://spare:1"


async def test_time_bounds_each_attempt() -> None:
    """`first_max_time` and `max_time` end an attempt that is under way, however much time it has for itself."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        proxy.stall()
        with anyio.fail_after(30), pytest.raises(ConnectionLost, match="did not open in"):
            reconnect = Reconnect(first_max_time=0.2, attempt_timeout=100, first_attempts=9)
            await Connection(proxy.url, reconnect=reconnect).__aenter__()
        proxy.resume()
        reconnect = Reconnect(max_time=0.2, attempt_timeout=100, initial_delay=0.01)
        async with Connection([proxy.url] * 3, reconnect=reconnect) as connection, connection.receiver("q") as receiver:
            proxy.stall()
            proxy.cut()
            with anyio.fail_after(30), pytest.raises(ConnectionLost):
                await receiver.receive()

"""Redirects and lists of other hosts: the login goes along, whoever said it, and they are followed again and again."""

from __future__ import annotations

import math
import pickle
from contextlib import suppress
from dataclasses import replace
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from amqp10 import (
    Anonymous,
    Connection,
    ConnectionClosed,
    ConnectionDetails,
    ConnectionGivenUp,
    ConnectionInterrupted,
    ConnectionLost,
    ConnectionRestored,
    Plain,
    Reconnect,
    RedirectRefused,
)
from amqp10.broker import Broker
from amqp10.engine import ConnectionOpened, ConnectionTerms, Event, LinkAttached
from amqp10.messaging import Error
from amqp10.sasl import Authenticator
from amqp10.testing import Close, FaultProxy, ScriptedPeer
from amqp10.types import Symbol

from ...kit.client.hosts import QUICK, Hosts, connecting, hosting

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

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
    with anyio.fail_after(60):
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


@pytest.mark.parametrize("limited", [replace(QUICK, attempts=3), replace(QUICK, max_time=0.05)])
async def test_peers_that_redirect_in_a_circle(monkeypatch: pytest.MonkeyPatch, limited: Reconnect) -> None:
    """`attempts` and `max_time` also end a circle in which each peer opens the connection before it redirects."""
    async with hosting(monkeypatch) as hosts, anyio.create_task_group() as tasks:

        def prepare(peer: Any) -> None:
            there = {Symbol("network-host"): "b" if hosts.asked[-1] == "a" else "a"}

            async def redirect() -> None:
                await anyio.sleep(0.001)
                peer.engine.close(Error(Symbol("amqp:connection:redirect"), "go", there))
                peer.pump.wake()

            def on_event(event: Event) -> bool:
                if isinstance(event, ConnectionOpened):
                    tasks.start_soon(redirect)
                return False

            peer.on_event = on_event

        async with connecting(reconnect=limited) as connection:
            hosts.prepare = prepare
            events = connection.events()
            await hosts.cut()
            ended = [each.cause async for each in events if isinstance(each, ConnectionGivenUp)]
        assert len(hosts.asked) > 11
        assert isinstance(ended[0], ConnectionClosed)
        assert ended[0].condition == "amqp:connection:redirect"


async def test_redirects_of_connections_that_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redirects are no longer in a row if a connection lasted between them: each is followed at once."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        for number in range(13):
            await anyio.sleep(2 * QUICK.max_delay)
            events = connection.events()
            info = {Symbol("network-host"): f"host{number}"}
            hosts.peer.engine.close(Error(Symbol("amqp:connection:redirect"), "go", info))
            hosts.peer.pump.wake()
            await restored(events)
        assert hosts.asked == ["a", *(f"host{number}" for number in range(13))]


@pytest.mark.spec(
    "2.8.16", "amqp:connection:redirect: the network is asked for network-host, its open says the hostname"
)
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
        with anyio.fail_after(60), pytest.raises(ConnectionLost, match="did not open in"):
            reconnect = Reconnect(first_max_time=0.2, attempt_timeout=100, first_attempts=9)
            await Connection(proxy.url, reconnect=reconnect).__aenter__()
        proxy.resume()
        reconnect = Reconnect(max_time=0.2, attempt_timeout=100, initial_delay=0.01)
        async with Connection([proxy.url] * 3, reconnect=reconnect) as connection, connection.receiver("q") as receiver:
            proxy.stall()
            proxy.cut()
            with anyio.fail_after(60), pytest.raises(ConnectionLost):
                await receiver.receive()


# Where the login may go

HERE = replace(QUICK, redirect_hosts=())


def redirecting(hosts: Hosts, *infos: dict[str, Any]) -> None:
    """Each peer but those after the last info sends its connection where that says."""
    left = list(infos)

    def prepare(peer: Any) -> None:
        info = left.pop(0) if left else None

        def on_event(event: Event) -> bool:
            if isinstance(event, ConnectionOpened) and info is not None:
                peer.engine.open()
                said = {Symbol(key): value for key, value in info.items()}
                peer.engine.close(Error(Symbol("amqp:connection:redirect"), "go", said))
                return True
            return False

        peer.on_event = on_event

    hosts.prepare = prepare


async def test_a_redirect_to_a_host_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The login goes to no host that the user has not named: an error says which, and how to allow it."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, {"network-host": "169.254.169.254"})
        with pytest.raises(RedirectRefused, match=r"redirect_hosts=\['169.254.169.254'\]") as caught:
            await connecting("amqp://u:secret@a", reconnect=HERE, sasl=Anonymous()).__aenter__()
        assert hosts.asked == ["a"]
        assert caught.value.host == "169.254.169.254"
        assert isinstance(caught.value.__cause__, ConnectionClosed)
        assert "secret" not in str(caught.value)
        again = pickle.loads(pickle.dumps(caught.value))
        assert (str(again), again.host) == (str(caught.value), caught.value.host)


@pytest.mark.parametrize(
    ("info", "allowed"),
    [
        ({"network-host": "A", "port": 7000}, []),
        ({"network-host": "b.example"}, ["c", "B.example."]),
        ({"network-host": "b.example"}, ["*.example"]),
        ({"network-host": "b.example"}, ["*"]),
        ({"network-host": "10.0.0.5", "hostname": "b.example"}, ["10.0.0.5", "*.example"]),
    ],
)
async def test_a_redirect_to_an_allowed_host(
    monkeypatch: pytest.MonkeyPatch, info: dict[str, Any], allowed: list[str]
) -> None:
    """The same host at any port, and those of `redirect_hosts`, by name or pattern."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, info)
        async with connecting(reconnect=replace(HERE, redirect_hosts=allowed)):
            assert hosts.asked == ["a", info["network-host"]]


@pytest.mark.parametrize(
    ("info", "allowed"),
    [
        ({"network-host": "example"}, ["*.example"]),
        ({"network-host": "badexample"}, ["*.example"]),
        ({"network-host": "10.0.0.5", "hostname": "b.example"}, ["10.0.0.5"]),
        ({"network-host": "a", "hostname": "b.example"}, []),
        ({"network-host": "h\r\nX-Injected: yes"}, ["*"]),
        ({"network-host": "a", "hostname": "h\r\nX: y"}, ["*"]),
        ({"network-host": "u:p@h"}, ["*"]),
        ({"hostname": "a b"}, ["*"]),
    ],
)
async def test_a_redirect_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, info: dict[str, Any], allowed: list[str]
) -> None:
    """Neither what is like an allowed name, nor another name for an allowed address, nor what is no host."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, info)
        with pytest.raises(RedirectRefused) as caught:
            await connecting(reconnect=replace(HERE, redirect_hosts=allowed)).__aenter__()
        assert hosts.asked == ["a"]
        assert str(caught.value).isprintable()


async def test_a_redirect_among_the_hosts_of_the_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster whose nodes are all in the list needs no setting; what one node may not do leaves the others to try."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, {"network-host": "b", "port": 9}, {"network-host": "a"}, {"network-host": "evil"})
        async with connecting(["amqp://a", "amqp://b"], reconnect=HERE) as connection:
            assert hosts.asked == ["a", "b", "a", "b"]
            assert connection.url == "amqp://b:5672"


async def test_a_redirect_after_what_a_callable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host that the callable said last is the user's; another one is not."""
    async with hosting(monkeypatch) as hosts:
        hosts.authenticator = Authenticator({"u": "p"})
        redirecting(hosts, {"network-host": "a", "port": 1})
        async with connecting(details, reconnect=HERE) as connection:
            assert connection.url == "amqp://a:1"
        redirecting(hosts, {"network-host": "b"})
        with pytest.raises(RedirectRefused):
            await connecting(details, reconnect=HERE).__aenter__()
        assert hosts.asked == ["a"] * 3


async def test_a_loss_by_a_redirect_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was there comes back where it was: another node may answer there, and it is told why."""
    async with hosting(monkeypatch) as hosts, connecting(reconnect=HERE) as connection:
        events = connection.events()
        hosts.peer.engine.close(Error(Symbol("amqp:connection:redirect"), "go", TO_B))
        hosts.peer.pump.wake()
        interrupted = await anext(events)
        assert isinstance(interrupted, ConnectionInterrupted)
        assert isinstance(interrupted.cause, RedirectRefused)
        await restored(events)
        assert hosts.asked == ["a", "a"]


async def test_failover_to_a_host_of_nobody(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Hosts of the peer's list where the login may not go are left out, and the log says so, once."""
    async with hosting(monkeypatch) as hosts:
        spare = [{"network-host": "spare", "port": 1}, {"network-host": "evil\r\n"}, {"network-host": "b"}]
        hosts.terms = ConnectionTerms("peer", properties={Symbol("failover-server-list"): spare})
        async with connecting(["amqp://a", "amqp://b"], reconnect=HERE) as connection:
            events = connection.events()
            await hosts.cut()
            await restored(events)
        assert set(hosts.asked) == {"a"}
        warnings = [each for each in caplog.messages if "hosts for failover" in each]
        assert len(warnings) == 1
        assert "'spare'" in warnings[0]
        assert "redirect_hosts" in warnings[0]
        assert warnings[0].isprintable()


@pytest.mark.parametrize("hosts", [["a b"], ["*."], ["*a*"], [""]])
def test_hosts_that_are_none(hosts: Any) -> None:
    """`redirect_hosts` is checked where it is given."""
    with pytest.raises(ValueError, match="redirect_hosts"):
        Reconnect(redirect_hosts=hosts)


async def test_nothing_reaches_a_proxy() -> None:
    """M3: a redirect with line breaks cannot make the client say anything to its HTTP proxy."""
    lines = b""

    async def serve(stream: SocketStream) -> None:
        nonlocal lines
        async with stream:
            while b"\r\n\r\n" not in lines:
                lines += await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
            async with await anyio.connect_tcp("127.0.0.1", peer.port) as there, anyio.create_task_group() as both:

                async def pass_on(one: SocketStream, other: SocketStream) -> None:
                    with suppress(anyio.BrokenResourceError):  # whom it is for is gone
                        async for data in one:
                            await other.send(data)

                both.start_soon(pass_on, stream, there)
                both.start_soon(pass_on, there, stream)

    async with ScriptedPeer() as peer, await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            port = listener.extra(SocketAttribute.local_port)

            entered = anyio.Event()

            async def redirect() -> None:
                await peer.accept_connection()
                await entered.wait()
                host = "10.0.0.1:80 HTTP/1.1\r\nX-Injected: yes\r\n\r\nGET /secret HTTP/1.1\r\nX: "
                info = {Symbol("network-host"): host}
                await peer.send(Close(error=Error(Symbol("amqp:connection:redirect"), "go", info)))
                await peer.drop()

            tasks.start_soon(redirect)
            reconnect = Reconnect(redirect_hosts=["*"], attempts=1, initial_delay=0.001)
            proxy = f"http://u:secret@127.0.0.1:{port}"
            with anyio.fail_after(60):
                async with Connection(peer.url, proxy=proxy, reconnect=reconnect, close_timeout=0.1) as connection:
                    events = connection.events()
                    entered.set()
                    interrupted = await anext(events)
                    assert isinstance(interrupted, ConnectionInterrupted)
                    assert isinstance(interrupted.cause, RedirectRefused)
            tasks.cancel_scope.cancel()
    assert lines.count(b"CONNECT") == 1
    assert b"X-Injected" not in lines

"""Staying connected: which host, when, until when, and who is told."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import anyio
import pytest
from anyio.abc import ByteStream

from amqp10 import (
    AuthenticationFailed,
    Connection,
    ConnectionAttempted,
    ConnectionClosed,
    ConnectionDetails,
    ConnectionEvent,
    ConnectionGivenUp,
    ConnectionInterrupted,
    ConnectionLost,
    ConnectionRestored,
    Error,
    InsecureTransport,
    LinkDetached,
    OAuthBearer,
    Plain,
    Reconnect,
    RedirectRefused,
    RemoteProtocolError,
    SessionEnded,
    Symbol,
)
from amqp10.client._connecting.policy import MAX_ALTERNATIVES, failover_hosts, redirect
from amqp10.client.internals import is_transient
from amqp10.engine import ConnectionOpened, ConnectionTerms
from amqp10.net import parse_url
from amqp10.sasl import Authenticator

from ...kit.client.hosts import QUICK, connecting, hosting

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("reconnect")]


# Decisions


@pytest.mark.parametrize(
    "settings",
    [
        {"order": "reverse"},
        {"on_uncertain": "drop"},
        {"on_stale": "accept"},
        {"initial_delay": 0},
        {"initial_delay": 5, "max_delay": 1},
        {"max_delay": float("inf")},
        {"multiplier": 0.5},
        {"jitter": 1.5},
        {"attempts": 0},
        {"first_attempts": 0},
        {"max_time": 0},
        {"attempt_timeout": 0},
        {"resume_timeout": -1},
    ],
)
def test_settings_that_are_none(settings: dict[str, Any]) -> None:
    """Settings that contradict each other are refused at once."""
    with pytest.raises(ValueError, match=r"\w"):
        Reconnect(**settings)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ConnectionLost("gone"), True),
        (ConnectionClosed("amqp:connection:forced"), True),
        (ConnectionClosed(), True),
        (ConnectionClosed("amqp:unauthorized-access"), False),
        (SessionEnded("amqp:internal-error"), True),
        (SessionEnded("amqp:session:window-violation"), False),
        (LinkDetached(), True),
        (LinkDetached("amqp:link:detach-forced"), True),
        (LinkDetached("amqp:resource-deleted"), True),
        (LinkDetached("amqp:not-found"), True),
        (LinkDetached("amqp:link:stolen"), False),
        (AuthenticationFailed("no", 1), False),
        (AuthenticationFailed("later", 4), True),
        (InsecureTransport("no"), False),
        (None, False),
    ],
)
def test_what_may_pass(error: Any, verdict: bool) -> None:
    """Another attempt is for what may be over by then, not for what would end the same way."""
    assert is_transient(error) is verdict


def test_credentials_that_come_anew() -> None:
    """A login that failed is tried again where the next attempt has another one."""
    assert is_transient(AuthenticationFailed("expired", 1), credentials_anew=True)


def test_redirects() -> None:
    """A redirect leads to the host that it names, with the credentials, never out of TLS (§2.8.16)."""
    here = parse_url("amqps://user:secret@a:5671")

    def there(info: dict[str, Any], condition: str = "amqp:connection:redirect") -> str | None:
        found = redirect(ConnectionClosed(condition, None, info), here, lambda there: None)
        assert found is None or found.password == "secret"
        return str(found) if found is not None else None

    assert there({"network-host": "b", "port": 7000}) == "amqps://b:7000"
    assert there({"hostname": "c"}) == "amqps://c:5671"
    with pytest.raises(RedirectRefused, match="has no TLS"):
        there({"network-host": "b", "scheme": "amqp"})
    with pytest.raises(RedirectRefused, match=r"'h\\r\\nX: y' is not a host"):
        there({"network-host": "h\r\nX: y"})
    assert there({"network-host": "b", "scheme": "http"}) is None
    assert there({"port": 5}) is None
    assert there({"network-host": "b", "port": "x"}) == "amqps://b:5671"
    assert there({"network-host": "b"}, "amqp:connection:forced") is None


def test_the_hosts_of_an_open() -> None:
    """The open's list for failover: those of it that are understood, none of them out of TLS."""
    listed = [{"network-host": "b", "port": 5673}, "nonsense", {"network-host": "c", "scheme": "amqp"}, {}]
    listed.append({"network-host": "h\r\nX: y"})
    here = parse_url("amqps://a")
    found, refused = failover_hosts({Symbol("failover-server-list"): listed}, here, lambda there: None)
    assert [str(each) for each in found] == ["amqps://b:5673"]
    assert len(refused) == 2
    assert failover_hosts({"failover-server-list": 5}, here, lambda there: None) == ([], [])
    many = {"failover-server-list": [{"network-host": "b", "port": port} for port in range(1, 9999)]}
    assert len(failover_hosts(many, here, lambda there: None)[0]) == MAX_ALTERNATIVES


def test_what_does_not_go_together() -> None:
    """No URL at all; or a stream that cannot be connected again."""
    with pytest.raises(ValueError, match="needs a URL"):
        Connection([])
    with pytest.raises(ValueError, match="cannot be connected again"):
        Connection.over(Mock(ByteStream), reconnect=Reconnect())


# Hosts


async def test_the_next_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 19: hosts are tried in their order, at first and after a loss, and the first that is there is used."""
    async with hosting(monkeypatch) as hosts:
        hosts.down = {"a"}
        async with connecting(["amqp://a", "amqp://b", "amqp://c"]) as connection:
            assert connection.url == "amqp://b:5672"
            hosts.down = {"a", "b"}
            events = connection.events()
            await hosts.cut()
            seen = [await anext(events) for _ in range(4)]
            assert connection.url == "amqp://c:5672"
            assert connection.open
    assert hosts.asked == ["a", "b", "a", "b", "c"]
    assert [type(event) for event in seen] == [
        ConnectionInterrupted,
        ConnectionAttempted,
        ConnectionAttempted,
        ConnectionRestored,
    ]


async def test_several_hosts_without_reconnect(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are for the first connection; its loss is the end."""
    async with hosting(monkeypatch) as hosts:
        hosts.down = {"a"}
        async with connecting(["amqp://a", "amqp://b"], None) as connection:
            await hosts.cut()
            with pytest.raises(ConnectionLost):
                async with connection.receiver("q") as receiver:
                    await receiver.receive()
    assert hosts.asked == ["a", "b"]


async def test_random_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round has an order of its own, and every host once."""
    async with hosting(monkeypatch) as hosts:
        hosts.down = set("abc")
        urls = [f"amqp://{name}" for name in "abc"]
        reconnect = replace(QUICK, order="random", first_attempts=20)
        with pytest.raises(ConnectionLost, match="cannot connect"):
            async with connecting(urls, reconnect):
                raise AssertionError
    rounds = [tuple(hosts.asked[at : at + 3]) for at in range(0, 60, 3)]
    assert len(hosts.asked) == 60
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert len(set(rounds)) > 1


async def test_the_first_connection_has_limits_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is not there at first is tried once unless said; after a loss for ever unless said."""
    async with hosting(monkeypatch) as hosts:
        hosts.down = {"a"}
        with pytest.raises(ConnectionLost):
            async with connecting():
                raise AssertionError
        assert hosts.asked == ["a"]
        hosts.asked.clear()
        with pytest.raises(ConnectionLost) as caught:
            async with connecting(reconnect=replace(QUICK, first_attempts=3)):
                raise AssertionError
        assert hosts.asked == ["a"] * 3
        assert "given up after 3 attempts" in caught.value.__notes__[0]
        assert "Reconnect(first_attempts=...)" in caught.value.__notes__[1]
        with pytest.raises(ConnectionLost) as caught:
            async with connecting(reconnect=Reconnect()):
                raise AssertionError
        assert re.match(r"given up after 1 attempt in \d+\.\d s", caught.value.__notes__[0])
        assert "Reconnect(first_attempts=...)" in caught.value.__notes__[1]


async def test_it_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 20: after so many rounds the connection is over, and whoever waits gets the cause; nobody hangs."""
    async with hosting(monkeypatch) as hosts:
        async with connecting(reconnect=replace(QUICK, attempts=3)) as connection:
            events = connection.events()
            async with connection.receiver("q") as receiver:
                hosts.down = {"a"}
                await hosts.cut()
                with pytest.raises(ConnectionLost, match="cannot connect"):
                    await receiver.receive()
            assert hosts.asked == ["a"] * 4
            assert type([event async for event in events][-1]) is ConnectionGivenUp
            with pytest.raises(ConnectionLost):
                await connection.sender("q").__aenter__()


async def test_time_is_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """No attempt begins when the time is over."""
    async with hosting(monkeypatch) as hosts:
        reconnect = Reconnect(initial_delay=0.3, max_delay=0.3, jitter=0, max_time=0.8)
        async with connecting(reconnect=reconnect) as connection, connection.receiver("q") as receiver:
            hosts.down = {"a"}
            await hosts.cut()
            with pytest.raises(ConnectionLost):
                await receiver.receive()
    assert 1 < len(hosts.asked) <= 3


async def test_a_peer_that_does_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt has a time of its own: a host that accepts and says nothing does not hold up the next one."""
    async with hosting(monkeypatch) as hosts:

        def mute(peer: Any) -> None:
            peer.answers = hosts.asked[-1] != "a"

        hosts.prepare = mute
        reconnect = replace(QUICK, attempt_timeout=0.05, first_attempts=100)  # for where the other is slow, too
        async with connecting(["amqp://a", "amqp://b"], reconnect) as connection:
            assert connection.url == "amqp://b:5672"


@pytest.mark.parametrize("hosts_given", [["amqp://a"], ["amqp://a", "amqp://b"]])
async def test_no_peer_that_opens(monkeypatch: pytest.MonkeyPatch, hosts_given: list[str]) -> None:
    """Attempts that take too long are said to have done so, though it is this side that ends the transport then."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer.stream, "shut", True)
        reconnect = replace(QUICK, attempt_timeout=0.02)
        with pytest.raises(ConnectionLost, match=r"amqp://[ab]:5672 did not open in 0\.02 s") as caught:
            await connecting(hosts_given, reconnect).__aenter__()
        assert len(hosts.asked) == len(hosts_given)
        assert ("given up after 2 attempts" in str(getattr(caught.value, "__notes__", ""))) == (len(hosts_given) == 2)


async def test_a_gateway_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without AMQP is an error at first, unless a broker was there before or another host is left."""
    async with hosting(monkeypatch) as hosts:

        def page(peer: Any) -> None:
            if hosts.asked[-1] == "gateway" or hosts.asked == ["a", "a"]:
                peer.engine.start = lambda: None
                peer.engine.buffers_to_send = lambda: [b"HTTP/1.1 503 Service Unavailable\r\n\r\n"]
                peer.engine.receive_data = lambda data: None

        hosts.prepare = page
        with pytest.raises(RemoteProtocolError, match="HTTP"):
            async with connecting("amqp://gateway", replace(QUICK, first_attempts=5)):
                raise AssertionError
        hosts.asked.clear()
        async with connecting("amqp://a") as connection:
            events = connection.events()
            await hosts.cut()
            seen = [await anext(events) for _ in range(3)]
            assert isinstance(seen[1], ConnectionAttempted)
            assert isinstance(seen[1].error, RemoteProtocolError)
            assert isinstance(seen[2], ConnectionRestored)
        hosts.asked.clear()
        async with connecting(["amqp://gateway", "amqp://b"]) as connection:
            assert connection.url == "amqp://b:5672"
        assert hosts.asked == ["gateway", "b"]


async def test_a_redirect_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`amqp:connection:redirect` leads elsewhere at once (§2.8.16)."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        events = connection.events()
        info = {Symbol("network-host"): "elsewhere", Symbol("port"): 99}
        hosts.peer.engine.close(Error(Symbol("amqp:connection:redirect"), "go", info))
        hosts.peer.pump.wake()
        while type(await anext(events)) is not ConnectionRestored:
            pass
        assert connection.url == "amqp://elsewhere:99"


async def test_redirects_in_a_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is sent around without end."""
    async with hosting(monkeypatch) as hosts:

        def redirecting(peer: Any) -> None:
            info = {Symbol("network-host"): "b" if hosts.asked[-1] == "a" else "a"}

            def on_event(event: Any) -> bool:
                if isinstance(event, ConnectionOpened):
                    peer.engine.open()
                    peer.engine.close(Error(Symbol("amqp:connection:redirect"), "go", info))
                return True

            peer.on_event = on_event

        hosts.prepare = redirecting
        with pytest.raises(ConnectionClosed, match="redirect"):
            async with connecting():
                raise AssertionError
    assert hosts.asked == ["a", "b"] * 5 + ["a"]


async def test_hosts_for_failover(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hosts that the peer's open names are tried after ours."""
    async with hosting(monkeypatch) as hosts:
        hosts.terms = ConnectionTerms(
            "peer", properties={Symbol("failover-server-list"): [{"network-host": "spare", "port": 1}]}
        )
        async with connecting() as connection:
            hosts.down = {"a"}
            events = connection.events()
            await hosts.cut()
            while type(await anext(events)) is not ConnectionRestored:
                pass
            assert connection.url == "amqp://spare:1"


async def test_credentials_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 21: a callable gives URL and token for each attempt, so that an expired token is not tried again."""
    async with hosting(monkeypatch) as hosts:
        good = {"token-1"}
        hosts.authenticator = Authenticator(tokens=lambda user, token: "me" if token in good else None)
        asked: list[int] = []

        async def details() -> ConnectionDetails:
            await anyio.lowlevel.checkpoint()
            asked.append(len(asked) + 1)
            return ConnectionDetails("amqp://a", sasl=OAuthBearer(f"token-{asked[-1]}"))

        async with connecting(details) as connection:
            events = connection.events()
            good.clear()
            good.add("token-4")
            await hosts.cut()
            seen: list[ConnectionEvent] = []
            while not seen or type(seen[-1]) is not ConnectionRestored:
                seen.append(await anext(events))
        assert asked == [1, 2, 3, 4]
        failed = [event.error for event in seen if isinstance(event, ConnectionAttempted)]
        assert [type(error) for error in failed] == [AuthenticationFailed] * 2


async def test_credentials_that_stay_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same credentials are not tried again: accounts get locked by that."""
    async with hosting(monkeypatch) as hosts:
        hosts.authenticator = Authenticator({"user": "right"})
        with pytest.raises(AuthenticationFailed):
            async with connecting(reconnect=replace(QUICK, first_attempts=9), sasl=Plain("user", "wrong")):
                raise AssertionError
    assert hosts.asked == ["a"]


async def test_flapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 20: a peer that opens and closes at once is not flooded: the pauses grow as after failures."""
    async with hosting(monkeypatch) as hosts:
        slept: list[float] = []
        sleep = anyio.sleep

        async def asleep(delay: float) -> None:
            if delay == 77:  # the watch over what was restored, not a pause
                await anyio.sleep_forever()
            slept.append(delay)
            await sleep(0)

        monkeypatch.setattr("amqp10.client._connecting.supervisor.anyio.sleep", asleep)
        reconnect = Reconnect(initial_delay=1, max_delay=30, jitter=0, attempt_timeout=77)
        async with connecting(reconnect=reconnect) as connection:
            for _ in range(6):
                events = connection.events()
                await hosts.cut()
                while type(await anext(events)) is not ConnectionRestored:
                    pass
        assert slept[:6] == [1, 2, 4, 8, 16, 30]


async def test_the_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The log `amqp10.connection` has each event, without credentials."""
    caplog.set_level("INFO", "amqp10.connection")
    async with hosting(monkeypatch) as hosts:
        hosts.authenticator = Authenticator({"user": "secret"})
        async with connecting("amqp://user:secret@a") as connection:
            events = connection.events()
            await hosts.cut()
            while type(await anext(events)) is not ConnectionRestored:
                pass
    assert "amqp://a:5672: the connection was lost: ConnectionLost: " in caplog.text
    assert "amqp://a:5672: the connection is back after " in caplog.text
    assert "secret" not in caplog.text


async def test_leaving_while_it_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving the block does not wait for a host that may never come back."""
    async with hosting(monkeypatch) as hosts:
        with anyio.fail_after(60):
            async with connecting(close_timeout=30.0) as connection, connection.receiver("q"), connection.session():
                hosts.down = {"a"}
                events = connection.events()
                await hosts.cut()
                while type(await anext(events)) is not ConnectionAttempted:
                    pass
        assert [type(event) async for event in events][-1] is ConnectionGivenUp


async def test_two_tasks_at_one_observer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is refused, the first is told, and one after the other is fine."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        events = connection.events()
        told: list[ConnectionEvent] = []

        async def wait() -> None:
            told.append(await anext(events))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(anyio.BusyResourceError):
                await anext(events)
            await hosts.cut()
        await wait()
        assert [type(event) for event in told] == [ConnectionInterrupted, ConnectionRestored]

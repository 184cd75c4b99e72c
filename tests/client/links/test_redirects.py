"""Links that the peer sends elsewhere (§2.8.18): followed, or an error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from amqp10 import (
    ConnectionLost,
    Error,
    LinkDetached,
    RedirectRefused,
    Symbol,
)
from amqp10.engine import LinkEnded

from ...kit.client.hosts import QUICK, Hosts, connecting, hosting
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


def redirecting(hosts: Hosts, *infos: dict[str, Any]) -> None:
    """Each peer refuses the links of its first attach with the next of these."""
    left = list(infos)

    def prepare(peer: Any) -> None:
        if left:
            info = {Symbol(key): value for key, value in left.pop(0).items()}
            peer.refusal = Error(Symbol("amqp:link:redirect"), "not here", info)

    hosts.prepare = prepare


@pytest.mark.spec(
    "2.8.18", "amqp:link:redirect: the link is attached at the network-host, port and address that it says"
)
async def test_a_link_that_is_redirected(monkeypatch: pytest.MonkeyPatch) -> None:
    """`amqp:link:redirect` leads to another host and address (§2.8.18): one connection more, closed with the first."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, {"network-host": "b", "port": 5679, "address": "there"})
        async with connecting() as connection:
            async with connection.sender("q") as sender, connection.receiver("q") as receiver:
                assert sender.address == receiver.address == "there"
                await sender.send("x")
                hosts.peer.send("there", "y")
                assert (await receiver.receive()).message.body == "y"
            assert hosts.asked == ["a", "b"]
        await until(lambda: all(peer.over for peer in hosts.peers))
        assert hosts.peers[1].bodies() == ["x"]


async def test_a_redirect_to_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect without a host is for another address of the same one."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, {"address": "there"})
        async with connecting() as connection:

            def relent(event: Any) -> bool:
                if isinstance(event, LinkEnded):
                    hosts.peer.refusal = None
                return False

            hosts.peer.on_event = relent
            async with connection.sender("q") as sender:
                assert sender.address == "there"
        assert hosts.asked == ["a"]


@pytest.mark.parametrize("info", [{}, {"network-host": "b", "scheme": "http"}, {"hostname": 5, "address": "x"}])
async def test_a_redirect_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch, info: dict[str, Any]) -> None:
    """A redirect that cannot be followed raises, with the peer's reason."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, info)
        async with connecting() as connection:
            with pytest.raises(LinkDetached, match="link:redirect") as caught:
                await connection.sender("q").__aenter__()
            assert caught.value.info == info


async def test_a_redirect_to_a_host_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the other host cannot be reached is what is raised; the connection goes on."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, {"network-host": "b"})
        hosts.down = {"b"}
        async with connecting() as connection:
            with pytest.raises(ConnectionLost, match="cannot connect to amqp://b"):
                await connection.sender("q").__aenter__()
            hosts.peer.refusal = None
            async with connection.sender("q") as sender:
                await sender.send("x")


async def test_redirects_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `reconnect`, and where it says so, a redirect is an error: credentials go where the user sent them."""
    for reconnect in (None, replace(QUICK, follow_alternatives=False)):
        async with hosting(monkeypatch) as hosts:
            redirecting(hosts, {"network-host": "b"})
            async with connecting(reconnect=reconnect) as connection:
                with pytest.raises(LinkDetached, match="link:redirect"):
                    await connection.sender("q").__aenter__()
            assert hosts.asked == ["a"]


async def test_links_that_are_sent_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """A circle of redirects ends with an error."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, *[{"network-host": "b"}, {"network-host": "c"}, {"network-host": "b"}] * 9)
        async with connecting() as connection:
            with pytest.raises(LinkDetached, match="link:redirect"):
                await connection.sender("q").__aenter__()
        assert len(hosts.asked) <= 12


async def test_a_host_where_the_login_may_not_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link is sent to no host that the user has not named; the connection goes on."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, {"network-host": "evil", "address": "there"})
        async with connecting(reconnect=replace(QUICK, redirect_hosts=["b"])) as connection:
            with pytest.raises(RedirectRefused, match=r"redirect_hosts=\['evil'\]") as caught:
                await connection.sender("q").__aenter__()
            assert isinstance(caught.value.__cause__, LinkDetached)
            hosts.peer.refusal = None
            async with connection.sender("q") as sender:
                await sender.send("x")
        assert hosts.asked == ["a"]


async def test_from_there_to_a_host_of_the_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hosts of the connection's URLs are allowed wherever a link comes by."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, {"network-host": "b"}, {"network-host": "c"})
        reconnect = replace(QUICK, redirect_hosts=["b"])
        async with connecting(["amqp://a", "amqp://c"], reconnect=reconnect) as connection:
            async with connection.sender("q") as sender:
                assert sender.connection.url == "amqp://c:5672"


async def test_the_virtual_host_goes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection to the other host asks for the same virtual host, and has the same profile."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, {"network-host": "b"})
        async with connecting(hostname="vhost:x", profile="artemis") as connection, connection.sender("q") as sender:
            assert sender.connection.profile is connection.profile
            opens = [peer.engine.remote for peer in hosts.peers]
            assert [remote.hostname for remote in opens if remote is not None] == ["vhost:x"] * 2

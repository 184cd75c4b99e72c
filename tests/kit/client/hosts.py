"""Several hosts without a network: each connection to one of them gets a peer of its own, which the test drives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10.broker.internals import memory_streams
from amqp10.client import Connection, Reconnect
from amqp10.engine import ConnectionTerms, SessionTerms
from amqp10.errors import ConnectionLost
from amqp10.messaging import Error, Source, Target
from amqp10.net import Endpoint, StreamFacts
from amqp10.sasl import Authenticator
from amqp10.types import Symbol

from ..inside.client import supervisor
from ..waiting import until
from .peer import Peer, Valve, replace_terminus

QUICK = Reconnect(initial_delay=0.001, max_delay=0.01, redirect_hosts=["*"])


class Hosts:
    """What stands for the network.

    Attributes:
        down: hosts that refuse.
        asked: hosts that were connected to, in order, those that refused among them.
        peers: of the connections that were made, in order.
        prepare: given each peer before it answers anything.
        terms: what the next peer says in its open.
        authenticator: who may come in.
    """

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self._tasks = tasks
        self.down: set[str] = set()
        self.asked: list[str] = []
        self.peers: list[Peer] = []
        self.prepare: Callable[[Peer], None] = lambda peer: None
        self.terms = ConnectionTerms("peer")
        self.session_terms = SessionTerms()
        self.authenticator = Authenticator(anonymous=True)

    async def connect(self, endpoint: Endpoint, *_: Any) -> tuple[Any, StreamFacts]:
        await anyio.lowlevel.checkpoint()
        self.asked.append(endpoint.host)
        if endpoint.host in self.down:
            raise ConnectionLost(f"cannot connect to {endpoint}")
        here, there = memory_streams()
        peer = Peer(Valve(there), self.session_terms, self.terms, self.authenticator)
        self.prepare(peer)
        peer.engine.start()
        self.peers.append(peer)
        self._tasks.start_soon(peer.pump.run)
        return here, StreamFacts(secure=True)

    @property
    def peer(self) -> Peer:
        """The one that is connected last."""
        return self.peers[-1]

    async def cut(self) -> None:
        """Break the transport that is there."""
        await anyio.aclose_forcefully(self.peer.stream._stream)

    async def link(self, name: str, *, of: int = -1) -> Any:
        """The peer's end of a link, when it is attached."""
        await until(lambda: len(self.peers) > of and name in self.peers[of].links)
        return self.peers[of].links[name]

    async def credit(self, name: str) -> None:
        """Wait for the client's credit on its last connection."""
        await until(lambda: name in self.peer.links and self.peer.links[name].credit)


@asynccontextmanager
async def hosting(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hosts]:
    """Hosts that every connection of the test leads to."""
    async with anyio.create_task_group() as tasks:
        hosts = Hosts(tasks)
        monkeypatch.setattr(supervisor, "connect", hosts.connect)
        with anyio.fail_after(60):
            yield hosts
        tasks.cancel_scope.cancel()


def connecting(url: Any = "amqp://a", reconnect: Reconnect | None = QUICK, **settings: Any) -> Connection:
    """A connection that stays up, and closes soon."""
    return Connection(url, reconnect=reconnect, **{"close_timeout": 1.0, **settings})


def forgetful(peer: Peer) -> None:
    """A peer that keeps nothing of a link, and says so."""
    attach = peer.attach

    def plainly(link: Any) -> None:
        remote = link.remote
        changes = {}
        for name in ("source", "target"):
            terminus = getattr(remote, name)
            if isinstance(terminus, Source | Target) and not terminus.dynamic:
                changes[name] = replace_terminus(terminus, expiry_policy="session-end", timeout=0)
        link.remote = replace(remote, **changes)
        attach(link)

    peer.attach = plainly  # type: ignore[method-assign]


def detach(hosts: Hosts, name: str, condition: str = "amqp:link:detach-forced") -> None:
    """The peer detaches one of the client's links."""
    hosts.peer.links[name].detach(closed=True, error=Error(Symbol(condition)))
    hosts.peer.pump.wake()

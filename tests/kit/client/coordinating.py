"""Coordinators that a test plays."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Unpack

import anyio

from amqp10 import Connection, Message
from amqp10.broker import Broker
from amqp10.client import ConnectionSettings
from amqp10.engine import DeliveriesReceived, LinkAttached
from amqp10.messaging import (
    ACCEPTED,
    Coordinator,
    Declared,
)
from amqp10.testing import Attach, Disposition, ScriptedPeer, Transfer
from amqp10.types import as_composite

from .memory_peer import MemoryPeer
from .peer import Peer


@asynccontextmanager
async def broker_and_connection(**settings: int) -> AsyncIterator[tuple[Broker, Connection]]:
    async with Broker(**settings) as broker, broker.connect() as connection:  # type: ignore[arg-type]
        yield broker, connection


@asynccontextmanager
async def connected(
    peer: MemoryPeer, serve: Callable[[], Coroutine[Any, Any, None]], **settings: Unpack[ConnectionSettings]
) -> AsyncIterator[Connection]:
    """Connect to a peer that does all that `serve` says, and then is silent."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        async with Connection(peer.url, **settings) as connection:
            yield connection


async def coordinate(peer: ScriptedPeer) -> None:
    """The connection, and a coordinator link with credit on handle 0."""
    await peer.accept_connection()
    await peer.accept_session()
    attach = await peer.accept_link(credit=10)
    assert isinstance(attach, Attach)
    assert isinstance(attach.target, Coordinator)
    assert "amqp:local-transactions" in attach.target.capabilities


async def answer(peer: ScriptedPeer, number: int, asked: type, state: object) -> None:
    """Expect a declare or discharge, and give it this outcome."""
    await peer.expect(Transfer)
    assert type(as_composite(Message.decode(peer.payload).body)) is asked
    await peer.send(Disposition(role=True, first=number, settled=True, state=state))


def declaring(peer: Peer) -> None:
    """Make the peer a coordinator, too."""

    def on_event(event: Any) -> bool:
        link = getattr(event, "link", None)
        if link is None or link.remote is None or not isinstance(link.remote.target, Coordinator):
            return False
        if isinstance(event, LinkAttached):
            link.attach(replace(link.remote, initial_delivery_count=0))
            link.flow(10)
        elif isinstance(event, DeliveriesReceived):
            delivery = link.incoming.popleft()
            declares = b"\x53\x31" in delivery.payload  # the descriptor of declare
            link.settle(delivery, Declared(b"t") if declares else ACCEPTED)
        return True

    peer.on_event = on_event

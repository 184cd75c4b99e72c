"""What stands at both ends of a bridge in these tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from amqp10 import Accepted, Connection, Error, Message, Rejected
from amqp10.broker import Broker
from amqp10.engine import DeliveriesReceived, Event

from ..client.peer import Peer


@asynccontextmanager
async def two_brokers() -> AsyncIterator[tuple[Broker, Broker]]:
    """The old one, and the new one."""
    async with Broker() as old, Broker() as new:
        yield old, new


async def fill(broker: Broker, address: str, bodies: Iterable[object]) -> None:
    """Have these in a queue."""
    async with Connection(broker.url) as connection, connection.sender(address) as sender:
        await sender.send_many(bodies)


async def messages(broker: Broker, address: str) -> list[Message]:
    """What waits in a queue; it stays there."""
    async with Connection(broker.url) as connection, connection.browser(address) as browser:
        return [delivery.message async for delivery in browser]


async def bodies(broker: Broker, address: str) -> list[Any]:
    """The bodies of that."""
    return [message.body for message in await messages(broker, address)]


NO_CONNECTION = 3  # the exit code


class Program:
    """`amqp10 bridge`, which may be killed and begin again."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self.kills = 0  # while it was at it

    def start(self) -> None:
        command = [sys.executable, "-m", "amqp10", "bridge", *self._arguments, "--json"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def goes_on(self) -> bool:
        """True; started again if it could not connect, for a cut that was meant for the one before came late."""
        if self._process.poll() == NO_CONNECTION:
            self._process.communicate()
            self.start()
        return True

    def kill(self) -> None:
        """SIGKILL, unless it has ended."""
        self.kills += self._process.poll() is None
        self._process.kill()
        self._process.communicate()

    def end(self) -> dict[str, object]:
        """Let it run to its end, started again if it could not connect; the last counts."""
        out, err = self._process.communicate(timeout=60)
        while self._process.returncode == NO_CONNECTION:
            self.start()
            out, err = self._process.communicate(timeout=60)
        assert self._process.returncode == 0, err
        last: dict[str, object] = json.loads(out.splitlines()[-1])
        return last


NO = Rejected(Error("amqp:not-allowed", "odd ones are not wanted"))


def picky(peer: Peer, outcome: Any = NO) -> dict[str, list[Any]]:
    """Have the peer accept even numbers only, at the address "b"; what it accepted, by address."""
    accepted: dict[str, list[Any]] = {}

    def on_event(event: Event) -> bool:
        if not isinstance(event, DeliveriesReceived):
            return False
        link: Any = event.link
        address = str(link.remote.target.address)
        while link.incoming:
            delivery = link.incoming.popleft()
            message = Message.decode(delivery.payload)
            if address == "b" and message.body % 2:
                link.settle(delivery, outcome)
            else:
                accepted.setdefault(address, []).append(message)
                link.settle(delivery, Accepted())
        return True

    peer.on_event = on_event
    return accepted


def numbers(accepted: Iterable[Message]) -> list[int]:
    """Their bodies."""
    return [message.body for message in accepted]

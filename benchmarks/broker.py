"""A real broker as the other end, in place of the counterpart: filled before a receiver runs, emptied after each run.

Both by this client. What a run did is proven by what lies in the queue after it: as many messages as were to be sent,
or none of those that were there to be received and settled.
"""

from __future__ import annotations

import math
from typing import Any
from urllib.parse import urlsplit

import anyio
from run import Failed

from amqp10 import Connection, Message

ADDRESS = "amqp10-bench"
FEW = 1000  # at a time
PATIENCE = 5.0  # seconds for the next of those that are to come
REST = 0.3  # and for what should not be there


class Broker:
    """What `run.Counterpart` is, of a broker that runs already and takes ANONYMOUS.

    Args:
        url: where it listens; a path is not looked at.
    """

    most = 60_000
    most_bytes = 1 << 28  # brokers have less memory than a counterpart that keeps nothing

    def __init__(self, url: str) -> None:
        self.url = url.removesuffix(urlsplit(url).path) + "/" + ADDRESS

    def ready(self, mode: str, size: int, total: int) -> str:
        """The URL for a peer, its queue with `total` messages in it for a receiver, with none for a sender."""
        anyio.run(self._empty, 0)
        if mode == "recv":
            anyio.run(self._fill, size, total)
        return self.url

    def check(self, mode: str, settled: int, total: int) -> dict[str, Any]:
        """Empty the queue; a broker's own CPU is not known here.

        Raises:
            Failed: there was something else in it than a peer should have left.
        """
        wanted = total if mode == "send" else 0
        left = anyio.run(self._empty, wanted)
        if left != wanted:
            raise Failed(f"{left} messages in the queue and not {wanted}")
        return {"cpu_us": math.nan}

    def stop(self) -> None:
        """It goes on."""

    async def _fill(self, size: int, total: int) -> None:
        body = bytes(size)
        async with Connection(self.url) as connection, connection.sender(ADDRESS) as sender:
            await sender.send_many(Message(body) for _ in range(total))

    async def _empty(self, wanted: int) -> int:
        """How many there were; so many there should be."""
        count = 0
        async with Connection(self.url) as connection, connection.receiver(ADDRESS, credit=FEW) as receiver:
            while True:
                least = min(FEW, wanted - count) if count < wanted else 1
                batch = await receiver.receive_batch(least, max_wait=PATIENCE if count < wanted else REST)
                if not batch:
                    break
                count += len(batch)
                for delivery in batch:
                    delivery.accept()
        return count

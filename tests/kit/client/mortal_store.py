"""A store of deliveries at which a client dies."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from amqp10 import SQLiteDeliveryStore


class Mortal(SQLiteDeliveryStore):
    """A store, and the stream of the process that uses it: at one of its commits the process dies.

    Args:
        last: the number of the commit at which that happens.
        before: the commit itself is not done any more; else it is, and what it allows is not written.
    """

    def __init__(self, path: Path, last: int, *, before: bool) -> None:
        super().__init__(path)
        self._last = last
        self._before = before
        self._commits = 0
        self.dead = anyio.Event()

    async def commit(self) -> None:
        self._commits += 1
        if self._commits >= self._last and self._before:
            self.die()
        if not self.dead.is_set():
            await super().commit()
        if self._commits >= self._last:
            self.die()

    async def _commit(self) -> None:
        if self.dead.is_set():
            self._committed = self._changes  # as for those who waited for another commit
        else:
            await super()._commit()

    def die(self) -> None:
        self.dead.set()
        self._file.rollback()

    def close(self) -> None:
        if self.dead.is_set():
            self._told = self._committed  # nothing is committed by closing it
        super().close()


class MortalStream(ByteStream):
    """A stream on which nothing is written, and nothing read, by a process that is dead."""

    def __init__(self, stream: ByteStream, store: Mortal) -> None:
        self._stream = stream
        self._store = store

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        data = await self._stream.receive(max_bytes)
        if self._store.dead.is_set():
            raise anyio.BrokenResourceError
        return data

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        if self._store.dead.is_set():
            await self._stream.aclose()
            raise anyio.BrokenResourceError
        await self._stream.send(item)

    async def send_eof(self) -> None:
        """Nobody calls it."""

    async def aclose(self) -> None:
        await self._stream.aclose()

"""Moves messages within one broker by transactions, each batch as a whole or not at all (§4).

Sending and accepting are part of one transaction, so that a message is always either at the source or at the target,
even after a crash. No store of deliveries is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from ..errors import AmqpError, MessageNotAccepted, TransactionInDoubt
from ._mover import Mover
from ._onward import onward

if TYPE_CHECKING:
    from ._transit import Transit

MOST_IN_BATCH = 1000


class BatchMover(Mover):
    """Moves messages in transactions."""

    async def _passing(self) -> None:
        queue = self.flight.queue
        while True:
            batch: list[Transit] = []
            while queue and len(batch) < MOST_IN_BATCH:
                transit = queue.popleft()
                if not transit.stale:
                    batch.append(transit)
            if batch:
                await self._move(batch)
            else:
                self._work = anyio.Event()
                await self._work.wait()

    async def _move(self, batch: list[Transit]) -> None:
        flight, links = self.flight, (self._source, self._target)
        before = [link.losses for link in links]
        try:
            async with self._source.connection.transaction() as transaction:
                for transit in batch:
                    source = transit.source
                    await self._pace()
                    await self._target.room(len(source.payload))
                    payload = onward(source.payload, anyio.current_time() - transit.came)
                    self._target.forward(payload, source.message_format, transaction=transaction)
                    source.accept(transaction=transaction)
        except TransactionInDoubt:
            flight.in_doubt += len(batch)
            if self._source.over or self._target.over:
                raise
        except AmqpError as error:
            lost = before != [link.losses for link in links]
            if not lost:
                flight.returned += len(batch)  # by the rollback
            if isinstance(error.__cause__, MessageNotAccepted):
                flight.refused += 1
                raise error.__cause__ from None
            if not lost:
                raise
            await self._target.restored()  # the messages arrive again
        except BaseException:
            flight.returned += len(batch)
            raise
        else:
            flight.moved += len(batch)
            flight.moved_size += sum(len(transit.source.payload) for transit in batch)
        finally:
            for transit in batch:
                flight.drop(transit)
            self._freed += len(batch)
            self._free()

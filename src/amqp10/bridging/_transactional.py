"""Moves messages within one broker by transactions, each batch as a whole or not at all (§4).

Sending and accepting are part of one transaction, so that a message is always either at the source or at the target,
even after a crash. No store of deliveries is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from ..errors import AmqpError, MessageNotAccepted, TransactionInDoubt
from ._forwarding import for_next_hop
from ._mover import Mover

if TYPE_CHECKING:
    from ._in_flight import InFlightMessage

MAX_BATCH = 1000


class TransactionalMover(Mover):
    """Moves messages in transactions."""

    async def _send_all(self) -> None:
        queue = self.in_flight.queue
        while True:
            batch: list[InFlightMessage] = []
            while queue and len(batch) < MAX_BATCH:
                message = queue.popleft()
                if not message.stale:
                    batch.append(message)
            if batch:
                await self._move(batch)
            else:
                self._work = anyio.Event()
                await self._work.wait()

    async def _move(self, batch: list[InFlightMessage]) -> None:
        in_flight, links = self.in_flight, (self._source, self._target)
        before = [link.losses for link in links]
        try:
            async with self._source.connection.transaction() as transaction:
                for message in batch:
                    source = message.source
                    await self._pace()
                    await self._target.wait_sendable(len(source.payload))
                    payload = for_next_hop(source.payload, anyio.current_time() - message.received_at)
                    self._target.forward(payload, source.message_format, transaction=transaction)
                    source.accept(transaction=transaction)
        except TransactionInDoubt:
            in_flight.in_doubt += len(batch)
            if self._source.over or self._target.over:
                raise
        except AmqpError as error:
            lost = before != [link.losses for link in links]
            if not lost:
                in_flight.returned += len(batch)  # by the rollback
            if isinstance(error.__cause__, MessageNotAccepted):
                in_flight.refused += 1
                raise error.__cause__ from None
            if not lost:
                raise
            await self._target.wait_restored()  # the messages arrive again
        except BaseException:
            in_flight.returned += len(batch)
            raise
        else:
            in_flight.moved += len(batch)
            in_flight.moved_size += sum(len(message.source.payload) for message in batch)
        finally:
            for message in batch:
                in_flight.drop(message)
            self._freed += len(batch)
            self._free_place()

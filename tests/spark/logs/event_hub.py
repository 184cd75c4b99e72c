"""A hub like Azure's on the embedded broker: its management node, and partitions that are read by sequence number."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import pytest

from amqp10 import Connection, EventPosition, Message
from amqp10.broker import Broker, _links
from amqp10.broker._filters import read_filters
from amqp10.broker._stream_place import Place, read_stream_filters
from amqp10.types import Described

NAME: Final = "hub"
KEPT: Final = 1000
"""Octets that a partition keeps."""

_POSITION: Final = re.compile(r"amqp\.annotation\.x-opt-sequence-number >= '(\d+)'")


class Hub:
    """Its partitions are streams: an event's sequence number is its offset there."""

    def __init__(self, broker: Broker, connection: Connection, partitions: Iterable[str]) -> None:
        self._broker, self._connection = broker, connection
        self._ends = dict.fromkeys(partitions, 0)

    @property
    def url(self) -> str:
        return self._broker.url

    async def make(self) -> None:
        async with Connection(self.url, dialect="0-9-1") as connection:
            for partition in self._ends:
                kind = {"x-queue-type": "stream", "x-max-length-bytes": KEPT}
                await connection.native.declare_queue(_address(partition), durable=True, arguments=kind)

    async def send(self, partition: str, *bodies: bytes) -> None:
        async with self._connection.sender(_address(partition)) as sender:
            for body in bodies:
                number = self._ends[partition]
                self._ends[partition] += 1
                await sender.send(Message(body, message_annotations={"x-opt-sequence-number": number}))

    async def answer(self) -> None:
        async with self._connection.responder("$management") as responder:
            async for request in responder:
                asked = request.message.application_properties
                body: dict[str, Any] = {"partition_ids": list(self._ends)}
                if asked["type"] == "com.microsoft:partition":
                    body = self._facts(asked["partition"])
                await request.reply(Message(body, application_properties={"status-code": 200}))

    def _facts(self, partition: str) -> dict[str, Any]:
        first, end = self._broker._router.nodes[_address(partition)].first, self._ends[partition]  # type: ignore[attr-defined]
        return {
            "begin_sequence_number": first if end else -1,
            "last_enqueued_sequence_number": end - 1,
            "is_partition_empty": not end,
        }


@asynccontextmanager
async def hub(monkeypatch: pytest.MonkeyPatch, *partitions: str) -> AsyncIterator[Hub]:
    """One with these partitions."""
    monkeypatch.setattr(_links, "read_filters", _without_positions)
    monkeypatch.setattr(_links, "read_stream_filters", _with_positions)
    async with Broker() as broker, Connection(broker.url) as connection, anyio.create_task_group() as tasks:
        made = Hub(broker, connection, partitions)
        await made.make()
        tasks.start_soon(made.answer)
        yield made
        tasks.cancel_scope.cancel()


def _address(partition: str) -> str:
    return f"{NAME}/ConsumerGroups/$Default/Partitions/{partition}"


def _is_position(each: object) -> bool:
    return isinstance(each, Described) and each.descriptor == EventPosition.descriptor_name


# The service understands its own kind of selector, the broker does not.


def _without_positions(asked: Mapping[Any, Any] | None, connection: int) -> Any:
    return read_filters({name: each for name, each in (asked or {}).items() if not _is_position(each)}, connection)


def _with_positions(asked: Mapping[Any, Any] | None, filters: Any, filtering: Any) -> Any:
    place, filters, filtering = read_stream_filters(asked, filters, filtering)
    for name, each in (asked or {}).items():
        if _is_position(each):
            found = _POSITION.fullmatch(each.value)
            assert found is not None, each
            place, filters = Place(offset=int(found[1])), {**(filters or {}), name: each}
    return place, filters, filtering

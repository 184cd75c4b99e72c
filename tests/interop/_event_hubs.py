"""Microsoft's own SDK for Event Hubs in Python, and what its tests say of events."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self
from uuid import uuid4

import anyio
from azure.eventhub import CheckpointStore, EventData, EventHubConsumerClient, EventHubProducerClient, PartitionContext

from amqp10.broker import SasRule
from amqp10.broker.azure import AzureConfig, EventHubConfig, connection_string

from ._azure import KEY, RETRYING, WAIT, Clock, Runs, run

PROMPT: dict[str, Any] = {**RETRYING, "socket_timeout": 0.02}
"""Settings with which the SDK does not wait long for bytes that do not come."""
UNRETRIED: dict[str, Any] = {"retry_total": 0}
"""Settings with which the SDK tells of an error at once, for behaviors that are about a refusal."""


class Reading:
    """A consumer that receives in a thread of its own.

    Attributes:
        events: what came, with the partitions that it came from; or None for a partition where nothing came.
        errors: what `on_error` was told.
        context: the one of the last event.
    """

    def __init__(
        self, consumer: EventHubConsumerClient, settings: dict[str, Any], *, checkpoints: bool = False
    ) -> None:
        self.events: list[tuple[str, EventData]] = []
        self.errors: list[Exception] = []
        self.context: PartitionContext | None = None
        self._consumer = consumer
        self._checkpoints = checkpoints
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._receive, args=[settings])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
        self._thread.join(WAIT)

    def _receive(self, settings: dict[str, Any]) -> None:
        self._consumer.receive_batch(self._on_events, on_error=self._on_error, **settings)

    def _on_events(self, context: PartitionContext, events: list[EventData]) -> None:
        with self._changed:
            self.context = context
            self.events += [(context.partition_id, event) for event in events]
            self._changed.notify_all()
        if self._checkpoints:
            context.update_checkpoint(events[-1])

    def _on_error(self, context: PartitionContext | None, error: Exception) -> None:
        with self._changed:
            self.errors.append(error)
            self._changed.notify_all()

    def wait(self, count: int) -> list[EventData]:
        """Wait until so many events have come in all."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.events) >= count or self.errors, WAIT), self.events
            assert not self.errors
        return [event for _, event in self.events]

    def until(self, condition: Callable[[], bool]) -> bool:
        """Wait until that is so, of what this one and others have read."""
        end = time.monotonic() + WAIT
        while not condition() and time.monotonic() < end:
            time.sleep(0.01)
        return condition()

    def failure(self) -> Exception:
        """Wait until there is an error."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.errors, WAIT)
        return self.errors[0]


@dataclass
class Sdk:
    """Microsoft's clients for one emulator."""

    url: str

    def connection_string(self, policy: str = "both", key: str = KEY) -> str:
        return connection_string(self.url, SasRule(policy, key))

    def producer(self, hub: str = "telemetry", *, policy: str = "both", **settings: Any) -> EventHubProducerClient:
        text = self.connection_string(policy)
        return EventHubProducerClient.from_connection_string(text, eventhub_name=hub, **PROMPT | settings)

    def consumer(
        self, hub: str = "telemetry", group: str = "$Default", *, policy: str = "both", **settings: Any
    ) -> EventHubConsumerClient:
        text = self.connection_string(policy)
        return EventHubConsumerClient.from_connection_string(text, group, eventhub_name=hub, **PROMPT | settings)

    def reading(
        self,
        partition: str | None = "0",
        position: Any = "-1",
        *,
        consumer: Any = None,
        checkpoints: bool = False,
        **settings: Any,
    ) -> Reading:
        """Read a partition, or all of them, from a position on."""
        more = {} if partition is None else {"partition_id": partition}
        settings = {"starting_position": position, **more, **settings}
        return Reading(consumer or self.consumer(), settings, checkpoints=checkpoints)

    def read(self, count: int, partition: str | None = "0", position: Any = "-1", **settings: Any) -> list[EventData]:
        """Return so many events."""
        with self.reading(partition, position, **settings) as reading:
            return reading.wait(count)

    def send(self, *bodies: str, partition: str | None = "0", key: str | None = None, hub: str = "telemetry") -> None:
        """Send a batch."""
        with self.producer(hub) as producer:
            producer.send_batch([EventData(body) for body in bodies], partition_id=partition, partition_key=key)


class SharedStore(CheckpointStore):
    """Keeps what consumers in one process own, and how far they have come."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._owned: dict[str, dict[str, Any]] = {}
        self._checkpoints: dict[str, dict[str, Any]] = {}

    def list_ownership(self, *_: str, **__: Any) -> Iterable[dict[str, Any]]:
        with self._changed:
            return [dict(each) for each in self._owned.values()]

    def claim_ownership(self, ownership_list: Iterable[dict[str, Any]], **_: Any) -> Iterable[dict[str, Any]]:
        claimed = []
        with self._changed:
            for wanted in ownership_list:
                partition = wanted["partition_id"]
                if self._owned.get(partition, {}).get("etag") != wanted.get("etag"):
                    continue  # somebody was faster
                owned = {**wanted, "etag": str(uuid4()), "last_modified_time": time.time()}
                self._owned[partition] = owned
                claimed.append(dict(owned))
            self._changed.notify_all()
        return claimed

    def update_checkpoint(self, checkpoint: dict[str, Any], **_: Any) -> None:
        with self._changed:
            self._checkpoints[checkpoint["partition_id"]] = dict(checkpoint)

    def list_checkpoints(self, *_: str, **__: Any) -> Iterable[dict[str, Any]]:
        with self._changed:
            return [dict(each) for each in self._checkpoints.values()]

    def shared_by(self, owners: int) -> bool:
        """Wait until each of so many has two partitions of the four."""

        def are_there() -> bool:
            of_each = Counter(each["owner_id"] for each in self._owned.values())
            return sorted(of_each.values()) == [2] * owners

        with self._changed:
            return self._changed.wait_for(are_there, WAIT)


Behavior = Callable[[Sdk, Clock], None]


class HubBehaviors(Runs[Behavior]):
    """Those of the SDK for Event Hubs."""

    def __init__(self, *hubs: EventHubConfig) -> None:
        super().__init__()
        self._config = AzureConfig(event_hubs=hubs)

    def _run(self, behavior: Behavior) -> None:
        anyio.run(self._drive, behavior, backend="trio")

    async def _drive(self, behavior: Behavior) -> None:
        clock = Clock()
        await run(self._config, clock, lambda url: behavior(Sdk(url), clock))


def bodies(events: list[EventData]) -> list[str]:
    return [event.body_as_str() for event in events]

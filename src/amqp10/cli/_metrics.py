"""Metrics of a broker for Prometheus: `amqp10 broker --metrics-port`."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio

from .._http import HTTPAnswer, HTTPRequest
from .._http import serving as serving_http
from ..broker import Broker, QueueSnapshot

TEMPORARY: Final = "(temporary)"
"""The common label of all temporary queues, because each has a unique name."""

MAX_CONNECTIONS: Final = 20
TIMEOUT: Final = 5.0
"""The limit of concurrent requests, and the seconds for each."""

_QUEUE_GAUGES: Final = {
    "depth": ("messages", "Messages held, those that consumers hold unsettled included"),
    "bytes": ("bytes", "Their encoded size"),
    "unsettled": ("unsettled", "Messages that consumers hold"),
    "consumers": ("consumers", "Links that receive"),
    "producers": ("producers", "Links that send"),
}
_QUEUE_COUNTERS: Final = {
    "enqueued": "Messages that came",
    "dequeued": "Messages that were accepted, or sent settled",
    "redelivered": "Times that a message came back from a consumer",
    "rejected": "Messages that a consumer rejected",
    "expired": "Messages whose time was over",
    "exhausted": "Messages whose last attempt failed",
    "overflowed": "Messages that were the oldest of a queue beyond its x-max-length or x-max-length-bytes",
    "dead_lettered": "Of these four, messages that went to the dead letters",
    "duplicates": "Messages that were dropped, for their senders had sent them before",
}


@dataclass(frozen=True)
class Counted:
    """The counts of a broker at one moment."""

    connections: int
    blocked: bool
    unroutable: int
    refused_logins: int
    queues: dict[str, Counter[str]]
    topics: dict[str, tuple[int, int]]


def count(broker: Broker) -> Counted:
    """Return the counts of a broker; call it in the broker's event loop."""
    queues: dict[str, Counter[str]] = {}
    for facts in broker.queues:
        numbers = queues.setdefault(TEMPORARY if facts.temporary else facts.name, Counter())
        numbers.update(_numbers(facts))
    topics = {facts.name: (facts.enqueued, facts.unheard) for facts in broker.topics if not facts.temporary}
    return Counted(
        broker.connections, broker.blocked is not None, broker.unroutable, broker.refused_logins, queues, topics
    )


def _numbers(facts: QueueSnapshot) -> dict[str, int]:
    return {name: getattr(facts, name) for name in (*_QUEUE_GAUGES, *_QUEUE_COUNTERS)}


class Collector:
    """Makes metrics of the counts."""

    def __init__(self, counted: Counted) -> None:
        self._counted = counted

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        counted = self._counted
        yield GaugeMetricFamily(
            "amqp10_broker_connections", "Peers that have opened and are still there", counted.connections
        )
        yield GaugeMetricFamily("amqp10_broker_blocked", "1 while it takes no messages", int(counted.blocked))
        yield CounterMetricFamily(
            "amqp10_broker_unroutable", "Messages that went nowhere, whose sender was not told", counted.unroutable
        )
        yield CounterMetricFamily("amqp10_broker_refused_logins", "Logins that were refused", counted.refused_logins)
        for field, (name, text) in _QUEUE_GAUGES.items():
            gauge = GaugeMetricFamily(f"amqp10_queue_{name}", text, labels=["queue"])
            for queue, numbers in counted.queues.items():
                gauge.add_metric([queue], numbers[field])
            yield gauge
        for field, text in _QUEUE_COUNTERS.items():
            counter = CounterMetricFamily(f"amqp10_queue_{field}", text, labels=["queue"])
            for queue, numbers in counted.queues.items():
                counter.add_metric([queue], numbers[field])
            yield counter
        came = CounterMetricFamily("amqp10_topic_enqueued", "Messages that came", labels=["topic"])
        unheard = CounterMetricFamily("amqp10_topic_unheard", "Messages that nobody subscribed to", labels=["topic"])
        for topic, (enqueued, missed) in counted.topics.items():
            came.add_metric([topic], enqueued)
            unheard.add_metric([topic], missed)
        yield came
        yield unheard


def render(counted: Counted) -> bytes:
    """Return the counts in Prometheus' format."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(Collector(counted))
    return bytes(generate_latest(registry))


@asynccontextmanager
async def serving(broker: Broker, host: str, port: int) -> AsyncIterator[int]:
    """Serve the broker's metrics by HTTP; yield the port.

    Raises:
        OSError: the port cannot be listened on.
    """
    from prometheus_client import CONTENT_TYPE_LATEST

    async def answer(request: HTTPRequest) -> HTTPAnswer:
        if request.method not in ("GET", "HEAD"):
            return HTTPAnswer(405, headers={"Allow": "GET, HEAD"})
        # In a thread, because the text of many queues takes time.
        body = await anyio.to_thread.run_sync(render, count(broker))
        return HTTPAnswer(200, body, {"Content-Type": CONTENT_TYPE_LATEST})

    async with serving_http(answer, host, port, most=MAX_CONNECTIONS, patience=TIMEOUT) as found:
        yield found

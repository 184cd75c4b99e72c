"""The contract of dialects, held to other people's servers, in each dialect that they speak.

What one of them does otherwise is named here with its reason, and has to be so: a test that passes all the same fails.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from amqp10 import Connection, SessionEnded, StaleDelivery, Unsupported
from amqp10.rabbitmq import queue_address
from amqp10.testing.suite import Basics, Deviation, Links, Losses, Outcomes, Streams, Work

from .brokers import Server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    # What servers do says nothing about our event loop.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
    pytest.mark.capability("older dialects"),
]


class Foreign(Basics, Outcomes, Links, Streams, Work, Losses):
    """At a server of others. `Octets` asks no server.

    Attributes:
        broker: the fixture that has it.
        native: the dialect in which its queues are declared; None if it makes them on first use.
    """

    broker: ClassVar[str]
    native: ClassVar[str | None] = None
    login = ("user", "secret")
    dead_letters = None

    @pytest.fixture(autouse=True)
    def _server(self, request: pytest.FixtureRequest) -> None:
        self.running: Server = request.getfixturevalue(self.broker)
        self.mark = secrets.token_hex(4)

    def address(self, name: str) -> str:
        return f"{name}-{self.mark}"

    @asynccontextmanager
    async def server(self, **settings: Any) -> AsyncIterator[str]:
        url = self.running.url(user=None if "users" in settings else "user")
        if self.native is None:
            yield url
            return
        async with Connection(self.running.url(), dialect=self.native) as connection:
            for name in self.queues:
                await connection.native.declare_queue(f"{name}-{self.mark}", durable=True)
            try:
                yield url
            finally:
                for name in (*self.queues, "declared"):
                    await connection.native.delete_queue(f"{name}-{self.mark}")


NO_RESUME = Deviation("it keeps nothing of a link that is lost: what was received before comes again", StaleDelivery)
ON_DEMAND = Deviation("it makes a queue of any name on first use, as it is configured here", pytest.fail.Exception)
NOT_TOLD = Deviation("it does not tell who receives from a queue that the queue is deleted", TimeoutError)
REJECTED_AGAIN = Deviation("it hands out again what was rejected, unless a maximum of attempts is configured")


class TestRabbitMQ091(Foreign):
    broker, dialect, native = "rabbitmq", "0-9-1", "0-9-1"
    counts_releases = True


class TestRabbitMQ10(Foreign):
    broker, dialect, native = "rabbitmq", "1.0", "0-9-1"
    deviations: ClassVar = {
        "test_resume": NO_RESUME,
        "test_not_there": Deviation("4.0 ends the session over a queue that is not there", SessionEnded),
        "test_transactions": Deviation("there are none over AMQP 1.0, which its profile knows", Unsupported),
        "test_dynamic": Deviation("it makes no nodes for links, but for replies since 4.2", SessionEnded),
        "test_durable_subscriptions": Deviation("it has queues and bindings in their place", SessionEnded),
        "test_settle_second": Deviation("it refuses receiver-settle-mode second", SessionEnded),
        "test_filters": Deviation("only streams are filtered, and only since 4.1"),
        "test_stream_filters": Deviation("it says of any queue that it begins where it was asked to", TimeoutError),
        "test_modified": Deviation("its classic queues count no attempts"),
    }

    def address(self, name: str) -> str:
        return queue_address(super().address(name))


class TestArtemis10(Foreign):
    broker, dialect = "artemis", "1.0"
    deviations: ClassVar = {
        "test_resume": NO_RESUME,
        "test_not_there": ON_DEMAND,
        "test_settle_second": Deviation("it takes links in receiver-settle-mode second for first"),
    }


class AtBrokerJ(Foreign):
    broker = "broker_j"

    def address(self, name: str) -> str:
        # It makes queues of most names on first use, and no topics: each is a key of an exchange.
        return super().address({"topic.t": "amq.topic/t", "nowhere": "$nowhere"}.get(name, name))


class TestBrokerJ10(AtBrokerJ):
    dialect = "1.0"
    deviations: ClassVar = {"test_resume": NO_RESUME, "test_rejected": REJECTED_AGAIN}


class TestBrokerJ010(AtBrokerJ):
    dialect, native = "0-10", "0-10"
    deviations: ClassVar = {
        "test_resume": Deviation("its sessions end with their connection: what came comes again", StaleDelivery),
        "test_deleted": NOT_TOLD,
        "test_every_field": Deviation("it takes bodies whose content-encoding is gzip apart, and bends moments"),
    }


class TestBrokerJ09(AtBrokerJ):
    dialect, native = "0-9", "0-9"
    counts_releases = True
    deviations: ClassVar = {"test_deleted": NOT_TOLD, "test_rejected": REJECTED_AGAIN}


class TestBrokerJ091(AtBrokerJ):
    dialect, native = "0-9-1", "0-9-1"
    counts_releases = True
    deviations: ClassVar = {"test_deleted": NOT_TOLD, "test_rejected": REJECTED_AGAIN}

"""Microsoft's own SDK for Python, and an emulator that it drives: what it sends and expects is what has to be right."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FunctionType
from typing import Any, Final, Generic, TypeVar, cast

import anyio
import pytest
from anyio import from_thread, to_thread
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
    ServiceBusSubQueue,
)

from amqp10.broker import Broker, SasRule, TokenRules
from amqp10.broker.azure import AzureConfig, AzureControls

T = TypeVar("T")
B = TypeVar("B")
KEY = "not much of a secret"
WAIT = 20.0
"""Seconds that a receive waits for what is there already, on a slow machine."""
AT_ONCE = 12
"""Behaviors that run beside each other."""
TO_BE_SURE = 0.3
"""Seconds that one waits where nothing is to come."""


RETRYING: Final[dict[str, Any]] = {"retry_total": 5, "retry_backoff_factor": 0.05}
"""Settings of an SDK: it gives a connection tenths of a second to open, which a busy machine may exceed."""


class Clock:
    """The emulator's time in seconds since 1970: the machine's, for the SDK looks at that, and what the test adds.

    Attributes:
        azure: what faults are brought about by; `call` does it, in the emulator's thread.
    """

    def __init__(self) -> None:
        self.azure: AzureControls | None = None
        self._ahead = 0.0

    def __call__(self) -> float:
        return datetime.now(UTC).timestamp() + self._ahead

    @property
    def ahead(self) -> float:
        """What the test added."""
        return self._ahead

    @ahead.setter
    def ahead(self, seconds: float) -> None:
        assert self.azure is not None
        self.call(self.azure.advance, seconds - self._ahead)
        self._ahead = seconds

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Call something in the emulator's thread, from that of the SDK."""
        return from_thread.run_sync(function, *arguments)


Behavior = Callable[[ServiceBusClient, Clock], None]


def client_of(url: str, policy: str = "both", *, retries: int = RETRYING["retry_total"]) -> ServiceBusClient:
    """Make a client as for Azure, but without TLS, at this port; closing a link waits for no keep-alive of 1 s."""
    endpoint = url.replace("amqp://", "sb://")
    text = f"Endpoint={endpoint};SharedAccessKeyName={policy};SharedAccessKey={KEY};UseDevelopmentEmulator=true;"
    return ServiceBusClient.from_connection_string(text, **RETRYING | {"retry_total": retries}, keep_alive=0)


async def run(config: AzureConfig, clock: Clock, use: Callable[[str], None]) -> None:
    """Run a broker, and the SDK in a thread beside it."""
    rules = [SasRule("both", KEY), SasRule("listen", KEY, ["Listen"]), SasRule("send", KEY, ["Send"])]
    async with Broker(azure=config, tokens=TokenRules(rules, required=True)) as broker:
        clock.azure = broker.azure
        with anyio.fail_after(60):
            await to_thread.run_sync(use, broker.url)


class Runs(ABC, Generic[B]):
    """What an SDK does and sees: functions that drive it, each with an emulator of its own.

    The SDK sleeps most of its time, so those of a module run beside each other; a test looks how one of them went.
    """

    def __init__(self) -> None:
        self.all: list[B] = []

    def __call__(self, behavior: B) -> B:
        """Enter a function, as its decorator.

        Raises:
            TypeError: it asserts nothing, so its test could not fail by what it saw.
        """
        if not re.search(r"\bassert |\braises\(", inspect.getsource(cast("FunctionType", behavior))):
            raise TypeError(f"{behavior!r} asserts nothing")
        self.all.append(behavior)
        return behavior

    @contextmanager
    def running(self, request: pytest.FixtureRequest) -> Iterator[Callable[[B], None]]:
        """Run those that tests of a module were selected for; what this yields waits for one, and raises as it did."""
        selected = {
            item.callspec.params["behavior"]
            for item in request.session.items
            if isinstance(item, pytest.Function) and item.module is request.module and "runs" in item.fixturenames
        }
        with ThreadPoolExecutor(AT_ONCE) as pool:
            first = {each: pool.submit(self._run, each) for each in self.all if each in selected}

            def result(behavior: B) -> None:
                going = first.pop(behavior, None) or pool.submit(self._run, behavior)  # a test that is run again: anew
                going.result()

            yield result

    @abstractmethod
    def _run(self, behavior: B) -> None:
        """Run one."""


class Behaviors(Runs[Behavior]):
    """Those of the SDK without `await`.

    Args:
        config: of the emulators.
        retries: of the SDK; 0 for behaviors that are about what it retries.
    """

    def __init__(self, config: AzureConfig, *, retries: int = RETRYING["retry_total"]) -> None:
        super().__init__()
        self._config = config
        self._retries = retries

    def _run(self, behavior: Behavior) -> None:
        anyio.run(self._drive, behavior, backend="trio")

    async def _drive(self, behavior: Behavior) -> None:
        clock = Clock()

        def use(url: str) -> None:
            with client_of(url, retries=self._retries) as client:
                behavior(client, clock)

        await run(self._config, clock, use)


def send(client: ServiceBusClient, queue: str, *messages: ServiceBusMessage | str) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(
            [each if isinstance(each, ServiceBusMessage) else ServiceBusMessage(each) for each in messages]
        )


def receive(receiver: ServiceBusReceiver, count: int = 1) -> list[ServiceBusReceivedMessage]:
    found: list[ServiceBusReceivedMessage] = []
    while len(found) < count:
        more = receiver.receive_messages(count - len(found), max_wait_time=WAIT)
        assert more, f"{count} messages are to come, and {len(found)} did"
        found += more
    return found


def nothing_comes(receiver: ServiceBusReceiver) -> bool:
    return not receiver.receive_messages(1, max_wait_time=TO_BE_SURE)


def dead_letters(client: ServiceBusClient, queue: str) -> ServiceBusReceiver:
    return client.get_queue_receiver(
        queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
    )

"""`amqp10 work`: a worker with a handler named on the command line."""

from __future__ import annotations

import importlib
import logging
import math
import re
import signal
import sys
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import click
from click.core import ParameterSource

from .._arguments import without_secrets
from .._service import open_signal_receiver
from ..client import Connection, Reconnect
from ..messaging import Message, MessageFields
from ..worker import Retries, SessionWorker, Worker
from ._lines import LogFormat, log_format_option, log_to_stderr
from ._main import Interrupted, first, words
from ._options import SECONDS, Peer, with_peer

if TYPE_CHECKING:
    from ..azure import ServiceBus


def handler_named(context: click.Context, parameter: click.Parameter, value: str) -> Callable[..., Any]:
    """Import the handler MODULE:NAME; modules of the working directory are found, too."""
    module_name, colon, name = value.partition(":")
    if not (module_name and colon and name):
        raise click.BadParameter(f"{without_secrets(value)} is not MODULE:NAME, such as orders:handle")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            raise click.BadParameter(f"there is no module {error.name!r}, here or installed") from None
        if sys.flags.dev_mode:
            raise
        shows = "`python -X dev -m amqp10` shows where"
        raise click.BadParameter(f"{module_name!r} cannot be imported: {words(error)} ({shows})") from None
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise click.BadParameter(str(error)) from None
    if not callable(found):
        raise click.BadParameter(f"{value} is not a function, but {without_secrets(found)}")
    return found  # type: ignore[no-any-return]


def key_of(name: str, message: Message) -> Hashable:
    """Return the key that orders messages: a field of the message, or an application property."""
    if name in MessageFields.__annotations__:
        key: Hashable = getattr(message, name)
        return key
    return message.application_properties.get(name)


def check_together(sessions: int | None) -> None:
    """Check that the given options are all for the same kind of worker.

    Raises:
        UsageError: an option is for the other kind.
    """
    context = click.get_current_context()
    others = ("idle_time", "session_time") if sessions is None else OF_MESSAGES
    for name in others:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            option = f"--{name.replace('_', '-')}"
            if sessions is None:
                raise click.UsageError(f"{option} needs --sessions")
            raise click.UsageError(f"{option} excludes --sessions: the messages of a session are handled one at a time")


def first_delay(delay: float, max_delay: float) -> float:
    """Return the delay before the second attempt; the default is limited to `max_delay`.

    Raises:
        BadParameter: the given delay exceeds `max_delay`.
    """
    given = click.get_current_context().get_parameter_source("delay") is not ParameterSource.DEFAULT
    if given and delay > max_delay:
        raise click.BadParameter(
            f"must be no more than --max-delay, which is {max_delay} s, not {delay} s", param_hint="--delay"
        )
    return min(delay, max_delay)


SUBSCRIPTION = re.compile("(?P<topic>.+)/subscriptions/(?P<name>[^/]+)", re.IGNORECASE)
"""The address of a subscription of Service Bus."""

OF_MESSAGES = ("concurrency", "delay_queue", "key", "batch", "max_wait")
"""Options that do not apply to sessions."""

RESUME_TIMEOUT = 10
"""Seconds that a broker shall keep the messages of a lost link; those of a killed worker wait as long."""


@click.command()
@click.argument("handler", metavar="MODULE:HANDLER", callback=handler_named)
@with_peer()
@click.argument("address")
@click.option("--concurrency", type=click.IntRange(1), default=10, help="number of messages to handle at the same time")
@click.option(
    "--prefetch",
    type=click.IntRange(1),
    help="number of further messages that may wait in the process; the same number by default",
)
@click.option(
    "--attempts",
    type=click.IntRange(1),
    default=5,
    help="number of attempts before a message becomes a dead letter",
)
@click.option("--delay", type=SECONDS, default=1.0, help="delay before the second attempt; doubles each time")
@click.option("--max-delay", type=SECONDS, default=300.0, help="the longest delay")
@click.option(
    "--delay-by",
    type=click.Choice(["memory", "broker"]),
    default="memory",
    help="who holds a message until its retry; Artemis, Service Bus and quorum queues of RabbitMQ 4.3 can",
)
@click.option(
    "--delay-queue",
    metavar="ADDRESS",
    help="hold messages for retry in this queue, which must pass expired messages on to ADDRESS",
)
@click.option(
    "--dead-letters", metavar="ADDRESS", help="send dead letters to this address; by default they are rejected"
)
@click.option(
    "--key", metavar="NAME", help="handle messages in order if this field (group_id) or application property is equal"
)
@click.option(
    "--batch", type=click.IntRange(1), metavar="COUNT", help="pass up to COUNT messages at a time to the handler"
)
@click.option(
    "--max-wait",
    type=SECONDS,
    default=0.0,
    help="how long a batch may take to fill, after its first message",
)
@click.option(
    "--sessions",
    type=click.IntRange(1),
    metavar="COUNT",
    help="handle sessions of Azure Service Bus, COUNT at a time, the messages of each in order",
)
@click.option("--idle-time", type=SECONDS, default=1.0, help="hand a session back when it had no message for this long")
@click.option(
    "--session-time",
    type=SECONDS,
    help="hand a session back after this long even if it has more messages; never by default",
)
@click.option(
    "--drain-timeout",
    type=SECONDS,
    default=30.0,
    help="how long handlers may take to finish after SIGTERM or SIGINT",
)
@click.option(
    "--backend",
    type=click.Choice(["asyncio", "trio"]),
    default="asyncio",
    help="the event loop that the handler is written for",
)
@click.option("--quiet", is_flag=True, help="log warnings and errors only")
@log_format_option
def work(
    peer: Peer,
    handler: Callable[..., Any],
    address: str,
    concurrency: int,
    prefetch: int | None,
    attempts: int,
    delay: float,
    max_delay: float,
    delay_by: Any,
    delay_queue: str | None,
    dead_letters: str | None,
    key: str | None,
    batch: int | None,
    max_wait: float,
    sessions: int | None,
    idle_time: float,
    session_time: float | None,
    drain_timeout: float,
    backend: str,
    quiet: bool,
    log_format: LogFormat | None,
) -> None:
    """Handle messages with a Python function.

    HANDLER gets each message of ADDRESS on the broker at URL, and with --sessions also the session. If it returns, the
    message is accepted. If it raises, the message is retried after a delay, and dead-lettered after the last attempt.
    On SIGTERM and SIGINT the worker lets its handlers finish.
    """
    log_to_stderr(log_format or "text", logging.WARNING if quiet else logging.INFO)
    check_together(sessions)
    common: dict[str, Any] = {
        "prefetch": prefetch,
        "retries": Retries(attempts=attempts, initial_delay=first_delay(delay, max_delay), max_delay=max_delay),
        "delay_by": delay_by,
        "dead_letters": dead_letters,
        "drain_timeout": drain_timeout,
    }

    def messages() -> tuple[Connection, Worker]:
        # With a key, the messages of a killed worker must come again before later ones.
        resume_timeout = RESUME_TIMEOUT if key is None else 0
        connection = peer.connect(reconnect=Reconnect(first_attempts=math.inf, resume_timeout=resume_timeout))
        own: dict[str, Any] = {"batch_size": batch, "max_wait": max_wait, "concurrency": concurrency}
        own |= {"delay_queue": delay_queue, "key": partial(key_of, key) if key is not None else None}
        return connection, Worker(connection, address, handler, **own, **common)

    def locked_sessions(count: int) -> tuple[ServiceBus, SessionWorker]:
        topic = SUBSCRIPTION.fullmatch(address)
        bus = peer.service_bus(reconnect=Reconnect(first_attempts=math.inf))
        return bus, SessionWorker(
            bus,
            topic["topic"] if topic is not None else address,
            handler,
            subscription=topic["name"] if topic is not None else None,
            sessions=count,
            idle_time=idle_time,
            session_time=math.inf if session_time is None else session_time,
            **common,
        )

    async def main() -> signal.Signals | None:
        try:
            opened, made = messages() if sessions is None else locked_sessions(sessions)
        except (TypeError, ValueError) as error:  # the handler takes no message, or settings do not fit together
            raise click.UsageError(str(error)) from None
        ended: list[signal.Signals | None] = []
        try:
            async with anyio.create_task_group() as tasks:
                with ExitStack() as starting:  # until the worker runs, a signal cancels the wait for the broker
                    signals = starting.enter_context(open_signal_receiver(signal.SIGINT, signal.SIGTERM))

                    async def watch() -> None:
                        async for number in signals:
                            ended.append(number)
                            tasks.cancel_scope.cancel()

                    tasks.start_soon(watch)
                    async with opened, made as running:
                        starting.close()
                        ended.append(await running.until_signal())
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise first(group) from None
        return ended[0]

    number = anyio.run(main, backend=backend)
    if number is not None:
        raise Interrupted(number)

"""`amqp10 broker`: the embedded broker as its own process."""

from __future__ import annotations

import errno
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any

import anyio
import click
from click.core import ParameterSource

from ..broker import Broker, BrokerLimits, TokenRules, read_config
from ..broker.internals import all_users
from ..engine import dialect_names
from ..net import TLS, is_loopback, visible
from ._lines import LogFormat, log_format_option, log_to_stderr
from ._main import Failure, start
from ._metrics import serving

_log = logging.getLogger("amqp10.broker")


def users_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """Parse `NAME:PASSWORD` pairs; only the password may have colons."""
    users = {}
    for pair in pairs:
        name, colon, password = pair.partition(":")
        if not colon or not name:
            raise click.BadParameter("a user must be given as NAME:PASSWORD", param_hint="--user")
        users[name] = password
    return users


@contextmanager
def hangups() -> Iterator[AsyncIterator[int] | None]:
    """Receive SIGHUP, which would end the process otherwise; None: the system has no such signal."""
    if sys.platform == "win32":
        yield None
    else:
        with anyio.open_signal_receiver(signal.SIGHUP) as signals:
            yield signals


async def reload_on_hangup(
    signals: AsyncIterator[int] | None,
    running: Broker,
    begun: Mapping[str, Any],
    again: Callable[[], Mapping[str, Any]],
) -> None:
    """Reload users and certificates on each SIGHUP; on an error, keep the old ones.

    Args:
        signals: yields an item for each SIGHUP; None: none will come.
        begun: the arguments that the broker was started with.
        again: returns the current arguments.
    """
    if signals is None:
        await anyio.sleep_forever()
        return
    has_users = begun.get("users") is not None or begun.get("users_file") is not None
    async for _ in signals:
        try:
            settings = again()
            users = all_users(settings.get("users"), settings.get("users_file")) or {}
            tls = settings.get("tls")
            if users and not has_users:
                raise ValueError("this broker was made without users: restart it with users")
            if tls is not None:
                running.replace_certificate(tls)  # before the users: if it is wrong, nothing changes
            closed = running.replace_users(users) if has_users else 0
        except (OSError, ValueError) as error:
            words = visible(str(error))
            failed = {"amqp_event": "reload_failed", "amqp_error": words}
            _log.error("SIGHUP: users and certificates stay as they were: %s", words, extra=failed)
        else:
            text = f"SIGHUP: users and certificates are read anew: users: {len(users)}, connections closed: {closed}"
            if later := needing_a_restart(begun, settings):
                text += f"; what has changed beside them holds from the next start: {', '.join(later)}"
            extra = {"amqp_event": "reloaded", "amqp_users": len(users), "amqp_closed": closed, "amqp_later": later}
            _log.warning("%s", text, extra=extra)


def needing_a_restart(begun: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the names of changed settings that cannot be reloaded."""
    names = {*begun, *now} - {"users", "users_file", "tls"}
    return sorted(name for name in names if begun.get(name) != now.get(name))


@contextmanager
def spans_to(exporter: str) -> Iterator[None]:
    """Export the spans of the broker.

    Raises:
        Failure: a required package is not installed.
    """
    if find_spec("opentelemetry") is None:
        raise Failure("--otel needs OpenTelemetry: pip install 'amqp10[otel]' opentelemetry-sdk", 2)
    from ..otel.internals import exporting_broker

    with ExitStack() as stack:
        try:
            stack.enter_context(exporting_broker(exporter))
        except LookupError as error:
            raise Failure(f"--otel: {error}", 2) from None
        yield


@contextmanager
def naming_port(port: int, host: str, option: str) -> Iterator[None]:
    """Make the error of a port that is in use name the port, and the option that takes another.

    Raises:
        Failure: the port is in use.
    """
    try:
        yield
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise Failure(f"port {port} of {host} is in use: {option} takes another, or 0 for any free one") from None


@click.command()
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="file of settings (TOML or JSON); options override it",
)
@click.option("--host", default="127.0.0.1", help="the address to listen on")
@click.option("--port", type=click.IntRange(0, 65535), default=5672, help="the port to listen on; 0 picks a free one")
@click.option("--user", "users", multiple=True, metavar="NAME:PASSWORD", help="a user who may connect; repeatable")
@click.option(
    "--users-file",
    type=click.Path(exists=True, dir_okay=False),
    envvar="AMQP10_USERS_FILE",
    help="JSON file of users with passwords or keys, and permissions; or set AMQP10_USERS_FILE",
)
@click.option("--anonymous", is_flag=True, help="also allow ANONYMOUS logins, and the AMQP header without SASL")
@click.option(
    "--allow-insecure", is_flag=True, help="offer PLAIN to other machines without TLS, for clients without SCRAM"
)
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="create this queue at the start; repeatable")
@click.option("--stream", "streams", multiple=True, metavar="NAME", help="create this stream at the start; repeatable")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="create this topic at the start; repeatable")
@click.option(
    "--azure",
    type=click.Path(exists=True, dir_okay=False),
    metavar="CONFIG.json",
    help="emulate Azure with the entities of this file, in the format of Microsoft's emulators",
)
@click.option(
    "--azure-administration-port",
    type=click.IntRange(0, 65_535),
    help="with --azure: answer administration clients at this port, 5300 in Microsoft's emulator, by HTTP, or by HTTPS "
    "with --tls-certificate",
)
@click.option(
    "--store",
    type=click.Path(dir_okay=False),
    help="file that keeps queues, durable subscriptions and durable messages; created if missing",
)
@click.option(
    "--dialect",
    "dialects",
    multiple=True,
    type=click.Choice(dialect_names()),
    help="a dialect to speak; repeatable, all by default",
)
@click.option(
    "--duplicate-ids",
    type=click.IntRange(1),
    metavar="N",
    help="drop messages whose _AMQ_DUPL_ID is among the last N of the node; off by default",
)
@click.option(
    "--memory-limit",
    type=click.IntRange(1),
    metavar="OCTETS",
    help="stop senders when messages take this much memory; 1 GiB by default",
)
@click.option(
    "--max-message-size",
    type=click.IntRange(1),
    metavar="OCTETS",
    help="refuse larger messages; 64 MiB by default",
)
@click.option(
    "--max-connections",
    type=click.IntRange(1),
    metavar="N",
    help="refuse more connections than this; nine tenths of the file descriptors by default",
)
@click.option("--trust-user-id", is_flag=True, help="accept messages whose user_id is not the user who sends them")
@click.option("--no-auto-create", is_flag=True, help="refuse addresses that were not declared")
@click.option(
    "--tls-certificate",
    type=click.Path(exists=True, dir_okay=False),
    help="our certificate (PEM); the port then speaks TLS only",
)
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="its key (PEM)")
@click.option(
    "--client-ca",
    type=click.Path(exists=True, dir_okay=False),
    help="authorities (PEM) that sign the certificates of clients, which must present one",
)
@click.option("--websocket", is_flag=True, help="also accept WebSockets (ws://, or wss:// with TLS) on the same port")
@click.option(
    "--websocket-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="origin of a web page that may connect, https://app.example; repeatable",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="serve metrics to Prometheus on this port; needs amqp10[metrics]",
)
@click.option("--metrics-host", default="127.0.0.1", help="the address to serve metrics on")
@click.option(
    "--otel",
    metavar="EXPORTER",
    help="export a span for each dead letter: otlp, console, or another installed OpenTelemetry exporter",
)
@log_format_option
def broker(
    config: str | None,
    host: str,
    port: int,
    users: tuple[str, ...],
    users_file: str | None,
    anonymous: bool,
    allow_insecure: bool,
    queues: tuple[str, ...],
    streams: tuple[str, ...],
    topics: tuple[str, ...],
    azure: str | None,
    azure_administration_port: int | None,
    store: str | None,
    dialects: tuple[str, ...],
    duplicate_ids: int | None,
    memory_limit: int | None,
    max_message_size: int | None,
    max_connections: int | None,
    trust_user_id: bool,
    no_auto_create: bool,
    tls_certificate: str | None,
    tls_key: str | None,
    client_ca: str | None,
    websocket: bool,
    origins: tuple[str, ...],
    metrics_port: int | None,
    otel: str | None,
    metrics_host: str,
    log_format: LogFormat | None,
) -> None:
    """Run the embedded broker.

    It is for development, tests and small services, and runs until it is stopped.

    It keeps messages in memory. With --store it keeps durable messages on the disk, and survives being killed.

    On SIGHUP it reads users and certificates again.

    Without --user, --users-file and --anonymous it listens on loopback only, and lets everyone in.
    """
    if (tls_key or client_ca) and not tls_certificate:
        raise click.UsageError("--tls-key and --client-ca need --tls-certificate")
    if origins and not websocket:
        raise click.UsageError("--websocket-origin needs --websocket")
    log_to_stderr(log_format or "text", logging.WARNING)
    if azure_administration_port is not None and not azure:
        raise click.UsageError("--azure-administration-port needs --azure")
    service_bus = tokens = None
    if azure:
        from ..broker.azure import EMULATOR_RULE, AzureConfig  # here, because most brokers start without the emulator

        try:
            service_bus = AzureConfig.read(azure)
        except (OSError, ValueError) as error:
            raise click.BadParameter(str(error), param_hint="--azure") from None
        tokens = TokenRules([EMULATOR_RULE])
    arguments: dict[str, Any] = {
        "users": users_of(users),
        "users_file": users_file,
        "anonymous": anonymous,
        "allow_insecure": allow_insecure,
        "websocket": websocket,
        "websocket_origins": origins,
        "queues": {**{name: {} for name in queues}, **{name: {"x-queue-type": "stream"} for name in streams}},
        "topics": topics,
        "azure": service_bus,
        "tokens": tokens,
        "dialects": dialects,
        "duplicate_ids": duplicate_ids,
        "limits": BrokerLimits(memory=memory_limit) if memory_limit else None,
        "max_message_size": max_message_size,
        "max_connections": max_connections,
    }
    given = {name: value for name, value in arguments.items() if value}
    given |= {"auto_create": False} if no_auto_create else {}
    given |= {"check_user_id": False} if trust_user_id else {}
    given |= {"store": store} if store is not None else {}
    context = click.get_current_context()
    for name, value in {"host": host, "port": port}.items():
        if config is None or context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            given[name] = value

    def settings() -> dict[str, Any]:
        """Return the broker's arguments from the options and the current files."""
        tls = TLS(certificate=tls_certificate, key=tls_key, ca=client_ca) if tls_certificate else None
        return {"port": port, **(read_config(config) if config else {}), **given, **({"tls": tls} if tls else {})}

    try:
        chosen = settings()
    except (OSError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint="--config") from None
    certificates = isinstance(chosen.get("tls"), TLS) and chosen["tls"].ca is not None
    named = chosen.get("users") is not None or chosen.get("users_file") or chosen.get("anonymous") or certificates
    if not named and not is_loopback(chosen.get("host", host)):
        raise click.UsageError(
            f"beyond loopback ({chosen.get('host', host)}) name who may connect: --user NAME:PASSWORD, "
            "--users-file, or --anonymous"
        )
    try:
        made = Broker(**chosen)
    except ValueError as error:  # an empty name, or the same for a queue and a topic
        raise click.UsageError(str(error)) from None

    if metrics_port is not None and find_spec("prometheus_client") is None:
        raise Failure("--metrics-port needs the package prometheus-client: pip install 'amqp10[metrics]'", 2)
    kept = f"store {chosen['store']}" if chosen.get("store") is not None else "in memory"

    async def run() -> None:
        async with AsyncExitStack() as stack:
            signals = stack.enter_context(hangups())  # early: one that comes while the broker starts must not end it
            if otel is not None:
                stack.enter_context(spans_to(otel))
            with naming_port(chosen["port"], chosen.get("host", host), "--port"):
                running = await stack.enter_async_context(made)
            banner = f"amqp10 broker on {' and '.join(running.urls)} ({kept}; Ctrl-C stops it)"
            if service_bus is not None:
                from ..broker.azure import connection_string

                text = connection_string(running.url)
                if service_bus.queues or service_bus.topics:
                    banner += f"\nService Bus: {text}"
                if service_bus.event_hubs:
                    banner += f"\nEvent Hubs: {text}"
            if azure_administration_port is not None:
                administration = running.azure.administration(
                    chosen.get("host", host), azure_administration_port, tls=chosen.get("tls")
                )
                with naming_port(azure_administration_port, chosen.get("host", host), "--azure-administration-port"):
                    banner += f"\nadministration at {await stack.enter_async_context(administration)}"
            if metrics_port is not None:
                with naming_port(metrics_port, metrics_host, "--metrics-port"):
                    found = await stack.enter_async_context(serving(running, metrics_host, metrics_port))
                banner += f"\nmetrics at http://{metrics_host}:{found}/metrics"
            click.echo(banner)
            await reload_on_hangup(signals, running, chosen, settings)

    start(run)

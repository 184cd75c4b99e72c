"""`amqp10 broker`: the embedded broker as a process of its own."""

from __future__ import annotations

import anyio
import click

from ..broker import Broker, BrokerLimits
from ..engine import dialect_names
from ..net import TLS, is_loopback
from ._main import start


def users_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """Parse `NAME:PASSWORD` pairs; a colon may stand in the password, not in the name."""
    users = {}
    for pair in pairs:
        name, colon, password = pair.partition(":")
        if not colon or not name:
            raise click.BadParameter("a user is NAME:PASSWORD", param_hint="--user")
        users[name] = password
    return users


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="the address to listen on")
@click.option("--port", type=click.IntRange(0, 65535), default=5672, show_default=True, help="0 for any that is free")
@click.option("--user", "users", multiple=True, metavar="NAME:PASSWORD", help="a user who may connect; repeatable")
@click.option(
    "--users-file",
    type=click.Path(exists=True, dir_okay=False),
    envvar="AMQP10_USERS_FILE",
    help="users with passwords or keys, and permissions, in JSON; AMQP10_USERS_FILE in the environment will do, too",
)
@click.option("--anonymous", is_flag=True, help="allow ANONYMOUS beside the users, and the bare AMQP header")
@click.option(
    "--allow-insecure", is_flag=True, help="offer PLAIN without TLS beyond loopback, for clients without SCRAM"
)
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="a queue to begin with; repeatable")
@click.option("--stream", "streams", multiple=True, metavar="NAME", help="a stream to begin with; repeatable")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="a topic to begin with; repeatable")
@click.option(
    "--store",
    type=click.Path(dir_okay=False),
    help="the file that keeps queues, durable subscriptions and durable messages; made if it is not there",
)
@click.option(
    "--dialect",
    "dialects",
    multiple=True,
    type=click.Choice(dialect_names()),
    help="a dialect that it speaks; repeatable, all when not given",
)
@click.option(
    "--duplicate-ids",
    type=click.IntRange(1),
    metavar="N",
    help="drop messages whose _AMQ_DUPL_ID is among the last N of the node; not done when not given",
)
@click.option(
    "--memory-limit",
    type=click.IntRange(1),
    metavar="OCTETS",
    help="stop senders when messages take this much memory; 1 GiB when not given",
)
@click.option(
    "--max-connections", type=click.IntRange(1), metavar="N", help="refuse more; else nine tenths of file descriptors"
)
@click.option("--trust-user-id", is_flag=True, help="take messages whose user_id is not the user who sends them")
@click.option("--no-auto-create", is_flag=True, help="refuse addresses that were not declared")
@click.option("--tls-certificate", type=click.Path(exists=True, dir_okay=False), help="our certificate (PEM): TLS only")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="its key (PEM)")
@click.option(
    "--client-ca",
    type=click.Path(exists=True, dir_okay=False),
    help="certificates that sign the clients': they must show one",
)
@click.option("--websocket", is_flag=True, help="answer WebSockets (ws://, or wss:// with TLS) at the same port")
@click.option(
    "--websocket-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="a web page that may use it, https://app.example; repeatable",
)
def broker(
    host: str,
    port: int,
    users: tuple[str, ...],
    users_file: str | None,
    anonymous: bool,
    allow_insecure: bool,
    queues: tuple[str, ...],
    streams: tuple[str, ...],
    topics: tuple[str, ...],
    store: str | None,
    dialects: tuple[str, ...],
    duplicate_ids: int | None,
    memory_limit: int | None,
    max_connections: int | None,
    trust_user_id: bool,
    no_auto_create: bool,
    tls_certificate: str | None,
    tls_key: str | None,
    client_ca: str | None,
    websocket: bool,
    origins: tuple[str, ...],
) -> None:
    """Run the embedded broker until it is stopped: for development, tests and small services.

    It keeps messages in memory, with --store durable ones on the disk: it may be killed then, and started again.

    Without --user, --users-file and --anonymous it listens on loopback only, and lets everyone in.
    """
    if not users and not users_file and not anonymous and not client_ca and not is_loopback(host):
        raise click.UsageError(
            f"beyond loopback ({host}) say who may connect: --user NAME:PASSWORD, --users-file, or --anonymous"
        )
    if (tls_key or client_ca) and not tls_certificate:
        raise click.UsageError("--tls-key and --client-ca go with --tls-certificate")
    if origins and not websocket:
        raise click.UsageError("--websocket-origin goes with --websocket")
    try:
        made = Broker(
            host=host,
            port=port,
            users=users_of(users) or None,
            users_file=users_file,
            anonymous=True if anonymous else None,
            allow_insecure=allow_insecure,
            tls=TLS(certificate=tls_certificate, key=tls_key, ca=client_ca) if tls_certificate else None,
            websocket=websocket,
            websocket_origins=origins,
            queues={**{name: {} for name in queues}, **{name: {"x-queue-type": "stream"} for name in streams}},
            topics=topics,
            store=store,
            dialects=dialects or None,
            auto_create=not no_auto_create,
            duplicate_ids=duplicate_ids,
            limits=BrokerLimits(memory=memory_limit) if memory_limit else None,
            max_connections=max_connections,
            check_user_id=False if trust_user_id else None,
        )
    except ValueError as error:  # an empty name, or one for a queue and for a topic
        raise click.UsageError(str(error)) from None

    kept = f"store {store}" if store else "in memory"

    async def run() -> None:
        async with made as running:
            click.echo(f"amqp10 broker on {' and '.join(running.urls)} ({kept}; Ctrl-C stops it)")
            await anyio.sleep_forever()

    start(run)

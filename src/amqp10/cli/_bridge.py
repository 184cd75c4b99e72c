"""`amqp10 bridge`: messages from one address to another, with their counts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any

import anyio
import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from .._arguments import counted
from ..bridging import Bridge, BridgePlan, BridgeReport
from ..bridging import bridge as make_bridge
from ..bridging.internals import Role, reconnect_for
from ..client import Connection, DeliveryStore, MemoryDeliveryStore, SQLiteDeliveryStore
from ..errors import InsecureTransport
from ..messaging import Filter, Source
from ..net import visible
from ._main import Failure, Interrupted, start, words
from ._options import SECONDS, Option, Peer, peer_of, peer_options, take_peer_options
from ._receive import with_selector

EVERY = 0.2  # seconds between two reports
EVERY_LINE = 1.0  # the same for --json
WHAT = {"from": "come from", "to": "go to"}


def with_ends(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --from and --to, and the options of each connection."""
    for end, name in (("to", "target"), ("from", "source")):
        where = click.option(
            f"--{end}", name, nargs=2, required=True, metavar="URL ADDRESS", help=f"where messages {WHAT[end]}"
        )
        options: list[Option] = [where, *peer_options(end, "auto")]
        for option in reversed(options):
            function = option(function)
    return function


class Watcher:
    """Shows the counts of a bridge while it runs: JSON lines, a line on the terminal, or nothing."""

    def __init__(self, bridge: Bridge, as_json: bool, every: float) -> None:
        self._bridge = bridge
        self._json = as_json
        self._every = every
        self._last = time.monotonic(), 0
        console = Console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=as_json or not console.is_terminal,
        )
        self._task = self._progress.add_task("")

    def look(self) -> None:
        now, moved = time.monotonic(), self._bridge.report.moved
        rate = (moved - self._last[1]) / max(now - self._last[0], 1e-9)
        self._last = now, moved
        if self._json:
            self.line(rate, ended=None)
        else:
            self._progress.update(self._task, description=f"{self._bridge.report}, {rate:,.0f}/s")

    def line(self, rate: float, ended: str | None) -> None:
        """Print a JSON object: the counts, the rate since the last object, and at the end how the bridge ended."""
        numbers = asdict(self._bridge.report) | {"rate": round(rate, 1), "ended": ended}
        click.echo(json.dumps(numbers | {"seconds": round(self._bridge.report.seconds, 3)}))

    async def watch(self) -> None:
        """Print reports until cancelled."""
        with self._progress:
            while True:
                self.look()
                await anyio.sleep(self._every)

    def close(self, error: BaseException | None) -> None:
        """Print the last report."""
        self._progress.stop()
        report = self._bridge.report
        if self._json:
            how = "done" if error is None else str(error) if isinstance(error, Exception) else "stopped"
            self.line(report.rate, how)
        else:
            click.echo(f"{report}; {report.seconds:.1f} s, {report.rate:,.0f}/s", err=True)


def show(plan: BridgePlan, as_json: bool) -> None:
    """Print the result of a dry run."""
    click.echo(json.dumps(asdict(plan)) if as_json else visible(f"{plan}\nnothing was moved", keep="\n"))


@click.command("bridge")
@with_ends
@click.option("-n", "--count", type=click.IntRange(1), help="stop after this many messages")
@click.option("--until-empty", is_flag=True, help="stop when nothing is left at the source")
@click.option("--copy", is_flag=True, help="leave the messages where they are")
@click.option(
    "--stream", is_flag=True, help="pass each message on while it arrives, for messages larger than the memory"
)
@click.option("--window", type=click.IntRange(1, 1_000_000), default=1000, help="maximum number of messages in flight")
@click.option(
    "--max-bytes",
    type=click.IntRange(1),
    default=64 * 1024 * 1024,
    help="approximate maximum of bytes in flight",
)
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="maximum number of messages per second")
@with_selector
@click.option(
    "--on-refused",
    type=click.Choice(["stop", "reject", "leave"]),
    default="stop",
    help="if the target does not accept a message: stop, reject it at the source, or leave it there and continue",
)
@click.option("--refused-to", metavar="ADDRESS", help="send such messages to this address at the target")
@click.option("--exactly-once", is_flag=True, help="deliver nothing twice, if both ends support it; see --store")
@click.option(
    "--store", type=click.Path(dir_okay=False), help="with --exactly-once: file that keeps the messages in flight"
)
@click.option("--name", help="with --exactly-once: name of the links; made from the addresses by default")
@click.option("--no-reconnect", is_flag=True, help="stop when a connection is lost")
@click.option("--close-timeout", type=SECONDS, default=5.0, help="seconds to wait for outcomes at the end")
@click.option("--json", "as_json", is_flag=True, help="print the counts as a JSON object every second, and at the end")
@click.option("--dry-run", is_flag=True, help="show what would be moved, and move nothing")
def bridge(
    source: tuple[str, str],
    target: tuple[str, str],
    filters: list[Filter],
    exactly_once: bool,
    store: str | None,
    name: str | None,
    no_reconnect: bool,
    close_timeout: float,
    as_json: bool,
    dry_run: bool,
    **options: Any,
) -> None:
    """Move messages between addresses, brokers and dialects.

    It moves them from one address to another, at least once and in order.
    """
    from_, to = (take_peer_options(options, end) for end in ("from", "to"))
    ends = peer_of(source[0], from_, "from"), peer_of(target[0], to, "to")
    if (store is not None or name) and not exactly_once:
        raise click.UsageError("--store and --name need --exactly-once")
    name = name or f"amqp10-bridge {source[1]} {target[1]}"

    def connect(peer: Peer, role: Role, kept: DeliveryStore | None) -> Connection:
        container_id = f"{name} {role}{' trial' * dry_run}" if exactly_once else None
        reconnect = None if no_reconnect else reconnect_for(role, exactly_once=exactly_once)
        return peer.connect(
            container_id=container_id, reconnect=reconnect, delivery_store=kept, close_timeout=close_timeout
        )

    if exactly_once and store is None and ends[0] != ends[1]:
        click.echo(
            "without --store FILE, messages may arrive twice if this bridge is killed and started again", err=True
        )
    reports: list[BridgeReport] = []

    async def run() -> None:
        async with AsyncExitStack() as stack:

            async def opened(end: str, connection: Connection) -> Connection:
                try:
                    return await stack.enter_async_context(connection)
                except InsecureTransport as error:
                    raise Failure(words(error, f"--{end}-"), 4) from error

            kept: DeliveryStore | None = None
            if store is not None:
                kept = MemoryDeliveryStore() if dry_run else stack.enter_context(SQLiteDeliveryStore(store))
            taking = await opened("from", connect(ends[0], "source", kept))
            giving = taking
            if ends[0] != ends[1]:
                giving = await opened("to", connect(ends[1], "target", kept))
            try:
                moving = make_bridge(
                    (taking, Source(source[1], filters=filters)),
                    (giving, target[1]),
                    exactly_once=exactly_once,
                    name=name if exactly_once else None,
                    close_timeout=close_timeout,
                    **options,
                )
            except ValueError as error:
                raise click.UsageError(str(error)) from None
            if dry_run:
                show(await moving.plan(), as_json)
                return
            watcher = Watcher(moving, as_json, EVERY_LINE if as_json else EVERY)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watcher.watch)
                try:
                    async with moving:
                        await moving.done()
                except BaseException as error:
                    watcher.close(error)
                    raise
                finally:
                    reports.append(moving.report)
                    tasks.cancel_scope.cancel()
                watcher.close(None)

    try:
        start(run)
    except Interrupted:
        left = reports[-1].in_flight if reports else 0
        if left and not store:
            they = "it" if left == 1 else "they"
            raise Failure(
                f"{counted(left, 'message')} had no outcome in time and went back: {they} may be at the target, too"
            ) from None
        raise
    if reports and reports[-1].refused:
        raise Failure(f"the target did not accept {reports[-1].refused} of the messages", 6)

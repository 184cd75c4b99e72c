"""`amqp10 receive` takes messages and accepts them; `amqp10 browse` shows them and leaves them in the queue."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from math import inf

import anyio
import anyio.to_thread
import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from .._arguments import counted
from ..client import Delivery, Receiver
from ..client.internals import MAX_CREDIT
from ..errors import DecodeError
from ..messaging import Filter, Message, Selector, Source
from ..net import visible
from ._jsonform import plain, to_json
from ._main import Failure, Stalled, complain, start, words
from ._options import SECONDS, Peer, with_peer

# Seconds that a write may take once the command must end.
GRACE = 2.0
# Seconds for a broker to report that it has no more messages.
ANSWER = 5.0
FORMATS = click.Choice(["text", "json", "body"])


def text_of(message: Message) -> str:
    """Return the body as text, after the subject if there is one; control characters are escaped."""
    return visible(f"{message.subject}: " if message.subject else "", keep="\t") + body_of(message)


def body_of(message: Message) -> str:
    """Return the body alone as text, with control characters escaped; maps and lists as JSON."""
    body = message.body
    if isinstance(body, dict | list):
        body = json.dumps(plain(body), ensure_ascii=False)
    return visible(body.decode(errors="backslashreplace") if isinstance(body, bytes) else str(body), keep="\n\t")


class Printer:
    """Writes messages to standard output, and a progress line to a terminal.

    Only messages are written to a pipe.
    """

    def __init__(self, form: str, total: int | None) -> None:
        if sys.stdout is None:
            raise Failure("standard output is closed, so no message can be written; no message was taken")
        self.form = form
        self.count = 0
        self.malformed = 0
        self._end_by = inf
        self._shield = anyio.CancelScope()
        self._terminal = sys.stdout.isatty()
        console = Console() if self._terminal else Console(stderr=True)
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            *((BarColumn(),) if total else ()),
            MofNCompleteColumn() if total else TextColumn("{task.completed}"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("received", total=total, rate="")
        self._begun = time.monotonic()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Printer]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_the_end)
            with self._progress:
                yield self
            tasks.cancel_scope.cancel()
        if self._console.is_terminal:
            self._console.print(f"{self.count} received in {time.monotonic() - self._begun:.1f} s", highlight=False)

    async def _watch_the_end(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._shield.deadline = self._end_by = anyio.current_time() + GRACE

    async def show(self, messages: list[Message]) -> None:
        """Write messages in a thread, because their reader may be slow.

        Raises:
            Stalled: the command must end, but the output is not read.

        Cancelling: is not noticed; it takes as long as the reader, at most `GRACE` seconds.
        """
        if not messages:
            return
        with anyio.CancelScope(shield=True, deadline=self._end_by) as self._shield:
            await anyio.to_thread.run_sync(self._write, messages, abandon_on_cancel=True)
        if self._shield.cancelled_caught:
            raise Stalled
        self.count += len(messages)
        rate = self.count / max(time.monotonic() - self._begun, 1e-3)
        self._progress.update(self._task, completed=self.count, rate=f"{rate:,.0f}/s")

    def _write(self, messages: list[Message]) -> None:
        if self.form == "body" and not self._terminal:
            out = sys.stdout.buffer
            for message in messages:
                body = message.body
                out.write(body if isinstance(body, bytes) else str(body).encode())
            out.flush()
        else:
            render = {"json": to_json, "text": text_of, "body": body_of}[self.form]
            text = "\n".join(render(message) for message in messages)
            if self._terminal:
                self._console.print(text, markup=False, highlight=False, soft_wrap=True, emoji=False)
            else:
                sys.stdout.write(text + "\n")
                sys.stdout.flush()


async def take(printer: Printer, batch: list[Delivery], *, settle: bool = True) -> None:
    """Show a batch, then accept it, so that unwritten messages are not lost.

    A malformed message is rejected and reported, because a released one would come again for ever. Without `settle` the
    messages are only shown, and a peer that lent them for that gets them back.
    """
    whole = []
    for delivery in batch:
        try:
            delivery.message.check()
        except DecodeError as error:
            if settle:
                delivery.reject(DecodeError.condition, str(error))
            printer.malformed += 1
            complain(f"a message {'was rejected' if settle else 'is malformed'}: {words(error)}", 7)
        else:
            whole.append(delivery)
    try:
        await printer.show([delivery.message for delivery in whole])
    except BaseException as error:
        for delivery in whole if settle else ():
            delivery.release()
        if settle and isinstance(error, OSError):
            back = counted(len(whole), "message")
            error.add_note(f"{back} went back to the queue, and some may be in the output, too")
        raise
    for delivery in whole if settle else ():
        delivery.accept()


async def receive_all(receiver: Receiver, printer: Printer, count: int | None, wait: float | None) -> None:
    """Receive until `count` messages came, or `wait` seconds passed without a message and the broker has no more."""
    while count is None or printer.count < count:
        most = 500 if count is None else min(500, count - printer.count)
        batch: list[Delivery] = []
        if wait is None:
            batch = await receiver.receive_batch(most)
        else:
            batch = await receiver.receive_batch(1, max_wait=wait)
            if batch and most > 1:
                batch += await receiver.receive_batch(most - 1, max_wait=0)
            if not batch:
                with anyio.move_on_after(ANSWER):
                    await receiver.drain()  # the broker's messages are here once it answers
                if not receiver.buffered:
                    return
        if batch:
            await take(printer, batch)


with_selector = click.option(
    "--selector",
    "filters",
    metavar="CONDITION",
    help="only messages that match: \"region = 'eu' AND weight > 10\"",
    callback=lambda context, option, text: [] if text is None else [Selector(text)],
)


with_format = click.option(
    "--format",
    "form",
    type=FORMATS,
    default="text",
    help="lines of text, lines of JSON, or bare bodies one after the other; a terminal shows bodies as text",
)


@click.command()
@with_peer()
@click.argument("address")
@click.option(
    "-n", "--count", type=click.IntRange(1), help="stop after this many messages; by default run until stopped"
)
@click.option(
    "--wait",
    type=SECONDS,
    help="stop when no message has arrived for this long; 0: when the broker has no more",
)
@with_format
@click.option(
    "--credit", type=click.IntRange(1, MAX_CREDIT), default=100, help="how many messages the broker may send ahead"
)
@with_selector
def receive(
    peer: Peer, address: str, count: int | None, wait: float | None, form: str, credit: int, filters: list[Filter]
) -> None:
    """Receive messages and print them.

    They come from ADDRESS on the broker at URL. Each one is accepted after it has been written.
    """

    async def run() -> Printer:
        printer = Printer(form, count)
        most = min(credit, count) if count else credit
        source = Source(address, filters=filters)
        async with (
            peer.connect() as connection,
            connection.receiver(source, credit=most) as receiver,
            printer.running(),
        ):
            await receive_all(receiver, printer, count, wait)
        return printer

    printer = start(run)
    if printer.malformed:
        raise Failure(f"{printer.malformed} could not be decoded and were rejected", 7)
    if count is not None and printer.count < count:
        raise Failure(f"only {printer.count} of {count} messages arrived")


@click.command()
@with_peer()
@click.argument("address")
@click.option("-n", "--count", type=click.IntRange(1), default=1000, help="maximum number of messages to show")
@with_format
@click.option("--wait", type=SECONDS, default=10.0, help="how long to wait for the broker")
@with_selector
def browse(peer: Peer, address: str, count: int, form: str, wait: float, filters: list[Filter]) -> None:
    """Show messages and leave them in the queue.

    They are at ADDRESS on the broker at URL (distribution-mode "copy"). If the broker says that it would take them,
    that is an error. RabbitMQ 4.0 only claims to copy: it gets the messages back at the end.
    """

    async def run() -> Printer:
        printer = Printer(form, None)
        most = min(count, 500)
        more = False
        async with (
            peer.connect() as connection,
            connection.browser(address, filters=filters, credit=most) as browser,
            printer.running(),
        ):
            with anyio.move_on_after(wait):
                async for delivery in browser:
                    if printer.count >= count:
                        more = True
                        break
                    batch = [delivery]
                    if browser.buffered and printer.count + 1 < count:
                        batch += await browser.receive_batch(min(500, count - printer.count - 1), max_wait=0)
                    await take(printer, batch, settle=False)
        if more:
            click.echo(f"there are more messages than the {count} shown: --count shows more", err=True)
        return printer

    printer = start(run)
    if printer.malformed:
        raise Failure(f"{printer.malformed} could not be decoded", 7)

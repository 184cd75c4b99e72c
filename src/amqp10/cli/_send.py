"""`amqp10 send`: messages from arguments, files, lines, or JSON lines."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

import anyio
import anyio.to_thread
import click

from .._arguments import counted, without_secrets
from .._json import parse_json
from ..errors import EncodeError
from ..messaging import Message
from ..types import Symbol
from ._jsonform import from_json
from ._lines import lines_of
from ._main import Failure, Interrupted, start
from ._options import SECONDS, Peer, with_peer


def properties_of(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Parse `NAME=VALUE` pairs; a value that is not JSON is text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{without_secrets(pair)} is not NAME=VALUE", param_hint="--property")
        try:
            value = parse_json(text)
        except ValueError:
            value = text
        found[name] = text if isinstance(value, dict | list) else value
    return found


async def messages_of(
    texts: tuple[str, ...], files: tuple[str, ...], lines: TextIO | None, json_lines: bool, fields: dict[str, Any]
) -> AsyncGenerator[Message]:
    """Yield the messages of the arguments and the files, then those of the lines as they come."""
    for body in texts:
        yield Message(body, **fields)
    for path in files:
        # In a thread that is left behind, because a pipe may have nobody who writes to it.
        content = await anyio.to_thread.run_sync(Path(path).read_bytes, abandon_on_cancel=True)
        yield Message(content, **fields)
    if lines is None:
        return
    number = 0
    async with aclosing(lines_of(lines)) as coming:
        while True:
            number += 1
            try:
                text = await anext(coming, None)
                if text is None:
                    return
                if json_lines and not text.strip():
                    continue
                message = from_json(text).replace(**fields) if json_lines else Message(text, **fields)
                message.encode()  # so that an encoding error is reported with its line
            except EncodeError as error:
                before = "; the messages before it are sent" if number > 1 else ""
                raise EncodeError(f"line {number}: {error}{before}") from None
            yield message


@click.command()
@with_peer()
@click.argument("address")
@click.argument("texts", nargs=-1, metavar="[MESSAGE]...")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="send the bytes of this file as one message; repeatable",
)
@click.option(
    "--lines",
    is_flag=True,
    help="send each line of standard input as a message (the default without MESSAGE and --file)",
)
@click.option(
    "--json-lines",
    is_flag=True,
    help='each line is a JSON object: {"body": …, "subject": …, "application_properties": {…}}',
)
@click.option("--subject", help="the messages' subject")
@click.option("--to", help="the messages' to, by which the anonymous terminus routes")
@click.option("--content-type", help="the messages' content-type")
@click.option(
    "--property", "properties", multiple=True, metavar="NAME=VALUE", help="an application property; repeatable"
)
@click.option("--ttl", type=SECONDS, help="how long the messages live")
@click.option("--durable", is_flag=True, help="ask the broker to keep the messages over a restart")
@click.option("--settled", is_flag=True, help="send settled: at most once, without an outcome")
@click.option(
    "--anonymous", "to_null", is_flag=True, help="send to the anonymous terminus; ADDRESS becomes the messages' to"
)
@click.option("--window", type=click.IntRange(1), default=1000, help="maximum number of deliveries in flight")
@click.option("--quiet", is_flag=True, help="print no summary")
def send(
    peer: Peer,
    address: str,
    texts: tuple[str, ...],
    files: tuple[str, ...],
    lines: bool,
    json_lines: bool,
    subject: str | None,
    to: str | None,
    content_type: str | None,
    properties: tuple[str, ...],
    ttl: float | None,
    durable: bool,
    settled: bool,
    to_null: bool,
    window: int,
    quiet: bool,
) -> None:
    """Send messages.

    They go to ADDRESS on the broker at URL. The command waits until each one is accepted.
    """
    fields: dict[str, Any] = {
        name: value
        for name, value in {
            "subject": subject,
            "to": address if to_null and to is None else to,
            "content_type": Symbol(content_type) if content_type else None,
            "application_properties": properties_of(properties) or None,
            "ttl": timedelta(seconds=ttl) if ttl is not None else None,
            "durable": durable or None,
        }.items()
        if value is not None
    }
    stdin = None
    if lines or json_lines or not (texts or files):
        stdin = sys.stdin
        if stdin is None:
            raise click.UsageError("standard input is closed, so it has no lines to send: name a MESSAGE, or --file")
    messages = messages_of(texts, files, stdin, json_lines, fields)

    without_outcome = 0

    async def run() -> int:
        nonlocal without_outcome
        async with peer.connect() as connection, aclosing(messages):
            sender = connection.sender(None if to_null else address, settle_mode="settled" if settled else "unsettled")
            try:
                async with sender:
                    return await sender.send_many(messages, window=window)
            finally:
                without_outcome = sender.unsettled

    try:
        count = start(run)
    except Interrupted:
        if without_outcome:
            left = counted(without_outcome, "message")
            raise Failure(f"{left} had no outcome in time, and may be at the broker or not") from None
        raise
    if not quiet:
        click.echo(f"{count} sent{'' if settled else ', each accepted'}", err=True)

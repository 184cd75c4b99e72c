"""Reads lines of standard input, and formats lines of the log.

Reading standard input does not block the event loop, so heartbeats and signals go on meanwhile.
"""

from __future__ import annotations

import codecs
import io
import json
import logging
import os
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Literal, TextIO, get_args

import anyio
import click

from ..errors import EncodeError

READ_SIZE = 65_536
LONGEST = 128 * 1024 * 1024
"""The most characters of a line: more than brokers usually take, and less than fills the memory of a machine."""


async def lines_of(file: TextIO) -> AsyncGenerator[str]:
    """Yield the lines of a file as they come, without line ends.

    Raises:
        EncodeError: a line is longer than `LONGEST`, as input without line ends is at some time.
    """
    try:
        number = file.fileno()
    except OSError:  # not a file of the operating system
        while line := file.readline(LONGEST + 1):
            _check_length(len(line.rstrip("\r\n")))
            yield line.rstrip("\r\n")
        return
    decoder = io.IncrementalNewlineDecoder(
        codecs.getincrementaldecoder(file.encoding)(file.errors or "strict"), translate=True
    )
    begun: list[str] = []
    length = 0  # of what has begun
    while data := await _read(number):
        *lines, rest = decoder.decode(data).split("\n")
        for line in lines:
            _check_length(length + len(line))
            yield "".join((*begun, line))
            begun.clear()
            length = 0
        begun.append(rest)
        length += len(rest)
        _check_length(length)
    begun.append(decoder.decode(b"", final=True))
    if any(begun):
        yield "".join(begun).rstrip("\n")


def _check_length(length: int) -> None:
    if length > LONGEST:
        raise EncodeError(f"it has more than {LONGEST} characters; --file sends a file as one message, as it is")


async def _read(number: int) -> bytes:
    try:
        await anyio.wait_readable(number)
    except OSError:
        pass  # a regular file, which is read without waiting
    return os.read(number, READ_SIZE)


# Fields of every log record; all others belong to the event.
_USUAL_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JSONLines(logging.Formatter):
    """Formats a record as a JSON object in one line: time, level, logger, message, further fields and exception."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _USUAL_FIELDS}
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            fields["exception"] = {
                "type": f"{type(error).__module__}.{type(error).__qualname__}",
                "message": str(error),
                "traceback": self.formatException(record.exc_info),
            }
        return json.dumps(fields, default=str)


LogFormat = Literal["text", "json"]

log_format_option = click.option(
    "--log-format",
    type=click.Choice(get_args(LogFormat)),
    envvar="AMQP10_LOG_FORMAT",
    help="write log lines as text or as JSON objects; or set AMQP10_LOG_FORMAT",
)


def log_to_stderr(form: LogFormat, level: int) -> None:
    """Write the log of this process to standard error."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JSONLines() if form == "json" else text)
    logging.basicConfig(level=level, handlers=[handler])

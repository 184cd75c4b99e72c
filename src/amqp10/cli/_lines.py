"""Lines of standard input, without holding up the event loop: heartbeats and signals go on while nothing comes."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import AsyncGenerator
from typing import TextIO

import anyio

READ_SIZE = 65_536


async def lines_of(file: TextIO) -> AsyncGenerator[str]:
    """Read the lines of a file as they come, without their ends."""
    try:
        number = file.fileno()
    except OSError:  # not a file of the operating system
        for line in file:
            yield line.rstrip("\r\n")
        return
    decoder = io.IncrementalNewlineDecoder(
        codecs.getincrementaldecoder(file.encoding)(file.errors or "strict"), translate=True
    )
    begun: list[str] = []
    while data := await _read(number):
        *lines, rest = decoder.decode(data).split("\n")
        for line in lines:
            yield "".join((*begun, line))
            begun.clear()
        begun.append(rest)
    begun.append(decoder.decode(b"", final=True))
    if any(begun):
        yield "".join(begun).rstrip("\n")


async def _read(number: int) -> bytes:
    try:
        await anyio.wait_readable(number)
    except OSError:
        pass  # it is a file, and that is read without waiting
    return os.read(number, READ_SIZE)

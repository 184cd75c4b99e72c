"""Read bodies from files and iterators, and write them to files; blocking calls run in a worker thread."""

from __future__ import annotations

import io
import os
import secrets
import stat
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Protocol

from anyio import CancelScope, open_file, to_thread

from ..._calls import in_thread


class Readable(Protocol):
    """A binary file, or any object whose `read`, a coroutine or not, works like a file's."""

    def read(self, size: int, /) -> Any: ...


class Writable(Protocol):
    """A binary file, or any object whose `write`, a coroutine or not, works like a file's."""

    def write(self, data: bytes, /) -> Any: ...


CHUNK = 262_144
"""About how many bytes of a file are read at a time."""

BodySource = str | os.PathLike[str] | bytes | bytearray | memoryview | Readable | Iterable[bytes] | AsyncIterable[bytes]
BodyTarget = str | os.PathLike[str] | Writable


async def size_of(source: BodySource) -> int | None:
    """Return how many bytes a path or bytes have; None where that is not known beforehand.

    The size of a device or pipe is reported as 0, as is that of the regular files of /proc.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return memoryview(source).nbytes
    if isinstance(source, str | os.PathLike):
        facts = await to_thread.run_sync(os.stat, source)
        return facts.st_size or None if stat.S_ISREG(facts.st_mode) else None
    return None


async def chunks(source: BodySource, size: int) -> AsyncGenerator[bytes | bytearray | memoryview, None]:
    """Yield the source's chunks as they come, or `size`-byte chunks when it is a file.

    Raises:
        TypeError: `source` is not a `BodySource`.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        yield source
    elif isinstance(source, str | os.PathLike):
        async with await open_file(source, "rb") as file:
            while chunk := await file.read(size):
                yield chunk
    elif hasattr(source, "read"):
        while chunk := await _call(source.read, size):
            yield chunk
        if chunk is None:
            raise BlockingIOError("the file is non-blocking, so its end cannot be detected")
    elif isinstance(source, AsyncIterable):
        async for chunk in source:
            yield chunk
    elif isinstance(source, Iterable):
        for chunk in source:
            yield chunk
    else:
        raise TypeError(f"a body cannot be read from a {type(source).__qualname__}")


async def save(pieces: AsyncIterator[bytes], target: BodyTarget) -> int:
    """Write the pieces to a path or file; return the bytes written. A path is replaced as a whole, or left as it was.

    Links are followed. A path that is not a regular file (a device, a pipe) is opened and written to.
    """
    if not isinstance(target, str | os.PathLike):
        return await _write(pieces, target)
    path = Path(await to_thread.run_sync(os.path.realpath, target))
    if await to_thread.run_sync(lambda: path.exists() and not path.is_file()):
        async with await open_file(path, "wb") as file:
            return await _write(pieces, file)
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        async with await open_file(part, "xb") as file:
            size = await _write(pieces, file)
        await to_thread.run_sync(part.replace, path)
    except BaseException:
        with CancelScope(shield=True):
            await to_thread.run_sync(lambda: part.unlink(missing_ok=True))
        raise
    return size


async def _write(pieces: AsyncIterator[bytes], file: Writable) -> int:
    size = 0
    async for piece in pieces:
        size += len(piece)
        # A raw file may write only a part, and returns its size.
        while type(written := await _call(file.write, piece)) is int and 0 < written < len(piece):
            piece = piece[written:]
        if written is None and isinstance(file, io.RawIOBase):
            raise BlockingIOError("the file is non-blocking, and takes no more now")
    return size


async def _call(function: Any, argument: Any) -> Any:
    """Call a function in a worker thread, or await it if it is a coroutine function."""
    if iscoroutinefunction(function):
        return await function(argument)
    return await in_thread(function, argument)

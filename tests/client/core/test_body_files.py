"""Bodies from files and iterators, and into files, by the names that Python's own files have."""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from amqp10.messaging import Data

pytestmark = pytest.mark.anyio

Serve = Callable[..., Any]
LARGE = bytes(range(256)) * 2500


async def each(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        await anyio.lowlevel.checkpoint()
        yield chunk


class Source:
    """Something with a `read` that is a coroutine."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = list(chunks)

    async def read(self, size: int) -> bytes:
        await anyio.lowlevel.checkpoint()
        return self._chunks.pop(0) if self._chunks else b""


@pytest.mark.parametrize("kind", ["path", "str", "bytes", "bytearray", "memoryview"])
async def test_known_sizes(serve: Serve, kind: str, tmp_path: Path) -> None:
    """A source with a size becomes one data section."""
    path = tmp_path / "body"
    path.write_bytes(LARGE)
    sources = {"path": path, "str": str(path), "bytes": LARGE, "bytearray": bytearray(LARGE)}
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        assert await sender.send_stream(None, sources.get(kind, memoryview(LARGE))) == len(LARGE)
        assert peer.bodies() == [LARGE]


@pytest.mark.parametrize("kind", ["iterable", "async iterable", "async read"])
async def test_chunks(serve: Serve, kind: str) -> None:
    """A source without a size becomes a data section for each chunk, or one section if the size is given."""
    chunks = (b"one", b"two", b"three")
    sources: dict[str, Callable[[], Any]] = {
        "iterable": lambda: chunks,
        "async iterable": lambda: each(*chunks),
        "async read": lambda: Source(*chunks),
    }
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        assert await sender.send_stream(None, sources[kind]()) == 11
        assert await sender.send_stream(None, sources[kind](), size=11) == 11
        assert peer.bodies() == [Data(*chunks), b"onetwothree"]


async def test_open_files(serve: Serve, tmp_path: Path) -> None:
    """A file is read from where it stands to its end, in the style of its `read`, and stays open."""
    path = tmp_path / "body"
    path.write_bytes(b"skip" + LARGE)
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        with path.open("rb") as file:
            file.seek(4)
            assert await sender.send_stream(None, file) == len(LARGE)
            assert not file.closed
        async with await anyio.open_file(path, "rb") as asynchronous:
            await asynchronous.seek(4)
            assert await sender.send_stream(None, asynchronous) == len(LARGE)
        assert [bytes(body) for body in peer.bodies()] == [LARGE, LARGE]


async def test_sources_that_fail(serve: Serve, tmp_path: Path) -> None:
    """The error comes out as it is, and nothing is received."""

    async def failing() -> AsyncIterator[bytes]:
        yield b"one"
        raise RuntimeError("no more")

    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        with pytest.raises(RuntimeError, match="no more"):
            await sender.send_stream(None, failing())
        with pytest.raises(FileNotFoundError):
            await sender.send_stream(None, tmp_path / "none")
        with pytest.raises(TypeError, match="cannot be read from a int"):
            await sender.send_stream(None, 5)
        await sender.send("next")
        assert peer.bodies() == ["next"]


async def test_a_file_that_shrinks(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than the size it had is an error: the message would not be what was announced."""
    path = tmp_path / "body"
    path.write_bytes(b"four")
    monkeypatch.setattr(
        "amqp10.client._core.body_files.os.stat", lambda path: type("Stat", (), {"st_size": 5, "st_mode": 0o100644})
    )
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        with pytest.raises(Exception, match="the body must have 5 bytes as announced, not 4"):
            await sender.send_stream(None, path)
        assert peer.bodies() == []


async def test_paths_that_do_not_say_their_size(serve: Serve, tmp_path: Path) -> None:
    """A pipe has as much as comes out of it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, pipe.write_bytes, LARGE)
            assert await sender.send_stream(None, pipe) == len(LARGE)
        assert [bytes(body) for body in peer.bodies()] == [LARGE]


async def test_a_file_that_does_not_block(serve: Serve) -> None:
    """Whether it is at its end cannot be told, so nothing is sent: half a message would look like a whole one."""
    here, there = os.pipe()
    os.set_blocking(here, False)
    os.write(there, b"half")
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        with io.FileIO(here) as file, pytest.raises(BlockingIOError):
            await sender.send_stream(None, file)
        await sender.send("next")
        assert peer.bodies() == ["next"]
    os.close(there)


class Target:
    """Something with a `write` that is a coroutine."""

    def __init__(self) -> None:
        self.written = b""

    async def write(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self.written += data


@pytest.mark.parametrize("stream", [False, True])
async def test_save(serve: Serve, stream: bool, tmp_path: Path) -> None:
    """To a path, a file, a file of anyio, anything with a `write`; of a whole delivery, or as it comes."""
    path = tmp_path / "body"
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q", stream=stream, credit=5) as receiver:
            await anyio.wait_all_tasks_blocked()
            peer.send("q", *[Data(LARGE, b"end")] * 5)
            whole = LARGE + b"end"
            assert await (await receiver.receive()).save(path) == len(whole)
            assert path.read_bytes() == whole
            assert await (await receiver.receive()).save(str(path)) == len(whole)
            memory = io.BytesIO()
            assert await (await receiver.receive()).save(memory) == len(whole)
            assert memory.getvalue() == whole
            async with await anyio.open_file(path, "wb") as file:
                assert await (await receiver.receive()).save(file) == len(whole)
            assert path.read_bytes() == whole
            target = Target()
            assert await (await receiver.receive()).save(target) == len(whole)
            assert target.written == whole
        assert os.listdir(tmp_path) == [path.name]


class Sip:
    """Something with a `write` that takes three bytes at a time, as a raw file may."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> int:
        self.written += data[:3]
        return len(data[:3])


@asynccontextmanager
async def delivered(serve: Serve, *bodies: bytes) -> AsyncIterator[Any]:
    """A receiver to which these come."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        await anyio.wait_all_tasks_blocked()
        peer.send("q", *map(Data, bodies))
        yield receiver


async def test_save_to_what_takes_a_part(serve: Serve) -> None:
    """The rest is written, too."""
    sip = Sip()
    async with delivered(serve, b"0123456789") as receiver:
        assert await (await receiver.receive()).save(sip) == 10
    assert sip.written == b"0123456789"


async def test_save_to_what_does_not_block(serve: Serve) -> None:
    """A full pipe takes a part, and then nothing, which is an error: the rest would be lost."""
    there, here = os.pipe()
    os.set_blocking(here, False)
    async with delivered(serve, b"x" * 1_000_000) as receiver:
        delivery = await receiver.receive()
        with io.FileIO(here, "w") as file, pytest.raises(BlockingIOError, match="takes no more now"):
            await delivery.save(file)
    os.close(there)


async def test_save_to_what_is_no_regular_file(serve: Serve, tmp_path: Path) -> None:
    """A pipe or a device is written into, and stays what it is; a link stays one, and leads to what was saved."""
    pipe, link, file = (tmp_path / name for name in ("pipe", "link", "file"))
    os.mkfifo(pipe)
    link.symlink_to(file)
    file.write_bytes(b"old")
    read = []

    async def drink() -> None:
        read.append(await anyio.to_thread.run_sync(pipe.read_bytes))

    async with delivered(serve, b"one", b"two") as receiver:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drink)
            assert await (await receiver.receive()).save(pipe) == 3
        assert await (await receiver.receive()).save(link) == 3
    assert (read, pipe.is_fifo()) == ([b"one"], True)
    assert (file.read_bytes(), link.is_symlink()) == (b"two", True)


async def test_saves_at_the_same_time(serve: Serve, tmp_path: Path) -> None:
    """Two to one path do not get in each other's way, nor into a file whose name looks like theirs."""
    path, other = tmp_path / "body", tmp_path / "body.part"
    other.write_bytes(b"mine")
    async with delivered(serve, b"1" * 10, b"2" * 10) as receiver:
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon((await receiver.receive()).save, path)
    assert path.read_bytes() in (b"1" * 10, b"2" * 10)
    assert other.read_bytes() == b"mine"
    assert sorted(os.listdir(tmp_path)) == ["body", "body.part"]


async def test_save_what_is_left(serve: Serve) -> None:
    """A body that was looked into is saved from there on."""
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q", stream=True) as receiver:
            await anyio.wait_all_tasks_blocked()
            peer.send("q", Data(b"magic", b"rest"))
            delivery = await receiver.receive()
            async for piece in delivery.iter_body():
                assert piece == b"magic"
                break
            memory = io.BytesIO()
            assert await delivery.save(memory) == 4
            assert memory.getvalue() == b"rest"


async def test_targets_that_fail(serve: Serve, tmp_path: Path) -> None:
    """The error comes out as it is; what was at the path is there still."""
    path = tmp_path / "body"
    path.write_bytes(b"as it was")
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q", stream=True, credit=2) as receiver:
            await anyio.wait_all_tasks_blocked()
            peer.send("q", Data(b"one"), "text")
            delivery = await receiver.receive()
            with pytest.raises(OSError, match="body"):
                await delivery.save(path / "below a file")
            delivery.release()
            with pytest.raises(Exception, match="discarded"):
                await delivery.save(path)
            with pytest.raises(Exception, match="a str, not data"):
                await (await receiver.receive()).save(path)
        assert path.read_bytes() == b"as it was"
        assert os.listdir(tmp_path) == [path.name]

"""What the tests of the contract share: a server, a connection to it, and who counts what is written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, ClassVar, Final

import anyio
import anyio.lowlevel
import pytest

from ...broker import Broker
from ...client import Connection
from ...engine import Engine
from ...engine import dialect as find_dialect
from ...errors import Unsupported

PATIENCE: Final = 30.0
"""Seconds that one test may take."""


class Contract:
    """The base of all: which dialect, and where a server is.

    Attributes:
        dialect: the name of the dialect.
        counts_releases: it says of a message that it was out before, and not whether it failed then, as AMQP 0-9-1:
            one that was released has a delivery-count, too.
    """

    dialect: ClassVar[str]
    counts_releases: ClassVar[bool] = False

    @property
    def capabilities(self) -> frozenset[str]:
        """What the dialect lists."""
        return find_dialect(self.dialect).capabilities

    def has(self, capability: str) -> bool:
        """Whether the dialect lists a capability."""
        return capability in self.capabilities

    # The server and the connection

    @asynccontextmanager
    async def server(self, **settings: Any) -> AsyncIterator[str]:
        """A server that speaks the dialect, with nothing in it; its URL. The embedded broker unless this is overridden.

        Args:
            settings: those of `Broker` that a test depends on: auto_create, users, max_queue_messages, ...

        Raises:
            Exception: `pytest.skip` is the thing to call for settings that another server does not have.

        Cancelling: the server ends.
        """
        async with Broker(**settings) as broker:
            yield broker.url

    @asynccontextmanager
    async def connected(self, url: str | None = None, **settings: Any) -> AsyncIterator[Connection]:
        """A connection to a server of its own, or to the one at `url`.

        Args:
            settings: those of `Connection`.

        Raises:
            TimeoutError: the test took too long.

        Cancelling: the connection ends.
        """
        with anyio.fail_after(PATIENCE):
            if url is None:
                async with self.server() as url:
                    async with Connection(url, dialect=self.dialect, **settings) as connection:
                        yield connection
            else:
                async with Connection(url, dialect=self.dialect, **settings) as connection:
                    yield connection

    # Nothing is written

    @asynccontextmanager
    async def refused(self, connection: Connection) -> AsyncIterator[None]:
        """What is asked for inside is not there: `Unsupported` is raised, and nothing is written.

        Raises:
            AssertionError: something was; or nothing was raised (`pytest.fail.Exception`).

        Cancelling: nothing is left behind.
        """
        engine = connection._in_engine
        with counting(engine) as written:
            await _quiet(engine, written)
            before = written.octets
            with pytest.raises(Unsupported):
                yield
            await _quiet(engine, written)
            assert written.octets == before, "something was written before Unsupported was raised"


class Written:
    """How much an engine has written."""

    def __init__(self) -> None:
        self.octets = 0


@contextmanager
def counting(engine: Engine) -> Iterator[Written]:
    """Count what is written inside."""
    written, take = Written(), engine.data_to_send

    def counted() -> bytes:
        data = take()
        written.octets += len(data)
        return data

    engine.data_to_send = counted  # type: ignore[method-assign]
    try:
        yield written
    finally:
        del engine.data_to_send


async def _quiet(engine: Engine, written: Written) -> None:
    """Until all that was to be written is, and nothing came of it."""
    calm = 0
    while calm < 10:
        before = written.octets
        await anyio.lowlevel.checkpoint()
        calm = calm + 1 if not engine.output_size and written.octets == before else 0

"""What the tests of the contract share: a server, a connection to it, and a counter of written bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import anyio
import anyio.lowlevel
import pytest

from ...broker import Broker
from ...client import Connection, Session
from ...client.internals import ask, engine_of
from ...engine import Engine, Request
from ...engine import dialect as find_dialect
from ...errors import Unsupported

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Deviation:
    """A deviation of a server from the contract.

    Attributes:
        reason: what the server does, and why.
        raises: the error of the test: the one that a user sees, `AssertionError` or `TimeoutError`.
    """

    reason: str
    raises: type[BaseException] | tuple[type[BaseException], ...] = AssertionError


class Contract:
    """The base class of the contract's tests: the dialect and the server.

    Attributes:
        dialect: the name of the dialect.
        counts_releases: whether a released message gets a delivery-count, because the dialect only tells that a message
            was delivered before, not that it failed, as in AMQP 0-9-1.
        deviations: the server's deviations from the contract, by the name of the test. The test must fail as described,
            and is reported as an expected failure. If it passes, that is a failure.
        login: a user of the server, and the password.
        queues: the names of queues that must exist, or be created on first use, and be empty. The tests also use
            "topic.t", a topic; "declared", which must not exist before; and "nowhere", which never exists.
        dead_letters: the address for rejected messages; None if the server drops them.
        patience: seconds that one test may take; a deviation by `TimeoutError` is given 2.
    """

    dialect: ClassVar[str]
    counts_releases: ClassVar[bool] = False
    deviations: ClassVar[Mapping[str, Deviation]] = MappingProxyType({})
    login: ClassVar[tuple[str, str]] = ("me", "secret")
    queues: ClassVar[tuple[str, ...]] = ("q", "in", "out", "one", "two", "warm")
    dead_letters: ClassVar[str | None] = "dead-letter"
    patience: float = 60.0

    @pytest.fixture(autouse=True)
    def _deviation(self, request: pytest.FixtureRequest) -> None:
        deviation = self.deviations.get(request.node.originalname)
        if deviation is not None:
            mark = pytest.mark.xfail(reason=deviation.reason, raises=deviation.raises, strict=True)
            request.applymarker(mark)
            raises = deviation.raises if isinstance(deviation.raises, tuple) else (deviation.raises,)
            if TimeoutError in raises:
                self.patience = 2.0

    @property
    def capabilities(self) -> frozenset[str]:
        """The capabilities that the dialect lists."""
        return find_dialect(self.dialect).capabilities

    def has(self, capability: str) -> bool:
        """Return whether the dialect lists a capability."""
        return capability in self.capabilities

    # The server and the connection

    def address(self, name: str) -> str:
        """Return the address for a name used in tests; override it if names are not addresses, or already taken."""
        return name

    @property
    def q(self) -> str:
        """The address of the queue that most tests use."""
        return self.address("q")

    @asynccontextmanager
    async def server(self, **settings: Any) -> AsyncIterator[str]:
        """Run an empty server that speaks the dialect, and yield its URL: the embedded broker unless overridden.

        Args:
            settings: settings of `Broker` that a test needs: auto_create, users, max_queue_messages, ...

        Raises:
            Exception: call `pytest.skip` for settings that another server does not have.

        Cancelling: the server ends.
        """
        async with Broker(**settings) as broker:
            yield broker.url

    @asynccontextmanager
    async def connected(self, url: str | None = None, **settings: Any) -> AsyncIterator[Connection]:
        """Open a connection to a new server, or to the server at `url`.

        Args:
            settings: settings of `Connection`.

        Raises:
            TimeoutError: the test took too long.

        Cancelling: the connection ends.
        """
        with anyio.fail_after(self.patience):
            if url is None:
                async with self.server() as url, self.connection(url, dialect=self.dialect, **settings) as connection:
                    yield connection
            else:
                async with self.connection(url, dialect=self.dialect, **settings) as connection:
                    yield connection

    def connection(self, url: str, **settings: Any) -> AbstractAsyncContextManager[Connection]:
        """Make a connection; override it for another client API."""
        return Connection(url, **settings)

    async def ask(self, session: Session, request: Request[R]) -> R:
        """Send a request that AMQP 1.0 lacks; override it for another client API."""
        return await ask(session, request)

    # Nothing is written

    @asynccontextmanager
    async def refused(self, connection: Connection) -> AsyncIterator[None]:
        """Expect the block to raise `Unsupported` without writing anything.

        Raises:
            AssertionError: something was written, or nothing was raised (`pytest.fail.Exception`).

        Cancelling: nothing is left behind.
        """
        engine = engine_of(connection)
        with counting(engine) as written:
            await _quiet(engine, written)
            before = written.octets
            with pytest.raises(Unsupported):
                yield
            await _quiet(engine, written)
            assert written.octets == before, "something was written before Unsupported was raised"


class Written:
    """The number of bytes that an engine has written."""

    def __init__(self) -> None:
        self.octets = 0


@contextmanager
def counting(engine: Engine) -> Iterator[Written]:
    """Count the bytes that the engine writes within the block."""
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
    """Wait until all output was written, and no more follows."""
    calm = 0
    while calm < 10:
        before = written.octets
        await anyio.lowlevel.checkpoint()
        calm = calm + 1 if not engine.output_size and written.octets == before else 0

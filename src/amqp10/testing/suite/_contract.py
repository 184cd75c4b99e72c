"""What the tests of the contract share: a server, a connection to it, and who counts what is written."""

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
    """In what a server does otherwise than the contract has it.

    Attributes:
        reason: what it does, and why.
        raises: what the test then ends with: the error that a user sees, `AssertionError` or `TimeoutError`.
    """

    reason: str
    raises: type[BaseException] | tuple[type[BaseException], ...] = AssertionError


class Contract:
    """The base of all: which dialect, and where a server is.

    Attributes:
        dialect: the name of the dialect.
        counts_releases: it says of a message that it was out before, and not whether it failed then, as AMQP 0-9-1:
            one that was released has a delivery-count, too.
        deviations: in what the server does not keep the contract, by the name of the test. The test is run, and has to
            fail in that way; it is reported as an expected failure, with the reason. One that passes fails.
        login: a user of the server's, and the password.
        queues: what the tests name that has to be there for them, or to be made on first use, with nothing in it.
            They name besides: "topic.t", a topic; "declared", which is not there before; "nowhere", which never is.
        dead_letters: where the server puts what was rejected; None if it drops it.
        patience: seconds that one test may take; one that deviates by a `TimeoutError` has 2.
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
        """What the dialect lists."""
        return find_dialect(self.dialect).capabilities

    def has(self, capability: str) -> bool:
        """Return whether the dialect lists a capability."""
        return capability in self.capabilities

    # The server and the connection

    def address(self, name: str) -> str:
        """Return the address of a test's name; override it where names are not addresses, or not free."""
        return name

    @property
    def q(self) -> str:
        """The address of the queue that most tests use."""
        return self.address("q")

    @asynccontextmanager
    async def server(self, **settings: Any) -> AsyncIterator[str]:
        """Run an empty server that speaks the dialect, and yield its URL: the embedded broker unless overridden.

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
        """Open a connection to a server of its own, or to the one at `url`.

        Args:
            settings: those of `Connection`.

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
        """Make a connection; override it for another form of the client."""
        return Connection(url, **settings)

    async def ask(self, session: Session, request: Request[R]) -> R:
        """Ask the server for what AMQP 1.0 has no word for; override it for another form of the client."""
        return await ask(session, request)

    # Nothing is written

    @asynccontextmanager
    async def refused(self, connection: Connection) -> AsyncIterator[None]:
        """Expect `Unsupported` from what is asked for inside, with nothing written.

        Raises:
            AssertionError: something was; or nothing was raised (`pytest.fail.Exception`).

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
    """Wait until all output was written and no more follows from it."""
    calm = 0
    while calm < 10:
        before = written.octets
        await anyio.lowlevel.checkpoint()
        calm = calm + 1 if not engine.output_size and written.octets == before else 0

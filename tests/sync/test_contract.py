"""The contract that each dialect keeps, over the client without `await`: the same tests, not a second copy of them.

The contract's tests are written for the asynchronous client. Here they get the objects of `amqp10.sync`, each behind an
`Awaited`: what they await is called in a thread, as a user of threads would call it.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from amqp10 import Unsupported
from amqp10.client.internals import ask
from amqp10.engine import dialect_names
from amqp10.sync import Connection
from amqp10.sync._loop import Facade
from amqp10.testing.suite import Basics, Links, Losses, Outcomes, Streams, Work

END = object()


async def in_thread(function: Any, *args: Any, **keywords: Any) -> Any:
    """Call it in a thread, which is left when this is cancelled: what it waits for ends with the connection."""
    return awaited(await anyio.to_thread.run_sync(partial(function, *args, **keywords), abandon_on_cancel=True))


def awaited(value: Any) -> Any:
    """Put an object of the door behind an `Awaited`; lists of them, too."""
    if isinstance(value, list):
        return [awaited(each) for each in value]
    return Awaited(value) if isinstance(value, Facade | Iterator) else value


def bare(value: Any) -> Any:
    return value.door if isinstance(value, Awaited) else value


class Awaited:
    """An object of `amqp10.sync`, used as the asynchronous one is.

    Attributes:
        door: the object.
    """

    def __init__(self, door: Any) -> None:
        self.door = door

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.door, name)
        if not inspect.ismethod(value):
            return awaited(value)

        def call(*args: Any, **keywords: Any) -> Any:
            given = [bare(each) for each in args]
            named = {key: bare(each) for key, each in keywords.items()}
            if inspect.iscoroutinefunction(getattr(self.door._inner, name)):
                return in_thread(value, *given, **named)
            return awaited(value(*given, **named))

        return call

    async def __aenter__(self) -> Awaited:
        await in_thread(self.door.__enter__)
        return self

    async def __aexit__(self, *why: Any) -> Any:
        with anyio.CancelScope(shield=True):
            return await in_thread(self.door.__exit__, *why)

    def __enter__(self) -> Any:
        return self.door.__enter__()

    def __exit__(self, *why: Any) -> Any:
        return self.door.__exit__(*why)

    def __aiter__(self) -> Awaited:
        return Awaited(iter(self.door))

    async def __anext__(self) -> Any:
        value = await in_thread(next, self.door, END)
        if value is END:
            raise StopAsyncIteration
        return value


class OverTheDoor(Basics, Outcomes, Links, Streams, Work, Losses):
    """All but the octets, which are an engine's alone."""

    def connection(self, url: str, **settings: Any) -> Any:
        return Awaited(Connection(url, **settings))

    async def ask(self, session: Any, request: Any) -> Any:
        return await in_thread(session.door._loop.run, partial(ask, session.door._inner, request))

    @asynccontextmanager
    async def refused(self, connection: Any) -> AsyncIterator[None]:
        """That nothing is written is seen of the asynchronous client; its engine lives in another thread here."""
        with pytest.raises(Unsupported):
            yield


for _name in dialect_names():
    _says = {"dialect": _name, "counts_releases": _name.startswith("0-9")}
    _class = type(f"TestDialect_{_name.replace('.', '_').replace('-', '_')}", (OverTheDoor,), _says)
    # The door has an event loop of its own; that of the test is the broker's.
    _class = pytest.mark.parametrize("anyio_backend", ["asyncio"])(pytest.mark.anyio(_class))
    globals()[_class.__name__] = pytest.mark.capability("without async")(_class)

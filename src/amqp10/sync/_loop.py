"""The thread in which the asynchronous objects live, and what every object of `amqp10.sync` has in common.

A call hands its work to the event loop of that thread and waits for the result. So the asynchronous client is used as
it is, in one thread, whoever calls from wherever.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, Self

import anyio
from sniffio import current_async_library_cvar

from .._arguments import HintedClass, current_names, hinted
from ..client.internals import check_messages
from ..errors import ConnectionLost, LocalProtocolError
from ..net import waiting

CHUNK = 1000
"""Messages of an iterable that are fetched at a time, in the thread of the caller."""


Work = Callable[[], Coroutine[Any, Any, Any]]


class Answer:
    """What one thread waits for, and the thread of the loop gives.

    A `concurrent.futures.Future` does not serve: it keeps its state under a lock that both threads take, and an
    interrupt can leave that lock taken (CPython's issue 29988). Here one thread waits for a lock that only the other
    releases, and all else is done in the thread of the loop.

    Attributes:
        given: the answer is there, a value or an error.
        abandoned: the waiting thread was interrupted.
    """

    def __init__(self) -> None:
        self._waiting = threading.Lock()
        self._waiting.acquire()
        self._value: Any = None
        self._error: BaseException | None = None
        self._task: asyncio.Task[Any] | None = None
        self.given = self.abandoned = False

    def wait(self) -> Any:
        """Wait, and return the value or raise the error. An interrupt of the user's comes in here at once."""
        self._waiting.acquire()
        try:
            if self._error is not None:
                raise self._error
            return self._value
        finally:
            self._error = None  # its traceback leads here

    # In the thread of the loop

    def work(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Give the result of a coroutine, in a task of its own."""
        self._task = asyncio.get_running_loop().create_task(coroutine)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._task = None  # freed in this thread: in the other one, an interrupt could come while Python frees it
        if task.cancelled():
            self.give(error=_closed())
        else:
            error = task.exception()  # asked for, whether anybody is left to hear of it or not
            self.give(None if error is not None else task.result(), error)

    def give(self, value: Any = None, error: BaseException | None = None) -> None:
        """Let the other thread go on; only the first call counts."""
        if not self.given:
            self._value, self._error, self.given = value, error, True
            self._waiting.release()

    def abandon(self) -> None:
        """Cancel the task, because the waiting thread was interrupted."""
        if self._task is not None:
            self._task.cancel()


class Loop:
    """A thread with an event loop, for one connection."""

    _loop: asyncio.AbstractEventLoop
    _over: asyncio.Event

    def __init__(self) -> None:
        self._process = os.getpid()
        self._waited: set[Answer] = set()  # for by callers
        self._tasks: set[asyncio.Task[Any]] = set()  # of blocks; asyncio itself would let go of one that sleeps
        started = Answer()
        self._thread = threading.Thread(target=self._run, args=(started,), name="amqp10", daemon=True)
        self._thread.start()
        started.wait()

    def _run(self, started: Answer) -> None:
        async def live() -> None:
            self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
            started.give()
            await self._over.wait()

        asyncio.run(live())
        for answer in list(self._waited):  # came when the loop was about to close
            answer.give(error=_closed())

    def stop(self) -> None:
        """End the thread; calls that still wait raise `anyio.ClosedResourceError`."""
        if not self.forked and self._thread.is_alive():
            self.tell(self._over.set)
            self._thread.join()

    def run(self, work: Work, timeout: float | None = None, name: str = "") -> Any:
        """Wait there for what a function returns, and return its result.

        The function is called there: a coroutine that an interrupt keeps from being started would be a warning.

        Args:
            work: makes the coroutine.
            timeout: s; None: as long as it takes.
            name: of the call, for the error of a timeout.

        Raises:
            ConnectionLost: this process was forked from the one that has the connection.
            RuntimeError: this is the thread of the event loop: a callback waits for itself.
            TimeoutError: it took longer.
            anyio.ClosedResourceError: the connection was closed here.
        """

        async def wait() -> Any:
            if timeout is None:
                return await work()
            with anyio.move_on_after(timeout):
                return await work()
            raise TimeoutError(f"{name}() took longer than {timeout:g} s")

        def begin(answer: Answer) -> None:
            _leave_trio()
            if not answer.abandoned:
                answer.work(wait())

        return self._ask(begin)

    def do(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call a function there that does not wait, and return its result.

        Raises:
            ConnectionLost, RuntimeError, anyio.ClosedResourceError: see `run`.
        """

        def call(answer: Answer) -> None:
            _leave_trio()
            if answer.abandoned:
                return
            try:
                answer.give(function(*args, **keywords))
            except BaseException as error:
                answer.give(error=error)

        return self._ask(call)

    def stand(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine in a task of its own; called in the thread of the loop."""
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def tell(self, function: Callable[[], object]) -> None:
        """Call a function there soon, and do not wait for it; nothing is called in a loop that is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def _ask(self, begin: Callable[[Answer], None]) -> Any:
        self._check()
        answer = Answer()
        self._waited.add(answer)
        try:
            try:
                self._loop.call_soon_threadsafe(begin, answer)
            except RuntimeError as error:
                raise _closed() from error
            return answer.wait()
        finally:
            self._waited.discard(answer)
            if not answer.given:
                answer.abandoned = True
                self.tell(answer.abandon)

    @property
    def forked(self) -> bool:
        """Whether this is another process than that of the thread."""
        return os.getpid() != self._process

    def _check(self) -> None:
        if self.forked:
            raise ConnectionLost(
                "the connection belongs to the process that this one was forked from: open one after the fork"
            )
        if threading.current_thread() is self._thread:
            raise RuntimeError("this is the thread of the connection: a callback cannot wait for it")


def _leave_trio() -> None:
    """Let anyio see asyncio, which runs here, for the context of the caller may be that of a trio task."""
    current_async_library_cvar.set(None)


def _closed() -> anyio.ClosedResourceError:
    return anyio.ClosedResourceError("the connection was closed here")


class Block:
    """An `async with` block that is entered and left from other threads; in between a task of the loop stands in it."""

    def __init__(self, loop: Loop, manager: Any) -> None:
        self._loop = loop
        self._manager = manager
        self._task: asyncio.Task[bool | None] | None = None
        self._why: tuple[Any, Any, Any] = (None, None, None)

    def enter(self) -> Any:
        """Enter it, and return what it gives."""

        async def enter() -> Any:
            entered = asyncio.get_running_loop().create_future()
            self._task = self._loop.stand(self._stand(entered))
            return await entered

        try:
            return self._loop.run(enter)
        except BaseException:
            self._loop.tell(self._give_up)
            raise

    def _give_up(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _stand(self, entered: asyncio.Future[Any]) -> bool | None:
        try:
            given = await self._manager.__aenter__()
        except BaseException as error:
            if not entered.done():
                entered.set_exception(error)
            return None
        self._left = asyncio.Event()
        if not entered.done():
            entered.set_result(given)
        try:
            await self._left.wait()
        except asyncio.CancelledError as error:  # the connection was closed meanwhile, or the thread interrupted
            await self._manager.__aexit__(type(error), error, None)
            raise
        left: bool | None = await self._manager.__aexit__(*self._why)
        return left

    def leave(self, *why: Any) -> bool | None:
        """Leave it, because of an exception or not."""
        self._why = why

        async def leave() -> bool | None:
            assert self._task is not None
            self._left.set()
            return await self._task

        left: bool | None = self._loop.run(leave)
        return left


class Facade:
    """An object of the asynchronous client, for other threads. Equal to others for the same object."""

    __slots__ = ("_block", "_inner", "_loop", "_turn")

    _loop: Loop
    _inner: Any

    def __init__(self, loop: Loop, inner: Any) -> None:
        self._loop = loop
        self._inner = inner
        self._block: Block | None = None
        self._turn: asyncio.Lock | None = None

    def _wait(self, timeout: float | None, name: str, /, *args: Any, **keywords: Any) -> Any:
        """Wait for a coroutine of the object."""
        arguments, named = _unwrap(args), {key: _unwrap(given) for key, given in keywords.items()}
        work = partial(getattr(self._inner, name), *arguments, **named)
        return _wrap(self._loop, self._loop.run(work, timeout, name))

    def _in_turn(self, timeout: float | None, name: str, /, *args: Any, **keywords: Any) -> Any:
        """Wait as `_wait` does, where only one may wait at a time: the threads do so in turn."""

        async def work() -> Any:
            if self._turn is None:
                self._turn = asyncio.Lock()
            async with self._turn:
                return await getattr(self._inner, name)(*args, **keywords)

        return _wrap(self._loop, self._loop.run(work, timeout, name))

    def _step(self) -> Any:
        """Wait for the next item of the object, which is an asynchronous iterator."""
        try:
            return self._in_turn(None, "__anext__")
        except StopAsyncIteration:
            raise StopIteration from None

    def _do(self, name: str, /, *args: Any, **keywords: Any) -> Any:
        """Call a method of the object that does not wait."""
        arguments, named = _unwrap(args), {key: _unwrap(given) for key, given in keywords.items()}
        return _wrap(self._loop, self._loop.do(getattr(self._inner, name), *arguments, **named))

    def _get(self, name: str) -> Any:
        """Read an attribute of the object."""
        return _wrap(self._loop, getattr(self._inner, name))

    def _enter(self) -> Self:
        self._block = Block(self._loop, self._inner)
        self._block.enter()
        return self

    def _enter_given(self) -> Any:
        """Enter the block, and return what it gives, which is not the object itself."""
        self._block = Block(self._loop, self._inner)
        return _wrap(self._loop, self._block.enter())

    def _leave(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._block is not None
        if not self._loop.forked:  # in a child process nothing of it is ours to close
            self._block.leave(exc_type, exc, traceback)

    def __dir__(self) -> list[str]:
        return current_names(type(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Facade) and other._inner is self._inner

    def __hash__(self) -> int:
        return hash(id(self._inner))

    def __repr__(self) -> str:
        return repr(self._inner)


def made_of(facade: Facade, function: Callable[..., Any]) -> Any:
    """Return what a function makes of the asynchronous object, for other threads."""
    return _wrap(facade._loop, facade._loop.do(function, facade._inner))


def run(work: Work, timeout: float | None, name: str) -> Any:
    """Wait for what a function returns in a thread for it alone, and return its result."""
    loop = Loop()
    try:
        with waiting():
            return loop.run(work, timeout, name)
    finally:
        loop.stop()


@hinted
class Opened(Facade, metaclass=HintedClass):
    """A connection, or what opens one: it has the thread."""

    __slots__ = ()

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._block = None
        self._turn = None

    def _enter(self) -> Self:
        if self._block is not None:
            raise LocalProtocolError("a connection can be opened by `with` only once; make a new one")
        self._loop = Loop()
        try:
            with waiting():
                return super()._enter()
        except BaseException:
            self._loop.stop()
            raise

    def _leave(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            super()._leave(exc_type, exc, traceback)
        finally:
            self._loop.stop()

    def _wait(self, timeout: float | None, name: str, /, *args: Any, **keywords: Any) -> Any:
        self._require_open()
        return super()._wait(timeout, name, *args, **keywords)

    def _do(self, name: str, /, *args: Any, **keywords: Any) -> Any:
        self._require_open()
        return super()._do(name, *args, **keywords)

    def _require_open(self) -> None:
        if self._block is None:
            raise LocalProtocolError("the connection is not open yet: open it with `with`")

    def _get(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if self._block is None:
            if type(value) in FACADES:
                self._require_open()
            return value
        wrapped = _wrap(self._loop, value)
        return Native(self._loop, value) if name == "native" and wrapped is value else wrapped


class Steps(Iterator[Any]):
    """An asynchronous iterator, for other threads."""

    def __init__(self, loop: Loop, inner: Any) -> None:
        self._loop = loop
        self._inner = inner

    def __next__(self) -> Any:
        async def step() -> Any:
            try:
                return True, await anext(self._inner)
            except StopAsyncIteration:
                return False, None

        more, value = self._loop.run(step)
        if not more:
            raise StopIteration
        return value


class Native:
    """What a dialect from outside has of its own (`connection.native`): its coroutines are waited for."""

    _block: Block

    def __init__(self, loop: Loop, inner: Any) -> None:
        self._loop = loop
        self._inner = inner

    def __enter__(self) -> Self:
        self._block = Block(self._loop, self._inner)
        self._block.enter()
        return self

    def __exit__(self, *why: Any) -> bool | None:
        return None if self._loop.forked else self._block.leave(*why)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return _wrap(self._loop, value)

        def call(*args: Any, timeout: float | None = None, **keywords: Any) -> Any:
            arguments, named = _unwrap(args), {key: _unwrap(given) for key, given in keywords.items()}

            async def work() -> Any:
                result = value(*arguments, **named)
                return await result if asyncio.iscoroutine(result) else result

            return _wrap(self._loop, self._loop.run(work, timeout, name))

        call.__name__, call.__doc__ = name, value.__doc__
        return call


FACADES: dict[type, type[Facade]] = {}
"""The facade for each class of the asynchronous client."""


def in_chunks(messages: Iterable[object]) -> Iterable[Sequence[object]]:
    """Return the messages in lists: what an iterable does to make them is done in the thread of the caller.

    Raises:
        TypeError: it is one message, not several.
    """
    check_messages(messages)
    if isinstance(messages, list | tuple):
        return (messages,)
    iterator = iter(messages)
    return iter(lambda: list(islice(iterator, CHUNK)), [])


def _wrap(loop: Loop, value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list or kind is tuple:
        return kind(_wrap(loop, each) for each in value)
    facade = FACADES.get(kind)
    if facade is None:
        facade = next((FACADES[base] for base in kind.__mro__ if base in FACADES), None)
        if facade is None:
            if hasattr(value, "__aenter__"):
                return Native(loop, value)
            return Steps(loop, value) if hasattr(value, "__anext__") else value
        FACADES[kind] = facade
    return _lent(facade, loop, value) if issubclass(facade, Opened) else facade(loop, value)


def _lent(kind: type[Opened], loop: Loop, inner: Any) -> Opened:
    """Return a connection that something else has opened, and closes."""
    connection = kind.__new__(kind)
    Facade.__init__(connection, loop, inner)
    connection._block = Block(loop, inner)
    return connection


_PLAIN = frozenset({type(None), bool, int, str, bytes, float, dict, frozenset})


def _unwrap(value: Any) -> Any:
    if isinstance(value, Facade):
        return value._inner
    return tuple(map(_unwrap, value)) if type(value) is tuple else value

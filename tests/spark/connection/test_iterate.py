"""A coroutine as the generator that Spark reads from."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from amqp10.spark._connection.iterate import MAX_AHEAD, iterate_in_thread


def test_left_while_the_coroutine_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Spark wants no more, everything is undone in the coroutine's thread, though it waits to emit."""
    closed_in: list[int] = []
    running_in: list[int] = []
    make: Any = anyio.create_memory_object_stream

    class Streams:
        def __getitem__(self, item: object) -> Callable[[int], Any]:
            def streams(size: int) -> Any:
                send, receive = make(size)
                close = receive.close

                def noting() -> None:
                    closed_in.append(threading.get_ident())
                    close()

                monkeypatch.setattr(receive, "close", noting, raising=False)
                return send, receive

            return streams

    monkeypatch.setattr(anyio, "create_memory_object_stream", Streams())

    async def produce(emit: Callable[[int], Awaitable[None]]) -> None:
        running_in.append(threading.get_ident())
        for number in range(1000):
            await emit(number)

    for taken in range(MAX_AHEAD + 2):
        items = iterate_in_thread(produce)
        assert [next(items) for _ in range(taken + 1)] == list(range(taken + 1))
        items.close()  # type: ignore[attr-defined]
    assert closed_in == running_in
    assert threading.get_ident() not in closed_in

"""What is busy for ever while a clock that jumps stands still is a failure of one test, and ends no run."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from . import jumping_clock
from .jumping_clock import jumping, watched

pytestmark = pytest.mark.parametrize("backend", ["trio", "asyncio"])


async def waits_for_now() -> None:
    """As who adds to a moment what is too little to change it."""
    while True:
        await anyio.lowlevel.checkpoint()


def test_it_is_told(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the moment, and where the tasks were; time that passes begins the count anew."""
    monkeypatch.setattr(jumping_clock, "MAX_PASSES", 1000)
    name, options = jumping(backend)

    async def test() -> None:
        for _ in range(2000):
            await anyio.sleep(1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waits_for_now)
            await anyio.sleep_forever()

    with pytest.raises(AssertionError, match=r"(?s)1000 passes at 2000\.0 s .*waits_for_now:\d+"):
        anyio.run(watched(test, (name, options)), backend=name, backend_options=options)


def test_an_error_of_the_test(backend: str) -> None:
    """Whatever else the test raises is its own."""
    name, options = jumping(backend)

    async def test() -> None:
        await anyio.sleep(1)
        raise LookupError

    with pytest.raises(LookupError):
        anyio.run(watched(test, (name, options)), backend=name, backend_options=options)

"""Ctrl-C in the middle of a call, at each instruction that the calling thread runs, the standard library's too."""

from __future__ import annotations

import gc
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import anyio
import pytest

from amqp10.sync import Connection, _loop

from ..kit.steps import trace_instructions


class Interrupt:
    """Raises KeyboardInterrupt in this thread at the instruction of that number, of those a call runs."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_globals.get("__name__") in ("weakref", "_weakrefset"):
            return None  # called by the collector of garbage, which drops what is raised there
        frame.f_trace, frame.f_trace_opcodes = self, True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def interrupted(call: Callable[[], object], at: int) -> bool:
    """Whether a call was interrupted, in place of coming to its end before that instruction."""
    before = sys.gettrace()
    trace_instructions(Interrupt(at))
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("limit", [None, 60.0])
def test_at_each_instruction(amqp_broker: Any, limit: float | None) -> None:
    """It is all that comes out of the call: no warning, no other error; and the connection goes on."""
    with Connection(amqp_broker.url) as connection, connection.sender("orders") as sender, warnings.catch_warnings():
        warnings.simplefilter("error")
        seen: list[Any] = []
        hook, sys.unraisablehook = sys.unraisablehook, seen.append
        try:
            at = 1
            while interrupted(lambda: sender.send("x", timeout=limit), at):
                at += 1
            gc.collect()
        finally:
            sys.unraisablehook = hook
        assert not seen, [(each.object, each.exc_traceback.tb_frame.f_code) for each in seen]
        assert at > 50
        sender.send("last")
        with connection.browser("orders") as browser:
            assert [each.message.body for each in browser][-1] == "last"


def test_entering_at_each_instruction(amqp_broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A link whose block an interrupt kept from being entered does not stay."""
    with Connection(amqp_broker.url) as connection:
        at = 1
        while interrupted(connection.receiver("orders").__enter__, at):
            at += 1
        gc.collect()
        with connection.sender("orders") as sender:
            sender.send("x")
        # Where the link was there, and `with` had yet to hear of it, it stays as long as the connection.
        assert 1 <= amqp_broker.queue("orders").consumers < 10
    assert at > 200
    assert amqp_broker.queue("orders").consumers == 0
    assert not [record.getMessage() for record in caplog.records if record.name == "asyncio"]


def test_a_call_after_the_last_pass_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing in another thread ends it, though the loop never comes to it."""
    loop = _loop.Loop()
    asked = threading.Event()
    really = loop._loop.call_soon_threadsafe

    def too_late(call: Any, *args: Any) -> Any:
        if asked.is_set():
            return really(call, *args)
        asked.set()
        return None

    monkeypatch.setattr(loop._loop, "call_soon_threadsafe", too_late)
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(loop.do, print)
        assert asked.wait(60)
        loop.stop()
        with pytest.raises(anyio.ClosedResourceError, match="closed here"):
            called.result(60)

"""Steps of the interpreter: bytecode instructions, and calls of Python functions and of built-in ones."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

COUNT = 500
"""Messages of most workloads."""


class Count:
    """Counts what runs while it is switched on."""

    def __init__(self) -> None:
        self.instructions = self.calls = 0
        self.messages = COUNT
        self.on = False

    def resume(self) -> None:
        if self.on:
            sys.setprofile(self._profile)
            sys.settrace(self._trace)

    def pause(self) -> None:
        sys.settrace(None)
        sys.setprofile(None)

    def start(self) -> None:
        self.on = True
        self.resume()
        # The frames that are there already, of coroutines most of all, learn of it one by one.
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            self._enter(frame)
            frame = frame.f_back

    def stop(self) -> None:
        self.pause()
        self.on = False

    def _enter(self, frame: FrameType) -> None:
        frame.f_trace, frame.f_trace_opcodes, frame.f_trace_lines = self._trace, True, False

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            self.instructions += 1
        elif event == "call":
            self._enter(frame)
        return self._trace

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self.calls += 1

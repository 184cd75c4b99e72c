"""Count what the interpreter runs: a cost that no other work on the machine changes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class Steps:
    """Counts instructions of the interpreter, and calls of built-in functions, inside a `with` block.

    Garbage that was left before is not collected meanwhile: its finalizers are no part of the cost.
    """

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Steps:
        self._before = sys.gettrace(), sys.getprofile()
        self._collects = gc.isenabled()
        gc.disable()
        sys.setprofile(self._profile)
        trace_instructions(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before[0])
        sys.setprofile(self._before[1])
        if self._collects:
            gc.enable()

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace, frame.f_trace_opcodes, frame.f_trace_lines = self._trace, True, False  # 3.13 needs the first
        self.count += event == "opcode"
        return self._trace

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        self.count += event == "c_call"


def steps(act: Callable[[], Any]) -> int:
    """Return the steps of one call."""
    with Steps() as counted:
        act()
    return counted.count


def trace_instructions(trace: Callable[[FrameType, str, Any], Any]) -> None:
    """Begin to trace; `trace` sets `f_trace_opcodes` of the frames whose instructions it is to see.

    From Python 3.12 on, instructions are traced only from the first `settrace` after some frame asked for them.
    """
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)

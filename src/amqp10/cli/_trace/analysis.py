"""Analyzes the frames of a trace: credit, windows and unsettled deliveries over time, and problems.

It reads the lines of the dialects' tracers, which have no secrets, so a trace file suffices.
"""

from __future__ import annotations

from importlib import import_module

from ...engine import dialects
from ...engine.trace_analysis import Findings, Frame, TraceAnalysis, take_apart


class ConnectionAnalysis:
    """The analysis of one connection, which takes its frames in order.

    A line does not say its dialect. So the analysis of every dialect sees all lines, and takes those whose name it
    knows (`TraceAnalysis.handlers`): no name means different things in two dialects.
    """

    def __init__(self, kinds: list[type[TraceAnalysis]]) -> None:
        self.findings = Findings()
        self._parts = [kind(self.findings) for kind in kinds]
        self._now = 0.0

    def feed(self, frame: Frame) -> None:
        """Take the next frame, and record its problems."""
        self._now = frame.time
        call = take_apart(frame.text)
        if call is None:
            if frame.text.startswith("no "):
                frame.problems.append("cannot be read")
            return
        refusal = next(filter(None, (part.refused(call) for part in self._parts)), None)
        if refusal is not None:
            frame.problems.append(refusal)
        for part in self._parts:
            part.take(frame, call)

    def end(self) -> Findings:
        """Record the problems at the end of the trace, and return all that was found."""
        self.findings.end(self._now)
        return self.findings


def analyze(frames: list[Frame]) -> dict[int, Findings]:
    """Record the problems on `frames`; return what was found on each connection."""
    kinds: list[type[TraceAnalysis]] = []
    for where in dict.fromkeys(each.analysis for each in dialects() if each.analysis is not None):
        module, _, name = where.partition(":")
        kinds.append(getattr(import_module(module), name))
    found: dict[int, ConnectionAnalysis] = {}
    for frame in frames:
        found.setdefault(frame.connection, ConnectionAnalysis(kinds)).feed(frame)
    return {connection: analysis.end() for connection, analysis in found.items()}

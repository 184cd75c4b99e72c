"""The contract by which a dialect analyzes the lines of its tracer: credit, windows, unsettled deliveries, refusals.

Only `amqp10 trace` uses it: a dialect names its analysis in `Dialect.analysis`, and nothing else imports that.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from .._arguments import counted

STARVED: Final = 1.0
"""Seconds without credit or window, while a sender may have messages, that count as a problem."""

UNSETTLED: Final = 5.0
"""Seconds without an outcome that count as a problem."""

ALL: Final = 1 << 64
"""More than any delivery-tag."""
_CALL: Final = re.compile(r"(?:\[(\d{1,5})\] )?([\w.-]+)\(")
_CLOSERS: Final = {"(": ")", "[": "]", "{": "}"}


@dataclass
class Frame:
    """One line of a trace.

    Attributes:
        number: its position in the trace.
        time: seconds since the start of the trace.
        connection: the number of the connection.
        sent: whether the client sent it, or the server.
        text: the tracer's line, without its direction.
        problems: problems of the frame, or that ended with it.
    """

    number: int
    time: float
    connection: int
    sent: bool
    text: str
    problems: list[str] = field(default_factory=list)


@dataclass
class Curve:
    """A quantity over time.

    Attributes:
        title: the name of the quantity.
        points: the times and values of its changes.
    """

    title: str
    points: list[tuple[float, int]] = field(default_factory=list)

    def add(self, time: float, value: int) -> None:
        if not self.points or self.points[-1][1] != value:
            self.points.append((time, value))

    @property
    def value(self) -> int:
        return self.points[-1][1] if self.points else 0


@dataclass
class Call:
    """A parsed frame.

    Attributes:
        channel: the channel; 0 if the line has none.
        name: the performative, method or command.
        fields: the fields by name, as text.
        rest: the text after the fields.
    """

    channel: int
    name: str
    fields: dict[str, str]
    rest: str

    def number(self, name: str, otherwise: int = 0) -> int:
        try:
            return int(self.fields[name])
        except (KeyError, ValueError):
            return otherwise


def take_apart(text: str) -> Call | None:
    """Parse a line; return None for a line that is not a call, such as a header."""
    begin = _CALL.match(text)
    if begin is None:
        return None
    fields: dict[str, str] = {}
    closers: list[str] = []
    quote, at, start = "", begin.end(), begin.end()
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in _CLOSERS:
            closers.append(_CLOSERS[char])
        elif closers and char == closers[-1]:
            closers.pop()
        elif not closers and char in ",)":
            name, equals, value = text[start:at].strip().partition("=")
            if equals:
                fields[name] = value
            start = at + 1
            if char == ")":
                break
        at += 1
    return Call(int(begin[1] or 0), begin[2], fields, text[at + 1 :].strip())


class UnsettledNumbers:
    """Deliveries without an outcome, or incomplete transfers.

    Attributes:
        since: the time when each was sent, by its number.
    """

    def __init__(self) -> None:
        self.since: dict[int, float] = {}
        self._numbers: list[int] = []  # sorted, to find a range quickly

    def add(self, number: int, time: float) -> None:
        """Add a sent delivery."""
        if number not in self.since:
            insort(self._numbers, number)
        self.since[number] = time

    def remove(self, first: int, last: int) -> dict[int, float]:
        """Remove a range with an outcome, which may wrap; return its deliveries with the time when each was sent."""
        removed: dict[int, float] = {}
        for begin, end in [(first, last)] if first <= last else [(first, ALL), (0, last)]:
            here = slice(bisect_left(self._numbers, begin), bisect_right(self._numbers, end))
            removed.update((number, self.since.pop(number)) for number in self._numbers[here])
            del self._numbers[here]
        return removed


class Findings:
    """What the analysis of one connection has found.

    Attributes:
        curves: the curves by key.
        problems: problems without a frame, found at the end.
        unsettled: by sending side and its place, such as "channel 1".
    """

    def __init__(self) -> None:
        self.curves: dict[object, Curve] = {}
        self.problems: list[str] = []
        self.unsettled: dict[tuple[bool, str], UnsettledNumbers] = {}
        self._starved: dict[str, float] = {}  # since when a link has no credit, or a session no window

    def curve(self, key: object, title: str) -> Curve:
        return self.curves.setdefault(key, Curve(title))

    def note_starving(self, frame: Frame, what: str, starves: bool) -> None:
        """Record whether `what` is missing; where it was for long, that is a problem of the frame that ends it."""
        if starves:
            self._starved.setdefault(what, frame.time)
            return
        since = self._starved.pop(what, None)
        if since is not None and frame.time - since >= STARVED:
            frame.problems.append(f"{what} for {frame.time - since:.1f} s")

    def tell_left(self, frame: Frame, place: str, left: int, paused: bool = False) -> None:
        """Record how many deliveries the client still accepts."""
        left = 0 if paused else max(0, left)
        self.curve(("credit", place), f"deliveries that the client takes, {place}").add(frame.time, left)
        self.note_starving(frame, f"prefetch used up on {place}", left <= 0 and not paused)

    def add_unsettled(self, frame: Frame, sender: tuple[bool, str], number: int) -> None:
        self.unsettled.setdefault(sender, UnsettledNumbers()).add(number, frame.time)
        self._tell_unsettled(frame, sender)

    def settled(self, frame: Frame, sender: tuple[bool, str], first: int, last: int) -> Iterable[int]:
        """Record the outcome of a range; return the deliveries that had no outcome before."""
        removed = self.unsettled.setdefault(sender, UnsettledNumbers()).remove(first, last)
        oldest = min(removed.values(), default=frame.time)
        if frame.time - oldest >= UNSETTLED:
            frame.problems.append(f"unsettled for {frame.time - oldest:.1f} s")
        self._tell_unsettled(frame, sender)
        return removed

    def _tell_unsettled(self, frame: Frame, sender: tuple[bool, str]) -> None:
        who = "client" if sender[0] else "server"
        count = len(self.unsettled[sender].since)
        self.curve(("unsettled", *sender), f"unsettled deliveries of the {who}, {sender[1]}").add(frame.time, count)

    def end(self, now: float) -> None:
        """Record the problems at the end of the trace."""
        for (sent, place), out in self.unsettled.items():
            old = [since for since in out.since.values() if now - since >= UNSETTLED]
            if old:
                who = "client" if sent else "server"
                were = "was" if len(old) == 1 else "were"
                self.problems.append(
                    f"{counted(len(old), 'delivery')} of the {who} on {place} {were} unsettled at the end, "
                    f"the oldest for {now - min(old):.1f} s"
                )
        for what, since in self._starved.items():
            if now - since >= STARVED:
                self.problems.append(f"{what} from {since:.3f} s to the end")


class TraceAnalysis:
    """What a dialect finds in the frames of one connection, which it takes in order.

    Attributes:
        handlers: the name of a performative, method or command -> the name of the method that takes it.
        refusals: names of those that refuse something, whatever their fields are.
        ends: names of those with a result code, 200 for success.
    """

    handlers: ClassVar[dict[str, str]] = {}
    refusals: ClassVar[frozenset[str]] = frozenset()
    ends: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def take(self, frame: Frame, call: Call) -> None:
        """Take the next frame, and record its problems; frames of other dialects are left alone."""
        if call.name in self.handlers:
            getattr(self, self.handlers[call.name])(frame, call)

    def refused(self, call: Call) -> str | None:
        """Return what a frame refuses or ends with an error, or None."""
        if call.name in self.ends and call.number("reply_code", 200) != 200:
            what = "refused with" if call.name.endswith("-reply") else "ended with"
            return f"{what} {call.fields.get('reply_code')} {call.fields.get('reply_text', '')}"
        return "refused" if call.name in self.refusals else None

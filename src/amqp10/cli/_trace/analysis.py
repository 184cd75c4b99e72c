"""What the frames of a trace mean together: credit, windows and unsettled deliveries over time, and what went wrong.

It reads the lines that the dialects' tracers write, in which secrets are left out, so that a trace file is enough.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

PATIENCE: Final = 1.0
"""Seconds without credit or window, while a sender may have something to send, that are marked."""

UNSETTLED: Final = 5.0
"""Seconds without an outcome that are marked."""

SERIAL: Final = 1 << 32
_ALL: Final = 1 << 64
"""More than any delivery-tag."""
_CALL: Final = re.compile(r"(?:\[(\d{1,5})\] )?([\w.-]+)\(")
_CLOSERS: Final = {"(": ")", "[": "]", "{": "}"}
_REFUSALS: Final = frozenset(
    {"basic.nack", "basic.reject", "basic.return", "message.reject", "execution.exception", "connection.blocked"}
)


@dataclass
class Frame:
    """One line of a trace.

    Attributes:
        number: its place in the trace.
        time: seconds since the trace began.
        connection: its number.
        sent: by the client; else by the server.
        text: the tracer's line, without its direction.
        problems: what is wrong with it, or was until it came.
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
        title: what it is of.
        points: when it changed, and to what.
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
    """A frame taken apart.

    Attributes:
        channel: where; 0 where a line names none.
        name: of the performative, method or command.
        fields: by name, as they are written.
        rest: what follows.
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
    """Return a line's parts; None for one that is no call, such as a header."""
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


class Unsettled:
    """Deliveries without an outcome.

    Attributes:
        since: when each was sent, by its number.
    """

    def __init__(self) -> None:
        self.since: dict[int, float] = {}
        self._numbers: list[int] = []  # sorted, so that a range is found in a trace of however many

    def add(self, number: int, time: float) -> None:
        """Add one that was sent."""
        if number not in self.since:
            insort(self._numbers, number)
        self.since[number] = time

    def remove(self, first: int, last: int) -> float | None:
        """Remove a range that has an outcome, perhaps around the end; return when the oldest was sent."""
        times: list[float] = []
        for begin, end in [(first, last)] if first <= last else [(first, _ALL), (0, last)]:
            here = slice(bisect_left(self._numbers, begin), bisect_right(self._numbers, end))
            times += [self.since.pop(number) for number in self._numbers[here]]
            del self._numbers[here]
        return min(times, default=None)


class Analysis:
    """What became of one connection; fed with its frames in order.

    Attributes:
        curves: by what they are of.
        problems: that have no frame, found at the end.
    """

    def __init__(self) -> None:
        self.curves: dict[object, Curve] = {}
        self.problems: list[str] = []
        self._links: dict[tuple[bool, int, int], tuple[str, bool]] = {}  # by whose handle: name, whether its sender
        self._counts: dict[tuple[str, bool], int] = {}  # deliveries sent on a link
        self._limits: dict[tuple[str, bool], int] = {}  # the count at which its credit ends
        self._partners: dict[tuple[bool, int], int] = {}  # the other side's channel
        self._windows: dict[tuple[bool, int], int] = {}  # frames that a side takes on a channel of the other
        self._ids: dict[tuple[bool, int], int] = {}  # the next transfer-id of a side on its channel
        self._out: dict[tuple[bool, int], Unsettled] = {}  # by sending side and its channel
        self._starved: dict[object, float] = {}  # since when a link has no credit, or a session no window
        self._prefetch: dict[int, int] = {}
        self._now = 0.0
        self._read: dict[str, Callable[[Frame, Call], None]] = {
            "Begin": self._begin,
            "Attach": self._attach,
            "Flow": self._flow,
            "Transfer": self._transfer,
            "Disposition": self._disposition,
            "basic.qos": self._qos,
            "basic.deliver": self._deliver,
            "basic.ack": self._acknowledge,
            "basic.nack": self._acknowledge,
            "basic.reject": self._acknowledge,
        }

    def feed(self, frame: Frame) -> None:
        """Take the next frame, and mark on it what is wrong."""
        self._now = frame.time
        call = take_apart(frame.text)
        if call is None:
            if frame.text.startswith("no "):
                frame.problems.append("cannot be read")
            return
        if refusal := refused(call):
            frame.problems.append(refusal)
        read = self._read.get(call.name)
        if read is not None:
            read(frame, call)

    def end(self) -> None:
        """Say what was left when the trace ended."""
        for (sent, channel), out in self._out.items():
            old = [since for since in out.since.values() if self._now - since >= UNSETTLED]
            if old:
                who = "client" if sent else "server"
                self.problems.append(
                    f"{len(old)} deliveries of the {who} on channel {channel} were unsettled at the end, "
                    f"the oldest for {self._now - min(old):.1f} s"
                )
        for what, since in self._starved.items():
            if self._now - since >= PATIENCE:
                self.problems.append(f"{what} from {since:.3f} s to the end")

    def _curve(self, key: object, title: str) -> Curve:
        return self.curves.setdefault(key, Curve(title))

    # AMQP 1.0

    def _begin(self, frame: Frame, call: Call) -> None:
        here = frame.sent, call.channel
        self._ids[here] = call.number("next_outgoing_id")
        if "remote_channel" in call.fields:
            other = not frame.sent, call.number("remote_channel")
            self._partners[here], self._partners[other] = other[1], call.channel
            self._set_window(frame, other, call.number("incoming_window"))
        else:
            self._windows[frame.sent, -1 - call.channel] = call.number("incoming_window")  # until it is answered
        if "remote_channel" in call.fields:
            waiting = self._windows.pop((not frame.sent, -1 - call.number("remote_channel")), None)
            if waiting is not None:
                self._set_window(frame, here, waiting)

    def _set_window(self, frame: Frame, sender: tuple[bool, int], window: int) -> None:
        """Note how many frames the other side takes of those that a side sends on its channel."""
        self._windows[sender] = window
        who = "server" if sender[0] else "client"
        self._curve(("window", *sender), f"frames that the {who} takes, channel {sender[1]}").add(frame.time, window)
        self._note_starving(frame, f"no window of the {who} on channel {sender[1]}", window <= 0)

    def _note_starving(self, frame: Frame, what: str, starves: bool) -> None:
        if starves:
            self._starved.setdefault(what, frame.time)
            return
        since = self._starved.pop(what, None)
        if since is not None and frame.time - since >= PATIENCE:
            frame.problems.append(f"{what} for {frame.time - since:.1f} s")

    def _attach(self, frame: Frame, call: Call) -> None:
        name, sends = call.fields.get("name", ""), call.fields.get("role") != "True"
        link = name, frame.sent is sends  # its sender is the client
        self._links[frame.sent, call.channel, call.number("handle")] = link
        if sends:
            self._counts[link] = call.number("initial_delivery_count")

    def _flow(self, frame: Frame, call: Call) -> None:
        partner = self._partners.get((frame.sent, call.channel))
        if partner is not None:
            sender = not frame.sent, partner
            seen = call.number("next_incoming_id", self._ids.get(sender, 0))
            under_way = (self._ids.get(sender, 0) - seen) % SERIAL
            self._set_window(frame, sender, max(0, call.number("incoming_window") - under_way))
        link = self._links.get((frame.sent, call.channel, call.number("handle", -1)))
        if link is None or "link_credit" not in call.fields:
            return
        if link[1] is frame.sent:  # by its sender: it has given credit back, perhaps
            self._counts[link] = call.number("delivery_count", self._counts.get(link, 0))
        else:
            self._limits[link] = call.number("delivery_count", self._counts.get(link, 0)) + call.number("link_credit")
        self._tell_credit(frame, link)

    def _tell_credit(self, frame: Frame, link: tuple[str, bool]) -> None:
        credit = max(0, self._limits.get(link, 0) - self._counts.get(link, 0))
        who = "client" if link[1] else "server"
        self._curve(("credit", *link), f"credit of the {who} on link {link[0]}").add(frame.time, credit)
        # A receiver that wants nothing more grants nothing: only a client that sends is held up by it.
        self._note_starving(frame, f"no credit for the client on link {link[0]}", link[1] and credit <= 0)

    def _transfer(self, frame: Frame, call: Call) -> None:
        sender = frame.sent, call.channel
        self._ids[sender] = (self._ids.get(sender, 0) + 1) % SERIAL
        if sender in self._windows:
            self._set_window(frame, sender, self._windows[sender] - 1)
            if self._windows[sender] < 0:
                frame.problems.append("beyond the window")
        link = self._links.get((frame.sent, call.channel, call.number("handle", -1)))
        if link is None or "delivery_id" not in call.fields:
            return
        self._counts[link] = self._counts.get(link, 0) + 1
        if self._counts[link] > self._limits.get(link, 0):
            frame.problems.append("without credit")
        self._tell_credit(frame, link)
        if call.fields.get("settled") != "True":
            self._out.setdefault(sender, Unsettled()).add(call.number("delivery_id"), frame.time)
            self._tell_unsettled(frame, sender)

    def _disposition(self, frame: Frame, call: Call) -> None:
        by_receiver = call.fields.get("role") == "True"
        channel = self._partners.get((frame.sent, call.channel), call.channel) if by_receiver else call.channel
        sender = (not frame.sent if by_receiver else frame.sent), channel
        if call.fields.get("settled") == "True":
            first = call.number("first")
            self._settled(frame, sender, first, call.number("last", first))

    def _settled(self, frame: Frame, sender: tuple[bool, int], first: int, last: int) -> None:
        oldest = self._out.setdefault(sender, Unsettled()).remove(first, last)
        if oldest is not None and frame.time - oldest >= UNSETTLED:
            frame.problems.append(f"unsettled for {frame.time - oldest:.1f} s")
        self._tell_unsettled(frame, sender)

    def _tell_unsettled(self, frame: Frame, sender: tuple[bool, int]) -> None:
        who = "client" if sender[0] else "server"
        count = self._unsettled_of(sender)
        self._curve(("unsettled", *sender), f"unsettled deliveries of the {who}, channel {sender[1]}").add(
            frame.time, count
        )

    def _unsettled_of(self, sender: tuple[bool, int]) -> int:
        return len(self._out[sender].since) if sender in self._out else 0

    # AMQP 0-9-1

    def _qos(self, frame: Frame, call: Call) -> None:
        self._prefetch[call.channel] = call.number("prefetch_count")

    def _deliver(self, frame: Frame, call: Call) -> None:
        sender = False, call.channel
        self._out.setdefault(sender, Unsettled()).add(call.number("delivery_tag"), frame.time)
        self._tell_unsettled(frame, sender)
        self._tell_prefetch(frame, call.channel)

    def _acknowledge(self, frame: Frame, call: Call) -> None:
        if not frame.sent:
            return  # a confirm
        sender = False, call.channel
        tag = call.number("delivery_tag")
        several = call.fields.get("multiple") == "True"
        self._settled(frame, sender, 0 if several else tag, tag or _ALL)
        self._tell_prefetch(frame, call.channel)

    def _tell_prefetch(self, frame: Frame, channel: int) -> None:
        limit = self._prefetch.get(channel)
        if limit:
            left = max(0, limit - self._unsettled_of((False, channel)))
            self._curve(("credit", channel), f"deliveries that the client takes, channel {channel}").add(
                frame.time, left
            )
            self._note_starving(frame, f"prefetch used up on channel {channel}", left <= 0)


def refused(call: Call) -> str | None:
    """Return what a frame refuses or breaks off; None for one that does not."""
    if call.name in ("Close", "End", "Detach") and "error" in call.fields:
        return f"ended with {call.fields['error']}"
    if call.name == "SaslOutcome" and call.number("code"):
        return f"the login was refused (code {call.number('code')})"
    if call.name == "Disposition" and call.fields.get("state", "").startswith("Rejected"):
        return "rejected"
    if call.name in ("connection.close", "channel.close") and call.number("reply_code", 200) != 200:
        return f"ended with {call.fields.get('reply_code')} {call.fields.get('reply_text', '')}"
    if call.name == "session.detached" and call.number("code"):
        return f"ended with {call.number('code')}"
    return "refused" if call.name in _REFUSALS else None


def analyze(frames: list[Frame]) -> dict[int, Analysis]:
    """Mark the problems on these frames; return what was found of each connection."""
    found: dict[int, Analysis] = {}
    for frame in frames:
        found.setdefault(frame.connection, Analysis()).feed(frame)
    for analysis in found.values():
        analysis.end()
    return found

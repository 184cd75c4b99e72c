"""Analyzes the frames of a trace: credit, windows and unsettled deliveries over time, and problems.

It reads the lines of the dialects' tracers, which have no secrets, so a trace file suffices.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from ..._arguments import counted

STARVED: Final = 1.0
"""Seconds without credit or window, while a sender may have messages, that count as a problem."""

UNSETTLED: Final = 5.0
"""Seconds without an outcome that count as a problem."""

SERIAL: Final = 1 << 32
_ALL: Final = 1 << 64
"""More than any delivery-tag."""
_CALL: Final = re.compile(r"(?:\[(\d{1,5})\] )?([\w.-]+)\(")
_RANGE: Final = re.compile(r"\((\d{1,10}), (\d{1,10})\)")
_CLOSERS: Final = {"(": ")", "[": "]", "{": "}"}
_UNLIMITED: Final = 0xFFFF_FFFF
"""Unlimited credit of 0-10."""

_CLASSES_WITHOUT_NUMBERS: Final = ("connection.", "session.")
"""The prefixes of 0-10's controls, which unlike commands have no numbers."""

_ENDS: Final = frozenset(
    {"connection.close", "channel.close", "connection-close", "channel-close", "handle-close"}
    | {"connection-reply", "channel-reply", "handle-reply"}
)
"""Methods and commands with a result code, 200 for success."""

_REFUSALS: Final = frozenset(
    {"basic.nack", "basic.reject", "basic.return", "message.reject", "execution.exception", "connection.blocked"}
)


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


class Unsettled:
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
        for begin, end in [(first, last)] if first <= last else [(first, _ALL), (0, last)]:
            here = slice(bisect_left(self._numbers, begin), bisect_right(self._numbers, end))
            removed.update((number, self.since.pop(number)) for number in self._numbers[here])
            del self._numbers[here]
        return removed


@dataclass
class Subscription:
    """Credit for a destination of 0-10.

    Attributes:
        left: the number of messages that may still be sent; None without limit.
        window: whether, in window mode, a completed transfer returns its credit.
    """

    left: int | None = 0
    window: bool = True


@dataclass
class Handle:
    """A handle of Fast.

    Attributes:
        channel: the channel on which it was opened.
        prefetch: the number of messages that the client takes; None if it does not consume.
        paused: whether the client has paused.
        unacknowledged: the number of unacknowledged messages.
    """

    channel: int
    prefetch: int | None = None
    paused: bool = False
    unacknowledged: int = 0


class Analysis:
    """The analysis of one connection, which takes its frames in order.

    Attributes:
        curves: the curves by key.
        problems: problems without a frame, found at the end.
    """

    def __init__(self) -> None:
        self.curves: dict[object, Curve] = {}
        self.problems: list[str] = []
        self._links: dict[tuple[bool, int, int], tuple[str, bool]] = {}  # by side and handle: name, client sends
        self._counts: dict[tuple[str, bool], int] = {}  # the number of deliveries sent on a link
        self._limits: dict[tuple[str, bool], int] = {}  # the count at which the credit ends
        self._partners: dict[tuple[bool, int], int] = {}  # the channel of the other side
        self._windows: dict[tuple[bool, int], int] = {}  # frames that a side accepts on a channel of the other
        self._ids: dict[tuple[bool, int], int] = {}  # the next transfer-id of a side on its channel
        self._out: dict[tuple[bool, str], Unsettled] = {}  # by sending side and its place, such as "channel 1"
        self._starved: dict[object, float] = {}  # the time since when a link has no credit, or a session no window
        self._prefetch: dict[int, int] = {}
        self._commands: dict[tuple[bool, int], int] = {}  # the number of a side's next command in a session of 0-10
        self._subscriptions: dict[tuple[bool, int, str], Subscription] = {}  # by sending side, channel, destination
        self._incomplete: dict[tuple[bool, int], Unsettled] = {}  # transfers that have not returned their credit
        self._granted: dict[tuple[bool, int, int], str] = {}  # their destinations, by side, channel and number
        self._handles: dict[int, Handle] = {}
        self._taken_by: dict[tuple[int, int], int] = {}  # handles, by channel and number of a message
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
            "session.attach": self._attach_session,
            "session.attached": self._attach_session,
            "session.command-point": self._set_next_command,
            "session.completed": self._complete,
            "message.set-flow-mode": self._set_flow_mode,
            "message.flow": self._grant,
            "message.stop": self._stop,
            "message.cancel": self._cancel,
            "message.accept": self._settle_transfers,
            "message.reject": self._settle_transfers,
            "message.release": self._settle_transfers,
            "handle-open": self._open_handle,
            "handle-consume": self._consume,
            "handle-flow": self._pause,
            "handle-send": self._send_on_handle,
            "handle-reply": self._reply_on_handle,
            "handle-notify": self._notify,
            "channel-ack": self._acknowledge_channel,
        }

    def feed(self, frame: Frame) -> None:
        """Take the next frame, and record its problems."""
        self._now = frame.time
        call = take_apart(frame.text)
        if call is None:
            if frame.text.startswith("no "):
                frame.problems.append("cannot be read")
            return
        if refusal := refused(call):
            frame.problems.append(refusal)
        here = frame.sent, call.channel
        if here in self._commands and not call.name.startswith(_CLASSES_WITHOUT_NUMBERS):
            number = self._commands[here]
            self._commands[here] = (number + 1) % SERIAL
            if call.name == "message.transfer":
                self._transfer_command(frame, call, number)
        read = self._read.get(call.name)
        if read is not None:
            read(frame, call)

    def end(self) -> None:
        """Record the problems at the end of the trace."""
        for (sent, place), out in self._out.items():
            old = [since for since in out.since.values() if self._now - since >= UNSETTLED]
            if old:
                who = "client" if sent else "server"
                were = "was" if len(old) == 1 else "were"
                self.problems.append(
                    f"{counted(len(old), 'delivery')} of the {who} on {place} {were} unsettled at the end, "
                    f"the oldest for {self._now - min(old):.1f} s"
                )
        for what, since in self._starved.items():
            if self._now - since >= STARVED:
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
            self._windows[frame.sent, -1 - call.channel] = call.number("incoming_window")  # until answered
        if "remote_channel" in call.fields:
            waiting = self._windows.pop((not frame.sent, -1 - call.number("remote_channel")), None)
            if waiting is not None:
                self._set_window(frame, here, waiting)

    def _set_window(self, frame: Frame, sender: tuple[bool, int], window: int) -> None:
        """Record how many frames the other side accepts on a side's channel."""
        self._windows[sender] = window
        who = "server" if sender[0] else "client"
        self._curve(("window", *sender), f"frames that the {who} takes, channel {sender[1]}").add(frame.time, window)
        self._note_starving(frame, f"no window of the {who} on channel {sender[1]}", window <= 0)

    def _note_starving(self, frame: Frame, what: str, starves: bool) -> None:
        if starves:
            self._starved.setdefault(what, frame.time)
            return
        since = self._starved.pop(what, None)
        if since is not None and frame.time - since >= STARVED:
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
        if link[1] is frame.sent:  # from the sender, which may have returned credit
            self._counts[link] = call.number("delivery_count", self._counts.get(link, 0))
        else:
            self._limits[link] = call.number("delivery_count", self._counts.get(link, 0)) + call.number("link_credit")
        self._tell_credit(frame, link)

    def _tell_credit(self, frame: Frame, link: tuple[str, bool]) -> None:
        credit = max(0, self._limits.get(link, 0) - self._counts.get(link, 0))
        who = "client" if link[1] else "server"
        self._curve(("credit", *link), f"credit of the {who} on link {link[0]}").add(frame.time, credit)
        # A receiver may want no more messages, so missing credit is a problem only for a sending client.
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
            self._add_unsettled(frame, (frame.sent, f"channel {call.channel}"), call.number("delivery_id"))

    def _disposition(self, frame: Frame, call: Call) -> None:
        by_receiver = call.fields.get("role") == "True"
        channel = self._partners.get((frame.sent, call.channel), call.channel) if by_receiver else call.channel
        sender = (not frame.sent if by_receiver else frame.sent), f"channel {channel}"
        if call.fields.get("settled") == "True":
            first = call.number("first")
            self._settled(frame, sender, first, call.number("last", first))

    def _add_unsettled(self, frame: Frame, sender: tuple[bool, str], number: int) -> None:
        self._out.setdefault(sender, Unsettled()).add(number, frame.time)
        self._tell_unsettled(frame, sender)

    def _settled(self, frame: Frame, sender: tuple[bool, str], first: int, last: int) -> Iterable[int]:
        """Record the outcome of a range; return the deliveries that had no outcome before."""
        removed = self._out.setdefault(sender, Unsettled()).remove(first, last)
        oldest = min(removed.values(), default=frame.time)
        if frame.time - oldest >= UNSETTLED:
            frame.problems.append(f"unsettled for {frame.time - oldest:.1f} s")
        self._tell_unsettled(frame, sender)
        return removed

    def _tell_unsettled(self, frame: Frame, sender: tuple[bool, str]) -> None:
        who = "client" if sender[0] else "server"
        count = len(self._out[sender].since)
        self._curve(("unsettled", *sender), f"unsettled deliveries of the {who}, {sender[1]}").add(frame.time, count)

    # AMQP 0-9-1

    def _qos(self, frame: Frame, call: Call) -> None:
        self._prefetch[call.channel] = call.number("prefetch_count")

    def _deliver(self, frame: Frame, call: Call) -> None:
        self._add_unsettled(frame, (False, f"channel {call.channel}"), call.number("delivery_tag"))
        self._tell_prefetch(frame, call.channel)

    def _acknowledge(self, frame: Frame, call: Call) -> None:
        if not frame.sent:
            return  # a confirm
        sender = False, f"channel {call.channel}"
        tag = call.number("delivery_tag")
        several = call.fields.get("multiple") == "True"
        self._settled(frame, sender, 0 if several else tag, tag or _ALL)
        self._tell_prefetch(frame, call.channel)

    def _tell_prefetch(self, frame: Frame, channel: int) -> None:
        limit = self._prefetch.get(channel)
        if limit:
            out = self._out.get((False, f"channel {channel}"))
            self._tell_left(frame, f"channel {channel}", limit - (len(out.since) if out is not None else 0))

    def _tell_left(self, frame: Frame, place: str, left: int, paused: bool = False) -> None:
        """Record how many deliveries the client still accepts."""
        left = 0 if paused else max(0, left)
        self._curve(("credit", place), f"deliveries that the client takes, {place}").add(frame.time, left)
        self._note_starving(frame, f"prefetch used up on {place}", left <= 0 and not paused)

    # AMQP 0-10

    def _attach_session(self, frame: Frame, call: Call) -> None:
        self._commands[frame.sent, call.channel] = 0

    def _set_next_command(self, frame: Frame, call: Call) -> None:
        self._commands[frame.sent, call.channel] = call.number("command_id")

    def _transfer_command(self, frame: Frame, call: Call, number: int) -> None:
        sender = frame.sent, f"channel {call.channel}"
        if frame.sent or call.number("accept_mode") == 0:  # a server's transfers are settled by completion
            self._add_unsettled(frame, sender, number)
        key = frame.sent, call.channel, call.fields.get("destination", "''")
        subscription = self._subscriptions.get(key)
        if subscription is None or subscription.left is None:
            return
        if subscription.left <= 0:
            frame.problems.append("without credit")
        subscription.left -= 1
        self._incomplete.setdefault(key[:2], Unsettled()).add(number, frame.time)
        self._granted[*key[:2], number] = key[2]
        self._tell_subscription(frame, key)

    def _complete(self, frame: Frame, call: Call) -> None:
        side = not frame.sent, call.channel
        sender = side[0], f"channel {call.channel}"
        for first, last in _ranges(call, "commands"):
            if side in self._incomplete:
                for number in self._incomplete[side].remove(first, last):
                    self._give_back(frame, (*side, self._granted.pop((*side, number))))
            if side[0] and sender in self._out:
                self._settled(frame, sender, first, last)

    def _give_back(self, frame: Frame, key: tuple[bool, int, str]) -> None:
        """Record the completion of a transfer, which in window mode returns its credit."""
        subscription = self._subscriptions.get(key)
        if subscription is not None and subscription.window and subscription.left is not None:
            subscription.left += 1
            self._tell_subscription(frame, key)

    def _settle_transfers(self, frame: Frame, call: Call) -> None:
        sender = not frame.sent, f"channel {call.channel}"
        for first, last in _ranges(call, "transfers"):
            if sender in self._out:
                self._settled(frame, sender, first, last)

    def _subscription(self, frame: Frame, call: Call) -> tuple[tuple[bool, int, str], Subscription]:
        """Return the subscription of a receiver's command."""
        key = not frame.sent, call.channel, call.fields.get("destination", "''")
        return key, self._subscriptions.setdefault(key, Subscription())

    def _set_flow_mode(self, frame: Frame, call: Call) -> None:
        key, subscription = self._subscription(frame, call)
        subscription.left, subscription.window = 0, call.number("flow_mode") == 1
        self._tell_subscription(frame, key)

    def _grant(self, frame: Frame, call: Call) -> None:
        if call.number("unit"):
            return  # of octets
        key, subscription = self._subscription(frame, call)
        value = call.number("value", _UNLIMITED)
        if value >= _UNLIMITED:
            subscription.left = None
        elif subscription.left is not None:
            subscription.left += value
        self._tell_subscription(frame, key)

    def _stop(self, frame: Frame, call: Call) -> None:
        key, subscription = self._subscription(frame, call)
        subscription.left = 0
        self._tell_subscription(frame, key)

    def _cancel(self, frame: Frame, call: Call) -> None:
        key, _ = self._subscription(frame, call)
        del self._subscriptions[key]

    def _tell_subscription(self, frame: Frame, key: tuple[bool, int, str]) -> None:
        sent, channel, destination = key
        who, left = "client" if sent else "server", self._subscriptions[key].left
        if left is not None:
            title = f"credit of the {who} for {destination}, channel {channel}"
            self._curve(("credit", *key), title).add(frame.time, max(0, left))
        what = f"no credit for the client for {destination} on channel {channel}"
        self._note_starving(frame, what, sent and left is not None and left <= 0)

    # AMQP/Fast

    def _open_handle(self, frame: Frame, call: Call) -> None:
        self._handles[call.number("handle_id")] = Handle(call.number("channel_id"))

    def _consume(self, frame: Frame, call: Call) -> None:
        if call.fields.get("unreliable") != "True":  # without acknowledgments there is no limit
            self._change_handle(frame, call, prefetch=call.number("prefetch"))

    def _pause(self, frame: Frame, call: Call) -> None:
        self._change_handle(frame, call, paused=call.fields.get("flow_pause") == "True")

    def _change_handle(
        self, frame: Frame, call: Call, *, prefetch: int | None = None, paused: bool | None = None
    ) -> None:
        handle = self._handles.get(call.number("handle_id"))
        if handle is not None:
            handle.prefetch = handle.prefetch if prefetch is None else prefetch
            handle.paused = handle.paused if paused is None else paused
            self._tell_handle(frame, call.number("handle_id"), handle)

    def _send_on_handle(self, frame: Frame, call: Call) -> None:
        if "confirm_tag" in call.fields:
            self._add_unsettled(frame, (True, f"handle {call.number('handle_id')}"), call.number("confirm_tag"))

    def _reply_on_handle(self, frame: Frame, call: Call) -> None:
        sender, tag = (True, f"handle {call.number('handle_id')}"), call.number("confirm_tag")
        if sender in self._out:
            self._settled(frame, sender, tag, tag)

    def _notify(self, frame: Frame, call: Call) -> None:
        handle = self._handles.get(call.number("handle_id"))
        if handle is None or handle.prefetch is None or call.fields.get("delivered") != "True":
            return
        message = handle.channel, call.number("message_nbr")
        if message not in self._taken_by:  # otherwise a further part
            self._taken_by[message] = call.number("handle_id")
            handle.unacknowledged += 1
        self._add_unsettled(frame, (False, f"channel {handle.channel}"), message[1])
        self._tell_handle(frame, call.number("handle_id"), handle)

    def _acknowledge_channel(self, frame: Frame, call: Call) -> None:
        channel, sender = call.number("channel_id"), (False, f"channel {call.number('channel_id')}")
        if sender not in self._out:
            return
        for message in self._settled(frame, sender, 0, call.number("message_nbr")):
            number = self._taken_by.pop((channel, message))
            handle = self._handles[number]
            handle.unacknowledged = max(0, handle.unacknowledged - 1)  # it may have been reopened
            self._tell_handle(frame, number, handle)

    def _tell_handle(self, frame: Frame, number: int, handle: Handle) -> None:
        if handle.prefetch is not None:
            self._tell_left(frame, f"handle {number}", handle.prefetch - handle.unacknowledged, handle.paused)


def _ranges(call: Call, name: str) -> list[tuple[int, int]]:
    """Return the ranges of command-ids that a field lists."""
    return [(int(first), int(last)) for first, last in _RANGE.findall(call.fields.get(name, ""))]


def refused(call: Call) -> str | None:
    """Return what a frame refuses or ends with an error, or None."""
    if call.name in ("Close", "End", "Detach") and "error" in call.fields:
        return f"ended with {call.fields['error']}"
    if call.name == "SaslOutcome" and call.number("code"):
        return f"the login was refused (code {call.number('code')})"
    if call.name == "Disposition" and call.fields.get("state", "").startswith("Rejected"):
        return "rejected"
    if call.name in _ENDS and call.number("reply_code", 200) != 200:
        what = "refused with" if call.name.endswith("-reply") else "ended with"
        return f"{what} {call.fields.get('reply_code')} {call.fields.get('reply_text', '')}"
    if call.name == "session.detached" and call.number("code"):
        return f"ended with {call.number('code')}"
    return "refused" if call.name in _REFUSALS else None


def analyze(frames: list[Frame]) -> dict[int, Analysis]:
    """Record the problems on `frames`; return the analysis of each connection."""
    found: dict[int, Analysis] = {}
    for frame in frames:
        found.setdefault(frame.connection, Analysis()).feed(frame)
    for analysis in found.values():
        analysis.end()
    return found

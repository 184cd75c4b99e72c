"""The analysis of the lines of `trace`: the credit of subscriptions, and transfers without an outcome (0-10 §10.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from ....engine.trace_analysis import Call, Findings, Frame, TraceAnalysis, UnsettledNumbers

SERIAL: Final = 1 << 32
_RANGE: Final = re.compile(r"\((\d{1,10}), (\d{1,10})\)")
_UNLIMITED: Final = 0xFFFF_FFFF
"""Unlimited credit."""
_CONTROLS: Final = ("connection.", "session.")
"""The prefixes of controls, which unlike commands have no numbers."""


@dataclass
class Subscription:
    """Credit for a destination.

    Attributes:
        left: the number of messages that may still be sent; None without limit.
        window: whether, in window mode, a completed transfer returns its credit.
    """

    left: int | None = 0
    window: bool = True


class CommandAnalysis(TraceAnalysis):
    """See `TraceAnalysis`."""

    handlers: ClassVar[dict[str, str]] = {
        "session.attach": "_attach_session",
        "session.attached": "_attach_session",
        "session.command-point": "_set_next_command",
        "session.completed": "_complete",
        "message.set-flow-mode": "_set_flow_mode",
        "message.flow": "_grant",
        "message.stop": "_stop",
        "message.cancel": "_cancel",
        "message.accept": "_settle_transfers",
        "message.reject": "_settle_transfers",
        "message.release": "_settle_transfers",
    }
    refusals: ClassVar[frozenset[str]] = frozenset({"message.reject", "execution.exception"})
    ends: ClassVar[frozenset[str]] = frozenset({"connection.close"})

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._commands: dict[tuple[bool, int], int] = {}  # the number of a side's next command in a session
        self._subscriptions: dict[tuple[bool, int, str], Subscription] = {}  # by sending side, channel, destination
        self._incomplete: dict[tuple[bool, int], UnsettledNumbers] = {}  # transfers that have not returned their credit
        self._granted: dict[tuple[bool, int, int], str] = {}  # their destinations, by side, channel and number

    def take(self, frame: Frame, call: Call) -> None:
        here = frame.sent, call.channel
        if here in self._commands and not call.name.startswith(_CONTROLS):
            number = self._commands[here]
            self._commands[here] = (number + 1) % SERIAL
            if call.name == "message.transfer":
                self._transfer_command(frame, call, number)
        super().take(frame, call)

    def refused(self, call: Call) -> str | None:
        if call.name == "session.detached" and call.number("code"):
            return f"ended with {call.number('code')}"
        return super().refused(call)

    def _attach_session(self, frame: Frame, call: Call) -> None:
        self._commands[frame.sent, call.channel] = 0

    def _set_next_command(self, frame: Frame, call: Call) -> None:
        self._commands[frame.sent, call.channel] = call.number("command_id")

    def _transfer_command(self, frame: Frame, call: Call, number: int) -> None:
        sender = frame.sent, f"channel {call.channel}"
        if frame.sent or call.number("accept_mode") == 0:  # a server's transfers are settled by completion
            self.findings.add_unsettled(frame, sender, number)
        key = frame.sent, call.channel, call.fields.get("destination", "''")
        subscription = self._subscriptions.get(key)
        if subscription is None or subscription.left is None:
            return
        if subscription.left <= 0:
            frame.problems.append("without credit")
        subscription.left -= 1
        self._incomplete.setdefault(key[:2], UnsettledNumbers()).add(number, frame.time)
        self._granted[*key[:2], number] = key[2]
        self._tell_subscription(frame, key)

    def _complete(self, frame: Frame, call: Call) -> None:
        side = not frame.sent, call.channel
        sender = side[0], f"channel {call.channel}"
        for first, last in _ranges(call, "commands"):
            if side in self._incomplete:
                for number in self._incomplete[side].remove(first, last):
                    self._give_back(frame, (*side, self._granted.pop((*side, number))))
            if side[0] and sender in self.findings.unsettled:
                self.findings.settled(frame, sender, first, last)

    def _give_back(self, frame: Frame, key: tuple[bool, int, str]) -> None:
        """Record the completion of a transfer, which in window mode returns its credit."""
        subscription = self._subscriptions.get(key)
        if subscription is not None and subscription.window and subscription.left is not None:
            subscription.left += 1
            self._tell_subscription(frame, key)

    def _settle_transfers(self, frame: Frame, call: Call) -> None:
        sender = not frame.sent, f"channel {call.channel}"
        for first, last in _ranges(call, "transfers"):
            if sender in self.findings.unsettled:
                self.findings.settled(frame, sender, first, last)

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
            self.findings.curve(("credit", *key), title).add(frame.time, max(0, left))
        what = f"no credit for the client for {destination} on channel {channel}"
        self.findings.note_starving(frame, what, sent and left is not None and left <= 0)


def _ranges(call: Call, name: str) -> list[tuple[int, int]]:
    """Return the ranges of command-ids that a field lists."""
    return [(int(first), int(last)) for first, last in _RANGE.findall(call.fields.get(name, ""))]

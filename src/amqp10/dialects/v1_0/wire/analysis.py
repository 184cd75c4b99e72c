"""The analysis of the lines of `trace`: windows of sessions (§2.5.6), credit of links, and unsettled deliveries."""

from __future__ import annotations

from typing import ClassVar, Final

from ....engine.trace_analysis import Call, Findings, Frame, TraceAnalysis

SERIAL: Final = 1 << 32


class FrameAnalysis(TraceAnalysis):
    """See `TraceAnalysis`."""

    handlers: ClassVar[dict[str, str]] = {
        "Begin": "_begin",
        "Attach": "_attach",
        "Flow": "_flow",
        "Transfer": "_transfer",
        "Disposition": "_disposition",
    }

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._links: dict[tuple[bool, int, int], tuple[str, bool]] = {}  # by side and handle: name, client sends
        self._counts: dict[tuple[str, bool], int] = {}  # the number of deliveries sent on a link
        self._limits: dict[tuple[str, bool], int] = {}  # the count at which the credit ends
        self._partners: dict[tuple[bool, int], int] = {}  # the channel of the other side
        self._windows: dict[tuple[bool, int], int] = {}  # frames that a side accepts on a channel of the other
        self._ids: dict[tuple[bool, int], int] = {}  # the next transfer-id of a side on its channel

    def refused(self, call: Call) -> str | None:
        if call.name in ("Close", "End", "Detach") and "error" in call.fields:
            return f"ended with {call.fields['error']}"
        if call.name == "SaslOutcome" and call.number("code"):
            return f"the login was refused (code {call.number('code')})"
        rejects = call.name == "Disposition" and call.fields.get("state", "").startswith("Rejected")
        return "rejected" if rejects else None

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
        self.findings.curve(("window", *sender), f"frames that the {who} takes, channel {sender[1]}").add(
            frame.time, window
        )
        self.findings.note_starving(frame, f"no window of the {who} on channel {sender[1]}", window <= 0)

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
        self.findings.curve(("credit", *link), f"credit of the {who} on link {link[0]}").add(frame.time, credit)
        # A receiver may want no more messages, so missing credit is a problem only for a sending client.
        self.findings.note_starving(frame, f"no credit for the client on link {link[0]}", link[1] and credit <= 0)

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
            self.findings.add_unsettled(frame, (frame.sent, f"channel {call.channel}"), call.number("delivery_id"))

    def _disposition(self, frame: Frame, call: Call) -> None:
        by_receiver = call.fields.get("role") == "True"
        channel = self._partners.get((frame.sent, call.channel), call.channel) if by_receiver else call.channel
        sender = (not frame.sent if by_receiver else frame.sent), f"channel {channel}"
        if call.fields.get("settled") == "True":
            first = call.number("first")
            self.findings.settled(frame, sender, first, call.number("last", first))

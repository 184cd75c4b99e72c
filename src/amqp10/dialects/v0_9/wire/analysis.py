"""The analysis of the lines of `trace`: what the prefetch leaves, and deliveries without an ack (0-9-1 §1.8.3)."""

from __future__ import annotations

from typing import ClassVar

from ....engine.trace_analysis import ALL, Call, Findings, Frame, TraceAnalysis


class MethodAnalysis(TraceAnalysis):
    """See `TraceAnalysis`."""

    handlers: ClassVar[dict[str, str]] = {
        "basic.qos": "_qos",
        "basic.deliver": "_deliver",
        "basic.ack": "_acknowledge",
        "basic.nack": "_acknowledge",
        "basic.reject": "_acknowledge",
    }
    refusals: ClassVar[frozenset[str]] = frozenset({"basic.nack", "basic.reject", "basic.return", "connection.blocked"})
    ends: ClassVar[frozenset[str]] = frozenset({"connection.close", "channel.close"})

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._prefetch: dict[int, int] = {}

    def _qos(self, frame: Frame, call: Call) -> None:
        self._prefetch[call.channel] = call.number("prefetch_count")

    def _deliver(self, frame: Frame, call: Call) -> None:
        self.findings.add_unsettled(frame, (False, f"channel {call.channel}"), call.number("delivery_tag"))
        self._tell_prefetch(frame, call.channel)

    def _acknowledge(self, frame: Frame, call: Call) -> None:
        if not frame.sent:
            return  # a confirm
        sender = False, f"channel {call.channel}"
        tag = call.number("delivery_tag")
        several = call.fields.get("multiple") == "True"
        self.findings.settled(frame, sender, 0 if several else tag, tag or ALL)
        self._tell_prefetch(frame, call.channel)

    def _tell_prefetch(self, frame: Frame, channel: int) -> None:
        limit = self._prefetch.get(channel)
        if limit:
            out = self.findings.unsettled.get((False, f"channel {channel}"))
            self.findings.tell_left(frame, f"channel {channel}", limit - (len(out.since) if out is not None else 0))

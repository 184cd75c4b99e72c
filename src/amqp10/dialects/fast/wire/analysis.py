"""The analysis of the lines of `trace`: what the prefetch of handles leaves, and messages without an acknowledgment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....engine.trace_analysis import Call, Findings, Frame, TraceAnalysis


@dataclass
class Handle:
    """A handle.

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


class CommandAnalysis(TraceAnalysis):
    """See `TraceAnalysis`."""

    handlers: ClassVar[dict[str, str]] = {
        "handle-open": "_open_handle",
        "handle-consume": "_consume",
        "handle-flow": "_pause",
        "handle-send": "_send_on_handle",
        "handle-reply": "_reply_on_handle",
        "handle-notify": "_notify",
        "channel-ack": "_acknowledge_channel",
    }
    ends: ClassVar[frozenset[str]] = frozenset(
        f"{what}-{how}" for what in ("connection", "channel", "handle") for how in ("close", "reply")
    )

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._handles: dict[int, Handle] = {}
        self._taken_by: dict[tuple[int, int], int] = {}  # handles, by channel and number of a message

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
            self.findings.add_unsettled(frame, (True, f"handle {call.number('handle_id')}"), call.number("confirm_tag"))

    def _reply_on_handle(self, frame: Frame, call: Call) -> None:
        sender, tag = (True, f"handle {call.number('handle_id')}"), call.number("confirm_tag")
        if sender in self.findings.unsettled:
            self.findings.settled(frame, sender, tag, tag)

    def _notify(self, frame: Frame, call: Call) -> None:
        handle = self._handles.get(call.number("handle_id"))
        if handle is None or handle.prefetch is None or call.fields.get("delivered") != "True":
            return
        message = handle.channel, call.number("message_nbr")
        if message not in self._taken_by:  # otherwise a further part
            self._taken_by[message] = call.number("handle_id")
            handle.unacknowledged += 1
        self.findings.add_unsettled(frame, (False, f"channel {handle.channel}"), message[1])
        self._tell_handle(frame, call.number("handle_id"), handle)

    def _acknowledge_channel(self, frame: Frame, call: Call) -> None:
        channel, sender = call.number("channel_id"), (False, f"channel {call.number('channel_id')}")
        if sender not in self.findings.unsettled:
            return
        for message in self.findings.settled(frame, sender, 0, call.number("message_nbr")):
            number = self._taken_by.pop((channel, message))
            handle = self._handles[number]
            handle.unacknowledged = max(0, handle.unacknowledged - 1)  # it may have been reopened
            self._tell_handle(frame, number, handle)

    def _tell_handle(self, frame: Frame, number: int, handle: Handle) -> None:
        if handle.prefetch is not None:
            self.findings.tell_left(frame, f"handle {number}", handle.prefetch - handle.unacknowledged, handle.paused)

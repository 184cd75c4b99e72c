"""Reads what two engines write to each other, and holds it to the rules on its own account (§2.5.6, §2.6.7, §2.7).

It shares nothing with the engines but the reading of frames: windows and credit are counted anew here, from what each
side had heard when it wrote.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from amqp10.dialects.v1_0.wire.frames import FrameReader
from amqp10.testing import Attach, Begin, Close, Detach, End, Flow, Transfer

OTHER = {"client": "server", "server": "client"}


def ahead(one: int, other: int) -> int:
    """How far a serial number is ahead of another (RFC 1982)."""
    return (one - other + 2**31) % 2**32 - 2**31


@dataclass
class LinkBook:
    """A link that one side has attached, by its handle there."""

    name: str
    sends: bool
    first: int  # the sender's delivery-count when it attached
    begun: int = 0
    skipped: int = 0
    open: int | None = None  # the delivery that is not whole yet
    granted: int = 0  # how far the receiver let it go, by all that the sender has heard


@dataclass
class SessionBook:
    """A session as one side has begun it, by its channel there."""

    label: str
    first: int
    window: int
    next_delivery: int | None = None
    sent: int = 0
    allowed: int = 0  # transfers, by all that this side has heard
    handles: dict[int, LinkBook] = field(default_factory=dict)


class Referee:
    """Watches both directions: `written` when an engine writes, `arrived` when the other one gets it."""

    def __init__(self, client_limit: int, server_limit: int) -> None:
        self.limits = {"client": server_limit, "server": client_limit}  # by who writes
        self._written = {side: FrameReader(1 << 31) for side in OTHER}
        self._arrived = {side: FrameReader(1 << 31) for side in OTHER}
        # What a side has begun, by its own writing; and what the other one knows of that.
        self._books: dict[str, dict[int, SessionBook]] = {side: {} for side in OTHER}
        self._known: dict[str, dict[int, SessionBook]] = {side: {} for side in OTHER}
        self._heard: dict[tuple[str, str], SessionBook] = {}  # (side, label): its own book
        self.closed = dict.fromkeys(OTHER, False)
        self.frames: dict[str, int] = defaultdict(int)

    def written(self, side: str, data: bytes) -> None:
        """That side has written this."""
        reader = self._written[side]
        reader.feed(data)
        while (frame := reader.next()) is not None:
            _, channel, performative, payload = frame
            if performative is not None:
                self.frames[type(performative).__name__] += 1
                size = len(performative.encode()) + len(payload) + 8
                assert size <= self.limits[side] + 16, "a frame larger than the peer takes"
                fault = self._write(side, channel, performative)
                assert not fault, f"{side}: {fault}: {performative}"

    def _write(self, side: str, channel: int, frame: Any) -> str | None:
        kind: Any = type(frame)
        if self.closed[side]:
            return "after close"
        if kind is Close:
            self.closed[side] = True
            return None
        books = self._books[side]
        book = books.get(channel)
        if kind is Begin:
            if book is not None:
                return "a second begin"
            label = frame.properties["label"]
            book = books[channel] = SessionBook(label, frame.next_outgoing_id, frame.incoming_window)
            self._heard[side, label] = book
            theirs = self._heard.get((OTHER[side], label))
            if theirs is not None:
                book.allowed = theirs.window
            return None
        if book is None:
            return "no session"
        if kind is End:
            del books[channel]
        elif kind is Attach:
            if frame.handle in book.handles:
                return "handle in use"
            link = LinkBook(frame.name, not frame.role, frame.initial_delivery_count or 0)
            book.handles[frame.handle] = link
            # Credit may have come before the sender attached.
            for theirs in self._known[OTHER[side]].values():
                for other in theirs.handles.values():
                    if theirs.label == book.label and other.name == link.name and other.sends is not link.sends:
                        link.granted = max(link.granted, other.granted)
        elif kind is Detach:
            if book.handles.pop(frame.handle, None) is None:
                return "not attached"
        elif kind is Transfer:
            return self._transfer(book, frame)
        elif kind is Flow:
            return self._flow(book, frame)
        return None

    def _transfer(self, book: SessionBook, frame: Any) -> str | None:
        link = book.handles.get(frame.handle)
        if link is None or not link.sends:
            return "not attached as a sender"
        book.sent += 1
        if book.sent > book.allowed:
            return f"{book.sent} transfers, {book.allowed} are allowed"
        if link.open is None:
            if frame.aborted:
                return "nothing to abort"
            if book.next_delivery is not None and frame.delivery_id != book.next_delivery:
                return f"the delivery-id is not {book.next_delivery}"
            book.next_delivery = (frame.delivery_id + 1) % 2**32
            link.begun += 1
            if link.begun + link.skipped > link.granted:
                return f"delivery {link.begun} + {link.skipped}, {link.granted} are granted"
        elif frame.delivery_id not in (None, link.open):
            return "another delivery begins before the one before is whole"
        number = link.open if link.open is not None else frame.delivery_id
        link.open = None if frame.aborted or not frame.more else number
        return None

    def _flow(self, book: SessionBook, frame: Any) -> str | None:
        if ahead(frame.next_outgoing_id, book.first) != book.sent:
            return f"next-outgoing-id, with {book.sent} transfers sent"
        if frame.handle is None:
            return None
        link = book.handles.get(frame.handle)
        if link is None:
            return "not attached"
        if link.sends:
            skipped = ahead(frame.delivery_count, link.first) - link.begun
            if skipped < link.skipped or link.begun + skipped > max(link.granted, link.begun + link.skipped):
                return f"delivery-count, with {link.begun} begun, {link.skipped} skipped, {link.granted} granted"
            link.skipped = skipped
        return None

    def arrived(self, side: str, data: bytes) -> None:
        """The other side has got this."""
        reader = self._arrived[side]
        reader.feed(data)
        while (frame := reader.next()) is not None:
            _, channel, performative, _ = frame
            if performative is not None:
                self._arrive(side, channel, performative)

    def _arrive(self, side: str, channel: int, frame: Any) -> None:
        # What has ended is kept until its number is used again: the other side may have written to it before it heard.
        kind: Any = type(frame)
        known = self._known[side]
        if kind is Begin:
            label = frame.properties["label"]
            known[channel] = SessionBook(label, frame.next_outgoing_id, frame.incoming_window)
            mine = self._heard.get((OTHER[side], label))
            if mine is not None:
                mine.allowed = frame.incoming_window
            return
        book = known.get(channel)
        if book is None:
            return
        hearer = self._heard.get((OTHER[side], book.label))
        if kind is Attach:
            book.handles[frame.handle] = LinkBook(frame.name, not frame.role, 0)
        elif kind is Flow:
            link = book.handles.get(frame.handle)
            if link is not None:
                link.granted = max(link.granted, frame.link_credit)
            if hearer is not None:
                self._heard_flow(hearer, link, frame)

    def _heard_flow(self, hearer: SessionBook, link: LinkBook | None, frame: Any) -> None:
        seen = 0 if frame.next_incoming_id is None else ahead(frame.next_incoming_id, hearer.first)
        assert 0 <= seen <= hearer.sent
        hearer.allowed = max(hearer.allowed, seen + frame.incoming_window)
        if link is not None and not link.sends:
            for mine in hearer.handles.values():
                if mine.name == link.name and mine.sends:
                    count = 0 if frame.delivery_count is None else ahead(frame.delivery_count, mine.first)
                    mine.granted = max(mine.granted, count + frame.link_credit)

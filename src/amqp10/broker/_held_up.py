"""Links that have credit and wait for room: in the window of their session, or in the output to their peer."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..engine import LinkSession, SenderLink

AT_ONCE: Final = 100
"""How many consumers, at most, go on together and so take turns."""


class HeldUp:
    """The consumers of one connection that were not ready, although they have credit.

    They go on in order of arrival, and only while there is room. So a peer that makes a little room again and again
    costs the broker only as much as is sent.

    Args:
        full: returns whether the output has no room.
    """

    def __init__(self, full: Callable[[], bool]) -> None:
        self._full = full
        self._sessions: dict[LinkSession, OrderedDict[SenderLink, Callable[[], None]]] = {}

    def add(self, link: SenderLink, go_on: Callable[[], None]) -> None:
        """Add a link, if it is not here yet; `go_on` has it ask its queue for messages again."""
        self._sessions.setdefault(link.session, OrderedDict()).setdefault(link, go_on)

    def remove(self, link: SenderLink) -> None:
        """Remove a link that ends, or moves to another connection."""
        held = self._sessions.get(link.session)
        if held is not None and held.pop(link, None) is not None and not held:
            del self._sessions[link.session]

    def go_on(self, flush: Callable[[], None]) -> None:
        """Let links of all sessions go on; `flush` has their queues hand out messages."""
        for session in list(self._sessions):
            if self._full():
                break
            self.go_on_in(session, flush)

    def go_on_in(self, session: LinkSession, flush: Callable[[], None]) -> None:
        """Let links of a session go on, each of them once, while there is room."""
        held = self._sessions.get(session)
        left = len(held) if held is not None else 0
        while held and left > 0 and session.sendable and not self._full():
            window = session.peer_window
            some = min(left, len(held), AT_ONCE if window is None else window, AT_ONCE)
            left -= some
            for _, go_on in [held.popitem(last=False) for _ in range(some)]:
                go_on()
            flush()
        if held is not None and not held and self._sessions.get(session) is held:
            del self._sessions[session]

"""Who waits to send: turns in order of arrival, for credit, the session's window and room in the output (§2.6.7)."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from ..engine import LinkTerms, SenderLink
from ._link import Link

if TYPE_CHECKING:
    from ._connection import Connection
    from ._session import Session

# A sender lets other tasks run when it has sent this many bytes, each message counting MESSAGE_COST bytes more: some
# 200 µs. With a quarter of both, 1 KiB cost a tenth more a message, and 64 KiB a fifth. benchmarks/run.py, "send".
BURST = 262_144
MESSAGE_COST = 4096


class Turn:
    """A task's place in the queue of those who wait to send."""

    __slots__ = ("event",)

    def __init__(self) -> None:
        self.event = anyio.Event()


class QueueingSender(Link):
    """The part of a sender by which tasks wait in one line, messages and streams alike."""

    def __init__(self, connection: Connection, session: Session | None, terms: LinkTerms) -> None:
        super().__init__(connection, session, terms)
        self._link: SenderLink | None = None
        self._turns: deque[Turn] = deque()
        self._stream: Turn | None = None  # of a stream that is under way; the first in `_turns` then
        self._run = 0  # what was sent since other tasks could run
        self._draining = False
        self._told = False  # the cause of the link's end has been raised to the user

    def _time_to_yield(self, size: int) -> bool:
        """So much is to be sent: whether others should run first."""
        self._run += size + MESSAGE_COST
        if self._run <= BURST:
            return False
        self._run = 0
        return True

    async def _room(self) -> SenderLink:
        """Let others run if it is time, then wait in turn for credit, window and output.

        Returns without another checkpoint once there is room, so what is found is what is used.
        """
        behind = False
        if self._run > BURST:
            self._run = 0
            await anyio.lowlevel.checkpoint()
            behind = self.connection._output_awaited  # others have waited for what would be taken again
        link, turns = self._link, self._turns
        if link is None or not (self.open or self._returning):
            raise self._refusal()
        ahead = len(turns)
        if self._room_on(link, ahead) and not (behind or self.connection._output_full):
            return link
        turn = Turn()
        turns.append(turn)
        try:
            while behind or not self._room_on(link, ahead) or self.connection._output_full:
                if self._room_on(link, ahead):
                    await self.connection._output_drained()
                    behind = False
                else:
                    await turn.event.wait()
                    turn.event = anyio.Event()
                    ahead = 0  # whoever is woken has credit of its own
                if self._link is None or not (self.open or self._returning):
                    raise self._refusal()
                link = self._link
        except BaseException:
            turns.remove(turn)
            self._pass_on()
            raise
        turns.remove(turn)
        return link

    def _pass_on(self) -> None:
        """Who had waited does not send: its credit is for those behind, or the receiver's again."""
        self._wake_turns()
        if self._draining:
            self._give_back()

    def _room_on(self, link: SenderLink, ahead: int) -> bool:
        """Whether credit and window allow another message, behind so many."""
        return link.credit > ahead and self.open and link.session.sendable and self._stream is None

    @property
    def _returning(self) -> bool:
        """The link was lost, and who waits to send goes on waiting."""
        return self._interrupted and not self._closed

    def _refusal(self) -> Exception:
        self._told = True
        return self._gone()

    def _wake_turns(self) -> None:
        """Wake as many as there is credit for; a stream is waited for by all."""
        link = self._link
        if self._turns and link is not None and not (self._stream and self.open) and not self._returning:
            count = max(0, link.credit) if self.open else len(self._turns)
            for turn in islice(self._turns, count):
                turn.event.set()

    def _on_credit(self) -> None:
        """The peer's flow for this link."""
        link = self._link
        assert link is not None
        self._wake_turns()
        if link.drain:
            self._draining = True
            self._give_back()

    def _give_back(self) -> None:
        """The receiver drains: when nobody waits to send, or all is used, the rest of the credit is its again."""
        link = self._link
        if link is not None and self.open and (not self._turns or link.credit <= 0):
            self._draining = False
            link.drained(len(self._turns))
            self.connection._wake()

    def _on_window(self) -> None:
        """The session's window opened."""
        self._wake_turns()
        self._changed()

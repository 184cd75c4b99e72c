"""Sessions of Service Bus: a task takes one free session after the other, and holds all that it took."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from ...azure import NoSession, SessionLockLost
from ...azure.internals import EntityManagement, own_errors, session_on
from ...client import Connection, Receiver
from ...errors import ConnectionLost
from .._options import Options
from .links import Links

MAX_SESSIONS = 200
"""Sessions that a task holds at the same time: each is a link, whose lock is renewed."""

WAIT_SECONDS = 0.5
"""Seconds that the service looks for a session with messages."""


class SessionLinks(Links):
    """A link to each session, kept until its messages are settled, because others would get them once it is free."""

    def __init__(self, opened: Connection, options: Options, stack: AsyncExitStack) -> None:
        super().__init__(opened, options, stack)
        address = options.require_address()
        self._node = EntityManagement(opened, address, options.receive_timeout, restores=False)

    async def attach(self) -> Receiver | None:
        if len(self.attached) == MAX_SESSIONS:
            return None
        session = session_on(self._opened, self._node, None, max_wait=WAIT_SECONDS)
        try:
            await self._stack.enter_async_context(session)
        except NoSession:
            self.ended = True
            return None
        await self._stack.enter_async_context(session.keep_locked())
        self.attached.append(session.receiver)
        return session.receiver


@asynccontextmanager
async def session_links(opened: Connection, options: Options) -> AsyncIterator[SessionLinks]:
    """Take sessions while the block lasts; else as `links`."""
    try:
        with own_errors():
            async with AsyncExitStack() as stack:
                yield SessionLinks(opened, options, stack)
    except SessionLockLost as error:
        raise ConnectionLost(f"{options.address}: a session was lost: {error}") from error

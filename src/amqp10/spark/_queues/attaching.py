"""Chooses the links by which a task takes messages from a queue: one, or one for each session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from ...client import Connection
from .._options import Options
from .links import Links


@asynccontextmanager
async def links(opened: Connection, options: Options) -> AsyncIterator[Links]:
    """Attach links while the block lasts, and detach all at its end.

    Raises:
        ConnectionLost: a session was lost. Its messages are delivered again to the next holder.
    """
    if options.sessions:
        from .sessions import session_links  # only here: it loads the client of Azure

        async with session_links(opened, options) as found:
            yield found
    else:
        async with AsyncExitStack() as stack:
            yield Links(opened, options, stack)

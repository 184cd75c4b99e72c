"""The link by which a task takes messages from a queue; `sessions.py` has one for each session."""

from __future__ import annotations

from contextlib import AsyncExitStack

from ...client import Connection, Receiver
from .._connection.connect import link_properties, source
from .._options import Options


class Links:
    """One link to the queue, with credit by hand.

    Attributes:
        attached: the links attached so far.
        ended: whether `attach` found that there are no more messages, rather than only no more links.
    """

    def __init__(self, opened: Connection, options: Options, stack: AsyncExitStack) -> None:
        self.attached: list[Receiver] = []
        self.ended = False
        self._opened = opened
        self._options = options
        self._stack = stack

    async def attach(self) -> Receiver | None:
        """Attach the next link, or return None after the last one.

        Raises:
            AmqpError: the peer refuses it, or is gone.
        """
        if self.attached:
            self.ended = True
            return None
        opened, options = self._opened, self._options
        # Manual credit, for exactly the messages wanted: others would have to be released again.
        link = opened.receiver(source(opened, options), credit=0, properties=link_properties(options))
        self.attached.append(await self._stack.enter_async_context(link))
        return link

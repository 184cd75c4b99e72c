"""Looking at a queue by the numbers of its messages (handle-query, handle-index, handle-browse)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..client.internals import ask
from ..dialects.fast import Index, List, Show
from ..messaging import Message, Selector
from ._typed import typed

if TYPE_CHECKING:
    from ..client import Connection


class Native:
    """What AMQP/Fast alone can do on a connection: `connection.native`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, address: str, *, selector: Selector | None = None, after: int = 0) -> Index:
        """List the messages that wait in a queue, and leave them there.

        The numbers hold for the 16 queues that were looked at last.

        Args:
            address: the queue's.
            selector: only those that it selects.
            after: only those after this number, what came meanwhile among them; 0 looks anew, and numbers on.

        Raises:
            RequestRefused: there is no such queue (`amqp:not-found`).
            LocalProtocolError: the address or the selector is too long, or the number has more than 32 bits.
            SessionEnded, ConnectionClosed, ConnectionLost: no answer came.

        Cancelling: the answer is dropped.
        """
        request = List(address, selector.value if selector is not None else "", after)
        return await ask(self._connection, request)

    async def show(self, address: str, number: int, *, selector: Selector | None = None) -> Message:
        """Return one of the messages that were listed last, with that selector; it stays where it is.

        Args:
            number: from `Index.numbers`.

        Raises:
            RequestRefused: it was not among them, or is gone; `info["reply-code"]` is 310 then, and 409 where nothing
                was listed.
            LocalProtocolError, SessionEnded, ConnectionClosed, ConnectionLost: as for `list`.

        Cancelling: the answer is dropped.
        """
        request = Show(address, number, selector.value if selector is not None else "")
        payload: bytes = await ask(self._connection, request)
        return Message.decode(payload)


def native(connection: Connection) -> Native:
    """Return `connection.native`, with its methods known to type checkers and editors.

    Raises:
        Unsupported: the connection speaks another dialect than AMQP/Fast.
    """
    return typed(connection, Native, "fast")

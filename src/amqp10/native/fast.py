"""Browsing a queue by the numbers of its messages (handle-query, handle-index, handle-browse)."""

from __future__ import annotations

from .._arguments import checked
from ..client.internals import ConnectionFace, ask
from ..dialects.fast import Index, List, Show
from ..messaging import Message, Selector


class Native:
    """The native operations of an AMQP/Fast connection: `connection.native`."""

    def __init__(self, connection: ConnectionFace) -> None:
        self._connection = connection

    def __repr__(self) -> str:
        return f"<Native of {self._connection!r}>"

    @checked
    async def list(self, address: str, *, selector: Selector | None = None, after: int = 0) -> Index:
        """List the messages in a queue, without taking them.

        The numbers stay valid for the 16 most recently listed queues.

        Args:
            address: the address of the queue.
            selector: list only messages that pass it.
            after: list only messages after this number, including new ones; 0 starts a new list with higher numbers.

        Raises:
            RequestRefused: the queue does not exist (`amqp:not-found`).
            LocalProtocolError: the address or the selector is too long, or the number has more than 32 bits.
            SessionEnded, ConnectionClosed, ConnectionLost: no answer came.

        Cancelling: the answer is dropped.
        """
        request = List(address, selector.value if selector is not None else "", after)
        return await ask(self._connection, request)

    @checked
    async def show(self, address: str, number: int, *, selector: Selector | None = None) -> Message:
        """Return a message of the last `list` with the same selector, without taking it.

        Args:
            number: the message's number, from `Index.numbers`.

        Raises:
            RequestRefused: the message was not listed, or is gone (`info["reply-code"]` 310), or nothing was listed
                (409).
            LocalProtocolError, SessionEnded, ConnectionClosed, ConnectionLost: as for `list`.

        Cancelling: the answer is dropped.
        """
        request = Show(address, number, selector.value if selector is not None else "")
        payload: bytes = await ask(self._connection, request)
        return Message.decode(payload)

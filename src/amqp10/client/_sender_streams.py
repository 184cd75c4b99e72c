"""Streams among a sender's messages: one has the link for itself until it is whole or aborted (§2.6.14)."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from ..engine import LinkTerms, OutgoingDelivery
from ..errors import LocalProtocolError, TransactionRolledBack
from ..messaging import Message
from ._delivery import SentDelivery
from ._endpoint import fresh
from ._files import CHUNK, BodySource, chunks, size_of
from ._link import Left
from ._sender_recovery import RecoveringSender
from ._sender_turns import Turn
from ._stream import BodyWriter

if TYPE_CHECKING:
    from ._connection import Connection
    from ._session import Session
    from ._transaction import Transaction


class StreamingSender(RecoveringSender):
    """The part of a sender that sends messages while their bodies are made."""

    def __init__(self, connection: Connection, session: Session | None, terms: LinkTerms) -> None:
        super().__init__(connection, session, terms)
        self._presettled = terms.settle_mode == "settled"

    def stream(
        self,
        message: Message | None = None,
        *,
        size: int | None = None,
        settled: bool = False,
        transaction: Transaction | None = None,
    ) -> BodyWriter:
        """Send a message while its body is made, in memory bounded by what is under way.

            async with sender.stream(Message(content_type="video/mp4")) as body:
                await body.send(chunk)

        Other messages of this sender wait until the block is left.

        Args:
            message: the header, annotations, properties and footer; its body must be None.
            size: how many bytes the body will have, if that is known: it is sent as one data section then, which every
                receiver can read. Otherwise each chunk is a data section.
            settled: as for `send`.
            transaction: as for `send`; the block has to be left before that of the transaction.

        Raises:
            ValueError: the message has a body, or `size` is negative.
            Unsupported: the dialect has no streaming.
        """
        message = message if message is not None else Message()
        if message.body is not None:
            raise ValueError("the message of a stream has no body yet: it is sent by the stream")
        if size is not None and size < 0:
            raise ValueError("a body cannot have less than no bytes")
        self._require("streaming", "streaming")
        return BodyWriter(self, message, size, settled or self._presettled, transaction)

    async def send_stream(
        self,
        message: Message | None,
        source: BodySource,
        *,
        size: int | None = None,
        settled: bool = False,
        transaction: Transaction | None = None,
    ) -> int:
        """Send a message whose body comes from a file or an iterator; return the bytes of the body.

        Args:
            message: as for `stream`.
            source: a path; a binary file, of which the rest is read, or anything with such a `read`, a coroutine or
                not; an iterable or async iterable of bytes; or the bytes themselves.
            size: as for `stream`; of a path and of bytes it is known.
            settled, transaction: as for `send`.

        Raises:
            MessageRejected, MessageReleased, MessageModified, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, EncodeError, LocalProtocolError, anyio.ClosedResourceError: as for `stream` and what is
                called on it.
            OSError: the file cannot be read; the delivery is aborted, as with whatever else `source` raises.
            TypeError: `source` is none of these.

        Cancelling: the delivery is aborted as long as its end is not handed to the wire; after that only the waiting
            for the outcome ends. A file's `read` that blocks is waited for.
        """
        if size is None:
            size = await size_of(source)
        async with self.stream(message, size=size, settled=settled, transaction=transaction) as body:
            # As many bytes as fill whole frames.
            room = max(1, body.frame_room)
            async with aclosing(chunks(source, room * max(1, CHUNK // room))) as pieces:
                async for piece in pieces:
                    await body.send(piece)
        return body.sent

    def _begin_stream(self, delivery: OutgoingDelivery) -> None:
        """The link belongs to one delivery that is not whole; who sends finds `_turns` not empty, and waits."""
        self._last = delivery
        self._stream = turn = Turn()
        self._turns.appendleft(turn)

    def _end_stream(self, aborted: OutgoingDelivery | None = None) -> None:
        if aborted is not None:
            self._last = None
            self._spoiled = aborted.delivery_id is not None and not self.connection.profile.aborts
        if self._spoiled and self.open:
            self._changed()
            return
        if self._stream is not None:
            self._turns.remove(self._stream)
            self._stream = None
        self.connection._wake()
        self._wake_turns()
        if self._draining:
            self._give_back()
        self._changed()

    def _changed(self) -> None:
        super()._changed()
        if self._spoiled and self.open:
            if self.unsettled:
                self._change = anyio.Event()  # outcomes that come call this again
            else:
                self._change_link()

    def _change_link(self) -> None:
        """The peer does not know aborted deliveries, and forgets one with its link only: go on with another."""
        old, on = self._link, self._on
        assert old is not None
        assert on is not None
        old.context = Left(self)
        old.detach(closed=not self._lasting())
        self._spoiled = False
        self._terms = replace(self._terms, name=f"{self._terms.name}+")
        try:
            self._resuming = False
            self._ask_again(on)
        except LocalProtocolError as error:
            self._on_ended(error)
        self._end_stream()

    def _withdraw(self, delivery: SentDelivery) -> None:
        """Abort a message of a transaction that is rolled back, if it is not whole on the wire, and can be aborted."""
        try:
            delivery.link.abort(delivery)
        except LocalProtocolError:
            return
        rolled_back = "the transaction that it is part of was rolled back before it was sent"
        self._lose(delivery, TransactionRolledBack(description=rolled_back))
        self._untold.discard(delivery)  # its transaction says it
        if delivery.link is self._link and delivery.delivery_id is not None and not self.connection.profile.aborts:
            self._spoiled = True
            self._changed()

    def _stream_lost(self) -> Exception:
        """Of a stream whose link is not the sender's any more: streams are not sent again."""
        if self._loss is not None and not (self._over or self._closed):
            return fresh(self._loss)
        return self._refusal()

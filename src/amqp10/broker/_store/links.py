"""Resumable links in the store: the next broker finds what a client holds (§2.6.13).

For a producer's link, the outcome of each durable message is kept until the sender has settled it. It is written in the
commit that stores the message, so that a sender that resumes is told it and sends nothing twice. For a consumer's link,
the message of each tag is kept. It is committed before the transfer is written, so that nobody else gets the message
until the link ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...engine import IncomingDelivery, OutgoingDelivery
from ...types import encode
from .._queues.message import QueuedMessage
from .._retained.links import LinkKey, ResumableLink
from .._retained.retained import Lifetime
from .changes import StoredLink
from .tables import DeliveryRow, LinkRow

if TYPE_CHECKING:
    from ...messaging import DeliveryState
    from .._queues.node import Node
    from .changes import ChangeRecorder


class StoredLinks:
    """Records links whose node is kept in the store."""

    def __init__(self, recorder: ChangeRecorder) -> None:
        self._recorder = recorder
        self._rows: dict[ResumableLink, StoredLink] = {}

    def began(self, link: ResumableLink) -> None:
        if link not in self._rows and (link.node is None or link.node.journal is not None):
            self._rows[link] = StoredLink(self._recorder.number(), link)
        if link in self._rows:
            self._recorder.changes.links[self._rows[link]] = None
            self._recorder.note()

    def noted(self, link: ResumableLink, tag: bytes, state: DeliveryState) -> None:
        self._hold(link, tag, state)

    def held(self, link: ResumableLink, tag: bytes, entry: QueuedMessage) -> None:
        if entry.row:
            self._hold(link, tag, entry)

    def _hold(self, link: ResumableLink, tag: bytes, what: object) -> None:
        row = self._rows.get(link)
        if row is not None:
            row.held[tag] = what
            self._recorder.changes.deliveries[row, tag] = None
            self._recorder.note()

    def settled(self, link: ResumableLink, tags: Iterable[bytes]) -> None:
        row = self._rows.get(link)
        if row is None:
            return
        for tag in tags:
            if row.held.pop(tag, None) is not None:
                self._recorder.changes.deliveries[row, tag] = None
                self._recorder.note()

    def ended(self, link: ResumableLink) -> None:
        row = self._rows.pop(link, None)
        if row is not None:
            row.held.clear()
            self._recorder.changes.removed.append((LinkRow, row.number))
            self._recorder.note()

    # Restoring

    def restore(self, row: LinkRow, node: Node | None, held: dict[bytes, Any], now: float) -> ResumableLink:
        """Return a link as it was when the broker ended, for `ResumableLinks.restore`."""
        key = LinkKey((row.identity, row.container), row.name, "in" if row.direction == "in" else "out")
        lifetime = Lifetime(row.policy, row.timeout)  # type: ignore[arg-type]
        link = ResumableLink(key, node, lifetime)
        self._rows[link] = StoredLink(row.number, link, held)
        for tag, what in held.items():
            if isinstance(what, QueuedMessage):
                sent = OutgoingDelivery(None, tag, what.outgoing(now), False, what.message_format)  # type: ignore[arg-type]
                sent.past = 2  # the receiver may have received all of it
                sent.waiter = what
                link.deliveries.append(sent)
            else:
                received = IncomingDelivery(None, None, tag, b"", False)  # type: ignore[arg-type]
                received.state = what
                link.deliveries.append(received)
        return link

    # Rows

    def link_rows(self, rows: Iterable[StoredLink]) -> list[LinkRow]:
        """Return the current rows of these links."""
        return [
            LinkRow(
                row.number,
                *row.link.key.owner,
                row.link.key.name,
                row.link.key.direction,
                row.link.node.journal.number
                if row.link.node is not None and row.link.node.journal is not None
                else None,
                row.link.lifetime.expiry_policy,
                row.link.lifetime.timeout,
            )
            for row in rows
            if self._rows.get(row.link) is row
        ]

    def delivery_rows(
        self, changed: Iterable[tuple[StoredLink, bytes]]
    ) -> tuple[list[DeliveryRow], list[tuple[int, bytes]]]:
        """Return the rows of these deliveries to write, and the keys of those to remove."""
        come, gone = [], []
        for row, tag in changed:
            what = row.held.get(tag)
            if what is None:
                gone.append((row.number, tag))
            elif isinstance(what, QueuedMessage):
                come.append(DeliveryRow(row.number, tag, what.row, None))
            else:
                come.append(DeliveryRow(row.number, tag, None, encode(what)))
        return come, gone

"""Links that can be resumed, in the store: what a client holds is found again by the broker that comes after (§2.6.13).

Of a producer's link the outcome of each durable message is kept until the sender has settled it, in the commit that
keeps the message: a sender that asks again is told, and sends nothing twice. Of a consumer's link it is kept which
message it holds by which tag, in a commit before the transfer is written: it is nobody else's until the link ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..engine import IncomingDelivery, OutgoingDelivery
from ..types import encode
from ._entry import Entry
from ._store_file import DeliveryRow, LinkRow
from ._subscriptions import Lifetime
from ._suspended import Keeper, KeptLink, LinkKey

if TYPE_CHECKING:
    from ..messaging import DeliveryState
    from ._node import Node
    from ._store import Store


@dataclass(slots=True, eq=False)
class KeptRow:
    """A link in the store: what it holds, by tag: the entry of a consumer, the outcome that a producer was told."""

    number: int
    link: KeptLink
    held: dict[bytes, Any] = field(default_factory=dict)


class LinkKeeper(Keeper):
    """Notes in a store what becomes of links whose node is kept."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[KeptLink, KeptRow] = {}

    def began(self, link: KeptLink) -> None:
        if link not in self._rows and (link.node is None or link.node.shelf is not None):
            self._rows[link] = KeptRow(self._store.number(), link)
        if link in self._rows:
            self._store.changes.links[self._rows[link]] = None
            self._store.note()

    def noted(self, link: KeptLink, tag: bytes, state: DeliveryState) -> None:
        self._hold(link, tag, state)

    def held(self, link: KeptLink, tag: bytes, entry: Entry) -> None:
        if entry.row:
            self._hold(link, tag, entry)

    def _hold(self, link: KeptLink, tag: bytes, what: object) -> None:
        row = self._rows.get(link)
        if row is not None:
            row.held[tag] = what
            self._store.changes.deliveries[row, tag] = None
            self._store.note()

    def settled(self, link: KeptLink, tags: Iterable[bytes]) -> None:
        row = self._rows.get(link)
        if row is None:
            return
        for tag in tags:
            if row.held.pop(tag, None) is not None:
                self._store.changes.deliveries[row, tag] = None
                self._store.note()

    def ended(self, link: KeptLink) -> None:
        row = self._rows.pop(link, None)
        if row is not None:
            row.held.clear()
            self._store.changes.ended.append(row.number)
            self._store.note()

    # The beginning

    def restore(self, row: LinkRow, node: Node | None, held: dict[bytes, Any], now: float) -> KeptLink:
        """A link as it was when the broker ended, to be given to `KeptLinks.restore`."""
        key = LinkKey((row.identity, row.container), row.name, "in" if row.direction == "in" else "out")
        lifetime = Lifetime(row.policy, row.timeout)  # type: ignore[arg-type]
        link = KeptLink(key, node, lifetime)
        self._rows[link] = KeptRow(row.number, link, held)
        for tag, what in held.items():
            if isinstance(what, Entry):
                sent = OutgoingDelivery(None, tag, what.outgoing(now), False, what.message_format)  # type: ignore[arg-type]
                sent.past = 2  # the receiver may have had all of it
                sent.waiter = what
                link.deliveries.append(sent)
            else:
                received = IncomingDelivery(None, None, tag, b"", False)  # type: ignore[arg-type]
                received.state = what
                link.deliveries.append(received)
        return link

    # Rows

    def link_rows(self, rows: Iterable[KeptRow]) -> list[LinkRow]:
        """What to write of these, as they are now."""
        return [
            LinkRow(
                row.number,
                *row.link.key.owner,
                row.link.key.name,
                row.link.key.direction,
                row.link.node.shelf.number if row.link.node is not None and row.link.node.shelf is not None else None,
                row.link.lifetime.expiry_policy,
                row.link.lifetime.timeout,
            )
            for row in rows
            if self._rows.get(row.link) is row
        ]

    def delivery_rows(
        self, changed: Iterable[tuple[KeptRow, bytes]]
    ) -> tuple[list[DeliveryRow], list[tuple[int, bytes]]]:
        """What to write of these, and what to remove."""
        come, gone = [], []
        for row, tag in changed:
            what = row.held.get(tag)
            if what is None:
                gone.append((row.number, tag))
            elif isinstance(what, Entry):
                come.append(DeliveryRow(row.number, tag, what.row, None))
            else:
                come.append(DeliveryRow(row.number, tag, None, encode(what)))
        return come, gone

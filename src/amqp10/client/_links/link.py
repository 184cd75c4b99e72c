"""What users hold of a link: `Sender` and `Receiver` are the two kinds of it (§2.6)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from .._core.connection import LinkCore

if TYPE_CHECKING:
    from ...engine import LinkTerms, ReceiverSettleMode, SenderSettleMode
    from ...messaging import Source
    from .._core.connection import UserConnection


class Link(ABC):
    """One end of a link. `Sender` and `Receiver` are the two kinds."""

    def __init__(self, core: LinkCore) -> None:
        self._core = core
        core.face = self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.described()}: {self._core.state_in_words()}>"

    @property
    def open(self) -> bool:
        """Whether the link can be used now."""
        return self._core.open

    @property
    def connection(self) -> UserConnection:
        """The connection that the link is on."""
        return self._core.connection.face

    @property
    def name(self) -> str:
        """The link's name (§2.6.1): with the two containers and the direction it identifies the link."""
        return self._core.terms.name

    @property
    def remote(self) -> LinkTerms:
        """What the peer said in its attach (§2.7.3): its termini, settle modes, properties, largest message.

        Raises:
            LocalProtocolError: the link is not attached yet.
        """
        return self._core.remote

    @property
    def settle_mode(self) -> SenderSettleMode:
        """How the sender settles, as agreed (§2.8.2): the sender's own word is the one in force."""
        return self._core.terms.settle_mode if self._core.kind == "sender" else self.remote.settle_mode

    @property
    def receiver_settle_mode(self) -> ReceiverSettleMode:
        """How the receiver settles, as agreed (§2.8.3): "second" only if both ends said so."""
        both = self._core.terms.receiver_settle_mode, self.remote.receiver_settle_mode
        return "second" if both == ("second", "second") else "first"

    @property
    def source(self) -> Source | None:
        """The source as the peer has it (§3.5.3)."""
        return self.remote.source

    @property
    @abstractmethod
    def address(self) -> str | None: ...

    @property
    @abstractmethod
    def unsettled(self) -> int: ...

    async def close(self) -> None:
        """Close the link for good: the peer drops its terminus too, a durable subscription ends (§2.6.6).

        Leaving `async with` does so, but for termini that are durable or never expire, which it only detaches from.
        Receivers drain and release what was prefetched, senders wait for outcomes. Does nothing when called again.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        await self._core.leave(closed=True)

    async def detach(self) -> None:
        """Detach, and let the peer keep its terminus for the next link of this name (§2.6.4); else as `close`.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        await self._core.leave(closed=False)

"""What all links of this dialect share. 0-9-1 has no links: see `states` for what this side knows of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..._machine import Machine
from ...engine import LinkEnded
from .._kit.links import PlainLink
from .states import LINK, LinkState, Step

if TYPE_CHECKING:
    from ...errors import AmqpError


class LinkEndpoint(PlainLink, Machine[LinkState]):
    """One end of a link."""

    noun = "link"
    transitions: ClassVar[dict[tuple[LinkState, Step], LinkState]] = LINK
    state = LinkState.ATTACHING
    attached: bool
    ended: bool

    def entered(self, state: LinkState) -> None:
        self.attached = state in (LinkState.ATTACHED, LinkState.CANCELLED)
        self.ended = state is LinkState.OVER

    def end_untold(self) -> bool:
        """End the link without an event, for the owner has ended it; return False if it had ended before."""
        if self.ended:
            return False
        self.advance(Step.END_LINK)
        return True

    def end(self, closed: bool, cause: AmqpError | None) -> None:
        """Tell once that the link is over."""
        if self.end_untold():
            self.session.engine.emit(LinkEnded(self, closed, cause))

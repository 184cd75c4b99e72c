"""What the links of a client share: a channel and a handle of their own, from their opening to their close."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ....engine import Handlers, LinkAttached
from ....errors import LinkDetached
from ..._kit.causes import as_exception, end_cause
from ..._kit.links import Unresumed
from ..link import LinkEndpoint
from ..message.destinations import termini_of
from ..states import Step
from ..wire.commands import HandleCreated
from .channel import ClientChannel
from .handle import ClientHandle, HandleOwner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ....engine import LinkTerms
    from ....messaging import Error
    from .parents import ClientLinkSession


class ClientLink(LinkEndpoint, HandleOwner):
    """One end of a link, on a client.

    Args:
        resuming: the deliveries of an earlier link whose fate is open.
        transacted: see `ClientChannel`.
        closed: whether the end of the link is the end of its node's interest in it; `detach` may say otherwise.

    Attributes:
        channel, handle: its own; the handle may be replaced by another.
        created: the name that the server gave to a temporary destination.
    """

    session: ClientLinkSession
    terms: LinkTerms
    remote: LinkTerms | None
    handlers: ClassVar[Handlers] = {HandleCreated: "_on_created"}

    def __init__(
        self,
        session: ClientLinkSession,
        terms: LinkTerms,
        resuming: Iterable[Any] | None,
        *,
        transacted: bool = False,
        closed: bool = True,
    ) -> None:
        super().__init__(session, terms.name)
        self.terms = terms
        self.created: str | None = None
        self._unresumed = Unresumed(resuming)
        self._closed = closed
        self.channel: ClientChannel = ClientChannel(
            session.engine, self._on_channel_closed, self._on_opened, transacted=transacted
        )
        self.handle: ClientHandle = ClientHandle(self.channel, self)

    # Attaching

    def _on_opened(self, error: Error | None) -> None:
        """End the link if the server has refused its channel or its handle.

        The channel is closed all the same: only then is its number free.
        """
        if error is not None:
            self.channel.close()
            self.over(True, as_exception(LinkDetached, error))

    def _on_created(self, handle: ClientHandle, command: HandleCreated, content: bytes) -> None:
        self.created = command.dest_name

    @property
    def is_open(self) -> bool:
        """Return whether the handle can be used: neither side has closed it."""
        return not self.ended and not self.handle.closing

    def mark_attached(self) -> None:
        """Tell that the link is attached."""
        self.remote = self.answer()
        self.advance(Step.ATTACH)
        self.engine.emit(LinkAttached(self))
        self.begin_flow()
        self._unresumed.report(self)

    def answer(self) -> LinkTerms:
        """Return the server's terms, which AMQP/Fast does not say."""
        return termini_of(self.terms, self.created)

    def begin_flow(self) -> None:
        """Begin to use the link, which is now attached."""

    # Ending

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if self.may(Step.DETACH):
            self.before_close(closed)
            self._closed = closed
            self._close(error)

    def session_ends(self) -> None:
        if self.may(Step.DETACH):
            self.before_close(False)
            self._close(None)

    def _close(self, error: Error | None) -> None:
        self.advance(Step.DETACH)
        self.handle.close(error)
        self.channel.close()

    def before_close(self, closed: bool) -> None:
        """Write what has to come before the close of the handle; `closed`: the link ends for good."""

    def handle_closed(self, handle: ClientHandle, error: Error | None, requested: bool) -> None:
        self.channel.close()
        self._on_channel_closed(error, requested)

    def _on_channel_closed(self, error: Error | None, requested: bool) -> None:
        self.over(self._closed, end_cause(LinkDetached, error, asked=requested))

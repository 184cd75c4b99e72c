"""A session of a client: a channel for what belongs to no link, and links with channels of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ....engine import (
    IncomingDelivery,
    LinkTerms,
    OutgoingDelivery,
    PendingRequest,
    SenderLink,
    SessionBegun,
    SessionTerms,
    WindowOpened,
)
from ....errors import LocalProtocolError, SessionEnded
from ....messaging import Error
from ..._kit.causes import as_exception
from ..session import SessionEndpoint
from ..states import Step
from .attach import receiver, sender
from .channel import ClientChannel
from .queue_index import QueueBrowsers

if TYPE_CHECKING:
    from ....engine import Request, RequestResult
    from ....errors import AmqpError
    from .parents import ClientSessionEngine
    from .receiver import ClientReceiver


class ClientSession(SessionEndpoint):
    """See `Session`: its own channel, and those of its links."""

    engine: ClientSessionEngine
    terms: SessionTerms | None
    remote: SessionTerms | None

    def __init__(self, engine: ClientSessionEngine) -> None:
        super().__init__(engine)
        self.channel: ClientChannel
        self.next_delivery_id: int = 0
        self._browsers: QueueBrowsers | None = None

    def begin(self, terms: SessionTerms | None = None) -> None:
        if self.terms is not None:
            raise LocalProtocolError("the session was begun already")
        self.channel = ClientChannel(self.engine, self._on_closed, self._on_opened)
        self.terms = terms if terms is not None else SessionTerms()
        self.advance(Step.SEND_CHANNEL_OPEN)

    def _on_opened(self, error: Error | None) -> None:
        if error is not None:
            self.channel.close()
            self._finish(error)
        elif not self.gone:
            self.remote = SessionTerms(handle_max=self.engine.handle_max)
            self.advance(Step.RECEIVE_CHANNEL_REPLY)
            self.engine.emit(SessionBegun(self))
            if self.begun:  # a coordinator is attached before
                self.engine.emit(WindowOpened(self))

    def give_id(self) -> int:
        """Return the number of the next delivery."""
        number = self.next_delivery_id
        self.next_delivery_id = number + 1 & 0xFFFF_FFFF
        return number

    # Links

    def attach_sender(self, terms: LinkTerms, *, resuming: Iterable[OutgoingDelivery] | None = None) -> SenderLink:
        self._check(terms, is_sender=True)
        return sender(self, terms, resuming)

    def attach_receiver(
        self, terms: LinkTerms, *, resuming: Iterable[IncomingDelivery] | None = None
    ) -> ClientReceiver:
        self._check(terms, is_sender=False)
        return receiver(self, terms, resuming)

    def _check(self, terms: LinkTerms, *, is_sender: bool) -> None:
        if not self.may(Step.SEND_CHANNEL_CLOSE):
            raise LocalProtocolError("no link can attach: the session is over, or was not begun")
        if any(link.name == terms.name and link.is_sender is is_sender for link in self.links):
            raise LocalProtocolError(f"the session already has a link {terms.name!r} of this direction")

    # Requests

    def request(self, request: Request[RequestResult]) -> PendingRequest[RequestResult]:
        if not self.may(Step.SEND_CHANNEL_CLOSE):
            raise LocalProtocolError("no request can be made: the session is over, or was not begun")
        if self._browsers is None:
            self._browsers = QueueBrowsers(self.engine, self.channel)
        pending = PendingRequest(self, request)
        self._browsers.ask(pending)
        return pending

    def over(self, cause: AmqpError | None) -> None:
        browsers, self._browsers = self._browsers, None
        for look in list(browsers.values()) if browsers is not None else ():
            look.lose(cause)
        super().over(cause)

    # Ending

    def end(self, error: Error | None = None) -> None:
        if not self.may(Step.SEND_CHANNEL_CLOSE):
            return
        self.engine.flush()
        for link in list(self.links):
            link.session_ends()
        self.advance(Step.SEND_CHANNEL_CLOSE)
        self.channel.close(error)

    def _on_closed(self, error: Error | None, requested: bool) -> None:
        if not requested:
            for link in list(self.links):
                link.session_ends()
        self._finish(None if requested else error, peer=not requested)

    def _finish(self, error: Error | None, *, peer: bool = True) -> None:
        self.engine.forget(self)
        self.over(as_exception(SessionEnded, error) if peer else None)

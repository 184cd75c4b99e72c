"""A session of a client: a group of channels. Each link has one of its own, so that a fault ends what it concerns.

There are no words for a session on the wire. It is begun at once, and ended when its channels are closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...engine import (
    IncomingDelivery,
    LinkTerms,
    OutgoingDelivery,
    PendingRequest,
    Request,
    SenderLink,
    Session,
    SessionBegun,
    SessionTerms,
    SessionUnmapped,
    route_address,
)
from ...engine._requests import R
from ...errors import AmqpError, LocalProtocolError
from ...messaging import Coordinator, Error
from ._asks import LimitUnsettled, Recover, UpdateSecret
from ._direct_reply import DirectReplies
from ._mapping import DIRECT_REPLY
from ._receiver import ReceiverEndpoint
from ._requests import Requests
from ._sender import SenderEndpoint
from ._transactions import CoordinatorEndpoint

if TYPE_CHECKING:
    from ._channel import Channel
    from ._client import ClientConnection
    from ._engine import V09Engine
    from ._transactions import TransactionChannel


REPLIES = (DIRECT_REPLY, route_address("", DIRECT_REPLY))


class ClientSession(Session):
    """See `Session` for the contract."""

    engine: V09Engine

    def __init__(self, connection: ClientConnection, terms: SessionTerms | None) -> None:
        self.connection = connection
        self.engine = connection.engine
        self.terms = self.remote = terms if terms is not None else SessionTerms()
        self.begun = True
        self.strict_window = True
        self.context: Any = None
        self.channels: list[Channel] = []
        self.coordinators: list[CoordinatorEndpoint] = []
        self.transaction_channel: TransactionChannel | None = None  # for transactions that settle nothing
        self._requests: Requests | None = None
        self._ending = False
        self.engine.emit(SessionBegun(self))

    @property
    def sendable(self) -> bool:
        return self.begun

    def begin(self, terms: SessionTerms | None = None) -> None:
        raise LocalProtocolError("the session does not wait for an answer")

    # Links

    def attach_sender(self, terms: LinkTerms, *, resuming: Iterable[OutgoingDelivery] | None = None) -> SenderLink:
        self._check()
        if isinstance(terms.target, Coordinator):
            coordinator = CoordinatorEndpoint(self, terms)
            self.coordinators.append(coordinator)
            return coordinator
        link = SenderEndpoint(self, terms, resuming)
        link.begin_attaching()
        return link

    def attach_receiver(
        self, terms: LinkTerms, *, resuming: Iterable[IncomingDelivery] | None = None
    ) -> ReceiverEndpoint:
        self._check()
        kind = DirectReplies if terms.source is not None and terms.source.address in REPLIES else ReceiverEndpoint
        link = kind(self, terms, resuming)
        link.begin_attaching()
        return link

    def _check(self) -> None:
        if not self.begun or not self.engine.opened:
            raise LocalProtocolError("the session is not there")

    def channel_gone(self, channel: Channel) -> None:
        """A channel of it is closed."""
        if channel in self.channels:
            self.channels.remove(channel)
        self._end_if_empty()

    # Requests

    def request(self, request: Request[R]) -> PendingRequest[R]:
        self._check()
        pending = PendingRequest(self, request)
        if isinstance(request, UpdateSecret):
            self.connection.update_secret(pending)
        elif isinstance(request, Recover | LimitUnsettled):
            if not isinstance(request.link, ReceiverEndpoint) or not request.link.attached:
                raise LocalProtocolError("the receiver is not attached")
            request.link.ask(pending)
        else:
            if self._requests is None:
                self._requests = Requests(self)
            self._requests.add(pending)
        return pending

    # The end

    def end(self, error: Error | None = None) -> None:
        if not self.begun:
            return
        self.begun, self._ending = False, True
        for coordinator in list(self.coordinators):
            coordinator.over(None)
        for channel in list(self.channels):
            channel.close_channel(error)
        self._end_if_empty()

    def _end_if_empty(self) -> None:
        if self._ending and not self.channels:
            self._ending = False
            self.connection.sessions.remove(self)
            self.engine.emit(SessionUnmapped(self, None))

    def over(self, error: AmqpError | None) -> None:
        """The connection is over, and the session with it."""
        self.begun = self._ending = False
        for coordinator in list(self.coordinators):
            coordinator.over(error)
        for channel in list(self.channels):
            channel.over(error)
        self.channels.clear()
        self.engine.emit(SessionUnmapped(self, error))

"""A session of a client: a group of channels. Each link has one of its own, so that a fault ends what it concerns.

A session does not exist on the wire. It is begun at once, and ended when its channels are closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ....engine import (
    IncomingDelivery,
    LinkTerms,
    OutgoingDelivery,
    PendingRequest,
    Request,
    RequestResult,
    SenderLink,
    SessionBegun,
    SessionTerms,
    SessionUnmapped,
    route_address,
)
from ....errors import AmqpError, LocalProtocolError
from ....messaging import Coordinator, Error
from ..message.places import DIRECT_REPLY
from ..requests import LimitUnsettled, Recover, UpdateSecret
from ..session import SessionEndpoint
from ..states import SessionState, Step
from ..wire.methods import ChannelOpen
from .direct_reply import DirectReplies
from .receiver import ClientReceiver
from .requests import RequestChannel
from .sender import ClientSender
from .transactions import ClientCoordinator

if TYPE_CHECKING:
    from ..channel import Channel, ChannelUser
    from ..engine import V09Engine
    from .parents import ChannelKind, ClientSessionConnection, SessionCoordinator
    from .transactional_channel import TransactionalChannel


REPLIES = (DIRECT_REPLY, route_address("", DIRECT_REPLY))


class ClientSession(SessionEndpoint):
    """See `Session` for the contract."""

    engine: V09Engine
    terms: SessionTerms | None
    remote: SessionTerms | None

    def __init__(self, connection: ClientSessionConnection, terms: SessionTerms | None) -> None:
        self.connection = connection
        self.engine = connection.engine
        self.terms = self.remote = terms if terms is not None else SessionTerms()
        self.advance(Step.BEGIN)
        self.channels: list[Channel] = []
        self.coordinators: list[SessionCoordinator] = []
        self.commit_channel: TransactionalChannel | None = None
        self._requests: RequestChannel | None = None
        self.engine.emit(SessionBegun(self))

    def begin(self, terms: SessionTerms | None = None) -> None:
        raise LocalProtocolError("the session does not wait for an answer")

    # Links

    def attach_sender(self, terms: LinkTerms, *, resuming: Iterable[OutgoingDelivery] | None = None) -> SenderLink:
        self._check()
        if isinstance(terms.target, Coordinator):
            coordinator = ClientCoordinator(self, terms)
            self.coordinators.append(coordinator)
            return coordinator
        link = ClientSender(self, terms, resuming)
        link.begin_attaching()
        return link

    def attach_receiver(
        self, terms: LinkTerms, *, resuming: Iterable[IncomingDelivery] | None = None
    ) -> ClientReceiver:
        self._check()
        kind = DirectReplies if terms.source is not None and terms.source.address in REPLIES else ClientReceiver
        link = kind(self, terms, resuming)
        link.begin_attaching()
        return link

    def _check(self) -> None:
        if not self.begun or not self.engine.opened:
            raise LocalProtocolError("the session is over, or was not begun")

    def open_channel(self, kind: type[ChannelKind], user: ChannelUser) -> ChannelKind:
        channel = kind(self.engine, self.connection.free_channel(), user)
        self.channels.append(channel)
        channel.advance(Step.SEND_CHANNEL_OPEN)
        channel.write(ChannelOpen())
        return channel

    def channel_gone(self, channel: Channel) -> None:
        """Forget a channel that is closed; end the session if it waits for that."""
        if channel in self.channels:
            self.channels.remove(channel)
        self._end_if_empty()

    # Requests

    def request(self, request: Request[RequestResult]) -> PendingRequest[RequestResult]:
        self._check()
        pending = PendingRequest(self, request)
        if isinstance(request, UpdateSecret):
            self.connection.update_secret(pending)
        elif isinstance(request, Recover | LimitUnsettled):
            if not isinstance(request.link, ClientReceiver) or not request.link.attached:
                raise LocalProtocolError("the receiver is not attached")
            request.link.carry_out(pending)
        else:
            if self._requests is None:
                self._requests = RequestChannel(self)
            self._requests.add(pending)
        return pending

    # The end

    def end(self, error: Error | None = None) -> None:
        if not self.begun:
            return
        self.advance(Step.END_SESSION)
        for coordinator in list(self.coordinators):
            coordinator.over(None)
        for channel in list(self.channels):
            channel.close_channel(error)
        self._end_if_empty()

    def _end_if_empty(self) -> None:
        if self.state is SessionState.ENDING and not self.channels:
            self.advance(Step.FINISH)
            self.connection.forget(self)
            self.engine.emit(SessionUnmapped(self, None))

    def over(self, error: AmqpError | None) -> None:
        """End the session, because the connection is over."""
        self.advance(Step.FINISH)
        for coordinator in list(self.coordinators):
            coordinator.over(error)
        for channel in list(self.channels):
            channel.user.over(error)
        self.channels.clear()
        self.engine.emit(SessionUnmapped(self, error))

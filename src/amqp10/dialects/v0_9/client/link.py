"""What the links of a client share: a channel of their own, and finding the node when they attach.

channel.open, then a passive declare of the queue or exchange, or one that makes a queue for a dynamic node; then
what the kind of link needs. All of it is written at once; the last answer attaches the link.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from ....engine import (
    ON_DEMAND_CAPABILITY,
    Address,
    Handlers,
    LinkAttached,
    LinkTerms,
    parse_address,
    route_address,
)
from ....errors import AmqpError, LinkDetached, RemoteProtocolError
from ....messaging import Error, Source, Target
from ..._kit.causes import end_cause
from ..._kit.links import Unresumed
from ..channel import Channel, ChannelUser
from ..link import LinkEndpoint
from ..states import LinkState, Step
from ..wire.methods import ChannelOpenOk, ExchangeDeclare, ExchangeDeclareOk, QueueDeclare, QueueDeclareOk

if TYPE_CHECKING:
    from ..engine import V09Engine
    from .parents import ClientLinkSession


class ClientLink(LinkEndpoint, ChannelUser):
    """One end of a link, on a client.

    Attributes:
        channel: its channel, from `begin_attaching` on.
        cause: why the peer ended the link, or its connection is over; None if this side ended it, or nobody has.
    """

    channel_type: ClassVar[type[Channel]] = Channel
    session: ClientLinkSession
    terms: LinkTerms
    handlers: ClassVar[Handlers] = {
        ChannelOpenOk: "receive_open",
        QueueDeclareOk: "receive_queue",
        ExchangeDeclareOk: "receive_exchange",
    }
    channel: Channel
    remote: LinkTerms | None

    def __init__(self, session: ClientLinkSession, terms: LinkTerms, resuming: Iterable[Any] | None) -> None:
        self.session = session
        self.engine: V09Engine = session.engine
        self._name = terms.name
        self.terms = terms
        self.address: Address = Address("", None)  # where messages go, or come from
        self._unresumed = Unresumed(resuming)
        self._waits_for = 0  # answers that are still to come before it is attached
        self.cause: AmqpError | None = None

    # Attaching

    def begin_attaching(self) -> None:
        """Open the channel, and find the node, or make it."""
        session, terminus = self.session, self._terminus()
        try:
            self.address = self._parse(terminus)
            method = self._method_to_find(terminus)
            if method is not None:
                session.engine.encode(method)
            self.check_encodable()
        except ValueError as error:
            self.end(True, LinkDetached("amqp:invalid-field", str(error)))
            return
        self.channel = session.open_channel(self.channel_type, self)
        self._waits_for = 1  # for the answer to channel.open
        if method is not None:
            self._ask(method)
        self.prepare()

    def check_encodable(self) -> None:
        """Check that everything the link will send can be encoded.

        Raises:
            ValueError: something cannot (an `EncodeError` is a `ValueError`).
        """

    def _ask(self, method: Any) -> None:
        """Write a method that has to be answered before the link is attached."""
        self._waits_for += 1
        self.channel.write(method)

    def _terminus(self) -> Source | Target:
        terminus = self.terms.target if self.is_sender else self.terms.source
        return terminus if isinstance(terminus, Source | Target) else Target()

    def _parse(self, terminus: Source | Target) -> Address:
        if terminus.dynamic or terminus.address is None:
            return Address("", None)
        address = parse_address(str(terminus.address))
        if not self.is_sender and address.queue is None:
            raise ValueError(
                f"AMQP 0-9-1 receives only from queues, and {terminus.address} is an exchange: "
                "bind a queue to it and receive from the queue"
            )
        return address

    def _method_to_find(self, terminus: Source | Target) -> Any:
        """Return the method that finds the node or makes it; None if nothing has to be found."""
        if terminus.dynamic:
            return QueueDeclare(exclusive=True, auto_delete=not self.is_sender)
        address = self.address
        if address.exchange:
            return ExchangeDeclare(exchange=address.exchange, type="", passive=True)
        if terminus.address is None or address.key is None:
            return None
        asks = self.terms.on_demand and ON_DEMAND_CAPABILITY in self.session.connection.capabilities
        arguments = self.session.engine.variant.tables.on_demand() if asks else {}
        return QueueDeclare(queue=address.key, passive=True, arguments=arguments)

    def prepare(self) -> None:
        """Ask for whatever else has to be there before the link can be used."""

    def receive_open(self, _: ChannelOpenOk) -> None:
        self._answered()

    def receive_queue(self, method: QueueDeclareOk) -> None:
        if self._terminus().dynamic:
            self.address = Address("", method.queue)
        self._answered()

    def receive_exchange(self, _: ExchangeDeclareOk) -> None:
        self._answered()

    def _answered(self) -> None:
        self._waits_for -= 1
        if self._waits_for == 0:
            self._attach()

    def _attach(self) -> None:
        terms = self.terms
        terminus = self._terminus()
        there = self.found(terminus)
        self.remote = LinkTerms(
            name=terms.name,
            source=terms.source if self.is_sender else Source(there, dynamic=terminus.dynamic, filter=self.applied()),
            target=Target(there, dynamic=terminus.dynamic) if self.is_sender else terms.target,
            settle_mode="settled" if self.settled_by_sender else terms.settle_mode,
            properties=terms.properties,
        )
        if terms.receiver_settle_mode == "second":
            self.terms = replace(terms, receiver_settle_mode="first")
        self.advance(Step.ATTACH)
        self.engine.emit(LinkAttached(self))
        self.begin_flow()
        self._unresumed.report(self)

    def found(self, terminus: Source | Target) -> str | None:
        """Return the address of the node."""
        if terminus.dynamic:
            return route_address("", self.address.key)
        return None if terminus.address is None else str(terminus.address)

    def applied(self) -> dict[Any, Any] | None:
        """Return those filters of the source that the peer is known to have."""
        return None

    def begin_flow(self) -> None:
        """Begin to use the link, which is now attached."""

    # Detaching

    def suspended(self) -> list[Any]:
        return self._unresumed.beside(self.unsettled)

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if not self.ended:
            self.channel.close_channel(error)

    def before_close(self) -> None:
        self.advance(Step.DETACH)

    def failed(self, error: RemoteProtocolError) -> None:
        self.end(True, error)

    def cancelled(self, error: AmqpError) -> None:
        """End the link, because the peer has taken the node away: nothing more comes, and the channel is of no use."""
        self.channel.close_channel()
        self.end(True, error)

    def closed(self, error: Error | None) -> None:
        self.end(True, end_cause(LinkDetached, error, asked=self.state is LinkState.DETACHING))
        self.session.channel_gone(self.channel)

    def over(self, error: AmqpError | None) -> None:
        self.end(False, error)

    def end(self, closed: bool, cause: AmqpError | None) -> None:
        if not self.ended:
            self.cause = cause
        super().end(closed, cause)

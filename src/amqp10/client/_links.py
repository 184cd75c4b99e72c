"""The methods by which links are made, on sessions and connections alike (§2.6)."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..engine import LinkTerms, ReceiverSettleMode, SenderSettleMode
from ..errors import LocalProtocolError
from ..messaging import Source, Target
from ..types import Int, Symbol
from ._browser import Browser
from ._kept import KeptDeliveries
from ._management import Management
from ._receiver import EXCLUSIVE, Receiver
from ._request import ReplyReceiver, Requester
from ._respond import Responder
from ._sender import Sender
from ._streamed import STREAM_WINDOW, StreamReceiver
from ._subscription import Subscribing, SubscriptionReceiver, end_subscription, subscription_terms
from ._transaction import Transaction

if TYPE_CHECKING:
    from ..messaging import Filter
    from ._connection import Connection
    from ._reconnect import OnUncertain
    from ._session import Session

# What both ends of our links can take, said where the user does not say it: some brokers otherwise send none but
# accepted, or end a link over a message they would have rejected (§3.5.3 "outcomes").
OUTCOME_NAMES = ("amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list")

# What Artemis, Broker-J and the embedded broker read, and what RabbitMQ does.
PRIORITY = (Symbol("priority"), Symbol("rabbitmq:priority"))


class Links:
    """What makes links: a `Session`, or a `Connection` on its default session."""

    @abstractmethod
    def _place(self) -> tuple[Connection, Session | None]:
        """The connection, and the session unless it is the default one."""

    def sender(
        self,
        address: str | Target | None,
        *,
        name: str | None = None,
        settle_mode: SenderSettleMode = "unsettled",
        receiver_settle_mode: ReceiverSettleMode = "first",
        source: Source | None = None,
        properties: Mapping[Any, Any] | None = None,
        desired_capabilities: Sequence[str] = (),
    ) -> Sender:
        """A sender, to be attached by `async with`.

        Args:
            address: where messages go: an address, a `Target` to say more, or None for an anonymous sender whose
                messages each say it in their `to`.
            name: the link's name; made up when None.
            settle_mode: "unsettled" (at least once), "settled" (at most once), or "mixed": each `send` says (§2.8.2).
            receiver_settle_mode: "second": the receiver settles after this side did (§2.8.3).
            source: the source as this side describes it (§3.5.3).
            properties: link properties (§2.7.3).
            desired_capabilities: extensions this side would use if the peer offers them.

        Raises:
            ValueError: a settle mode that is none.
        """
        connection, session = self._place()
        terms = LinkTerms(
            name=name if name is not None else connection._link_name("sender"),
            source=source if source is not None else Source(outcomes=OUTCOME_NAMES),
            target=address if isinstance(address, Target) else Target(address),
            settle_mode=settle_mode,
            receiver_settle_mode=receiver_settle_mode,
            desired_capabilities=tuple(desired_capabilities),
            properties=dict(properties or {}),
        ).checked()
        sender = Sender(connection, session, terms)
        if name is not None and connection._delivery_store is not None:
            sender._remembered = KeptDeliveries(connection._delivery_store, connection.container_id, name, "sender")
        return sender

    def receiver(
        self,
        address: str | Source | None = None,
        *,
        credit: int | None = None,
        stream: bool = False,
        name: str | None = None,
        settle_mode: SenderSettleMode = "unsettled",
        receiver_settle_mode: ReceiverSettleMode = "first",
        dynamic: bool = False,
        target: Target | None = None,
        max_message_size: int | None = None,
        require_filters: bool = True,
        priority: int | None = None,
        exclusive: bool = False,
        properties: Mapping[Any, Any] | None = None,
        desired_capabilities: Sequence[str] = (),
    ) -> Receiver:
        """A receiver, to be attached by `async with`.

        Args:
            address: where messages come from: an address or a `Source` to say more. One that names no outcomes asks for
                all four.
            credit: how many deliveries may be on their way or wait here, granted automatically; 0 for manual credit.
                100 unless said, 1 with `stream`.
            stream: hand a delivery out when its head is here; its body is read by `delivery.body()` while it comes in.
                Such a receiver has a session of its own, whose window of 64 frames bounds what is in memory, unless it
                is made on a session.
            name: the link's name; made up when None. With a durable source it names the subscription.
            settle_mode: what the sender is asked for: "unsettled" (at least once), "settled" (at most once), or
                "mixed", as it likes (§2.8.2).
            receiver_settle_mode: "first": an outcome given here settles; "second": when the sender settled (§2.8.3).
            dynamic: let the peer make a node that lives as long as the link; `address` of the receiver names it.
            target: the target as this side describes it (§3.5.4).
            max_message_size: the largest message this side takes, bytes; None for any.
            require_filters: a filter of the source that the peer does not apply is an error (`FilterNotApplied`); False
                to take what comes then, and look at `receiver.source.filter`.
            priority: as long as a consumer of higher priority has credit, those of lower get nothing; 0 where nobody
                says. A link property of Artemis, RabbitMQ, Broker-J and the embedded broker.
            exclusive: be the only consumer of the queue. A peer that does not confirm it raises `Unsupported` on
                entering; the embedded broker does, and refuses a second consumer with `amqp:resource-locked`.
            properties: link properties (§2.7.3).
            desired_capabilities: extensions this side would use if the peer offers them.

        Raises:
            LocalProtocolError: neither an address nor `dynamic`, or both.
            ValueError: a settle mode, size or credit that is none; credit is at most 2^32 - 1.
        """
        connection, session = self._place()
        if credit is None:
            credit = 1 if stream else 100
        if isinstance(address, Source):
            if dynamic:
                raise LocalProtocolError("say dynamic in the Source that is given")
            source = copy.copy(address)
            source.outcomes = source.outcomes or OUTCOME_NAMES
        else:
            if (address is None) is not dynamic:
                raise LocalProtocolError("a receiver has an address, or is dynamic")
            source = Source(address, dynamic=dynamic, outcomes=OUTCOME_NAMES)
        terms = LinkTerms(
            name=name if name is not None else connection._link_name("receiver"),
            source=source,
            target=target if target is not None else Target(),
            settle_mode=settle_mode,
            receiver_settle_mode=receiver_settle_mode,
            max_message_size=max_message_size,
            desired_capabilities=tuple(desired_capabilities),
            properties=consumer_properties(priority, exclusive, properties),
        ).checked()
        if stream:
            own = session is None
            if session is None:
                session = connection.session(incoming_window=STREAM_WINDOW)
            return StreamReceiver(connection, session, terms, credit, require_filters=require_filters, own=own)
        receiver = Receiver(connection, session, terms, credit, require_filters=require_filters)
        # In mode "first" an outcome settles, and nothing is left to be told again.
        if name is not None and connection._delivery_store is not None and receiver_settle_mode == "second":
            receiver._remembered = KeptDeliveries(connection._delivery_store, connection.container_id, name, "receiver")
        return receiver

    def subscription(
        self,
        address: str | Source,
        name: str,
        *,
        durable: bool = True,
        shared: bool = False,
        global_: bool = False,
        filters: Iterable[Filter] = (),
        timeout: int | None = None,
        credit: int = 100,
        require_filters: bool = True,
        priority: int | None = None,
    ) -> Receiver:
        """A receiver of a topic's subscription, to be attached by `async with` (§2.6.3, §3.5.6; JMS mapping).

        A durable one stays when the block is left, and takes in what comes meanwhile; the next receiver of the same
        name goes on with it. `close()` of its last receiver ends it, and so does `unsubscribe`. It is found again by
        its name and the connection's `container_id`, but for a global one: by its name.

        A peer that shares no subscriptions, or does not keep them as long as asked for, raises `Unsupported` on
        entering.

        Args:
            address: the topic; a `Source` for more capabilities or filters.
            name: the subscription's name, without "|".
            durable: it outlives its links.
            shared: several receivers take messages from it in turn, each message going to one.
            global_: those of other containers, too.
            filters: which messages come into it; with others the subscription is replaced.
            timeout: a durable one ends that many seconds after its last receiver went; None for never.
            credit: as for `receiver`, and so are `require_filters` and `priority`.

        Raises:
            ValueError: a durable one that is not global, where the connection's `container_id` is made up; global and
                not shared; a name, timeout or credit that is none.
        """
        connection, session = self._place()
        if durable and not global_ and not connection._named:
            raise ValueError("a durable subscription is found again by the container_id: give the connection one")
        subscribing = Subscribing(name, durable, shared, global_)
        terms = subscription_terms(
            subscribing,
            address,
            filters=filters,
            timeout=timeout,
            outcomes=OUTCOME_NAMES,
            properties=consumer_properties(priority, False, None),
        )
        return SubscriptionReceiver(
            connection, session, terms, credit, require_filters=require_filters, subscribing=subscribing
        )

    async def unsubscribe(self, name: str, *, shared: bool = False, global_: bool = False) -> None:
        """End a durable subscription that no receiver uses just now; what waits in it is dropped (§2.6.6).

        Args:
            name, shared, global_: as the `subscription` was made.

        Raises:
            LinkDetached: there is none (`amqp:not-found`), or the peer does not end it, for it is in use elsewhere.
            LocalProtocolError: it is in use on this connection.
            SessionEnded, ConnectionClosed, ConnectionLost: what it needs is gone.
            ValueError: global and not shared, or a name that is none.

        Cancelling: the subscription may be there still, or not.
        """
        subscribing = Subscribing(name, shared=shared, global_=global_)
        connection = self._place()[0]
        # A session of its own: a peer that does not know this may end it, and no other link shall suffer.
        async with connection.session() as session:
            await end_subscription(connection, session, subscribing)

    def browser(
        self,
        address: str | Source,
        *,
        filters: Iterable[Filter] = (),
        credit: int = 100,
        require_filters: bool = True,
    ) -> Browser:
        """A receiver that looks at what waits in a queue and leaves it there (§3.5.7 "copy"); opened by `async with`.

        Iterating over it ends when all has been seen. A peer that does not browse raises `Unsupported` on entering.

        Args:
            address: the queue; a `Source` to say more.
            filters: which messages to look at.
            credit: deliveries that may be on their way or wait here.
            require_filters: as for `receiver`.

        Raises:
            ValueError: `credit` is not positive.
        """
        if credit < 1:
            raise ValueError("a browser needs credit")
        connection, session = self._place()
        source = copy.copy(address) if isinstance(address, Source) else Source(address)
        source.distribution_mode = "copy"
        source.filter = Source(filters=filters, filter=source.filter).filter
        source.outcomes = source.outcomes or OUTCOME_NAMES
        terms = LinkTerms(
            name=connection._link_name("browser"), source=source, target=Target(), settle_mode="unsettled"
        )
        return Browser(connection, session, terms, credit, require_filters=require_filters)

    def requester(
        self,
        address: str | Target | None,
        *,
        reply_to: str | Source | None = None,
        on_lost: OnUncertain | None = None,
        credit: int = 100,
    ) -> Requester:
        """A requester: sends requests and waits for their replies; to be opened by `async with`.

        Args:
            address: where requests go; None for an anonymous one, whose requests each say it in their `to`.
            reply_to: where replies come from: an address, which no other requester may share, or a `Source` to say
                more. None: a dynamic node, made by the peer for this requester.
            on_lost: what becomes of requests without a reply when the connection or a link is lost and restored, and
                their dynamic node was lost with it, or it is not known whether they arrived: "resend" them, so that
                they may be processed twice, or "raise" `DeliveryUncertain`. None: as `Reconnect.on_uncertain` says.
            credit: replies that may be on their way; not the number of requests under way.

        Raises:
            ValueError: `credit` is not positive.
        """
        if credit < 1:
            raise ValueError("a requester needs credit for replies")
        connection, session = self._place()
        if reply_to is None:
            reply_to = Source(dynamic=True, outcomes=OUTCOME_NAMES)
        elif isinstance(reply_to, str):
            reply_to = Source(reply_to, outcomes=OUTCOME_NAMES)
        terms = LinkTerms(name=connection._link_name("replies"), source=reply_to, target=Target(), settle_mode="mixed")
        return Requester(self.sender(address), ReplyReceiver(connection, session, terms, credit), on_lost=on_lost)

    def responder(self, address: str | Source, *, credit: int = 100) -> Responder:
        """A responder: receives requests and sends replies; to be opened by `async with`.

        Args:
            address: where requests come from.
            credit: requests that may be on their way or wait here.
        """
        return Responder(self.receiver(address, credit=credit))

    def transaction(self) -> Transaction:
        """A transaction over links of this session, or of the connection's default one; declared by `async with`."""
        return Transaction(self)

    def management(self, node: str = "$management") -> Management:
        """The peer's management node (AMQP Management, a draft); to be opened by `async with`.

        Args:
            node: its address. RabbitMQ and the embedded broker have another kind: see `amqp10.rabbitmq`. Opening this
                one there is `LinkDetached`.
        """
        return Management(self.requester(node))


def consumer_properties(priority: int | None, exclusive: bool, others: Mapping[Any, Any] | None) -> dict[Any, Any]:
    """The link properties of a receiver."""
    properties: dict[Any, Any] = {}
    if priority is not None:
        properties.update(dict.fromkeys(PRIORITY, Int(priority)))
    if exclusive:
        properties[EXCLUSIVE] = True
    return properties | dict(others or {})

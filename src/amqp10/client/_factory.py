"""The methods by which links are made, on sessions and connections alike (§2.6)."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._arguments import check_range, checked
from ..engine import LinkTerms, ReceiverSettleMode, SenderSettleMode, SessionTerms
from ..errors import LocalProtocolError
from ..messaging import OUTCOME_NAMES, Filter, Source, Target
from ..types import Int, Symbol
from ._core.faces import core_of
from ._receiving.browser import Browser, BrowserCore
from ._receiving.core import EXCLUSIVE, ReceiverCore
from ._receiving.receiver import Receiver
from ._receiving.streaming import STREAM_WINDOW, StreamReceiverCore
from ._receiving.subscription import Subscribing, SubscriptionCore, end_subscription, subscription_terms
from ._requests.management import Management
from ._requests.requester import ReplyCore, ReplyReceiver, Requester
from ._requests.responder import Responder
from ._sending.core import SenderCore
from ._sending.sender import Sender
from ._settings import OnUncertain
from ._stores.link_store import LinkStore
from ._transactions.transaction import Transaction

if TYPE_CHECKING:
    from ._core.connection import ConnectionCore, SessionCore

# What both ends of our links can take, said where the user does not say it: some brokers otherwise send none but
# accepted, or end a link over a message they would have rejected (§3.5.3 "outcomes").

# What Artemis, Broker-J and the embedded broker read, and what RabbitMQ does.
PRIORITY = (Symbol("priority"), Symbol("rabbitmq:priority"))


class LinkFactory(ABC):
    """What makes links: a `Session`, or a `Connection` on its default session."""

    @abstractmethod
    def _place(self) -> tuple[ConnectionCore, SessionCore | None]:
        """Return the connection, and the session unless it is the default one."""

    @checked
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
        """Make a sender, to be attached by `async with`.

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
            ValueError: a settle mode is not valid.
        """
        connection, session = self._place()
        terms = LinkTerms(
            name=name if name is not None else connection.new_link_name("sender"),
            source=source if source is not None else Source(outcomes=OUTCOME_NAMES),
            target=address if isinstance(address, Target) else Target(address),
            settle_mode=settle_mode,
            receiver_settle_mode=receiver_settle_mode,
            desired_capabilities=tuple(desired_capabilities),
            properties=dict(properties or {}),
        ).checked()
        sender = connection.link_type(Sender)(SenderCore(connection, session, terms))
        if name is not None and connection.delivery_store is not None:
            core_of(sender).store = LinkStore(connection.delivery_store, connection.container_id, name, "sender")
        return sender

    @checked
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
        restore: bool = True,
        properties: Mapping[Any, Any] | None = None,
        desired_capabilities: Sequence[str] = (),
    ) -> Receiver:
        """Make a receiver, to be attached by `async with`.

        Args:
            address: where messages come from: an address or a `Source` to say more. One that names no outcomes asks for
                all four.
            credit: how many deliveries may be on their way or wait here, granted automatically; 0 for manual credit.
                100 unless said, 1 with `stream`.
            stream: hand a delivery out when its head is here; `delivery.iter_body()` reads its body while it comes in.
                Such a receiver has a session of its own, whose window of 64 frames bounds what is in memory, unless it
                is made on a session.
            name: the link's name; made up when None. With a durable source it names the subscription.
            settle_mode: what the sender is asked for: "unsettled" (at least once), "settled" (at most once), or
                "mixed", as it likes (§2.8.2).
            receiver_settle_mode: "first": an outcome given here settles; "second": when the sender settled (§2.8.3).
            dynamic: let the peer make a node that lives as long as the link; `address` of the receiver names it.
            target: the target as this side describes it (§3.5.4).
            max_message_size: the largest message this side takes, bytes; None: the peer is told no limit, and a
                message that comes in parts may have 512 MiB, or any size with `stream`.
            require_filters: a filter of the source that the peer does not apply is an error (`FilterNotApplied`); False
                to take what comes then, and look at `receiver.source.filter`.
            priority: as long as a consumer of higher priority has credit, those of lower get nothing; 0 where nobody
                says. A link property of Artemis, RabbitMQ, Broker-J and the embedded broker.
            exclusive: be the only consumer of the queue. A peer that does not confirm it raises `Unsupported` on
                entering; the embedded broker does, and refuses a second consumer with `amqp:resource-locked`.
            restore: with `reconnect`, attach it again after a loss; False: it is over with its link, as befits one that
                holds something at the peer which ends with that, such as a session of Azure Service Bus.
            properties: link properties (§2.7.3).
            desired_capabilities: extensions this side would use if the peer offers them.

        Raises:
            LocalProtocolError: neither an address nor `dynamic`, or both.
            ValueError: a settle mode, size or credit is not valid; credit is at most 2^32 - 1.
        """
        connection, session = self._place()
        if credit is None:
            credit = 1 if stream else 100
        if isinstance(address, Source):
            if dynamic:
                raise LocalProtocolError("set dynamic in the given Source")
            source = copy.copy(address)
            source.outcomes = source.outcomes or OUTCOME_NAMES
        else:
            if (address is None) is not dynamic:
                raise LocalProtocolError("a receiver needs an address, or dynamic=True")
            source = Source(address, dynamic=dynamic, outcomes=OUTCOME_NAMES)
        terms = LinkTerms(
            name=name if name is not None else connection.new_link_name("receiver"),
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
                session = connection.new_session(SessionTerms(incoming_window=STREAM_WINDOW))
            streaming = StreamReceiverCore(connection, session, terms, credit, require_filters=require_filters, own=own)
            streaming.restorable = restore
            return connection.link_type(Receiver)(streaming)
        core = ReceiverCore(connection, session, terms, credit, require_filters=require_filters)
        core.restorable = restore
        # In mode "first" an outcome settles, and nothing is left to be told again.
        if name is not None and connection.delivery_store is not None and receiver_settle_mode == "second":
            core.store = LinkStore(connection.delivery_store, connection.container_id, name, "receiver")
        return connection.link_type(Receiver)(core)

    @checked
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
        """Make a receiver of a topic's subscription, to be attached by `async with` (§2.6.3, §3.5.6; JMS mapping).

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
                not shared; a name, timeout or credit is not valid.
        """
        connection, session = self._place()
        if durable and not global_ and not connection.named:
            raise ValueError(
                "a durable subscription needs a connection with a container_id, by which the peer finds it again"
            )
        subscribing = Subscribing(name, durable, shared, global_)
        terms = subscription_terms(
            subscribing,
            address,
            filters=filters,
            timeout=timeout,
            outcomes=OUTCOME_NAMES,
            properties=consumer_properties(priority, False, None),
        )
        core = SubscriptionCore(
            connection, session, terms, credit, require_filters=require_filters, subscribing=subscribing
        )
        return connection.link_type(Receiver)(core)

    @checked
    async def unsubscribe(self, name: str, *, shared: bool = False, global_: bool = False) -> None:
        """End a durable subscription that no receiver uses just now; what waits in it is dropped (§2.6.6).

        Args:
            name, shared, global_: as the `subscription` was made.

        Raises:
            LinkDetached: it does not exist (`amqp:not-found`), or is in use elsewhere and stays.
            LocalProtocolError: it is in use on this connection.
            SessionEnded, ConnectionClosed, ConnectionLost: what it needs is gone.
            ValueError: global and not shared, or the name is not valid.

        Cancelling: the subscription may be there still, or not.
        """
        subscribing = Subscribing(name, shared=shared, global_=global_)
        connection = self._place()[0]
        # A session of its own: a peer that does not know this may end it, and no other link shall suffer.
        async with connection.new_session(SessionTerms()) as session:
            await end_subscription(connection, session, subscribing)

    @checked
    def browser(
        self,
        address: str | Source,
        *,
        filters: Iterable[Filter] = (),
        credit: int = 100,
        require_filters: bool = True,
    ) -> Browser:
        """Make a receiver that looks at a queue and leaves it as it is (§3.5.7 "copy"); to be opened by `async with`.

        Iterating over it ends when all has been seen. A peer that does not browse raises `Unsupported` on entering.

        Args:
            address: the queue; a `Source` to say more.
            filters: which messages to look at.
            credit: deliveries that may be on their way or wait here.
            require_filters: as for `receiver`.

        Raises:
            ValueError: `credit` is not positive.
        """
        check_range("credit", credit, 1)
        connection, session = self._place()
        source = copy.copy(address) if isinstance(address, Source) else Source(address)
        source.distribution_mode = "copy"
        source.filter = Source(filters=filters, filter=source.filter).filter
        source.outcomes = source.outcomes or OUTCOME_NAMES
        terms = LinkTerms(
            name=connection.new_link_name("browser"), source=source, target=Target(), settle_mode="unsettled"
        )
        return Browser(BrowserCore(connection, session, terms, credit, require_filters=require_filters))

    @checked
    def requester(
        self,
        address: str | Target | None,
        *,
        reply_to: str | Source | None = None,
        on_lost: OnUncertain | None = None,
        credit: int = 100,
    ) -> Requester:
        """Make a requester, which sends requests and waits for their replies; to be opened by `async with`.

        Args:
            address: where requests go; None for an anonymous one, whose requests each say it in their `to`.
            reply_to: where replies come from: an address, which no other requester may share, or a `Source` to say
                more. None: a dynamic node, made by the peer for this requester. The address that requests go to: a node
                that answers on a link of its own, as those for management at Azure do.
            on_lost: what becomes of requests without a reply when the connection or a link is lost and restored, and
                their dynamic node was lost with it, or it is not known whether they arrived: "resend" them, so that
                they may be processed twice, or "raise" `DeliveryUncertain`. None: as `Reconnect.on_uncertain` says.
            credit: replies that may be on their way; not the number of requests under way.

        Raises:
            ValueError: `credit` is not positive.
        """
        check_range("credit", credit, 1)
        connection, session = self._place()
        # By the name of its own end such a node tells its peers apart; Azure's clients use the node's for that.
        target = Target(reply_to) if isinstance(reply_to, str) and reply_to == address else Target()
        if reply_to is None:
            reply_to = Source(dynamic=True, outcomes=OUTCOME_NAMES)
        elif isinstance(reply_to, str):
            reply_to = Source(reply_to, outcomes=OUTCOME_NAMES)
        terms = LinkTerms(name=connection.new_link_name("replies"), source=reply_to, target=target, settle_mode="mixed")
        replies = connection.link_type(ReplyReceiver)(ReplyCore(connection, session, terms, credit))
        return connection.link_type(Requester)(self.sender(address), replies, on_lost=on_lost)

    @checked
    def responder(self, address: str | Source, *, credit: int = 100) -> Responder:
        """Make a responder, which receives requests and sends replies; to be opened by `async with`.

        Args:
            address: where requests come from.
            credit: requests that may be on their way or wait here.
        """
        return Responder(self.receiver(address, credit=credit), self)

    def transaction(self) -> Transaction:
        """Make a transaction over links of this session, or of the default one; to be declared by `async with`."""
        return Transaction(*self._place())

    @checked
    def management(self, node: str = "$management", *, reply_to: str | None = None) -> Management:
        """Make a client of the peer's management node (AMQP Management, a draft); to be opened by `async with`.

        Args:
            node: its address. RabbitMQ and the embedded broker have another kind: see `amqp10.rabbitmq`. Opening this
                one there is `LinkDetached`.
            reply_to: where responses come from, as for `requester`. At Azure it is the node's own address.
        """
        return Management(self.requester(node, reply_to=reply_to))


def consumer_properties(priority: int | None, exclusive: bool, others: Mapping[Any, Any] | None) -> dict[Any, Any]:
    """Return the link properties of a receiver."""
    properties: dict[Any, Any] = {}
    if priority is not None:
        properties.update(dict.fromkeys(PRIORITY, Int(priority)))
    if exclusive:
        properties[EXCLUSIVE] = True
    return properties | dict(others or {})

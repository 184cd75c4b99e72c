"""Requests and their replies: one node for the requests, one for the replies, the correlation-id between them (§3.2.4).

A reply is matched as soon as the engine has it, in the pass that brought it in: no task of its own waits for replies.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..._arguments import check_type, made_by
from ...engine import LinkTerms, ReceiverLink
from ...errors import AmqpError, DecodeError, DeliveryUncertain, LocalProtocolError
from ...messaging import ACCEPTED, Accepted, Error, Message, Rejected, Source
from ...types import Symbol
from .._core.faces import core_of
from .._errors import fresh
from .._receiving.core import ReceiverCore
from .._receiving.delivery import ReceiverDelivery, settle_quietly
from .._receiving.receiver import Receiver
from .._sending.delivery import Repeating, SenderDelivery, known_outcome, not_accepted, unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...net import Pump, Signal
    from .._core.connection import ConnectionCore, SessionCore
    from .._core.transaction_work import TransactionFace as Transaction
    from .._sending.sender import Sender
    from .._settings import OnUncertain


class Waiting(Repeating):
    """One request without a reply. It takes the place of the event that a delivery's outcome sets, too.

    Attributes:
        news: set when there is something to look at.
        failure: what is wrong with the reply that came.
        lost: the request has to be sent again: the address that the reply was to come to is gone with its link, and
            there is another; or the request itself was lost.
        sure: it did not arrive.
        once: it is part of a transaction, so its work must not be done twice, and a reply that is lost comes no more.
        at_most_once: it is sent again only if it surely did not arrive; always so in a transaction.
    """

    __slots__ = ("_new_signal", "at_most_once", "failure", "lost", "news", "once", "reply", "sure")

    def __init__(self, new_signal: Callable[[], Signal], *, once: bool, at_most_once: bool) -> None:
        self.at_most_once = once or at_most_once
        self.reply: Message | None = None
        self.failure: DecodeError | None = None
        self.lost = self.sure = False
        self.once = once
        self._new_signal = new_signal
        self.news: Signal = new_signal()

    def set(self) -> None:
        self.news.set()

    def repeat(self, *, sure: bool) -> bool:
        self.lost, self.sure = True, sure
        self.news.set()
        return sure or not self.at_most_once

    async def wait(self, pump: Pump) -> None:
        """Wait for what there is to look at, on the connection that the request went out on."""
        if pump.lends and pump.takes_turn(self.news):
            await pump.read_for(self.news)
        else:
            await self.news.wait()
        if self.news.is_set():
            self.news = self._new_signal()


class ReplyCore(ReceiverCore):
    """The core of a requester's receiver: each reply goes to the request that waits for it.

    In the pass that brings replies the link may have ended already, which is told after them.
    """

    terms: LinkTerms

    def __init__(self, connection: ConnectionCore, session: SessionCore | None, terms: LinkTerms, credit: int) -> None:
        super().__init__(connection, session, terms, credit)
        self._last_address: str | None = None
        self.waiting: dict[Hashable, Waiting] = {}
        self.unmatched: int = 0

    def require_capabilities(self) -> None:
        super().require_capabilities()
        if self._is_left_open:
            # Asked first, for some brokers end the session over it, and all links with that.
            self.connection.profile.require_replies(str(self.connection.remote.properties.get("version", "")))

    @property
    def _is_left_open(self) -> bool:
        """The broker is to choose the kind of the node; a dialect without "terminus-capabilities" makes a queue."""
        source = self.terms.source
        can = self.connection.capabilities
        return "terminus-capabilities" in can and bool(source and source.dynamic and not source.capabilities)

    def attach_to(self, session: SessionCore) -> ReceiverLink:
        wanted = self.connection.profile.reply_capabilities
        if wanted and self._is_left_open:
            capabilities = tuple(map(Symbol, wanted))
            source = Source(dynamic=True, expiry_policy="link-detach", capabilities=capabilities)
            self.terms = replace(self.terms, source=source, settle_mode="settled")
        return super().attach_to(session)

    def on_deliveries(self) -> None:
        consumer, incoming = self.consumer, self.consumer.incoming
        consumer.fill(self.buffered)
        while incoming and not self.closed:
            delivery = incoming.popleft()
            consumer.taken += 1
            try:
                reply: Message = delivery.message
                reply.check()
            except DecodeError as error:
                waiting = self._waiting_for(delivery)
                if waiting is None:
                    self.unmatched += 1
                else:
                    waiting.failure = error
                    waiting.set()
                settle_quietly(delivery, Rejected(Error("amqp:decode-error", str(error))))
                continue
            waiting = self.waiting.get(key_of(reply.correlation_id))
            if waiting is None or waiting.reply is not None:
                self.unmatched += 1  # its request was cancelled, or never was, or has its reply
            else:
                waiting.reply = reply
                waiting.set()
            settle_quietly(delivery, ACCEPTED)
        super().on_deliveries()
        link = self.link
        if consumer.taken >= consumer.refill_at and link is not None and link.attached:
            self.credit.refill()

    def _waiting_for(self, delivery: ReceiverDelivery) -> Waiting | None:
        """Return the request of a malformed reply, if its correlation-id can be read."""
        try:
            return self.waiting.get(key_of(delivery.message.correlation_id))
        except DecodeError:
            return None

    def interrupt(self, error: AmqpError | None) -> None:
        if self.ever_attached and self.link is not None and self.link.remote is not None:
            self._last_address = self.address
        super().interrupt(error)

    def go_on(self) -> None:
        super().go_on()
        moved = self.over or self.address != self._last_address
        for waiting in self.waiting.values():
            if moved or waiting.once:
                waiting.lost = True
                waiting.set()

    def wake_all(self) -> None:
        super().wake_all()
        for waiting in self.waiting.values():
            waiting.set()


class ReplyReceiver(Receiver):
    """The receiver of a requester; `Requester` takes what it brings."""

    _core: ReplyCore

    def __init__(self, core: ReplyCore) -> None:
        super().__init__(core)


@made_by("connection.requester(address)", "Sender")
class Requester:
    """Sends requests and waits for their replies; made by `connection.requester()`, opened by `async with`.

        async with connection.requester("service") as requester:
            reply = await requester.request(Message("ping"))

    Any number of tasks may have requests under way.

    Attributes:
        sender, replies: the two links.
    """

    def __init__(
        self, sender: Sender, replies: ReplyReceiver, reply_to: str | None = None, on_lost: OnUncertain | None = None
    ) -> None:
        check_type("replies", replies, ReplyReceiver)
        self.sender = sender
        self.replies = replies
        self._reply_to = reply_to
        self._on_lost = on_lost
        self._prefix = uuid.uuid4().hex[:12]
        self._count = 0

    async def __aenter__(self) -> Self:
        """Attach both links.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the peer refused one, for instance because it
                makes no dynamic nodes, or what they need is gone.
            Unsupported: the dialect has no dynamic nodes, or the peer makes none in its version: give `reply_to`.

        Cancelling: both links are detached.
        """
        await self.replies.__aenter__()
        try:
            await self.sender.__aenter__()
        except BaseException:
            await self.replies.__aexit__(None, None, None)
            raise
        return self

    @property
    def reply_to(self) -> str | None:
        """The address that replies are asked to be sent to."""
        return self._reply_to if self._reply_to is not None else self.replies.address

    @property
    def pending(self) -> int:
        """How many requests wait for their replies."""
        return len({id(waiting) for waiting in core_of(self.replies).waiting.values()})

    @property
    def unmatched(self) -> int:
        """How many replies came that no request waited for: those to cancelled ones, mostly. They are accepted."""
        return core_of(self.replies).unmatched

    def __repr__(self) -> str:
        return f"<Requester by {self.sender!r}: {self.pending} pending>"

    async def request(self, message: object, *, transaction: Transaction | None = None) -> Message:
        """Send a request, and wait for its reply.

        The request gets a `reply_to`, and where it has none a `correlation_id` and a `message_id`. A reply is
        the request's if its correlation-id is one of these two: responders copy the one or the other.

        Args:
            message: a `Message`; any other value is sent as the body of one.
            transaction: send it as part of this transaction (§4.4.1). What it asks for counts when that is committed,
                where the responder works so; most responders get it only then, and their reply never comes before.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the request was not taken, so no reply will come.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: a link ended before the reply came; whether
                the request was processed is not known.
            DeliveryUncertain: the connection was lost and is there again, and requests are not to be sent a second
                time (`on_lost="raise"`, or it is part of a transaction).
            TransactionRolledBack: the coordinator of the transaction was lost, or the request in it.
            LocalProtocolError: another request with this correlation-id waits for its reply; or the transaction has
                ended, or cannot cover these links.
            EncodeError: see `Sender.submit`.
            DecodeError: the reply came, and is malformed; it was rejected.
            anyio.ClosedResourceError: the requester was closed here.

        Cancelling: a reply that comes later is accepted and dropped (`unmatched`). Whether the request was sent is as
            for `Sender.submit`.
        """
        request = message if isinstance(message, Message) else Message(message)
        self._count += 1
        made = f"{self._prefix}-{self._count}"
        correlation = request.correlation_id if request.correlation_id is not None else request.message_id
        request = request.replace(
            message_id=request.message_id if request.message_id is not None else made,
            correlation_id=correlation if correlation is not None else made,
        )
        keys = {key_of(request.correlation_id), key_of(request.message_id)}
        replies = core_of(self.replies)
        sender = core_of(self.sender)
        recovery = replies.connection.recovery
        on_lost = self._on_lost or (recovery.settings.on_uncertain if recovery is not None else None)
        waiting = Waiting(sender.new_signal, once=transaction is not None, at_most_once=on_lost == "raise")
        table = replies.waiting
        await replies.ready()
        if any(key in table for key in keys):
            raise LocalProtocolError(
                f"a request with the correlation-id {request.correlation_id!r} already waits for its response"
            )
        if not replies.open:
            raise replies.gone()  # before it is sent: nobody could hear the reply
        table.update(dict.fromkeys(keys, waiting))
        try:
            while True:
                waiting.lost = waiting.sure = False
                if len(table) == len(keys):
                    sender.expect_answer()
                delivery = await self.sender.submit(request.replace(reply_to=self.reply_to), transaction=transaction)
                reply = await self._reply(waiting, delivery)  # type: ignore[arg-type] # there is no other kind
                if reply is not None:
                    return reply
                await self._lost(waiting)
        finally:
            for key in keys:
                table.pop(key, None)

    async def _lost(self, waiting: Waiting) -> None:
        """Return to send the request again, or raise: its reply cannot come, or it may not have arrived."""
        replies = core_of(self.replies)
        await replies.ready()
        if waiting.at_most_once and not waiting.sure:
            raise DeliveryUncertain(
                "the connection was lost, and the request may or may not have been processed"
            ) from (replies.loss or core_of(self.sender).loss)
        if not replies.open:
            raise replies.gone()

    async def _reply(self, waiting: Waiting, delivery: SenderDelivery) -> Message | None:
        """Return the reply; None if the address that it was to come to is gone."""
        sender, replies = core_of(self.sender), core_of(self.replies)
        settled = False
        try:
            while waiting.reply is None:
                if waiting.failure is not None:
                    raise waiting.failure
                if (error := unknown(delivery)) is not None:
                    sender.report(delivery)
                    raise fresh(error)
                if waiting.lost:
                    return None
                if not settled and (outcome := known_outcome(delivery)) is not None:
                    settled = True
                    if type(outcome) is not Accepted:
                        raise not_accepted(outcome, sender.connection.profile)
                if not (replies.open or replies.interrupted) or replies.closed:
                    raise replies.gone()
                if not settled and sender.over:
                    raise sender.lost()
                if not settled and delivery.waiter is None:
                    delivery.waiter = waiting
                    sender.waiters.add(waiting)
                await waiting.wait(sender.pump)  # type: ignore[arg-type] # there is one as soon as there is a link
            return waiting.reply
        finally:
            if delivery.waiter is waiting:
                delivery.waiter = Repeating()  # nobody waits, and nothing is to be sent again
            sender.waiters.discard(waiting)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Detach both links; requests that still wait raise.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        core_of(self.sender).cause_reported = True  # requests without an outcome have raised, or were given up
        try:
            await self.sender.__aexit__(exc_type, exc, traceback)
        finally:
            await self.replies.__aexit__(None, None, None)


def key_of(correlation_id: Any) -> Hashable:
    """Return a correlation-id as a dict's key: equal in type and value (§3.2.11 to §3.2.14)."""
    kind = int if isinstance(correlation_id, int) else type(correlation_id)
    return kind, correlation_id

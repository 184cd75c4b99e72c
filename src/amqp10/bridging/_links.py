"""The two links of a bridge, with more than a receiver and a sender.

The source's link reports what the source has forgotten, and resumes messages that an earlier process had in flight.
The target's link sends encoded messages unchanged, and reports what the target has forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..client import Connection
from ..client.internals import (
    MESSAGE_COST,
    Browser,
    BrowserCore,
    ClientLink,
    Link,
    LinkStore,
    Receiver,
    ReceiverCore,
    ReceiverDelivery,
    Sender,
    SenderCore,
    SenderDelivery,
    core_of,
)
from ..engine import ReceiverSettleMode
from ..errors import AmqpError, DeliveryUncertain
from ..messaging import ONLY_TO_RESUME, Source, Target

if TYPE_CHECKING:
    from ..client import Transaction
    from ..client.internals import SessionCore, Waiter
    from ..engine import IncomingDelivery, OutgoingDelivery, ReceiverLink, SenderLink


class BridgeLink(Link):
    """What a bridge needs of both links."""

    @property
    def over(self) -> bool:
        """Whether the link is over, and will not be attached again."""
        return self._core.over

    @property
    def answered_detach(self) -> bool:
        """Whether the peer has answered our detach, and so has received all that was sent before it."""
        core = self._core
        return core.detach_sent and core.over and core.cause is None

    @property
    def losses(self) -> int:
        """How often the link was interrupted."""
        return self._core.generation

    @property
    def store(self) -> LinkStore | None:
        """The store of the link's unsettled deliveries."""
        return self._core.store

    async def wait_restored(self) -> None:
        """Wait while the link is being restored."""
        await self._core.ready()


class ResumableLinkCore(ClientLink):
    """The core of a link that is attached again only to resume its messages in flight exactly once.

    Attributes:
        count_in_flight: returns how many of the deliveries the peer must know, so that they are neither lost nor
            duplicated.
        on_unresumable: called when the link is over because the peer does not know them.
        transacted: the link takes part in transactions. A loss of the connection then ends it with all unsettled
            deliveries, because transactional work cannot be resumed, and the rest must come again after it, in order.
        peer_forgot: the peer created the link anew, so it is closed, although the store has deliveries of it.
            Otherwise the peer would take the next attach for a link that it remembers, without deliveries.
    """

    exactly_once = False
    transacted = False
    count_in_flight: Callable[[Iterable[Any]], int]
    on_unresumable: Callable[[DeliveryUncertain], None]
    peer_forgot = False

    @property
    def _in_flight_count(self) -> int:
        return self.count_in_flight(self.pending) if self.exactly_once and self.resuming else 0

    def ask_to_be_kept(self) -> None:
        if not self.transacted:
            super().ask_to_be_kept()

    def is_kept(self) -> bool:
        return not self.transacted and super().is_kept()

    def set_only_to_resume(self) -> None:
        """State in the link's properties, before it attaches, whether it comes only to be resumed."""
        if self.exactly_once:
            properties = {key: value for key, value in self.terms.properties.items() if key != ONLY_TO_RESUME}
            if self._in_flight_count:
                properties[ONLY_TO_RESUME] = True
            self.terms = replace(self.terms, properties=properties)

    def first_attach_refused(self) -> bool:
        if not super().first_attach_refused():
            return False
        count = self._in_flight_count
        if count:
            self.cause = self._forgotten_error(count, self.cause)
        return not count

    def on_ended(self, error: AmqpError | None) -> None:
        recovery, count = self.connection.recovery, self._in_flight_count
        if recovery is None or self.detach_sent or not count or not recovery.refused_to_resume(self, error):
            super().on_ended(error)
            return
        uncertain = self._forgotten_error(count, error)
        self.on_unresumable(uncertain)
        self.end_for_good(uncertain)

    def _forgotten_error(self, count: int, cause: AmqpError | None) -> DeliveryUncertain:
        error = forgotten_error("target" if self.kind == "sender" else "source", count)
        error.__cause__ = cause
        return error

    def detach(self, closed: bool) -> None:
        if self.peer_forgot:
            self.close_at_peer()
        else:
            super().detach(closed)

    def close_at_peer(self) -> None:
        """Close the link at the peer, and leave the store unchanged."""
        self.detach_sent = True
        if self.engine_link is not None:
            self.engine_link.detach(closed=True)
            self.connection.wake()


def forgotten_error(end: str, count: int) -> DeliveryUncertain:
    """Return the error for messages in flight that an end has forgotten, so that exactly once is impossible."""
    return DeliveryUncertain(
        f"the {end} has forgotten {count} messages that were in flight: they may be at the target, or not. "
        "Without the store of deliveries the bridge moves them again, so that none is lost, and some may be there twice"
    )


class SourceLinkCore(ReceiverCore):
    """The part that the cores of all source links share: reports of ended deliveries to the bridge."""

    on_forgotten: Callable[[Iterable[ReceiverDelivery]], None]
    on_settled: Callable[[Iterable[ReceiverDelivery]], None]

    def drop(self, deliveries: Sequence[Any]) -> None:
        super().drop(deliveries)
        self.on_forgotten(deliveries)

    def on_settlements(self, deliveries: Sequence[IncomingDelivery]) -> None:
        super().on_settlements(deliveries)
        self.on_settled(deliveries)  # type: ignore[arg-type]


class SourceLink(BridgeLink, Receiver):
    """The part that `ConsumingSourceLink` and `BrowsingSourceLink` share: manual credit."""

    _core: SourceLinkCore

    @property
    def outstanding(self) -> int:
        """The number of deliveries that the source may still send, or that wait here."""
        core = self._core
        if core.interrupted:
            return core.credit.granted + len(core.undelivered) + self.buffered
        return self.credit - core.taking_again + self.buffered

    def withdraw_credit(self) -> None:
        """Withdraw the granted credit; messages already on their way still come."""
        core = self._core
        if core.open and core.link is not None and core.link.attached and not core.credit.drain_running:
            core.credit.flow(0)

    def put_back(self, deliveries: Iterable[ReceiverDelivery]) -> None:
        """Put deliveries back in front of those that wait here; all are released when the link is left."""
        self._core.consumer.incoming.extendleft(reversed(list(deliveries)))


class ConsumingSourceLinkCore(ResumableLinkCore, SourceLinkCore):
    """The core of the receiving end, at the source.

    Attributes:
        to_resume: deliveries that an earlier process had sent on, to be resumed by the source.
        peer_must_keep: returns whether the source must keep its end of the link.
    """

    to_resume: list[ReceiverDelivery]
    peer_must_keep: Callable[[], bool]

    def attach_to(self, session: SessionCore) -> ReceiverLink:
        self.set_only_to_resume()
        return super().attach_to(session)

    def recalled(self) -> list[ReceiverDelivery]:
        return [*super().recalled(), *self.to_resume]

    def on_attached(self) -> None:
        first = not self.ever_attached
        super().on_attached()
        if first and self.open and self.resuming and self.resumption is not None:
            # A resumed delivery takes credit, but is not new.
            self.resumption.note_resumed()
            if self.taking_again:
                self.credit.flow(self.taking_again)

    def detach(self, closed: bool) -> None:
        super().detach(closed and not self.peer_must_keep())


class ConsumingSourceLink(SourceLink):
    """The receiving end, at the source."""

    _core: ConsumingSourceLinkCore


class BrowsingSourceLinkCore(SourceLinkCore, BrowserCore):
    """The core of the receiving end that leaves messages at the source."""


class BrowsingSourceLink(SourceLink, Browser):
    """The receiving end that leaves messages where they are."""

    _core: BrowsingSourceLinkCore


class TargetLinkCore(ResumableLinkCore, SenderCore):
    """The core of the sending end, at the target.

    Attributes:
        select_to_resend: takes the deliveries of whose outcome the target knows nothing; returns those to send again.
        on_recovered: called with deliveries that an earlier process left.
    """

    select_to_resend: Callable[[list[OutgoingDelivery]], list[OutgoingDelivery]]
    on_recovered: Callable[[Iterable[SenderDelivery]], None]

    def attach_to(self, session: SessionCore) -> SenderLink:
        self.set_only_to_resume()
        return super().attach_to(session)

    def recalled(self) -> list[SenderDelivery]:
        deliveries = super().recalled()
        self.on_recovered(deliveries)
        return deliveries

    def on_unresumed(self, deliveries: Sequence[OutgoingDelivery]) -> None:
        super().on_unresumed(self.select_to_resend(list(deliveries)))


class TargetLink(BridgeLink, Sender):
    """The sending end, at the target."""

    _core: TargetLinkCore

    async def wait_sendable(self, size: int) -> None:
        """Wait until a message of `size` bytes may be sent; `forward` or `pass_turn` must follow without a checkpoint.

        Cancelling: no credit is used.
        """
        queue = self._core.queue
        queue.since_yield += size + MESSAGE_COST
        await queue.wait_sendable()

    def watch(self, waiter: Waiter) -> None:
        """Call `waiter.set()` when the link is over."""
        self._core.waiters.add(waiter)

    @property
    def cause(self) -> AmqpError | None:
        """The reason why the link is over; None for an orderly end."""
        return self._core.cause if self._core.over else None

    def report_end(self) -> Exception:
        """Return the error for messages lost with the link, and record that it is reported."""
        self._core.cause_reported = True
        return self._core.lost()

    def report_all(self) -> None:
        """Record that the link's end, and every message without an outcome, is reported."""
        self._core.report_all()

    def pass_turn(self) -> None:
        """Pass the turn on to other senders, because nothing is to be sent."""
        self._core.queue.pass_on()

    def forward(
        self, payload: bytes, message_format: int, *, tag: bytes | None = None, transaction: Transaction | None = None
    ) -> SenderDelivery:
        """Send an encoded message unchanged, after `wait_sendable`; raises like `Sender.submit`."""
        core = self._core
        assert core.link is not None
        return core.send_on(core.link, payload, False, transaction, message_format, tag)


def make_source_link(
    connection: Connection, source: Source, *, name: str | None, mode: ReceiverSettleMode, copy: bool
) -> SourceLink:
    """Make the receiving end for a source."""
    if copy:
        browser = connection.browser(source, credit=1)
        copies = core_of(connection).link_type(BrowsingSourceLink)
        return copies(BrowsingSourceLinkCore(core_of(connection), None, core_of(browser).terms, 0))
    plain = connection.receiver(source, credit=0, name=name, receiver_settle_mode=mode)
    core = ConsumingSourceLinkCore(core_of(connection), None, core_of(plain).terms, 0)
    core.store = core_of(plain).store
    core.exactly_once = name is not None
    core.to_resume = []
    core.peer_must_keep = lambda: False
    return core_of(connection).link_type(ConsumingSourceLink)(core)


def make_target_link(
    connection: Connection, target: Target | None, *, name: str | None = None, mode: ReceiverSettleMode = "first"
) -> TargetLink:
    """Make the sending end for a target."""
    plain = connection.sender(target, name=name, receiver_settle_mode=mode)
    core = TargetLinkCore(core_of(connection), None, core_of(plain).terms)
    core.store = core_of(plain).store
    core.exactly_once = name is not None
    core.select_to_resend = lambda deliveries: deliveries
    core.on_recovered = lambda deliveries: None
    return core_of(connection).link_type(TargetLink)(core)

"""The core of a sender: its link, the deliveries without an outcome, and the end of the link.

Sender ─── SenderCore ─┬─ SendQueue          the tasks that wait to send
                       └─ SenderResumption   made when first needed
BodyWriter, Pipeline      a stream, a `send_many`: they work on the core
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import anyio

from ...engine import LinkTerms, OutcomeCounter, OutgoingDelivery, SenderLink
from ...errors import AmqpError, LocalProtocolError, TransactionRolledBack
from ...messaging import Accepted, Target
from ...net import Signal, signal_type
from .._core.transaction_work import work_of
from .._errors import fresh
from .._links.core import ClientLink
from .delivery import SenderDelivery, Waiter, not_accepted, outcome_of
from .resumption import SenderResumption
from .send_queue import SendQueue

if TYPE_CHECKING:
    from ...net import Pump
    from .._core.connection import ConnectionCore, SessionCore
    from .._core.transaction_work import TransactionFace


NextWrite = Literal["with others", "at once", "in a crowd"]
"""When the message that is sent next is written.

- with others: together with what other tasks send in the same pass of the event loop;
- at once: its task waits for the answer, and no other task does;
- in a crowd: with others, because several tasks waited for answers a moment ago, and may do so again.
"""


class SenderCore(ClientLink):
    """The core of a sender.

    Attributes:
        link: the engine's link; None before it is attached.
        pump: writes the engine's output; set as soon as there is a link.
        queue: the tasks that wait to send.
        resumption: handles the deliveries of lost links; None before the first loss.
        last: the newest delivery; None if closing need not wait for it.
        presettled: every message is sent settled.
        waiters: what each task that waits for an outcome waits on.
        new_signal: makes the `Signal` that such a task waits on.
        cause_reported: the cause of the link's end has been raised to the user.
    """

    session: SessionCore | None
    pending: list[Any]
    change: anyio.Event | None
    terms: LinkTerms

    def __init__(self, connection: ConnectionCore, session: SessionCore | None, terms: LinkTerms) -> None:
        super().__init__("sender", connection, session, terms)
        self.link: SenderLink | None = None
        self.pump: Pump | None = None
        self.queue: SendQueue = SendQueue(self)
        self.resumption: SenderResumption | None = None
        self.last: OutgoingDelivery | None = None
        self.presettled: bool = terms.settle_mode == "settled"
        self.waiters: set[Waiter] = set()
        self._next_write: NextWrite = "with others"
        self.new_signal: Callable[[], Signal] = Signal
        self.cause_reported: bool = False
        # An aborted delivery stays with a peer that does not understand aborts: only a new link frees it.
        self._needs_new_link = False

    @property
    def engine_link(self) -> SenderLink | None:
        return self.link

    @property
    def unsettled(self) -> int:
        if self.interrupted or self.pending:
            return len(self.pending)
        return len(self.link.unsettled) if self.link is not None else 0

    @property
    def returning(self) -> bool:
        """Whether the link was lost and will be restored, so that waiting senders keep waiting."""
        return self.interrupted and not self.closed

    def report_end(self) -> Exception:
        """Record that the cause of the end is reported, and return the error of a call that can no longer send."""
        self.cause_reported = True
        return self.gone()

    def expect_answer(self) -> None:
        """Record that the task that sends next waits for the peer's answer to its message.

        A task that sends alone has its message written at once. Where several tasks send, one write serves them all:
        after a crowd the first lone call still waits for others.
        """
        if self.waiters:
            self._next_write = "in a crowd"
        elif self._next_write == "in a crowd":
            self._next_write = "with others"
        else:
            self._next_write = "at once"

    # Attaching

    def require_capabilities(self) -> None:
        target = self.terms.target
        if isinstance(target, Target):
            if target.dynamic:
                self.require("dynamic", "dynamic nodes")
            elif target.address is None:
                self.require("anonymous-terminus", "anonymous terminus")
        if self.terms.receiver_settle_mode == "second":
            self.require("settle-second", "receiver settle mode 'second'")

    def attach_to(self, session: SessionCore) -> SenderLink:
        resumed = self.pending if self.resuming else None
        self.link = link = session.in_engine.attach_sender(self.terms, resuming=resumed)
        link.delivery_type = SenderDelivery
        link.lingers = True  # outcomes that arrive after a detach count, too
        self.use_transport()
        session.add_sender(self, self._window_opened)
        self.session = session
        if resumed is not None:
            self.pending = []  # the link's now
        return link

    def use_transport(self) -> None:
        super().use_transport()
        self.pump = self.connection.pump
        self.new_signal = signal_type()

    # Sending

    async def send(
        self, payload: bytes, settled: bool, transaction: TransactionFace | None, message_format: int = 0
    ) -> None:
        """Send an encoded message and wait until it is accepted: see `Sender.send` and `Sender.send_encoded`."""
        self.connection.check_loop()
        self.expect_answer()
        link = self.queue.free_link(len(payload)) or await self.queue.wait_sendable()
        outcome = await outcome_of(self.send_on(link, payload, settled, transaction, message_format))
        if type(outcome) is not Accepted:
            raise not_accepted(outcome, self.connection.profile)

    def send_on(
        self,
        link: SenderLink,
        payload: bytes,
        settled: bool,
        transaction: TransactionFace | None,
        message_format: int = 0,
        tag: bytes | None = None,
    ) -> SenderDelivery:
        """Give an encoded message to the engine, and have it written.

        Args:
            link: the engine's link, as `SendQueue.free_link` or `SendQueue.wait_sendable` returned it.
            payload, settled, transaction, message_format, tag: as for the methods of `Sender` and `SenderLink.send`.

        Raises:
            LocalProtocolError: as for `Sender.submit`; nothing was sent, and the credit is passed on.
        """
        if self.presettled:
            settled = True
        delivery: Any
        try:
            if transaction is None:
                delivery = link.send(payload, settled=settled, tag=tag, message_format=message_format)
                if self.store is not None:
                    self.store.submitted(delivery)
            else:
                work = work_of(transaction)
                state = work.post(self)
                delivery = link.send(payload, settled=settled, tag=tag, message_format=message_format, state=state)
                work.add(delivery)
        except BaseException:
            self.queue.pass_on()
            raise
        self.last = delivery
        if self._next_write == "at once":
            self._next_write = "with others"
            self.pump.write_now()  # type: ignore[union-attr]
        else:
            self.wake()
        if self.queue.draining:
            self.queue.give_back()
        return delivery  # type: ignore[no-any-return]

    # What comes from the peer

    def on_credit(self) -> None:
        self.queue.credit_changed()

    def _window_opened(self) -> None:
        """Wake the tasks that wait for the session's window."""
        self.queue.wake_waiting()
        self.changed()

    def on_outcomes(self, deliveries: Sequence[SenderDelivery]) -> None:
        """Wake each waiter of `deliveries`, which have a new state: the receiver's, or `Unknown`."""
        if self.store is not None:
            self.store.settled(deliveries)
        for delivery in deliveries:
            waiter = delivery.waiter
            if waiter is None:
                continue
            if isinstance(waiter, OutcomeCounter):
                waiter.outcome_received(delivery)
            else:
                delivery.waiter = None
                self.waiters.discard(waiter)
                waiter.set()
        if self.change is not None:
            self.changed()

    def on_accepted(self, waiter: OutcomeCounter, count: int) -> None:
        """Record `count` untracked messages that were accepted."""
        waiter.accepted_more(count)
        if self.change is not None:
            self.changed()

    # A stream, which has the link for itself until it is whole or aborted

    def begin_stream(self, delivery: OutgoingDelivery) -> None:
        """Reserve the link for one delivery that is sent in parts."""
        self.last = delivery
        self.queue.begin_stream()

    def end_stream(self, aborted: OutgoingDelivery | None = None) -> None:
        """Let other messages be sent again."""
        if aborted is not None:
            self.last = None
            self._needs_new_link |= self._abort_needs_new_link(aborted)
        if not (self._needs_new_link and self.open):
            self.queue.end_stream()
        self.changed()

    def report_stream_lost(self) -> Exception:
        """Return the error of a stream whose link is lost: streams are not sent again. An end counts as reported."""
        if self.loss is not None and not (self.over or self.closed):
            return fresh(self.loss)
        return self.report_end()

    def withdraw(self, delivery: OutgoingDelivery) -> None:
        """Abort a message of a rolled-back transaction, if it is not yet written completely and can be aborted."""
        try:
            delivery.link.abort(delivery)
        except LocalProtocolError:
            return
        rolled_back = "the transaction that it is part of was rolled back before it was sent"
        self._resumption().lose(delivery, TransactionRolledBack(description=rolled_back))
        self.report(delivery)  # its transaction reports the rollback
        if delivery.link is self.link and self._abort_needs_new_link(delivery):
            self._needs_new_link = True
            self.changed()

    def _abort_needs_new_link(self, delivery: OutgoingDelivery) -> bool:
        """Return whether the peer keeps its part of this aborted delivery until the link is detached."""
        return delivery.delivery_id is not None and not self.connection.profile.aborts

    def changed(self) -> None:
        super().changed()
        if self._needs_new_link and self.open:
            if self.unsettled:
                self.change = anyio.Event()  # with it, `on_outcomes` calls this again, which tries once more
            else:
                self._change_link()

    def _change_link(self) -> None:
        """Continue on a new link: this peer forgets an aborted delivery only when its link is detached."""
        old, session = self.link, self.session
        assert old is not None
        assert session is not None
        old.retired = True
        old.detach(closed=not self.outlives_link())
        self._needs_new_link = False
        self.terms = replace(self.terms, name=f"{self.terms.name}+")
        try:
            self.resuming = False
            self.attach_again(session)
        except LocalProtocolError as error:
            self.on_ended(error)
        self.end_stream()

    # After a loss

    def _resumption(self) -> SenderResumption:
        """Return the handler of deliveries of lost links, made when first needed."""
        if self.resumption is None:
            self.resumption = SenderResumption(self)
        return self.resumption

    def recalled(self) -> list[SenderDelivery]:
        assert self.store is not None
        return self._resumption().recall(self.store)

    def interrupt(self, error: AmqpError | None) -> None:
        self.queue.link_lost()
        self._needs_new_link = False
        if self.last is not None and self.last.local_settled:
            self.last = None
        self._resumption().interrupted(error)
        super().interrupt(error)

    def go_on(self) -> None:
        if self.link is not None and self.link.attached:
            self.on_unresumed(self.take_pending())
        self.queue.wake_waiting()

    def on_unresumed(self, deliveries: Sequence[OutgoingDelivery]) -> None:
        self._resumption().unresumed(deliveries)

    @property
    def unreported(self) -> set[OutgoingDelivery]:
        """The deliveries whose outcome will never be known, which no call has reported yet."""
        return self.resumption.unreported if self.resumption is not None else set()

    def report(self, delivery: OutgoingDelivery) -> None:
        """Record that the user knows that the delivery's outcome will never be known."""
        self.unreported.discard(delivery)

    def report_all(self) -> None:
        """Record that the user knows of the link's end, and of every message without an outcome."""
        self.cause_reported = True
        self.unreported.clear()

    # Closing

    def wake_all(self) -> None:
        self.queue.wake_waiting()
        self.changed()
        if self.over:
            if self.session is not None:
                self.session.remove_sender(self)
            for waiter in self.waiters:
                waiter.set()

    def has_unfinished_work(self) -> bool:
        return True

    async def drain_work(self) -> None:
        await self.until(lambda: self.over or self._finished())

    def _finished(self) -> bool:
        last = self.last
        return not self.interrupted and not self.unsettled and (last is None or _was_written(last))

    def before_detach(self) -> None:
        """Do nothing: the engine aborts a delivery that was sent in part (§2.6.4)."""

    @property
    def without_outcome(self) -> int:
        """How many deliveries have no outcome, including those that were cut off with the link."""
        last = self.last
        # Sent in order: if the last one was not written completely, it was cut off, and the engine forgot it.
        if last is None or _was_written(last) or (self.link is not None and last.tag in self.link.unsettled):
            return self.unsettled
        return self.unsettled + 1


def _was_written(delivery: OutgoingDelivery) -> bool:
    """Return whether all of a delivery was written, on its link or, if the peer told a state, on an earlier one."""
    return delivery.on_wire or (delivery.handed_over and delivery.remote_state is not None)

"""The two links of a bridge: what they do beyond any receiver and sender.

The intake says what the source has forgotten, and resumes what an earlier process had in flight. The outlet sends
encoded messages as they are, and says what the target has forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..client._browser import Browser
from ..client._connection import Connection
from ..client._delivery import Delivery, SentDelivery
from ..client._link import Link
from ..client._receiver import Receiver
from ..client._sender import Sender
from ..client._sender_turns import MESSAGE_COST
from ..engine import ReceiverSettleMode
from ..errors import AmqpError, DeliveryUncertain
from ..messaging import ONLY_TO_RESUME, Source, Target

if TYPE_CHECKING:
    from ..client import Session, Transaction
    from ..engine import IncomingDelivery, OutgoingDelivery, ReceiverLink, SenderLink


class Exact(Link):
    """A link that is attached again to resume what is in flight exactly once, or not at all.

    Attributes:
        at_stake: how many of these the peer has to know, for them not to be lost or there twice.
        uncertain: told that the link is over, for the peer does not know them.
        transacted: it takes part in transactions. It is lost with its connection, and all that is unsettled on it: what
            was under way in a transaction cannot be resumed, and the rest is to come again behind that, in order.
        forgot: the peer made the link anew. It is closed then, though the store has something of it: else the peer
            would take the next attachment for that of a link which it remembers, with nothing on it.
    """

    exact = False
    transacted = False
    at_stake: Callable[[Iterable[Any]], int]
    uncertain: Callable[[DeliveryUncertain], None]
    forgot = False

    @property
    def _at_stake(self) -> int:
        return self.at_stake(self._pending) if self.exact and self._resuming else 0

    def _ask_to_be_kept(self) -> None:
        if not self.transacted:
            super()._ask_to_be_kept()

    def _is_kept(self) -> bool:
        return not self.transacted and super()._is_kept()

    def _say_what_for(self) -> None:
        """State in the link's properties, before it attaches, whether it comes only to be resumed."""
        if self.exact:
            properties = {key: value for key, value in self._terms.properties.items() if key != ONLY_TO_RESUME}
            if self._at_stake:
                properties[ONLY_TO_RESUME] = True
            self._terms = replace(self._terms, properties=properties)

    def _refused_to_recall(self) -> bool:
        if not super()._refused_to_recall():
            return False
        count = self._at_stake
        if count:
            self._cause = self._forgotten(count, self._cause)
        return not count

    def _on_ended(self, error: AmqpError | None) -> None:
        recovery, count = self.connection._recovery, self._at_stake
        if recovery is None or self._parting or not count or not recovery.refused_to_resume(self, error):
            super()._on_ended(error)
            return
        uncertain = self._forgotten(count, error)
        self.uncertain(uncertain)
        self._end_for_good(uncertain)

    def _forgotten(self, count: int, cause: AmqpError | None) -> DeliveryUncertain:
        error = uncertain("target" if self._kind == "sender" else "source", count)
        error.__cause__ = cause
        return error

    def _detach(self, closed: bool) -> None:
        if self.forgot:
            end_for_good(self)
        else:
            super()._detach(closed)


def uncertain(end: str, count: int) -> DeliveryUncertain:
    """Return the error for messages in flight that an end has forgotten, which cannot be moved exactly once."""
    return DeliveryUncertain(
        f"the {end} has forgotten {count} messages that were in flight: they may be at the target, or not. "
        "Without the store of deliveries the bridge moves them again, so that none is lost, and some may be there twice"
    )


class Ending(Receiver):
    """What `Intake` and `CopyIntake` share: credit by hand, and a word to the bridge about deliveries that ended."""

    forgotten: Callable[[Iterable[Delivery]], None]
    settled: Callable[[Iterable[Delivery]], None]

    @property
    def ahead(self) -> int:
        """Deliveries that the source may still send, and those that wait here."""
        if self._interrupted:
            return self._granted + len(self._hidden) + self.buffered
        return self.credit - len(self._spent_again) + self.buffered

    def withdraw(self) -> None:
        """Take the credit back that is out; what is on its way comes all the same."""
        if self.open and self._link is not None and self._link.attached and not self._drain_running:
            self._flow(0)

    def give_back(self, deliveries: Iterable[Delivery]) -> None:
        """Put deliveries back unchanged before those that wait here; all are released when the link is left."""
        self._incoming.extendleft(reversed(list(deliveries)))

    def _give_up(self, deliveries: Iterable[Any]) -> None:
        deliveries = list(deliveries)
        super()._give_up(deliveries)
        self.forgotten(deliveries)

    def _on_settlements(self, deliveries: Sequence[IncomingDelivery]) -> None:
        super()._on_settlements(deliveries)
        self.settled(deliveries)  # type: ignore[arg-type]


class Intake(Exact, Ending):
    """The receiving end, at the source.

    Attributes:
        in_flight: deliveries that an earlier process had sent on; the source is asked for them again.
        keeps: whether the source has to keep its end of the link.
    """

    in_flight: list[Delivery]
    keeps: Callable[[], bool]

    def _attach_to(self, session: Session) -> ReceiverLink:
        self._say_what_for()
        return super()._attach_to(session)

    def _recalled(self) -> list[Delivery]:
        return [*super()._recalled(), *self.in_flight]

    def _on_attached(self) -> None:
        first = not self._standing
        super()._on_attached()
        if first and self.open and self._resuming:
            # What is resumed takes a credit, and is no news.
            self._note_resumed()
            if self._spent_again:
                self._flow(len(self._spent_again))

    def _detach(self, closed: bool) -> None:
        super()._detach(closed and not self.keeps())


class CopyIntake(Ending, Browser):
    """The receiving end that leaves messages where they are."""


class Outlet(Exact, Sender):
    """The sending end, at the target.

    Attributes:
        unresumed: asked what to do with deliveries that the target has no word about; returns those to be sent again.
        recalled: told of those that an earlier process left.
    """

    unresumed: Callable[[list[OutgoingDelivery]], list[OutgoingDelivery]]
    recalled: Callable[[Iterable[SentDelivery]], None]

    def _attach_to(self, session: Session) -> SenderLink:
        self._say_what_for()
        return super()._attach_to(session)

    async def room(self, size: int) -> None:
        """Wait until a message of that many bytes may be sent; `forward` or `let_others` follows, without a checkpoint.

        Cancelling: no credit is used.
        """
        self._run += size + MESSAGE_COST
        await self._room()

    def let_others(self) -> None:
        """Pass the turn on to other senders: there was room, and nothing to send."""
        self._pass_on()

    def forward(
        self, payload: bytes, message_format: int, *, tag: bytes | None = None, transaction: Transaction | None = None
    ) -> SentDelivery:
        """Hand an encoded message to the wire as it is, when there is room; raises as `Sender.submit` does."""
        link = self._link
        assert link is not None
        try:
            state = transaction._post(self) if transaction is not None else None
            delivery: Any = link.send(payload, tag=tag, message_format=message_format, state=state)
        except BaseException:
            self._pass_on()
            raise
        self._last = delivery
        if transaction is not None:
            transaction._add(delivery)
        elif self._remembered is not None:
            self._remembered.submitted(delivery)
        self.connection._wake()
        if self._draining:
            self._give_back()
        return delivery  # type: ignore[no-any-return]

    def _recalled(self) -> list[SentDelivery]:
        deliveries = super()._recalled()
        self.recalled(deliveries)
        return deliveries

    def _on_unresumed(self, deliveries: Iterable[OutgoingDelivery]) -> None:
        super()._on_unresumed(self.unresumed(list(deliveries)))


def end_for_good(link: Link) -> None:
    """Close the link at the peer, and leave the store as it is."""
    link._parting = True
    engine = link._engine_link
    if engine is not None:
        engine.detach(closed=True)
        link.connection._wake()


def intake(connection: Connection, source: Source, *, name: str | None, mode: ReceiverSettleMode, copy: bool) -> Ending:
    """Make the receiving end for a source."""
    if copy:
        browser = connection.browser(source, credit=1)
        return CopyIntake(connection, None, browser._terms, 0, require_filters=True)
    plain = connection.receiver(source, credit=0, name=name, receiver_settle_mode=mode)
    made = Intake(connection, None, plain._terms, 0, require_filters=True)
    made._remembered = plain._remembered
    made.exact = name is not None
    made.in_flight = []
    made.keeps = lambda: False
    return made


def outlet(
    connection: Connection, target: Target | None, *, name: str | None = None, mode: ReceiverSettleMode = "first"
) -> Outlet:
    """Make the sending end for a target."""
    plain = connection.sender(target, name=name, receiver_settle_mode=mode)
    made = Outlet(connection, None, plain._terms)
    made._remembered = plain._remembered
    made.exact = name is not None
    made.unresumed = lambda deliveries: deliveries
    made.recalled = lambda deliveries: None
    return made

"""Dispositions: deliveries by their ids, what is said of them in ranges, both ways (§2.7.6)."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ...engine import OutcomesMissed, OutcomesReceived, PostsAccepted, Session, SettlementsReceived
from ...messaging import Accepted, TransactionalState
from ._frames import encode_disposition
from ._link import SessionFault
from ._posted import Run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...engine import IncomingDelivery, OutgoingDelivery
    from ...messaging import DeliveryState
    from ._connection import ConnectionEndpoint
    from ._engine import V1Engine
    from ._link import LinkEndpoint
    from ._performatives import Disposition
    from ._receiver import ReceiverEndpoint
    from ._sender import SenderEndpoint

MASK = 0xFFFF_FFFF


class SettlingSession(Session):
    """The part of a session that tells and hears states: by delivery-id.

    Attributes:
        outgoing, incoming: unsettled deliveries.
        posted: runs of those that were not made into objects, each by its first.
        unmade: links that may have incoming ones that were not.
    """

    engine: V1Engine

    def __init__(self, connection: ConnectionEndpoint, channel: int) -> None:
        self.connection = connection
        self.engine = connection.engine
        self.channel = channel
        self.muted = False
        self.outgoing: dict[int, OutgoingDelivery] = {}
        self.incoming: dict[int, IncomingDelivery] = {}
        self.unmade: set[ReceiverEndpoint] = set()
        self.next_delivery_id = 0
        self.posted: dict[int, Run] = {}
        self._last_run: Run | None = None  # of them, the one that may go on
        self._by_remote_handle: dict[int, LinkEndpoint] = {}
        self._dispositions: dict[tuple[bool, bool, Any], list[int]] = {}
        # Of the disposition said last, if it settles what we received, for mostly so does the next; else no state.
        # benchmarks/budget.py, "receive": a quarter of the steps.
        self.last_outcome: object = self
        self.last_ids: list[int] = []

    # Dispositions out: ids are collected by what is said of them, and become ranges when the output is taken.
    # benchmarks/budget.py, "receive": one by one, a third more steps.

    def dispose(self, as_receiver: bool, number: int, settled: bool, state: DeliveryState | None) -> None:
        if self.muted:
            return
        if state is not None:
            self.engine.check_state(state)
        if not self._dispositions:
            self.engine.owe(self)
        try:
            ids = self._dispositions.setdefault((as_receiver, settled, state), [])
        except TypeError:  # a state that cannot be hashed, a Modified with annotations: a range of its own
            self.flush()
            self._write_ranges(as_receiver, settled, state, [number])
            return
        ids.append(number)
        self.last_outcome, self.last_ids = state if as_receiver and settled else self, ids

    def flush(self) -> None:
        if not self._dispositions:
            return
        pending, self._dispositions = self._dispositions, {}
        self.last_outcome = self
        for (as_receiver, settled, state), ids in pending.items():
            self._write_ranges(as_receiver, settled, state, ids)

    def _write_ranges(self, as_receiver: bool, settled: bool, state: Any, ids: list[int]) -> None:
        for first, last in ranges(ids):
            self.engine.write(encode_disposition(self.channel, as_receiver, first, last, settled, state))

    # What was posted (`_posted`)

    def keep_posted(self, link: SenderEndpoint, payload: bytes, waiter: Any, number: int, tag: int) -> None:
        """Keep what was sent without an object, under its delivery-id."""
        run = self._last_run
        if run is None or run.waiter is not waiter or run.end != number or run.link is not link:
            self._last_run = run = self.posted[number] = Run(link, waiter, number, tag)
        run.payloads.append(payload)
        run.end = number + 1 & MASK
        link.posted += 1

    def make_posted(self) -> None:
        """Make objects of all that was posted: there is more to be said of them, or they are to be looked at."""
        runs, self.posted, self._last_run = sorted(self.posted.values(), key=attrgetter("tag")), {}, None
        for run in runs:
            run.link.posted = 0
        for run in runs:
            for delivery in run.deliveries():
                run.link.unsettled[delivery.tag] = delivery
                self.outgoing[delivery.delivery_id] = delivery  # type: ignore[index]

    def _accept_posted(self, first: int, count: int) -> int:
        """The receiver has accepted and settled a range: how many of it, from the first on, were posted."""
        done = 0
        while done < count and (run := self.posted.get(first + done & MASK)) is not None and run.link.attached:
            del self.posted[run.number]
            taken = min(count - done, len(run.payloads))
            run.drop(taken)
            if run.payloads:
                self.posted[run.number] = run
            elif run is self._last_run:
                self._last_run = None
            self.engine.emit(PostsAccepted(run.link, run.waiter, taken))
            done += taken
        return done

    # Dispositions in

    def _receive_disposition(self, frame: Disposition) -> None:
        first = frame.first
        count = ((frame.last if frame.last is not None else first) - first & MASK) + 1
        if count > 0x8000_0000:
            raise SessionFault(
                "amqp:invalid-field", f"a disposition from {first} to {frame.last}: last is before first"
            )
        if self.posted and frame.role:
            if type(frame.state) is Accepted and frame.settled:
                done = self._accept_by_turns(first, count, frame)
                if done == count:
                    return
                first, count = first + done & MASK, count - done
            if not self._are_objects(first, count) and any(run.overlaps(first, count) for run in self.posted.values()):
                self.make_posted()
        self._hear(first, count, frame)

    def _accept_by_turns(self, first: int, count: int, frame: Disposition) -> int:
        """A range that is accepted and settled, of posted ones and of objects in any order: how many of it are done."""
        at = self._accept_posted(first, count)
        while at < count and (first + at & MASK) in self.outgoing:  # one step for each: there may be many runs
            begun = at
            while at < count and (first + at & MASK) in self.outgoing:
                at += 1
            self._hear(first + begun & MASK, at - begun, frame)
            at += self._accept_posted(first + at & MASK, count - at)
        if at == count:
            return count
        # Next is one that was settled before, or one of a run that is not its first.
        places = sorted(run.number - first & MASK for run in self.posted.values() if run.overlaps(first, count))
        if places and places[-1] >= count:  # one that begins before the range: not its first are accepted
            return at
        for place in places:
            if place > at:
                self._hear(first + at & MASK, place - at, frame)
                at = place
            if place == at:
                taken = self._accept_posted(first + at & MASK, count - at)
                if not taken:  # its link was left
                    break
                at += taken
        return at

    def _are_objects(self, first: int, count: int) -> bool:
        """Whether all of a range were not posted, or made into objects since."""
        if count > len(self.outgoing):
            return False
        return all(number & MASK in self.outgoing for number in range(first, first + count))

    def _hear(self, first: int, count: int, frame: Disposition) -> None:
        """What the peer says of deliveries that are objects, and no others, in a range."""
        if not frame.role:
            while self.unmade:
                receiver = self.unmade.pop()
                receiver.bring(receiver.waiting)
        # The role in the frame is its sender's: a receiver speaks of what we sent (§2.7.6).
        table: dict[int, Any] = self.outgoing if frame.role else self.incoming
        numbers: Iterable[int]
        if count == 1:
            numbers = (first,)
        elif count > len(table):
            # A range may span four thousand million ids; only those that are unsettled cost anything.
            numbers = sorted(
                (number for number in table if (number - first & MASK) < count),
                key=lambda number: number - first & MASK,
            )
        else:
            numbers = [number & MASK for number in range(first, first + count)]
        changed = [delivery for number in numbers if (delivery := table.get(number)) is not None]
        if frame.settled and not frame.role and len(changed) < count:
            for each in self._by_remote_handle.values():
                each.receive_settled_part(first, count, frame.state)
        if frame.role and len(changed) < count and type(frame.state) is TransactionalState:
            self.engine.emit(OutcomesMissed(self, frame.state))
        if not changed:
            return
        groups: dict[LinkEndpoint, list[Any]] = {}
        for delivery in changed:
            groups.setdefault(delivery.link, []).append(delivery)
        for link, deliveries in groups.items():
            if link.errant:
                raise self._errant("disposition")
            told = link.receive_states(deliveries, frame.state, frame.settled)
            if told:
                event = OutcomesReceived(link, told) if link.is_sender else SettlementsReceived(link, told)  # type: ignore[arg-type]
                self.engine.emit(event)

    def _errant(self, what: str) -> SessionFault:
        return SessionFault("amqp:session:errant-link", f"a {what} for a link that was detached with an error")


def ranges(ids: list[int]) -> list[tuple[int, int]]:
    """The runs of consecutive serial numbers in `ids`, which lie within 2**31 of each other (RFC 1982)."""
    first, last = min(ids), max(ids)
    if last - first == len(ids) - 1 and len(set(ids)) == len(ids):
        return [(first, last)]  # one run, as is usual, without a step for each: one in twenty
    base = ids[0] - 0x8000_0000
    offsets = sorted(number - base & MASK for number in ids)
    runs = []
    first = last = offsets[0]
    for offset in offsets[1:]:
        if offset > last + 1:
            runs.append((first + base & MASK, last + base & MASK))
            first = offset
        last = offset
    runs.append((first + base & MASK, last + base & MASK))
    return runs

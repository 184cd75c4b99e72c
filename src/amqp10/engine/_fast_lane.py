"""The contract between protocol and world: the fast lane. Everything works without it, but many messages cost more.

Each member has a default that is right for every dialect. An engine without a fast lane does not override it, and an
owner that does not use one never sees it.

    send without objects          SenderLink.send_untracked      an accepted message never becomes a delivery
    send many at once             SenderLink.send_run            one call, and no deliveries where all are accepted
    end with many unsettled       SenderLink.take_untracked      what ends with its link never becomes a delivery
    the owner's own deliveries    delivery_type                  the user holds the engine's object
    receive without objects       lazy, unmaterialized           deliveries are made as they are taken
    accept many at once           next_run, accept_run           accepted deliveries are never made
    settle like the last one      ReceiverLink.settle_like_last  no check of states, one range on the wire
    write without copies          Engine.buffers_to_send         large payloads are written from where they lie
    count without objects         Link.count_unsettled           for whoever looks at a connection's health
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ._deliveries import IncomingDelivery, OutgoingDelivery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..messaging import DeliveryState
    from ._owners import OutcomeCounter


class _Sends(Protocol):
    def send(self, payload: bytes, *, settled: bool = False) -> OutgoingDelivery: ...


class SenderFastLane:
    """The members of a sending link for speed.

    Attributes:
        delivery_type: the class of the deliveries that `send` makes. Rule: the owner may set a subclass before
            the first message is sent.
        largest_in_run: the most octets that a message of `send_run` may have.
    """

    delivery_type: type[OutgoingDelivery] = OutgoingDelivery
    largest_in_run: int = 0

    def run_room(self, sharers: int) -> int:
        """Return how many messages `send_run` takes now, if `sharers` links of the session each send as many.

        It is 0 if each message is to be sent by itself.
        """
        return 0

    def send_run(self: _Sends, payloads: Sequence[bytes], waiters: Sequence[object], *, settled: bool = False) -> None:
        """Send messages as `send` does one after the other.

        Rule: `run_room` of them at most, of `largest_in_run` octets at most, and all of message-format 0. The messages
        become deliveries in `unsettled` as those of `send_untracked` do.

        Args:
            payloads: the encoded messages.
            waiters: what becomes the `waiter` of each delivery, or is told by `RunAccepted`.
            settled: send them settled.

        Raises:
            LocalProtocolError: as for `send`.
        """
        for payload, waiter in zip(payloads, waiters, strict=True):
            self.send(payload, settled=settled).waiter = waiter

    def send_untracked(
        self: _Sends, payload: bytes, waiter: OutcomeCounter, *, settled: bool = False
    ) -> OutgoingDelivery | None:
        """Send a message like `send`, for an owner that only counts outcomes and does not hold deliveries.

        Rule: if no delivery is returned, all of the message is on the wire. It becomes a delivery in `unsettled` if
        anything else happens to it than "accepted and settled", or if `unsettled` is read.

        Args:
            payload: the encoded message.
            waiter: counts the outcomes, as the `waiter` of a delivery or by `UntrackedAccepted`.
            settled: send it settled.

        Returns:
            The delivery; None if none was made.

        Raises:
            LocalProtocolError: as for `send`.
        """
        delivery = self.send(payload, settled=settled)
        delivery.waiter = None if settled else waiter
        return delivery

    def take_untracked(self) -> list[Any]:
        """Return the waiters of unsettled messages that are not deliveries, in the order of sending, and forget them.

        Rule: the link is over, and its owner has no other use for them.
        """
        return []


class ReceiverFastLane:
    """The members of a receiving link for speed.

    Attributes:
        delivery_type: the class of the deliveries in `incoming`. Rule: the owner may set a subclass before `flow`. A
            server of a dialect with exchanges has `RoutedDelivery` from the beginning.
        lazy: True leaves deliveries out of `incoming` until `materialize` asks for them, if the dialect can do that;
            until then they need not be objects. False puts all there at once. Rule: set it before `flow`.
        unmaterialized: the number of deliveries that are here after those in `incoming`.
    """

    delivery_type: type[IncomingDelivery] = IncomingDelivery
    lazy = False
    unmaterialized = 0

    def materialize(self, most: int) -> None:
        """Append the next `most` unmaterialized deliveries to `incoming`. Rule: the end of the link appends all."""

    def next_run(self) -> Sequence[bytes]:
        """Return the payloads of the unmaterialized deliveries that come next, as far as `accept_run` can accept them.

        All are whole, of message-format 0, and without a state of the sender's. Deliveries that were made already are
        appended to `incoming` before, as `materialize` does.
        """
        return ()

    def accept_run(self, count: int) -> None:
        """Take the first `count` deliveries of `next_run`, and settle them as accepted, without making them.

        Rule: nothing else was called on the link since `next_run`.
        """
        raise LookupError(f"next_run() has no {count} deliveries: accept_run() is for those that it returns")

    def settle_like_last(self, number: int | None, tag: bytes, state: DeliveryState) -> bool:
        """Settle a delivery with `state`, if the last one was settled with the same and that is not written yet.

        Rule: only for a delivery without any state so far. The connection's task is not woken again: settling the last
        delivery woke it.

        Returns:
            False if nothing was done: call `settle` instead.
        """
        return False


class UnsettledCount(NamedTuple):
    """What a link has unsettled, in numbers.

    Attributes:
        total: how many deliveries.
        first, last: the delivery-ids of the oldest and the newest of them; None without any, or without an id yet.
    """

    total: int
    first: int | None
    last: int | None


def count_unsettled(unsettled: Mapping[bytes, Any]) -> UnsettledCount:
    """Return the numbers of a link's table of deliveries."""
    if not unsettled:
        return UnsettledCount(0, None, None)
    first, last = next(iter(unsettled.values())), next(reversed(unsettled.values()))  # type: ignore[call-overload]
    return UnsettledCount(len(unsettled), first.delivery_id, last.delivery_id)

"""What comes again after a loss is known by its bare message, whatever the source says of it by then."""

from __future__ import annotations

from typing import Any

from amqp10 import Message
from amqp10.bridging._redelivery import LOSSES, RedeliveryCounter
from amqp10.client.internals import ReceiverDelivery


def delivery(payload: bytes) -> ReceiverDelivery:
    """One with that payload."""
    unbound: Any = None
    return ReceiverDelivery(unbound, unbound, b"", payload, False)


def message(number: int, **marks: Any) -> ReceiverDelivery:
    """A message, as the source may have marked it."""
    return delivery(Message(number, message_id=f"id-{number}", **marks).encode())


def test_marked_in_any_way() -> None:
    """Header and annotations of another delivery make no difference, and another message does."""
    counter = RedeliveryCounter(10)
    for number in range(3):
        counter.record_accepted(message(number))
    assert counter.unconfirmed == 3
    assert counter.count([message(0)]) == 0, "nothing was lost yet"
    counter.on_link_lost()
    assert counter.unconfirmed == counter.awaited == 3
    back = [
        message(0, delivery_count=1),
        message(1, first_acquirer=False, message_annotations={"x-delivery-count": 1}),
        message(7, delivery_count=3),
    ]
    assert counter.count(back[:1]) == 1
    assert counter.awaited == 2
    assert counter.count(back[1:]) == 1
    assert counter.awaited == 0, "another message came"
    assert counter.count(back) == 0, "once for each time that it was told"


def test_twins() -> None:
    """Of messages that are alike as many may have been moved as were told of."""
    counter = RedeliveryCounter(10)
    counter.record_accepted(message(1))
    counter.record_accepted(message(1))
    counter.on_link_lost()
    assert counter.count([message(1)] * 3) == 2


def test_no_more_than_were_out() -> None:
    """What was told before those is known to have been heard; and a loss of long ago is forgotten."""
    counter = RedeliveryCounter(2)
    for number in range(5):
        counter.record_accepted(message(number))
    assert counter.unconfirmed == 2
    counter.on_link_lost()
    assert counter.count([message(number) for number in range(5)]) == 2
    counter.record_accepted(message(100))
    for loss in range(LOSSES):
        counter.record_accepted(message(2 * loss))
        counter.record_accepted(message(2 * loss + 1))
        counter.on_link_lost()
    assert counter.count([message(100)]) == 0
    assert counter.count([message(0)]) == 1


def test_what_cannot_be_read() -> None:
    """It is known as a whole."""
    counter = RedeliveryCounter(2)
    counter.record_accepted(delivery(b"no message"))
    counter.on_link_lost()
    assert counter.count([delivery(b"no message"), delivery(b"another")]) == 1

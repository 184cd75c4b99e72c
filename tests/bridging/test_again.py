"""What comes again after a loss is known by its bare message, whatever the source says of it by then."""

from __future__ import annotations

from typing import Any

from amqp10 import Message
from amqp10.bridging._again import LOSSES, Again
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
    again = Again(10)
    for number in range(3):
        again.told(message(number))
    assert again.unheard == 3
    assert again.count([message(0)]) == 0, "nothing was lost yet"
    again.lost()
    assert again.unheard == 0
    back = [
        message(0, delivery_count=1),
        message(1, first_acquirer=False, message_annotations={"x-delivery-count": 1}),
        message(7, delivery_count=3),
    ]
    assert again.count(back) == 2
    assert again.count(back) == 0, "once for each time that it was told"


def test_twins() -> None:
    """Of messages that are alike as many may have been moved as were told of."""
    again = Again(10)
    again.told(message(1))
    again.told(message(1))
    again.lost()
    assert again.count([message(1)] * 3) == 2


def test_no_more_than_were_out() -> None:
    """What was told before those is known to have been heard; and a loss of long ago is forgotten."""
    again = Again(2)
    for number in range(5):
        again.told(message(number))
    assert again.unheard == 2
    again.lost()
    assert again.count([message(number) for number in range(5)]) == 2
    again.told(message(100))
    for loss in range(LOSSES):
        again.told(message(2 * loss))
        again.told(message(2 * loss + 1))
        again.lost()
    assert again.count([message(100)]) == 0
    assert again.count([message(0)]) == 1


def test_what_cannot_be_read() -> None:
    """It is known as a whole."""
    again = Again(2)
    again.told(delivery(b"no message"))
    again.lost()
    assert again.count([delivery(b"no message"), delivery(b"another")]) == 1

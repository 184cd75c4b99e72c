"""Link credit: integers against the words of §2.6.7, and a sender and a receiver against each other."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.dialects.v1_0.credit import ReceiverCredit, SenderCredit
from amqp10.types import serial_add

STARTS = [0, 1, 2**31 - 2, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1]
starts = pytest.mark.parametrize("start", STARTS)


# The sender


@pytest.mark.spec("2.6.7", "initially link-credit and available are zero, and drain is false")
@starts
def test_sender_begins_with_nothing(start: int) -> None:
    """No credit before the receiver's first flow; the count is the one of the attach."""
    flow = SenderCredit(start)
    assert (flow.delivery_count, flow.credit, flow.available, flow.drain) == (start, 0, 0, False)


@pytest.mark.spec("2.6.7", "a message sent increments delivery-count and decrements link-credit")
@starts
def test_sender_sends(start: int) -> None:
    """The count goes over the wrap; the credit comes down to nothing."""
    flow = SenderCredit(start)
    flow.flow_received(start, 6, False)
    for number in range(6):
        assert (flow.delivery_count, flow.credit) == (serial_add(start, number), 6 - number)
        flow.sent()
    assert (flow.delivery_count, flow.credit) == (serial_add(start, 6), 0)


@starts
def test_sender_takes_back(start: int) -> None:
    """A delivery that never reached the wire gives its credit back."""
    flow = SenderCredit(start)
    flow.flow_received(None, 1, False)
    flow.sent()
    flow.unsent()
    assert (flow.delivery_count, flow.credit) == (start, 1)


@pytest.mark.spec(
    "2.6.7", "link-credit of the sender: the receiver's delivery-count plus its link-credit, less the sender's count"
)
@starts
def test_sender_reckons_what_is_under_way(start: int) -> None:
    """Deliveries that the receiver had not seen when it wrote the flow are taken off the credit."""
    flow = SenderCredit(start)
    flow.flow_received(start, 10, False)
    for _ in range(8):
        flow.sent()
    flow.flow_received(serial_add(start, 5), 10, True)
    assert (flow.credit, flow.drain) == (7, True)
    flow.flow_received(serial_add(start, 5), 2, False)
    assert (flow.credit, flow.drain) == (0, False)


@starts
def test_sender_takes_back_what_is_beyond_its_credit(start: int) -> None:
    """Deliveries that were begun on a credit that is lower now give none back, until no more than it are begun."""
    flow = SenderCredit(start)
    flow.flow_received(start, 5, False)
    for _ in range(4):
        flow.sent()
    flow.flow_received(start, 2, False)
    left = []
    for _ in range(4):
        flow.unsent()
        left.append(flow.credit)
    assert left == [0, 0, 1, 2]
    assert flow.delivery_count == start


@pytest.mark.spec("2.6.7", "a null delivery-count of the receiver stands for the initial one")
@starts
def test_sender_with_a_receiver_that_knows_no_count(start: int) -> None:
    """Such a flow was written before our attach was seen, so that all that was begun counts against it."""
    flow = SenderCredit(start)
    flow.flow_received(None, 5, False)
    flow.sent()
    flow.sent()
    flow.flow_received(None, 5, False)
    assert flow.credit == 3


@starts
def test_sender_with_a_receiver_ahead(start: int) -> None:
    """A receiver that counts deliveries that were never sent gets no more than it granted."""
    flow = SenderCredit(start)
    flow.flow_received(serial_add(start, 2**31 - 1), 2**32 - 1, False)
    assert flow.credit == 2**32 - 1


@pytest.mark.spec("2.6.7", "a drained sender advances delivery-count by the credit that is left, and has none then")
@starts
def test_sender_drains(start: int) -> None:
    """The count goes on as if the credit had been used, over the wrap too."""
    flow = SenderCredit(start)
    flow.flow_received(start, 10, True)
    flow.sent()
    flow.drained()
    assert (flow.delivery_count, flow.credit) == (serial_add(start, 10), 0)


# The receiver


@starts
def test_receiver_counts(start: int) -> None:
    """Each delivery uses up one credit and moves the count; without credit it does neither."""
    flow = ReceiverCredit(None)
    flow.attached(start)
    flow.grant(6, False)
    for number in range(6):
        assert (flow.delivery_count, flow.credit) == (serial_add(start, number), 6 - number)
        assert not flow.used_up
        assert flow.received()
    assert flow.used_up
    assert not flow.received()
    assert flow.delivery_count == serial_add(start, 6)


@pytest.mark.spec("2.6.7", "the delivery-count of a receiver is unknown until the sender's attach")
def test_receiver_before_the_attach() -> None:
    """Credit can be granted before the count is known."""
    flow = ReceiverCredit(None)
    flow.grant(3, False)
    assert flow.delivery_count is None
    flow.flow_received(7, 2)
    assert (flow.delivery_count, flow.credit, flow.available) == (None, 3, 2)
    flow.attached(2**32 - 1)
    assert flow.received()
    assert flow.delivery_count == 0


def test_receiver_without_a_count() -> None:
    """A delivery that comes before the sender's attach uses up credit all the same."""
    flow = ReceiverCredit(None)
    flow.grant(1, False)
    assert flow.received()
    assert (flow.delivery_count, flow.used_up) == (None, True)


@starts
def test_receiver_takes_credit_back(start: int) -> None:
    """Messages on their way when credit was taken back are not an error of the sender; further ones are."""
    flow = ReceiverCredit(start)
    flow.grant(3, False)
    assert flow.received()
    flow.grant(0, False)
    assert flow.credit == 0
    assert flow.received()
    assert flow.received()
    assert not flow.received()


@starts
def test_receiver_hears_of_the_drain(start: int) -> None:
    """A count ahead of ours is credit that was given back."""
    flow = ReceiverCredit(start)
    flow.grant(10, True)
    assert flow.received()
    flow.flow_received(serial_add(start, 10), 0)
    assert (flow.delivery_count, flow.credit, flow.used_up) == (serial_add(start, 10), 0, True)


@starts
def test_receiver_hears_an_old_count(start: int) -> None:
    """A count behind ours changes nothing, and a flow without one neither."""
    flow = ReceiverCredit(start)
    flow.grant(10, False)
    assert flow.received()
    flow.flow_received(start, None)
    flow.flow_received(None, 4)
    assert (flow.delivery_count, flow.credit, flow.available) == (serial_add(start, 1), 9, 4)


# Both

STEPS = st.one_of(
    st.sampled_from(["send", "sender reads", "receiver reads", "drained"]), st.tuples(st.integers(0, 8), st.booleans())
)


@given(st.one_of(st.sampled_from(STARTS), st.integers(0, 2**32 - 1)), st.booleans(), st.lists(STEPS))
def test_two_ends(start: int, attached: bool, steps: list[Any]) -> None:
    """However flows and deliveries cross: the receiver never sees more than it granted, and in the end both agree."""
    sender, receiver = SenderCredit(start), ReceiverCredit(None)
    to_sender: deque[tuple[int | None, int, bool]] = deque()
    to_receiver: deque[int | None] = deque()  # a delivery, or the count of a sender's flow
    if attached:
        receiver.attached(start)

    def read() -> None:
        item = to_receiver.popleft()
        if receiver.delivery_count is None:
            receiver.attached(start)  # the attach comes before either
        if item is None:
            assert receiver.received(), "a delivery came without credit"
        else:
            receiver.flow_received(item, 0)

    for step in steps:
        if step == "send" and sender.credit:
            sender.sent()
            to_receiver.append(None)
        elif step == "sender reads" and to_sender:
            sender.flow_received(*to_sender.popleft())
        elif step == "receiver reads" and to_receiver:
            read()
        elif step == "drained" and sender.drain:
            sender.drained()
            to_receiver.append(sender.delivery_count)
        elif isinstance(step, tuple):
            receiver.grant(*step)
            to_sender.append((receiver.delivery_count, *step))
    while to_sender:
        sender.flow_received(*to_sender.popleft())
    while to_receiver:
        read()
    assert sender.credit == receiver.credit
    if receiver.delivery_count is not None:
        assert sender.delivery_count == receiver.delivery_count

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqp10.broker._queues.queue import Queue
from amqp10.messaging import ACCEPTED, RELEASED, Modified, Rejected

from ...kit.broker.queue_doubles import Taker, attach, fill, more

Make = Callable[..., Queue]
FAILED = Modified(delivery_failed=True)
NOT_HERE = Modified(undeliverable_here=True)


class TestBrowsing:
    @pytest.mark.spec("3.5.3", "distribution-mode copy leaves the message available")
    def test_copies_stay(self, make_queue: Make) -> None:
        """A browser sees all; the messages stay for others."""
        queue, browser, taker = make_queue(), Taker(10, copies=True), Taker(10)
        fill(queue, 1, 2)
        attach(queue, browser)
        fill(queue, 3)
        queue.run()
        assert browser.numbers == [1, 2, 3]
        attach(queue, taker)
        assert taker.numbers == [1, 2, 3]
        assert queue.copied == 3

    def test_does_not_see_what_is_held_or_gone(self, make_queue: Make) -> None:
        """A message that a consumer holds, or has taken, is not there to be seen."""
        queue, taker, browser = make_queue(), Taker(1), Taker(0, copies=True)
        fill(queue, 1, 2, 3)
        attach(queue, browser)
        attach(queue, taker)
        more(queue, taker, 1)
        queue.settle(taker.taken[0], taker, ACCEPTED)
        more(queue, browser, 10)
        assert browser.numbers == [3]

    def test_sees_returned_messages_in_order(self, make_queue: Make) -> None:
        """A browser that comes later sees messages that had come back, in their places."""
        queue, taker, browser = make_queue(), Taker(2), Taker(10, copies=True)
        fill(queue, 1, 2, 3)
        attach(queue, taker)
        queue.settle(taker.taken[1], taker, NOT_HERE)
        queue.settle(taker.taken[0], taker, RELEASED)
        attach(queue, browser)
        assert browser.numbers == [1, 2, 3]

    def test_outcomes_of_copies_mean_nothing(self, make_queue: Make) -> None:
        """Rejecting or accepting a copy leaves the message alone."""
        queue, browser = make_queue(), Taker(10, copies=True)
        fill(queue, 1)
        attach(queue, browser)
        queue.settle(browser.taken[0], browser, Rejected(None))
        assert (queue.depth, queue.rejected) == (1, 0)

    def test_lazy_browser_holds_nothing(self, make_queue: Make) -> None:
        """What left the queue does not pile up for a browser that never asks."""
        queue, browser, taker = make_queue(), Taker(0, copies=True), Taker(0, settles=True)
        attach(queue, browser, taker)
        for _ in range(20):
            fill(queue, *range(100))
            more(queue, taker, 100)
        assert sum(len(unseen) for unseen in queue._browsing.unseen.values()) <= 400

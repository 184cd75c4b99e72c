from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.broker._queues.node import Limits
from amqp10.broker._queues.queue import Queue, QueueSettings
from amqp10.messaging import ACCEPTED, Modified

from ...kit.broker.queue_doubles import Giver, Taker, attach, entry, more

Make = Callable[..., Queue]
FAILED = Modified(delivery_failed=True)
NOT_HERE = Modified(undeliverable_here=True)


class TestRoom:
    def test_free(self, make_queue: Make) -> None:
        """Room is counted in messages, held ones included, and in bytes by the usual size."""
        queue = make_queue(limits=Limits(messages=5, bytes=10_000))
        assert queue.free == 2
        queue.put(entry(1, b"x" * 991))
        assert queue.free == 4
        for _ in range(8):
            queue.put(entry(1, b"x" * 991))
        assert queue.free == -4

    def test_full_grants_nothing_and_drops_nothing(self, make_queue: Make) -> None:
        """A producer gets credit up to the limit and more when messages leave."""
        queue, giver, taker = make_queue(limits=Limits(messages=10)), Giver(), Taker(0)
        queue.add_producer(giver)
        queue.run()
        assert giver.grants == [10]
        giver.give(queue, 10)
        queue.run()
        assert giver.granted == 0
        attach(queue, taker)
        more(queue, taker, 4)
        for taken in taker.taken:
            queue.settle(taken, taker, ACCEPTED)
        queue.run()
        assert giver.granted == 4
        assert queue.depth == 6

    def test_unlimited_tops_up_by_half_windows(self, make_queue: Make) -> None:
        """Where room is no question a grant comes once for half a window of messages."""
        queue, giver = make_queue(limits=Limits(credit=100)), Giver()
        queue.add_producer(giver)
        queue.run()
        for _ in range(100):
            giver.give(queue)
            queue.run()
        assert giver.grants == [100, 100, 100]

    def test_bytes_take_credit_back(self, make_queue: Make) -> None:
        """When the bytes are full, credit that is out is taken back."""
        queue, giver = make_queue(limits=Limits(bytes=1_000_000)), Giver()
        queue.add_producer(giver)
        queue.run()
        giver.give(queue, 2, size=600_000)
        queue.run()
        assert giver.granted == 0
        assert queue.depth == 2

    @given(st.data())
    @settings(max_examples=60, deadline=None)
    def test_shares(self, data: st.DataObject) -> None:
        """Whatever producers do, the limit holds but for one message each, and no producer starves with room free."""
        limit = data.draw(st.integers(1, 50))
        window = data.draw(st.integers(1, 30))
        queue = Queue(
            "q", QueueSettings(clock=lambda: 0.0, touch=lambda node: None, limits=Limits(messages=limit, credit=window))
        )
        givers = [Giver() for _ in range(data.draw(st.integers(1, 8)))]
        taker = Taker(0, settles=True)
        queue.add_consumer(taker)
        for giver in givers:
            queue.add_producer(giver)
            queue.run()
        for _ in range(data.draw(st.integers(1, 30))):
            giver = data.draw(st.sampled_from(givers))
            if giver.granted > 0 and data.draw(st.booleans()):
                giver.give(queue, data.draw(st.integers(1, giver.granted)))
            else:
                taker.credit = data.draw(st.integers(0, 20))
                queue.in_line(taker)
            queue.run()
            assert queue.depth <= limit + len(givers)
            outstanding = sum(giver.granted for giver in givers)
            assert queue.depth + outstanding <= limit + len(givers)
            if queue.free > 0:
                assert all(giver.granted > 0 for giver in givers)

"""Credit and acknowledgments, whatever is done in whatever order: never too many messages, never a wrong outcome."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from amqp10.engine import IncomingDelivery, LinkEnded, LinkTerms, OutcomesReceived, OutgoingDelivery
from amqp10.messaging import ACCEPTED, RELEASED, Message, Released, Source, Target
from amqp10.testing import EnginePair


class Receiving(RuleBasedStateMachine):
    """A queue at the server, a receiver at the client; octets are carried when the machine likes."""

    taken = Bundle("taken")

    @initialize(unreliable=st.booleans(), last=st.sampled_from([0, 2**31 - 3, 2**32 - 4]))
    def attach(self, unreliable: bool, last: int) -> None:
        self.unreliable = unreliable
        self.pair = EnginePair(dialect="fast")
        self.pair.open()
        terms = LinkTerms("l", Source("q"), Target(), settle_mode="settled" if unreliable else "unsettled")
        self.sending, self.receiving = self.pair.attach(sender="server", terms=terms)
        self.pair.take("client")
        channel: Any = self.sending.session
        channel.last_number = last  # of the messages: they soon pass the end of their numbers
        self.queue = deque(range(1000))
        self.accepted: set[int] = set()  # by the client
        self.done: set[int] = set()  # by what the server heard
        self.granted = 0  # how many may have come, at most
        self.taken_so_far = 0

    # The wire

    @rule(portion=st.integers(1, 200))
    def to_server(self, portion: int) -> None:
        data = self.pair.client.data_to_send()
        for start in range(0, len(data), portion):
            self.pair.server.receive_data(data[start : start + portion])
            self.serve()
        self.serve()

    @rule(portion=st.integers(1, 200))
    def to_client(self, portion: int) -> None:
        data = self.pair.server.data_to_send()
        for start in range(0, len(data), portion):
            self.pair.client.receive_data(data[start : start + portion])

    @rule()
    def both(self) -> None:
        for _ in range(4):
            self.to_server(1000)
            self.to_client(1000)

    def serve(self) -> None:
        """Act as the server's owner: put outcomes into the queue, and take messages out of it."""
        for event in self.pair.server.events():
            if isinstance(event, OutcomesReceived):
                for delivery in event.deliveries:
                    self.told(delivery)
        while self.queue and self.sending.attached and self.sending.credit > 0:
            number = self.queue.popleft()
            self.sending.send(Message(number).encode(), settled=self.unreliable).waiter = number
        if self.sending.drain:
            self.sending.drained()

    def told(self, delivery: OutgoingDelivery) -> None:
        number: Any = delivery.waiter
        assert number not in self.done
        if delivery.remote_state == ACCEPTED:
            assert number in self.accepted
            self.done.add(number)
        else:
            assert isinstance(delivery.remote_state, Released)
            self.queue.appendleft(number)

    # The client

    @rule(credit=st.integers(0, 20) | st.just(70_000), drain=st.booleans())
    def flow(self, credit: int, drain: bool) -> None:
        self.receiving.flow(credit, drain=drain)
        self.granted = max(self.granted, self.arrived + credit)  # what is on its way may be more than credit by now

    @property
    def arrived(self) -> int:
        return self.taken_so_far + len(self.receiving.incoming)

    @rule(target=taken)
    def take(self) -> tuple[IncomingDelivery, int] | None:
        if not self.receiving.incoming:
            return None
        delivery = self.receiving.incoming.popleft()
        self.taken_so_far += 1
        number = Message.decode(delivery.payload).body
        assert number not in self.accepted, "what was accepted came again"
        if self.unreliable:
            self.accepted.add(number)
        return delivery, number

    @rule(one=consumes(taken))
    def accept(self, one: tuple[IncomingDelivery, int] | None) -> None:
        if one is not None and not one[0].local_settled:
            self.receiving.settle(one[0], ACCEPTED)
            self.accepted.add(one[1])

    @rule(one=consumes(taken))
    def release(self, one: tuple[IncomingDelivery, int] | None) -> None:
        if one is not None and not one[0].local_settled:
            self.receiving.settle(one[0], RELEASED)

    @invariant()
    def no_more_than_credit(self) -> None:
        if hasattr(self, "receiving"):
            assert self.arrived <= self.granted
            assert not any(isinstance(event, LinkEnded) for event in self.pair.client_events)

    def teardown(self) -> None:
        """In the end the server has heard of all that was accepted, and of nothing else."""
        if not hasattr(self, "pair"):
            return
        self.receiving.detach()
        for _ in range(4):
            self.to_server(1000)
            self.to_client(1000)
        if not self.unreliable:
            assert self.done == self.accepted
            left = {delivery.waiter for delivery in self.sending.unsettled.values()}
            assert left.isdisjoint(self.accepted)
            assert left | set(self.queue) | self.done == set(range(1000))


TestReceiving = pytest.mark.slow(Receiving.TestCase)
TestReceiving.settings = settings(max_examples=12, stateful_step_count=40, deadline=None)


class Exact(Receiving):
    """The same with a client whose engine counts every message against the credit at the time."""

    @rule()
    def settle_down(self) -> None:
        """When all that was said has been heard, the two ends agree on what may come."""
        self.both()
        self.both()
        if not self.sending.drain and self.queue and self.receiving.credit <= 1000:
            assert self.sending.credit == 0
            assert self.receiving.credit == 0


TestExact = pytest.mark.slow(Exact.TestCase)
TestExact.settings = settings(max_examples=12, stateful_step_count=40, deadline=None)

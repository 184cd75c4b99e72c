"""An owner that has yet to hear of an end still answers and detaches: that goes nowhere, and raises nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from amqp10.engine import (
    ConnectionEnded,
    DeclareQueue,
    Engine,
    IncomingDelivery,
    Link,
    LinkAttached,
    LinkTerms,
    PendingRequest,
    QueueFacts,
    ReceiverLink,
    RequestReceived,
    SenderLink,
    Session,
    SessionBegun,
)
from amqp10.errors import AmqpError, LocalProtocolError
from amqp10.messaging import Accepted, DeliveryState, Error, Message, Modified, Rejected, Released, Source, Target
from amqp10.testing import EnginePair

NO = Error("amqp:not-found", "there is none")
OTHER = {"client": "server", "server": "client"}
OUTCOMES: tuple[DeliveryState, ...] = (Accepted(), Released(), Rejected(NO), Modified())
Call = Callable[[], object]


class Walk:
    """A random conversation, with owners that answer late or never, and what each of them holds then.

    Attributes:
        over: the connection is over for the side that `end` was called for.
    """

    def __init__(self, dialect: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.pair = EnginePair(dialect=dialect)
        self.pair.open()
        self.engines: dict[str, Engine] = {"client": self.pair.client, "server": self.pair.server}
        self.sessions: dict[str, list[Session]] = {"client": [], "server": []}
        self.links: dict[str, list[Link]] = {"client": [], "server": []}
        self.requests: list[PendingRequest[QueueFacts]] = []
        self.taken: list[tuple[ReceiverLink, IncomingDelivery]] = []
        self.over = False
        steps = [self.begin, self.attach, self.answer, self.answer, self.send, self.flow, self.settle, self.request]
        for step in self.random.choices([*steps, self.move, self.move, self.leave], k=self.random.randrange(3, 30)):
            with suppress(AmqpError):  # what the walk may not do just now
                step()

    def rarely(self) -> bool:
        return self.random.random() < 0.2

    def often(self) -> bool:
        return self.random.random() < 0.6

    def carry(self, side: str) -> None:
        """Carry what that side has written, and hear what it brought."""
        other = OTHER[side]
        self.engines[other].receive_data(self.engines[side].data_to_send())
        for event in self.engines[other].events():
            if isinstance(event, SessionBegun) and event.session not in self.sessions[other]:
                self.sessions[other].append(event.session)
            elif isinstance(event, LinkAttached) and event.link not in self.links[other]:
                self.links[other].append(event.link)
            elif isinstance(event, RequestReceived):
                self.requests.append(event.request)

    def move(self) -> None:
        for side in OTHER:
            if self.often():
                self.carry(side)

    def begin(self) -> None:
        self.sessions["client"].append(self.pair.client.begin())

    def attach(self) -> None:
        session = self.sessions["client"][-1] if self.sessions["client"] else self.pair.client.begin()
        terms = LinkTerms(f"link-{len(self.links['client'])}", Source("queue"), Target("queue"))
        attach = session.attach_sender if self.often() else session.attach_receiver
        self.links["client"].append(attach(terms))

    def answer(self) -> None:
        for call in self.answers():
            if self.often():
                call()

    def answers(self) -> list[Call]:
        """Make the answers that the server owes, one to each question."""
        calls: list[Call] = [session.begin for session in self.sessions["server"] if session.terms is None]
        for link in self.links["server"]:
            if link.terms is None and link.remote is not None and link.session.terms is not None:
                accept = partial(link.attach, replace(link.remote, initial_delivery_count=0))
                calls.append(partial(link.refuse, NO) if self.rarely() else accept)
        for pending in self.requests:
            if not pending.answered:
                accept_request = partial(self.done, pending)
                calls.append(partial(pending.session.refuse, pending, NO) if self.rarely() else accept_request)
        return calls

    def done(self, pending: PendingRequest[QueueFacts]) -> None:
        self.requests.remove(pending)
        pending.session.answer(pending, QueueFacts("queue"))

    def ends(self, kind: type[SenderLink] | type[ReceiverLink]) -> list[Link]:
        return [link for side in OTHER for link in self.links[side] if isinstance(link, kind)]

    def send(self) -> None:
        for link in self.ends(SenderLink):
            if isinstance(link, SenderLink) and link.credit:
                link.send(Message("x" * self.random.choice([1, 400, 300_000])).encode())

    def flow(self) -> None:
        for link in self.ends(ReceiverLink):
            if isinstance(link, ReceiverLink) and self.often():
                link.flow(self.random.randrange(5), drain=self.rarely())

    def settle(self) -> None:
        for link in self.ends(ReceiverLink):
            while isinstance(link, ReceiverLink) and link.incoming:
                self.taken.append((link, link.incoming.popleft()))
        self.random.shuffle(self.taken)
        while self.taken and self.often():
            link, delivery = self.taken.pop()
            link.settle(delivery, OUTCOMES[self.random.randrange(4)])

    def request(self) -> None:
        for session in self.sessions["client"]:
            session.request(DeclareQueue("queue"))

    def leave(self) -> None:
        for link in self.ends(SenderLink) + self.ends(ReceiverLink):
            if self.rarely():
                link.detach(closed=self.often())
        for session in [*self.sessions["client"], *self.sessions["server"]]:
            if self.rarely() and self.rarely():
                session.end()

    def end(self, side: str, how: str) -> None:
        """End the connection or its sessions for one side, which is told nothing of it yet."""
        mine, other = self.engines[side], OTHER[side]
        self.over = how != "ended"
        if how == "lost":
            mine.receive_eof()
        elif how == "closed":
            self.engines[other].close(NO if self.often() else None)
            mine.receive_data(self.engines[other].data_to_send())
        elif how == "closing":
            mine.close(NO if self.often() else None)
            self.over = self.often()
            if self.over:
                mine.receive_eof()
        elif how == "broken":
            mine.receive_data(b"\xff" * 64)
        elif how == "ended":
            for session in self.sessions[other]:
                session.end(NO if self.often() else None)
            mine.receive_data(self.engines[other].data_to_send())

    def late(self, side: str) -> list[Call]:
        """Make what the owner may still say, in any order."""
        calls: list[Call] = self.answers() if side == "server" else []
        for session in self.sessions[side]:
            calls += [session.end, partial(session.end, NO), partial(self.attach_late, session)]
        for link in self.links[side]:
            if link.terms is not None:  # else it is refused
                calls += [link.detach, partial(link.detach, closed=False), partial(link.detach, error=NO)]
            calls += [link.suspended, link.count_unsettled]
            if isinstance(link, SenderLink):
                calls += [link.drained, partial(link.offer, 3), partial(link.tell, {"key": 1})]
                for delivery in list(link.unsettled.values()):
                    calls += [partial(link.settle, delivery), partial(link.take_back, delivery)]
            elif isinstance(link, ReceiverLink):
                calls += [partial(self.grant, link, 3), partial(self.grant, link, 0)]
        mine = self.engines[side]
        calls += [mine.close, partial(mine.close, NO), mine.flush, mine.data_to_send, partial(mine.tick, 5.0)]
        self.random.shuffle(calls)
        return [*calls, mine.events, mine.data_to_send]

    @staticmethod
    def attach_late(session: Session) -> None:
        with suppress(LocalProtocolError):  # its owner looks first
            session.attach_sender(LinkTerms("late", Source("queue"), Target("queue")))

    @staticmethod
    def grant(link: ReceiverLink, credit: int) -> None:
        with suppress(LocalProtocolError):  # its owner looks first
            link.flow(credit)


@pytest.mark.parametrize("how", ["lost", "closed", "closing", "broken", "ended"])
@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize("dialect", ["1.0", "0-10", "0-9-1", "0-9", "fast"])
def test_late(dialect: str, side: str, how: str) -> None:
    """Forty conversations each: nothing is written where the connection is over, and its end is told once."""
    for seed in range(40):
        walk = Walk(dialect, seed)
        walk.end(side, how)
        engine = walk.engines[side]
        engine.data_to_send()
        given = [call() for call in walk.late(side)]
        events = [event for each in given if isinstance(each, list) for event in each]
        assert sum(isinstance(event, ConnectionEnded) for event in events) == (1 if walk.over else 0), seed
        written = b"".join(each for each in given if isinstance(each, bytes))
        assert how == "ended" or written == b"", seed

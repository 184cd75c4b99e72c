"""A consumer that is alone in line is given messages many at a time; all is as if each were handed out by itself."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from amqp10.broker._links.consumer import ConsumerLink
from amqp10.broker._queues.node import Limits
from amqp10.broker._queues.queue import Queue
from amqp10.broker._router import Router
from amqp10.engine import LinkTerms, ReceiverLink
from amqp10.messaging import ACCEPTED, RELEASED, Message, Modified, Rejected, Source, Target

from ..conftest import Clock
from ..wire import Wire, queue_of

OUTCOMES: list[Any] = [*[ACCEPTED] * 6, RELEASED, Modified(delivery_failed=True), Rejected()]


def payload(chance: Random, number: int) -> bytes:
    """A message, most of them plain."""
    kind = chance.randrange(20)
    said: dict[str, Any] = {}
    if kind == 0:
        said["ttl"] = timedelta(seconds=chance.choice((1, 1000)))
    elif kind == 1:
        said["first_acquirer"] = True
    elif kind == 2:
        said["durable"] = True
    size = 3000 if kind == 3 else chance.randrange(50)
    return Message(b"%d:" % number + bytes(size), **said).encode()


def life(seed: int, mode: str) -> list[Any]:
    """What the broker says in a random life of a queue, pass by pass, and what the queue counts in the end."""
    chance, clock = Random(seed), Clock()
    router = Router(clock=clock, limits=Limits(credit=100_000))
    sender, taker = Wire(router), Wire(router, max_frame_size=chance.choice((512, 65_536)))
    to = sender.send_to("q")
    links = [taker.receive_from("q", name=f"r{number}", settle_mode=mode) for number in range(chance.choice((1, 1, 2)))]
    heard: list[Any] = []
    held: list[tuple[ReceiverLink, Any]] = []
    for step in range(30):
        for number in range(chance.randrange(15)):
            to.send(payload(chance, 100 * step + number), message_format=chance.randrange(40) // 39)
        sender.turn()
        for link in links:
            link.flow(chance.randrange(40), drain=chance.randrange(8) == 0)
        clock.now += chance.randrange(2)
        taker.full = chance.randrange(10) == 0
        taker.turn()
        if taker.full:
            taker.full = False
            taker.peer.resume()
            taker.turn()
        for link in links:
            heard.append([(each.delivery_id, each.tag, each.payload) for each in link.incoming])
            held += [(link, each) for each in link.incoming]
            link.incoming.clear()
        while held and chance.randrange(12):
            link, each = held.pop(chance.randrange(len(held)))
            if not each.local_settled:
                link.settle(each, chance.choice(OUTCOMES))
        taker.turn()
    queue = queue_of(router, "q")
    counted = (queue.depth, queue.bytes, queue.unsettled, queue.dequeued, queue.redelivered, queue.expired)
    return [*heard, counted, [link.credit for link in links]]


@pytest.mark.parametrize("mode", ["unsettled", "settled"])
@pytest.mark.parametrize("seed", range(6))
def test_as_one_by_one(monkeypatch: pytest.MonkeyPatch, seed: int, mode: str) -> None:
    """The same deliveries with the same numbers, tags and octets, in the same passes; and the same is left."""
    taken: list[int] = []
    deliver_run = ConsumerLink.deliver_run

    def watched(self: ConsumerLink, entries: Any) -> int:
        taken.append(deliver_run(self, entries))
        return taken[-1]

    monkeypatch.setattr(ConsumerLink, "deliver_run", watched)
    by_runs = life(seed, mode)
    assert max(taken) > 1
    taken.clear()
    monkeypatch.setattr(Queue, "lends_runs", False)
    assert life(seed, mode) == by_runs
    assert not taken


def test_looks_at_the_output() -> None:
    """A peer that does not read gets one run, of 64 KiB at most, and no more until its output has room."""
    router = Router(clock=Clock(), limits=Limits())

    class Slow(Wire):
        def blocked(self) -> bool:
            return self.engine.output_size > 10_000

    sender, taker = Wire(router), Slow(router)
    to = sender.send_to("q")
    for _ in range(300):
        to.send(Message(bytes(1000)).encode())
    sender.turn()
    link = taker.session.attach_receiver(LinkTerms("r", source=Source("q"), target=Target()))
    link.flow(300)
    taker.take(taker.client.data_to_send())
    assert 2 <= queue_of(router, "q").unsettled <= 65
    taker.peer.resume()
    assert queue_of(router, "q").unsettled > 65

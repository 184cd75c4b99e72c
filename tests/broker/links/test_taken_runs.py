"""Messages of a sender are taken many at a time; all is as if each message were taken by itself."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from amqp10.broker import BrokerLimits
from amqp10.engine import LinkEnded, OutcomesReceived
from amqp10.messaging import Message

from ...kit.broker.wire import Wire, queue_of
from ...kit.clock import Clock
from ...kit.inside.broker import Limits, MessageRow, Queue, Store, VirtualHostCore, VirtualHostSettings, load

MALFORMED = b"\x00\x53\x73\xc0\x0b\x09" + b"\x40" * 8 + b"\xa1\xff"
FURTHER: tuple[dict[str, Any], ...] = (
    {"ttl": timedelta(seconds=1000)},
    {"delivery_annotations": {"a": 1}},
    {"priority": 9},
    {"ttl": timedelta(milliseconds=200)},
    {"ttl": timedelta(seconds=1000), "delivery_annotations": {"a": "b" * 300}, "group_id": "g"},
)


def payload(chance: Random, number: int) -> bytes:
    """A message, most of them plain."""
    kind = chance.randrange(20)
    if kind == 0:
        return MALFORMED
    said: dict[str, Any] = {"message_id": number, "durable": chance.randrange(3) == 0}
    if kind <= len(FURTHER):
        said |= FURTHER[kind - 1]
    return Message(bytes(chance.randrange(80)), **said).encode()


def life(seed: int, path: Path, room: float) -> list[Any]:
    """What senders are told in a random life of a queue, and what is in the queue, in the store, and counted."""
    chance, clock = Random(seed), Clock()
    vhost = VirtualHostCore(VirtualHostSettings(limits=Limits(credit=100_000), peers=BrokerLimits()), clock=clock)
    store = Store(str(path / "store"), clock, clock)
    load(store, vhost, clock)
    store._largest = room
    wire = Wire(vhost)
    links = [wire.send_to("q", name=f"s{number}", settle_mode="mixed") for number in range(chance.choice((1, 2)))]
    heard: list[Any] = []
    for step in range(12):
        for number in range(chance.randrange(12)):
            link = chance.choice(links)
            if link.attached:
                state = chance.randrange(10) == 0
                link.send(
                    payload(chance, 100 * step + number), settled=state, message_format=chance.randrange(40) // 39
                )
        for event in wire.turn():
            if isinstance(event, OutcomesReceived):
                heard += [
                    (each.link.name, each.tag, each.remote_state, each.local_settled) for each in event.deliveries
                ]
            elif isinstance(event, LinkEnded):
                heard.append(str(event.error))
        if chance.randrange(4) == 0:
            store.commit()
        heard.append([link.credit for link in links])
    queue = queue_of(vhost, "q")
    for entry in queue._waiting.available():
        heard.append((entry.payload, entry.position, entry.durable, entry.expires, entry.account, entry.row))
    counted = (queue.depth, queue.bytes, queue.enqueued, vhost.unroutable, sorted(queue.charges.values()))
    store.commit()
    rows = [row[1:] for row in store.file.rows(MessageRow)]
    store.close()
    return [*heard, counted, rows]


@pytest.mark.parametrize("room", [1e9, 1500])
@pytest.mark.parametrize("seed", range(6))
def test_as_one_by_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int, room: float) -> None:
    """Senders hear the same, and the same is in the queue and in the store: with a disk that is soon full, too."""
    taken: list[int] = []
    take_run = Queue.take_run

    def watched(self: Queue, entries: Any) -> None:
        taken.append(len(entries))
        take_run(self, entries)

    monkeypatch.setattr(Queue, "take_run", watched)
    for name in "ab":
        (tmp_path / name).mkdir()
    by_runs = life(seed, tmp_path / "a", room)
    assert max(taken) > 1
    taken.clear()
    monkeypatch.setattr(Queue, "takes_runs", False)
    assert life(seed, tmp_path / "b", room) == by_runs
    assert not taken

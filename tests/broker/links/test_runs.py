"""Consumers are given messages many at a time; all is as if each message were handed out by itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from amqp10.broker._links.consumer import ConsumerLink
from amqp10.engine import LinkTerms, ReceiverLink, SessionTerms
from amqp10.messaging import ACCEPTED, RELEASED, Message, Modified, Rejected, Selector, Source, Target

from ...kit.broker.wire import Wire, bodies, queue_of
from ...kit.clock import Clock
from ...kit.inside.broker import Limits, Queue, Store, VirtualHostCore, VirtualHostSettings, load

OUTCOMES: list[Any] = [*[ACCEPTED] * 6, RELEASED, Modified(delivery_failed=True), Rejected()]


def payload(chance: Random, number: int) -> bytes:
    """A message, most of them plain."""
    kind = chance.randrange(20)
    said: dict[str, Any] = {}
    if kind == 0 or kind > 15:
        said["ttl"] = timedelta(seconds=chance.choice((1, 5, 1000)))
    if kind == 1 or kind == 16:
        said["first_acquirer"] = True
    elif kind == 2:
        said["durable"] = True
    size = 3000 if kind == 3 else chance.randrange(50)
    return Message(b"%d:" % number + bytes(size), application_properties={"n": number % 4}, **said).encode()


def source(number: int, filters: Sequence[str]) -> Source:
    """The source of a link by its number."""
    selector = filters[number % len(filters)] if filters else ""
    return Source("q", filter={"s": Selector(selector)} if selector else {})


def life(seed: int, mode: str, *, browse: bool = False, filters: Sequence[str] = ()) -> list[Any]:
    """What the broker says in a random life of a queue, pass by pass, and what the queue counts in the end.

    Args:
        browse: whether one of the links only browses.
        filters: the selectors of the links in turn; one that is empty is none.
    """
    chance, clock = Random(seed), Clock()
    vhost = VirtualHostCore(VirtualHostSettings(limits=Limits(credit=100_000)), clock=clock)
    sender, frame = Wire(vhost), chance.choice((512, 65_536))
    terms = SessionTerms(incoming_window=chance.choice((3, 20, 2048)))
    takers = [Wire(vhost, max_frame_size=frame, session=terms) for _ in range(2)]
    to = sender.send_to("q")
    links = [
        takers[number % 2].receive_from(source(number, filters), name=f"r{number}", settle_mode=mode)
        for number in range(chance.choice((1, 1, 2, 3, 5)))
    ]
    if browse:
        links.append(takers[0].receive_from(Source("q", distribution_mode="copy"), name="b", settle_mode=mode))
    heard: list[Any] = []
    held: list[tuple[ReceiverLink, Any]] = []
    for step in range(30):
        for number in range(chance.randrange(15)):
            to.send(payload(chance, 100 * step + number), message_format=chance.randrange(40) // 39)
        sender.turn()
        for link in links:
            link.flow(chance.randrange(40), drain=chance.randrange(8) == 0)
        clock.now += chance.randrange(2)
        if chance.randrange(3) == 0:
            vhost.expire()
        for taker in takers:
            taker.full = chance.randrange(10) == 0
            taker.turn()
        for taker in takers:
            taker.turn()
            if taker.full:
                taker.full = False
                taker.peer.resume()
                taker.turn()
        for link in links:
            # The numbers of a session's deliveries tell in what order its links had them, which nobody promises.
            alone = len(links) < 3
            heard.append([(alone and each.delivery_id, each.tag, each.payload) for each in link.incoming])
            held += [(link, each) for each in link.incoming]
            link.incoming.clear()
        while held and chance.randrange(12):
            link, each = held.pop(chance.randrange(len(held)))
            if not each.local_settled:
                link.settle(each, chance.choice(OUTCOMES))
        for taker in takers:
            taker.turn()
    queue = queue_of(vhost, "q")
    counted = (
        queue.depth,
        queue.bytes,
        queue.unsettled,
        queue.dequeued,
        queue.redelivered,
        queue.expired,
        queue.copied,
    )
    return [*heard, counted, [link.credit for link in links]]


@pytest.mark.parametrize("mode", ["unsettled", "settled"])
@pytest.mark.parametrize("seed", range(8))
def test_as_one_by_one(monkeypatch: pytest.MonkeyPatch, seed: int, mode: str) -> None:
    """Each link has the same deliveries with the same tags and octets, in the same passes; and the same is left."""
    taken: list[int] = []
    deliver_run = ConsumerLink.deliver_run

    def watched(self: ConsumerLink, entries: Any, payloads: Any) -> None:
        taken.append(len(entries))
        deliver_run(self, entries, payloads)

    monkeypatch.setattr(ConsumerLink, "deliver_run", watched)
    by_runs = life(seed, mode)
    assert max(taken) > 1
    taken.clear()
    monkeypatch.setattr(Queue, "lends_runs", False)
    assert life(seed, mode) == by_runs
    assert not taken


@pytest.mark.parametrize("filters", [["n < 3"], ["n < 3", "n > 0"], ["", "n < 3", "n < 3"]], ids=" | ".join)
@pytest.mark.parametrize("seed", range(6))
def test_selections_as_one_by_one(monkeypatch: pytest.MonkeyPatch, seed: int, filters: Sequence[str]) -> None:
    """Consumers with equal filters are given what passes by runs, and all others one by one."""
    taken: list[int] = []
    deliver_run = ConsumerLink.deliver_run

    def watched(self: ConsumerLink, entries: Any, payloads: Any) -> None:
        taken.append(len(entries))
        deliver_run(self, entries, payloads)

    monkeypatch.setattr(ConsumerLink, "deliver_run", watched)
    by_runs = life(seed, "unsettled", filters=filters)
    if len(filters) == 1:
        assert max(taken) > 1
    monkeypatch.setattr(Queue, "lends_runs", False)
    assert life(seed, "unsettled", filters=filters) == by_runs


@pytest.mark.parametrize("mode", ["unsettled", "settled"])
@pytest.mark.parametrize("seed", range(3))
def test_browsers_as_one_by_one(monkeypatch: pytest.MonkeyPatch, seed: int, mode: str) -> None:
    """A browser sees the same, beside consumers that take what it has seen or not."""
    shown: list[int] = []
    deliver_run = ConsumerLink.deliver_run

    def watched(self: ConsumerLink, entries: Any, payloads: Any) -> None:
        if self.copies:
            shown.append(len(entries))
        deliver_run(self, entries, payloads)

    monkeypatch.setattr(ConsumerLink, "deliver_run", watched)
    by_runs = life(seed, mode, browse=True)
    assert max(shown) > 1
    shown.clear()
    monkeypatch.setattr(ConsumerLink, "run_room", lambda self, sharers: 0)
    assert life(seed, mode, browse=True) == by_runs
    assert not shown


def test_a_browser_cannot_take_a_run(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The messages stay for consumers; the browser goes on with the next ones."""
    wire = Wire(VirtualHostCore(clock=Clock()))
    to = wire.send_to("q")
    browser = wire.receive_from(Source("q", distribution_mode="copy"), credit=10)
    with monkeypatch.context() as patched:
        patched.setattr(ConsumerLink, "deliver_run", lambda self, entries, payloads: 1 / 0)
        for number in range(3):
            to.send(Message(number).encode())
        wire.turn()
    assert "could not be shown to a browser" in caplog.text
    to.send(Message(3).encode())
    wire.turn()
    assert bodies(browser) == [3]
    assert queue_of(wire.vhost, "q").depth == 4


def test_looks_at_the_output() -> None:
    """A peer that does not read gets one run, of 64 KiB at most, and no more until its output has room."""
    vhost = VirtualHostCore(clock=Clock())

    class Slow(Wire):
        def blocked(self) -> bool:
            return self.engine.output_size > 10_000

    sender, taker = Wire(vhost), Slow(vhost)
    to = sender.send_to("q")
    for _ in range(300):
        to.send(Message(bytes(1000)).encode())
    sender.turn()
    link = taker.session.attach_receiver(LinkTerms("r", source=Source("q"), target=Target()))
    link.flow(300)
    taker.take(taker.client.data_to_send())
    assert 2 <= queue_of(vhost, "q").unsettled <= 65
    taker.peer.resume()
    assert queue_of(vhost, "q").unsettled > 65


def several(
    granted: list[int], count: int, vhost: VirtualHostCore | None = None
) -> tuple[list[Wire], list[ReceiverLink]]:
    """Receivers on connections of their own, and durable messages that came when each had its credit."""
    vhost = vhost or VirtualHostCore(clock=Clock())
    sender = Wire(vhost)
    to, takers = sender.send_to("q"), [Wire(vhost) for _ in granted]
    links = [
        taker.receive_from("q", credit=credit, name=f"r{number}")
        for number, (taker, credit) in enumerate(zip(takers, granted, strict=True))
    ]
    for number in range(count):
        to.send(Message(number, durable=True).encode())
    sender.turn()
    for taker in takers:
        taker.turn()
    return takers, links


def test_turns() -> None:
    """Consumers take turns, one message each, and who has no credit left is passed over."""
    _, links = several([100, 100, 100], 11)
    assert [bodies(link) for link in links] == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8]]
    _, links = several([2, 5, 100], 14)
    assert [bodies(link) for link in links] == [[0, 3], [1, 4, 6, 8, 10], [2, 5, 7, 9, 11, 12, 13]]


def test_outcomes_in_the_middle_of_a_run() -> None:
    """One is rejected, one released, one failed: the two that come back go first, and to whoever is next."""
    takers, links = several([4, 4], 8)
    queue = queue_of(takers[0].vhost, "q")
    accepted, rejected, released, failed = links[0].incoming
    links[0].incoming.clear()
    for delivery, outcome in (
        (accepted, ACCEPTED),
        (rejected, Rejected()),
        (released, RELEASED),
        (failed, Modified(delivery_failed=True)),
    ):
        links[0].settle(delivery, outcome)
    takers[0].turn()
    assert (queue.depth, queue.unsettled, queue.dequeued, queue.rejected, queue.redelivered) == (6, 4, 1, 1, 2)
    links[1].flow(10)
    takers[1].turn()
    assert bodies(links[1]) == [1, 3, 5, 7, 4, 6]
    assert [Message.decode(each.payload).delivery_count for each in links[1].incoming] == [0, 0, 0, 0, 0, 1]


def test_one_closes_in_the_middle_of_a_run() -> None:
    """What it did not accept goes to the others, in order, before what is younger."""
    takers, links = several([6, 3], 12)
    assert [bodies(link) for link in links] == [[0, 2, 4, 6, 7, 8], [1, 3, 5]]
    for delivery in list(links[0].incoming)[1:4]:
        links[0].settle(delivery, ACCEPTED)
    links[0].detach(closed=True)
    takers[0].turn()
    links[1].incoming.clear()
    links[1].flow(10)
    takers[1].turn()
    assert bodies(links[1]) == [0, 7, 8, 9, 10, 11]
    assert queue_of(takers[0].vhost, "q").unsettled == 9


def test_some_expire_in_the_middle_of_a_run() -> None:
    """They become dead letters and leave no gap; the others say what is left of their ttl."""
    clock = Clock()
    vhost = VirtualHostCore(VirtualHostSettings(dead_letter_expired=True), clock=clock)
    wire = Wire(vhost)
    to = wire.send_to("q")
    for number in range(60):
        to.send(Message(number, ttl=timedelta(seconds=5 if number % 6 == 5 else 60)).encode())
    wire.turn()
    assert vhost.next_expiry == clock.now + 5
    clock.now += 4
    early = wire.receive_from("q", credit=10, name="early")
    assert bodies(early) == list(range(10))
    clock.now += 2
    late = wire.receive_from("q", credit=20, name="late")  # before the broker looks for what has expired
    vhost.expire()
    late.flow(100)
    wire.turn()
    assert bodies(late) == [number for number in range(10, 60) if number % 6 != 5]
    assert {Message.decode(each.payload).ttl for each in late.incoming} == {timedelta(seconds=54)}
    assert queue_of(vhost, "dead-letter").depth == 9
    assert [Message.decode(each.payload).ttl for each in early.incoming][5] == timedelta(seconds=1)
    early.settle(early.incoming[5], RELEASED)
    wire.turn()
    assert queue_of(vhost, "dead-letter").depth == 10
    dead = wire.receive_from("dead-letter", credit=100)
    assert bodies(dead) == [*range(11, 60, 6), 5]
    assert {Message.decode(each.payload).ttl for each in dead.incoming} == {None}


def test_one_drains() -> None:
    """It gets its turns, and then its credit is gone; the other's is not."""
    wire = Wire(VirtualHostCore(clock=Clock()))
    to, links = wire.send_to("q"), [wire.receive_from("q", name=name) for name in "ab"]
    for number in range(6):
        to.send(Message(number).encode())
    wire.turn()
    for link in links:  # both in one pass
        link.flow(100, drain=link is links[0])
    wire.turn()
    assert [bodies(link) for link in links] == [[0, 2, 4], [1, 3, 5]]
    assert [link.credit for link in links] == [0, 97]


def test_one_cannot_take_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its messages are set aside, as one message is that makes the broker raise; the other has its own."""
    deliver_run = ConsumerLink.deliver_run

    def odd(self: ConsumerLink, entries: Any, payloads: Any) -> None:
        if self.key == min(self.queue.consumers):
            raise RuntimeError("odd")
        deliver_run(self, entries, payloads)

    monkeypatch.setattr(ConsumerLink, "deliver_run", odd)
    takers, links = several([10, 10], 6)
    assert [bodies(link) for link in links] == [[], [1, 3, 5]]
    assert len(takers[0].vhost.quarantine) == 3
    assert queue_of(takers[0].vhost, "q").depth == 3


@pytest.mark.parametrize("writes", range(4))
def test_killed_between_two_writes(tmp_path: Path, writes: int) -> None:
    """The next broker has what was on the disk: the messages, less those accepted, and who was held counts as tried."""
    clock = Clock()
    path = str(tmp_path / "store")

    def begun() -> tuple[VirtualHostCore, Store]:
        vhost = VirtualHostCore(clock=clock)
        store = Store(path, clock, clock)
        load(store, vhost, clock)
        return vhost, store

    vhost, store = begun()
    vhost.declare("q", "queue")
    store.commit()
    takers, links = several([4, 3], 9, vhost)

    def take(link: ReceiverLink, most: int, outcome: Any) -> None:
        for delivery in list(link.incoming)[:most]:
            link.incoming.popleft()
            link.settle(delivery, outcome)
        takers[links.index(link)].turn()

    for step in range(3):
        if step:
            take(links[step - 1], 2, (ACCEPTED, RELEASED)[step - 1])
        if step < writes:  # what comes after is never on the disk
            store.commit()
    store.file.close()
    vhost, store = begun()
    wire = Wire(vhost)
    found = wire.receive_from("q", credit=100)
    tried = {Message.decode(each.payload).body: Message.decode(each.payload).delivery_count for each in found.incoming}
    store.close()
    expected: dict[int, int] = {}
    if writes:
        expected = {0: 1, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 0, 8: 0}
    if writes > 1:
        del expected[0], expected[2]
    if writes > 2:
        expected |= {1: 0, 3: 0}
    assert [*tried.items()] == [*expected.items()]

"""Workers: how many handlers run, what becomes of messages, attempts, dead letters, keys, batches, the end."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import random
import re
import signal
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10 import (
    CbsTokens,
    Connection,
    Error,
    LinkDetached,
    LocalProtocolError,
    Message,
    Modified,
    Outcome,
    Reconnect,
    Rejected,
    Released,
    SasKey,
    Source,
    Symbol,
    Unsupported,
)
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, QueueConfig
from amqp10.rabbitmq import management
from amqp10.worker import DeadLetter, Decision, Retries, Retry, Worker
from amqp10.worker._delays import FAILED_ATTEMPTS

from ..kit.waiting import until
from ..kit.worker.queues import DECLARED, Queues, until_done

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("workers")]

AT_ONCE = Retries(attempts=3, initial_delay=0, max_delay=0)
DIALECTS = ["1.0", "0-10", "0-9-1", "0-9", "fast"]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_every_message_has_an_outcome(queues: Queues, dialect: str) -> None:
    """Handlers fail at random, one always: each message is accepted, or dead-lettered after three attempts."""
    chance = random.Random(21)
    attempts: dict[Any, list[int]] = defaultdict(list)

    async def handle(message: Message) -> None:
        attempts[message.body].append(message.delivery_count)
        if chance.random() < 0.5:
            await anyio.lowlevel.checkpoint()
        if message.body == 7 or chance.random() < 0.3:
            raise ValueError("at random")

    await queues.put("orders", range(200))
    async with Connection(queues.broker.url, dialect=dialect) as connection:
        async with Worker(connection, "orders", handle, retries=AT_ONCE, dead_letters="dead") as worker:
            await until_done(worker, 200)
    dead = {message.body for message in await queues.take("dead")}
    assert attempts.keys() == set(range(200))
    assert len(dead) == worker.dead_lettered == 200 - worker.handled > 0
    assert all(counts == list(range(len(counts))) for counts in attempts.values())  # each attempt knows its number
    assert all(len(attempts[body]) == 3 for body in dead)
    assert queues.depth("orders") == 0


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_bounded(queues: Queues, dialect: str) -> None:
    """Never more than `concurrency` handlers at once, and as many where there is work for them."""
    running, peak = 0, 0
    all_run = anyio.Event()

    async def handle(message: Message) -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        if running == 7:
            all_run.set()
        await all_run.wait()
        await anyio.lowlevel.checkpoint()
        running -= 1

    await queues.put("orders", range(100))
    async with Connection(queues.broker.url, dialect=dialect) as connection:
        async with Worker(connection, "orders", handle, concurrency=7, dead_letters="dead") as worker:
            await until_done(worker, 100)
    assert peak == 7


async def test_credit_to_match(queues: Queues) -> None:
    """What is taken from the queue is no more than the handlers have and `prefetch` may wait."""
    begun = 0

    async def handle(message: Message) -> None:
        nonlocal begun
        begun += 1
        await anyio.sleep_forever()

    await queues.put("orders", range(100))
    async with Worker(queues.connection, "orders", handle, concurrency=5, prefetch=2, drain_timeout=0) as worker:
        await until(lambda: begun == 5)
        await anyio.sleep(0.05)
        assert worker.running == begun == 5
        assert queues.broker.queue("orders").unsettled <= 7
    assert queues.depth("orders") == 100


async def test_outcomes_of_the_result(queues: Queues) -> None:
    """What the handler returns is the outcome."""
    outcomes: dict[str, Outcome | None] = {
        "none": None,
        "modified": Modified(delivery_failed=True, message_annotations={"x-opt-why": "later"}),
        "released": Released(),
        "rejected": Rejected(Error("amqp:not-allowed", "no")),
    }
    came: dict[str, list[Message]] = defaultdict(list)

    async def handle(message: Message) -> Outcome | None:
        came[message.body].append(message)
        return outcomes[message.body] if len(came[message.body]) == 1 else None

    await queues.put("orders", list(outcomes))
    async with Worker(queues.connection, "orders", handle) as worker:
        await until(lambda: len(came["released"]) == len(came["modified"]) == 2 and worker.dead_lettered)
    assert len(came["none"]) == 1
    again = came["modified"][1]
    assert (again.delivery_count, again.message_annotations["x-opt-why"]) == (1, "later")
    assert came["released"][1].delivery_count == 0
    (dead,) = await queues.take("dead-letter")
    assert dead.message_annotations["x-opt-dead-letter-condition"] == "amqp:not-allowed"
    assert dead.message_annotations["x-opt-dead-letter-description"] == "no"


async def test_dead_letters(queues: Queues) -> None:
    """With the reason, and without another attempt; what came with the message is in them."""

    async def handle(message: Message) -> None:
        if message.subject == "raised":
            raise DeadLetter("no such article", condition="shop:no-article")
        if message.subject == "never":
            raise KeyError("article")
        raise ValueError("at each attempt")

    async with queues.connection.sender("orders") as sender:
        for subject in ("raised", "never", "often"):
            await sender.send(Message(subject=subject, message_annotations={"x-opt-mine": 1}))
    retries = Retries(attempts=2, initial_delay=0, never=(KeyError,))
    async with Worker(queues.connection, "orders", handle, retries=retries, dead_letters="dead") as worker:
        await until_done(worker, 3)
    dead = {message.subject: message for message in await queues.take("dead")}
    said = {
        subject: [message.message_annotations[f"x-opt-dead-letter-{name}"] for name in ("condition", "description")]
        for subject, message in dead.items()
    }
    assert said == {
        "raised": ["shop:no-article", "no such article"],
        "never": ["amqp:internal-error", "KeyError: 'article'"],
        "often": ["amqp:internal-error", "ValueError: at each attempt (attempt 2 of 2)"],
    }
    assert [dead[one].message_annotations["x-opt-dead-letter-attempts"] for one in said] == [1, 1, 2]
    assert all(message.message_annotations["x-opt-mine"] == 1 for message in dead.values())
    assert worker.retried == 1


async def test_rejected_where_no_address_is_given(queues: Queues) -> None:
    """The broker does as it is configured."""

    async def handle(message: Message) -> None:
        raise DeadLetter("why")

    await queues.put("orders", ["x"])
    async with Worker(queues.connection, "orders", handle) as worker:
        await until_done(worker, 1)
    (dead,) = await queues.take("dead-letter")
    assert dead.message_annotations["x-opt-dead-letter-description"] == "why"


@pytest.mark.parametrize("letters", [None, "dead"])
async def test_undecodable(queues: Queues, letters: str | None) -> None:
    """A message that cannot be read is a dead letter at once: it would fail the same way again."""
    async with queues.connection.sender("orders") as sender:
        delivery = await sender.submit(b"\x00\x53\x70\xff")  # a header that is none
        await delivery.outcome()
    handled = []
    await queues.put("orders", ["good"])

    async def handle(message: Message) -> None:
        handled.append(message.body)

    async with Worker(queues.connection, "orders", handle, dead_letters=letters) as worker:
        await until_done(worker, 2)
    assert "good" in handled
    assert queues.depth("orders") == 0


async def test_a_policy_of_ones_own(queues: Queues) -> None:
    """`decide` gets what was raised, the message, and which attempt it was."""
    asked: list[tuple[str, Any, int]] = []

    class Mine(Retries):
        def decide(self, error: Exception, message: Message, attempt: int) -> Decision:
            asked.append((str(error), message.body, attempt))
            return Retry(delay=0) if attempt == 1 else Rejected(Error("shop:mine", "decided"))

    async def handle(message: Message) -> None:
        raise OSError("down")

    await queues.put("orders", ["a"])
    async with Worker(queues.connection, "orders", handle, retries=Mine(), dead_letters="dead") as worker:
        await until_done(worker, 1)
    assert asked == [("down", "a", 1), ("down", "a", 2)]
    (dead,) = await queues.take("dead")
    assert dead.message_annotations["x-opt-dead-letter-condition"] == "shop:mine"


async def test_attempts_count_over_workers(queues: Queues) -> None:
    """What failed in a worker that was stopped counts in the next one, the attempts in memory included."""
    counts: list[int] = []

    async def handle(message: Message) -> None:
        counts.append(message.delivery_count)
        raise Retry("again", delay=0 if len(counts) == 1 else 3600)

    await queues.put("orders", ["x"])
    for attempts in (2, 3, 4):
        async with Worker(queues.connection, "orders", handle, retries=Retries(attempts=10)) as worker:
            await until(lambda attempts=attempts, worker=worker: len(counts) == attempts and worker.held)  # type: ignore[misc]
        assert queues.depth("orders") == 1
    assert counts == [0, 1, 2, 3]


async def test_poison(queues: Queues) -> None:
    """What comes after as many failed attempts as are allowed is not handed to the handler again."""

    async def handle(message: Message) -> None:
        pytest.fail("it was tried often enough")

    await queues.put("orders", ["x"])
    async with queues.connection.receiver("orders") as receiver:
        for _ in range(3):
            (await receiver.receive()).modify(delivery_failed=True)
    async with Worker(queues.connection, "orders", handle, retries=AT_ONCE, dead_letters="dead") as worker:
        await until_done(worker, 1)
    (dead,) = await queues.take("dead")
    assert "tried 3 times" in dead.message_annotations["x-opt-dead-letter-description"]


@pytest.mark.in_memory
async def test_dead_letters_that_are_refused(queues: Queues, caplog: pytest.LogCaptureFixture) -> None:
    """The message stays the worker's until the address takes it: none is lost."""
    await queues.put("small", ["full"])

    async def handle(message: Message) -> None:
        raise DeadLetter("no", condition="shop:no")

    await queues.put("orders", ["x"])
    async with Worker(queues.connection, "orders", handle, retries=AT_ONCE, dead_letters="small") as worker:
        await until(lambda: worker.retried == 0 and worker.held)
        assert not worker.dead_lettered
        assert [message.body for message in await queues.take("small")] == ["full"]
        await until_done(worker, 1)
    (dead,) = await queues.take("small")
    assert dead.body == "x"
    assert dead.message_annotations["x-opt-dead-letter-condition"] == "shop:no"
    assert dead.message_annotations["x-opt-dead-letter-attempts"] == 1
    assert "could not be sent" in caplog.text


UNSENDABLE: tuple[Any, ...] = (
    *(ValueError("x\ud800"), ValueError("x" * 300_000), DeadLetter("x", condition="shop:\ud800")),
    *(Rejected(Error("shop:no", "x\ud800")), Modified(message_annotations={Symbol("x"): bytes(300_000)})),
    Modified(delivery_failed=True, message_annotations={Symbol("x"): object()}),
)


@pytest.mark.parametrize("dialect", ["1.0", "0-9-1", "0-10"])
@pytest.mark.parametrize("letters", ["dead", None])
async def test_outcomes_that_cannot_be_sent(dialect: str, letters: str | None) -> None:
    """A message with a reason or an outcome that no frame can carry does not stay on the link: it is dead-lettered."""
    results = list(UNSENDABLE if dialect == "1.0" else UNSENDABLE[:4])  # no other dialect sends annotations
    count = len(results)

    async def handle(message: Message) -> Any:
        result = results.pop()
        if isinstance(result, Exception):
            raise result
        return result

    async with Broker(queues=["orders", "dead"], dead_letter=None) as broker:
        async with broker.connect(dialect=dialect) as connection:
            await Queues(broker, connection).put("orders", range(count))
            settings: dict[str, Any] = {"retries": Retries(attempts=1), "concurrency": 1, "dead_letters": letters}
            with anyio.fail_after(60):
                async with Worker(connection, "orders", handle, **settings) as worker:
                    await until(lambda: worker.dead_lettered == count)
                    await until(lambda: not broker.queue("orders").depth)
            assert broker.queue("dead").depth == (count if letters else 0)


@pytest.mark.parametrize("dialect", ["1.0", "0-9-1", "0-10"])
async def test_copies_that_are_too_large(dialect: str) -> None:
    """A message whose copy is more than the peer takes does not end the worker: it stays here, and the others go on."""
    handled = []

    async def handle(message: Message) -> None:
        if len(message.body) == 9_900:
            raise Retry(delay=3600)
        handled.append(message.body)

    async with (
        Broker(queues=DECLARED, max_message_size=10_000) as broker,
        broker.connect(dialect=dialect) as connection,
    ):
        queues = Queues(broker, connection)
        await queues.put("orders", [Message(bytes(9_900), correlation_id="c" * 40), b"small"])
        async with Worker(connection, "orders", handle, dead_letters="dead", delay_queue="later") as worker:
            await until(lambda: handled == [b"small"] and (worker.held == 1 or queues.depth("later") == 1))
        assert queues.depth("orders") + queues.depth("later") == 1


LONG_HEADERS = {f"header-{n}": "h" * 60_000 for n in range(2)}


@pytest.mark.parametrize(
    ("dialect", "message"),
    [
        ("1.0", Message(bytes(9_900), correlation_id="c" * 40)),
        ("0-10", Message(bytes(9_900), correlation_id="c" * 10)),
        ("0-9-1", Message("in one frame", application_properties=LONG_HEADERS | {"last": "h" * 10_500})),
    ],
)
async def test_dead_letters_that_are_too_large(dialect: str, message: Message) -> None:
    """A message near the limit of the peer becomes a dead letter without the reason, which would make it too large."""

    async def handle(message: Message) -> None:
        raise DeadLetter("no" * 500)

    async with (
        Broker(queues=["orders", "dead"], max_message_size=10_000 if dialect != "0-9-1" else 1_000_000) as broker,
        broker.connect(dialect=dialect) as connection,
    ):
        queues = Queues(broker, connection)
        await queues.put("orders", [message])
        async with Worker(connection, "orders", handle, dead_letters="dead") as worker:
            await until_done(worker, 1)
            assert not worker.held
        (dead,) = await queues.take("dead")
        assert dead.body == message.body
        assert dead.application_properties == message.application_properties
        assert not any(str(name).startswith("x-opt-dead-letter") for name in dead.message_annotations)


@pytest.mark.parametrize("role", ["dead_letters", "delay_queue"])
async def test_an_address_of_copies_that_is_gone(queues: Queues, role: str) -> None:
    """The worker ends with the reason: it could do nothing about what fails. The message is in the queue."""

    async def handle(message: Message) -> None:
        async with management(queues.connection) as broker:
            await broker.delete_queue("small")
        raise DeadLetter("no") if role == "dead_letters" else Retry("again")

    await queues.put("orders", ["x"])
    names: dict[str, Any] = {role: "small"}
    with pytest.raises(LinkDetached):
        async with Worker(queues.connection, "orders", handle, **names):
            await anyio.sleep_forever()
    assert queues.depth("orders") == 1


async def test_delay_queue(queues: Queues) -> None:
    """Messages wait in a queue that hands expired ones on, and come back with their attempts counted."""
    counts: list[int] = []

    async def handle(message: Message) -> None:
        counts.append(message.delivery_count)
        assert message.application_properties == {"kept": True}
        raise Retry(delay=0.05)

    async with queues.connection.sender("orders") as sender:
        await sender.send(Message("x", application_properties={"kept": True}))
    retries = Retries(attempts=3)
    async with Worker(
        queues.connection, "orders", handle, retries=retries, delay_queue="later", dead_letters="dead"
    ) as worker:
        await until_done(worker, 1)
        assert worker.held == 0
    assert counts == [0, 1, 2]
    assert queues.depth("orders") == queues.depth("later") == 0
    assert queues.depth("dead") == 1


async def test_delay_queue_that_drops_duplicates() -> None:
    """A copy is no second message: it has no duplicate id, for the broker would accept it, and drop it."""
    attempts: list[int] = []

    async def handle(message: Message) -> None:
        attempts.append(message.delivery_count)
        raise Retry(delay=0.01)

    async with Broker(queues=DECLARED, duplicate_ids=100) as broker, broker.connect() as connection:
        queues = Queues(broker, connection)
        await queues.put("orders", [Message("x", message_id="m", application_properties={"_AMQ_DUPL_ID": "1", "k": 2})])
        retries = Retries(attempts=4)
        worker = Worker(connection, "orders", handle, retries=retries, delay_queue="later", dead_letters="dead")
        async with worker:
            await until(lambda: worker.dead_lettered)
        (dead,) = await queues.take("dead")
    assert attempts == [0, 1, 2, 3]
    assert (dead.message_id, dead.application_properties) == ("m", {"k": 2})


async def test_scheduled_on_service_bus() -> None:
    """Service Bus keeps a copy until it is time, also a queue that drops duplicates; then it is a dead letter there."""
    seen: list[tuple[int, object]] = []

    async def handle(message: Message) -> None:
        seen.append((message.delivery_count, message.message_id))
        raise Retry(delay=3600 * (message.delivery_count + 1))  # the clock here stays where it is

    config = AzureConfig([QueueConfig("orders", duplicate_window=86_400.0)])
    async with Broker(azure=config, tokens=TokenRules([EMULATOR_RULE])) as broker:
        tokens = CbsTokens(SasKey(EMULATOR_RULE.name, EMULATOR_RULE.key))
        reconnect = Reconnect(initial_delay=0.01)  # for the hours without a message, after which links are detached
        async with Connection(broker.url, profile="service-bus", tokens=tokens, reconnect=reconnect) as connection:
            async with connection.sender("orders") as sender:
                await sender.send(Message("x", message_id="m", application_properties={"k": 2}))
            retries = Retries(attempts=3)
            async with Worker(connection, "orders", handle, retries=retries, delay_by="broker") as worker:
                for attempt in (1, 2):
                    await until(lambda attempt=attempt: worker.retried == attempt and not worker.running)  # type: ignore[misc]
                    assert len(seen) == attempt
                    async with connection.sender("orders"):
                        pass  # the broker has heard by now that the original was accepted
                    broker.azure.advance(3600)
                await until_done(worker, 1)
            async with connection.receiver("orders/$DeadLetterQueue") as receiver:
                with await receiver.receive() as dead:
                    assert dead.application_properties["k"] == 2
                    said = "the handler asked for another attempt (attempt 3 of 3)"
                    assert dead.application_properties["DeadLetterErrorDescription"] == said
    assert seen == [(0, "m"), (1, "m"), (2, "m")]


@pytest.mark.parametrize("dialect", ["0-9-1", "0-10"])
async def test_a_dialect_that_keeps_nothing_for_later(queues: Queues, dialect: str) -> None:
    """It is refused at the beginning, with what to do instead."""
    async with Connection(queues.broker.url, dialect=dialect) as connection:
        with pytest.raises(Unsupported, match="delay_queue="):
            async with Worker(connection, "orders", print, delay_by="broker"):
                pass


@pytest.mark.in_memory
@pytest.mark.parametrize("address", ["orders", "made-on-demand"])
async def test_the_embedded_broker_keeps_for_later(queues: Queues, address: str) -> None:
    """The message is the broker's meanwhile, others go first, and all attempts are counted."""
    seen: list[tuple[Any, int]] = []
    done = anyio.Event()

    async def handle(message: Message) -> None:
        seen.append((message.body, message.delivery_count))
        if message.body == "now":
            return
        if message.delivery_count == 2:
            done.set()
            return
        assert worker.held == 0
        raise Retry(delay=600)

    worker = Worker(queues.connection, address, handle, delay_by="broker", retries=Retries(attempts=5, jitter=0))
    async with queues.connection.sender(address) as sender:
        await sender.send_many(["later", "now"])
        began = anyio.current_time()
        async with worker:
            await done.wait()
            assert worker.held == 0
    assert anyio.current_time() - began >= 1199
    assert seen == [("later", 0), ("now", 0), ("later", 1), ("later", 2)]


async def test_a_dialect_that_cannot_reject(queues: Queues) -> None:
    """The same for dead letters."""
    async with Connection(queues.broker.url, dialect="fast") as connection:
        with pytest.raises(Unsupported, match="dead_letters="):
            async with Worker(connection, "orders", print):
                pass


async def test_callables_of_all_kinds(queues: Queues) -> None:
    """A partial function, and an object with a coroutine function as its `__call__`."""
    seen = []

    async def handle(where: str, message: Message) -> None:
        seen.append(where)

    class Object:
        async def __call__(self, message: Message) -> None:
            seen.append("object")

    for handler in (functools.partial(handle, "partial"), Object()):
        await queues.put("orders", ["x"])
        async with Worker(queues.connection, "orders", handler) as worker:
            await until_done(worker, 1)
    assert seen == ["partial", "object"]


async def test_a_method_of_another_library(queues: Queues, caplog: pytest.LogCaptureFixture) -> None:
    """A handler that settles the message by a method of another library gets told by the log what to do instead."""

    async def handle(message: Any) -> None:
        message.ack()

    await queues.put("orders", ["x"])
    async with Worker(
        queues.connection, "orders", handle, retries=Retries(attempts=2, initial_delay=0), dead_letters="dead"
    ) as worker:
        await until_done(worker, 1)
    advice = "Message has no ack: the delivery that a receiver returns has accept, reject and release; a Worker ac"
    lines = [each.getMessage() for each in caplog.records if each.name == "amqp10.worker"]
    assert len(lines) == 2
    assert all(advice in line for line in lines)


async def test_what_is_no_outcome(queues: Queues, caplog: pytest.LogCaptureFixture) -> None:
    """A handler that returns something else is at fault: it is not called again, and its message is not lost."""
    calls = 0

    async def handle(message: Message) -> Any:
        nonlocal calls
        calls += 1
        return "ok"

    await queues.put("orders", ["x"])
    async with Worker(queues.connection, "orders", handle, retries=AT_ONCE, dead_letters="dead") as worker:
        await until_done(worker, 1)
    assert calls == 1
    assert "not 'ok'" in caplog.text
    assert queues.depth("dead") == 1


# Keys


@pytest.mark.parametrize("anyio_backend", ["trio"])
@given(
    keys=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=30),
    fails=st.lists(st.integers(0, 2), min_size=30, max_size=30),
    waits=st.lists(st.booleans(), min_size=30, max_size=30),
    concurrency=st.integers(1, 5),
    prefetch=st.integers(1, 20),
)
@settings(max_examples=25)
async def test_order_of_keys(
    anyio_backend: str, keys: list[str | None], fails: list[int], waits: list[bool], concurrency: int, prefetch: int
) -> None:
    """Those of one key are handled one at a time and in order, however often each fails before."""
    done: dict[str, list[int]] = defaultdict(list)
    tries: dict[int, int] = defaultdict(int)
    running: set[str] = set()

    async def handle(message: Message) -> None:
        number, key = message.body, message.group_id
        assert key not in running
        if key is not None:
            running.add(key)
        try:
            if waits[number]:
                await anyio.lowlevel.checkpoint()
            tries[number] += 1
            if tries[number] <= fails[number]:
                raise Retry(delay=0)
            if key is not None:
                done[key].append(number)
        finally:
            running.discard(key or "")

    async with Broker() as broker, broker.connect() as connection:
        async with connection.sender("orders") as sender:
            await sender.send_many(Message(number, group_id=key) for number, key in enumerate(keys))
        async with Worker(
            connection,
            "orders",
            handle,
            concurrency=concurrency,
            prefetch=prefetch,
            retries=AT_ONCE,
            key=lambda message: message.group_id,
        ) as worker:
            await until_done(worker, len(keys))
        assert worker.handled == len(keys)
        assert (worker.running, worker.held) == (0, 0)
    for key, numbers in done.items():
        assert numbers == [number for number, each in enumerate(keys) if each == key]


async def test_a_key_does_not_hold_up_others(queues: Queues) -> None:
    """While one message of a key is held for a retry, those of others go on."""
    seen = []

    async def handle(message: Message) -> None:
        seen.append(message.body)
        if message.body == "a1" and message.delivery_count == 0:
            raise Retry(delay=0.1)

    async with queues.connection.sender("orders") as sender:
        for body in ("a1", "a2", "b1", "b2"):
            await sender.send(Message(body, group_id=body[0]))
    async with Worker(queues.connection, "orders", handle, concurrency=1, key=lambda m: m.group_id) as worker:
        await until_done(worker, 4)
    assert seen == ["a1", "b1", "b2", "a1", "a2"]


async def test_max_held(queues: Queues) -> None:
    """With so many held nothing more is received, until one of them is done."""
    seen = []
    released = anyio.Event()

    async def handle(message: Message) -> None:
        seen.append(message.body)
        if not released.is_set():
            raise Retry(delay=0.2)

    await queues.put("orders", range(10))
    async with Worker(queues.connection, "orders", handle, concurrency=1, prefetch=1, max_held=3) as worker:
        await until(lambda: worker.held == 3)
        assert seen == [0, 1, 2]
        released.set()
        await until_done(worker, 10)


async def test_a_key_that_raises(queues: Queues) -> None:
    """It is as if the handler had raised: the message is tried again, and a dead letter in the end."""
    await queues.put("orders", ["x"])

    def key(message: Message) -> str:
        return str(message.application_properties["customer"])

    async with Worker(queues.connection, "orders", print, key=key, retries=AT_ONCE, dead_letters="dead") as worker:
        await until_done(worker, 1)
    (dead,) = await queues.take("dead")
    assert "KeyError" in dead.message_annotations["x-opt-dead-letter-description"]


# Batches


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_released_in_order(queues: Queues, concurrency: int) -> None:
    """A released message is handled again before those of its key that are here already; other keys go on."""
    seen: dict[str, list[int]] = defaultdict(list)

    async def handle(message: Message) -> Released | None:
        key = str(message.group_id)
        seen[key].append(message.body)
        await anyio.lowlevel.checkpoint()
        return Released() if message.body == 1 and len(seen[key]) < 4 else None

    await queues.put("orders", [Message(number, group_id=key) for number in range(3) for key in "ab"])
    settings: dict[str, Any] = {"concurrency": concurrency, "prefetch": 6, "key": lambda message: message.group_id}
    async with Worker(queues.connection, "orders", handle, **settings) as worker:
        await until_done(worker, 10)
    assert seen == {"a": [0, 1, 1, 1, 2], "b": [0, 1, 1, 1, 2]}


async def test_batches(queues: Queues) -> None:
    """Lists of at most so many; each has its outcome."""
    sizes = []
    seen: list[int] = []

    async def handle(messages: list[Message]) -> Sequence[Outcome | None]:
        sizes.append(len(messages))
        seen.extend(message.body for message in messages)
        return [Rejected(Error("shop:odd", "odd")) if message.body % 2 else None for message in messages]

    await queues.put("orders", range(100))
    async with Worker(
        queues.connection, "orders", handle, concurrency=2, batch_size=10, max_wait=0.05, dead_letters="dead"
    ) as worker:
        await until_done(worker, 150)  # an outcome that the handler gave, and those dead-lettered
    assert sorted(seen) == list(range(100))
    assert max(sizes) == 10
    assert len(sizes) < 30
    assert queues.depth("dead") == 50


async def test_a_batch_that_fails(queues: Queues) -> None:
    """Its messages are tried again one by one, so that one that is bad takes no other with it."""
    batches = []

    async def handle(messages: list[Message]) -> None:
        batches.append([message.body for message in messages])
        if 3 in batches[-1]:
            raise ValueError("three")

    await queues.put("orders", range(6))
    async with Worker(
        queues.connection,
        "orders",
        handle,
        concurrency=1,
        batch_size=6,
        max_wait=0.2,
        retries=Retries(attempts=2, initial_delay=0),
        dead_letters="dead",
    ) as worker:
        await until_done(worker, 6)
    assert batches[0] == list(range(6))
    assert sorted(batches[1:]) == [[number] for number in range(6)]
    assert [message.body for message in await queues.take("dead")] == [3]


async def test_batches_with_too_few_outcomes(queues: Queues) -> None:
    async def handle(messages: list[Message]) -> Sequence[Outcome | None]:
        return []

    await queues.put("orders", ["x"])
    async with Worker(
        queues.connection, "orders", handle, batch_size=1, retries=Retries(attempts=1), dead_letters="dead"
    ) as worker:
        await until_done(worker, 1)
    assert queues.depth("dead") == 1


# The end


async def test_leaving_waits_for_handlers(queues: Queues) -> None:
    """Those that run finish and have their outcome; the rest is given back."""
    begun = anyio.Event()
    finished = []

    async def handle(message: Message) -> None:
        begun.set()
        await anyio.sleep(0.05)
        finished.append(message.body)

    await queues.put("orders", range(50))
    async with Worker(queues.connection, "orders", handle, concurrency=3):
        await begun.wait()
    assert len(finished) >= 1
    assert queues.depth("orders") == 50 - len(finished)


async def test_leaving_cancels_those_that_take_too_long(queues: Queues, caplog: pytest.LogCaptureFixture) -> None:
    """After `drain_timeout`; their messages are released."""
    begun = anyio.Event()

    async def handle(message: Message) -> None:
        begun.set()
        await anyio.sleep_forever()

    await queues.put("orders", ["x"])
    async with Worker(queues.connection, "orders", handle, drain_timeout=0.05):
        await begun.wait()
    (left,) = await queues.take("orders")
    assert left.delivery_count == 0
    assert "are cancelled" in caplog.text


async def test_cancelling_the_block(queues: Queues) -> None:
    """It does not wait for handlers."""
    begun = anyio.Event()

    async def handle(message: Message) -> None:
        begun.set()
        await anyio.sleep_forever()

    await queues.put("orders", range(5))
    with anyio.CancelScope() as scope:
        async with Worker(queues.connection, "orders", handle, concurrency=2):
            await begun.wait()
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert queues.depth("orders") == 5


async def test_an_exception_of_the_block(queues: Queues) -> None:
    """It leaves as it is."""
    with pytest.raises(ZeroDivisionError):
        async with Worker(queues.connection, "orders", print):
            raise ZeroDivisionError


async def test_what_is_held_is_given_back(queues: Queues) -> None:
    """At the end nothing waits for its retry, nor behind another of its key."""
    failed = anyio.Event()

    async def handle(message: Message) -> None:
        failed.set()
        raise Retry(delay=3600 * (message.delivery_count + 1))  # the clock here stays where it is

    async with queues.connection.sender("orders") as sender:
        await sender.send_many(Message(number, group_id="a") for number in range(3))
    async with Worker(queues.connection, "orders", handle, key=lambda message: message.group_id) as worker:
        await failed.wait()
        await until(lambda: worker.held == 3)
    assert worker.held == 0
    left = await queues.take("orders")
    assert [(message.body, message.delivery_count) for message in left] == [(0, 1), (1, 0), (2, 0)]


async def test_a_link_that_ends(queues: Queues) -> None:
    """The block is cancelled, and the reason raised from it: a worker never stands still in silence."""
    with pytest.raises(LinkDetached):
        async with Worker(queues.connection, "orders", print):
            async with management(queues.connection) as broker:
                await broker.delete_queue("orders")
            await anyio.sleep_forever()


async def test_an_address_that_is_not_there() -> None:
    """What attaching raises is raised as it is."""
    async with Broker(auto_create=False) as broker, broker.connect() as connection:
        with pytest.raises(LinkDetached):
            async with Worker(connection, "orders", print):
                pass


async def test_once_only(queues: Queues) -> None:
    worker = Worker(queues.connection, Source("orders"), print)
    assert "orders" in repr(worker)
    async with worker:
        pass
    with pytest.raises(LocalProtocolError, match="once"):
        async with worker:
            pass


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"max_held": 0}, "max_held must be at least 1"),
        ({"batch_size": -1}, "batch_size must be at least 1"),
        ({"prefetch": 0}, "prefetch must be in 1..4294967295, not 0"),
        ({"prefetch": 1 << 32}, "prefetch must be in 1..4294967295, not 4294967296"),
        ({"concurrency": 1 << 16, "batch_size": 1 << 16}, "concurrency times batch_size must be in 1..4294967295"),
        ({"drain_timeout": -1}, "drain_timeout"),
        ({"max_wait": float("nan")}, "max_wait"),
        ({"delay_by": "magic"}, "delay_by must be one of memory, broker"),
        ({"key": str, "batch_size": 2}, "without batch_size="),
        ({"key": str, "delay_by": "broker"}, 'with delay_by="memory"'),
        ({"delay_queue": "q", "delay_by": "broker"}, "delay_queue="),
        ({"dead_letters": "orders"}, "dead_letters must be another address than the worker's own, which is 'orders'"),
        ({"delay_queue": "orders"}, "delay_queue must be another address than the worker's own, which is 'orders'"),
    ],
)
async def test_wrong_settings(queues: Queues, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Worker(queues.connection, "orders", print, **wrong)
    with pytest.raises(ValueError, match=words):
        Worker(queues.connection, Source("orders"), print, **wrong)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"attempts": 0}, "attempts must be at least 1"),
        ({"initial_delay": -1}, "initial_delay"),
        ({"initial_delay": 9, "max_delay": 1}, "not 9 and 1"),
        ({"multiplier": 0.5}, "multiplier must be at least 1"),
        ({"jitter": 2}, "jitter must be in"),
    ],
)
def test_wrong_retries(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Retries(**wrong)


def test_wrong_delay() -> None:
    with pytest.raises(ValueError, match="delay"):
        Retry(delay=-1)


def test_delays_grow() -> None:
    """From the shortest to the longest; a part is left to chance."""
    retries = Retries(attempts=10, initial_delay=1, max_delay=10, jitter=0.5)
    delays = []
    for attempt in range(1, 10):
        decision = retries.decide(OSError("x"), Message(), attempt)
        assert isinstance(decision, Retry)
        assert decision.delay is not None
        delays.append(decision.delay)
    for delay, whole in zip(delays, [1, 2, 4, 8, 10, 10, 10, 10, 10], strict=True):
        assert whole / 2 <= delay <= whole
    assert isinstance(retries.decide(OSError("x"), Message(), 10), DeadLetter)


async def test_logged(queues: Queues, caplog: pytest.LogCaptureFixture) -> None:
    """One line for each failed attempt, with where, and one for the dead letter, which has the traceback."""
    caplog.set_level(logging.INFO, "amqp10.worker")

    async def handle(message: Message) -> None:
        raise ValueError("bad order")

    await queues.put("orders", ["x"])
    retries = Retries(attempts=2, initial_delay=0)
    async with Worker(queues.connection, "orders", handle, retries=retries, dead_letters="dead") as worker:
        await until_done(worker, 1)
    lines = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "amqp10.worker"]
    which = lines[0][1].partition(": attempt")[0]
    assert lines == [
        ("WARNING", f"{which}: attempt 1 of 2 failed, the next is in 0 s: ValueError: bad order"),
        ("ERROR", f"{which}: dead-lettered: amqp:internal-error: ValueError: bad order (attempt 2 of 2)"),
    ]
    assert re.fullmatch("orders: message without id, delivery [0-9a-f]+", which)
    assert [bool(record.exc_info) for record in caplog.records if record.name == "amqp10.worker"] == [False, True]


async def test_all_tracebacks(queues: Queues, caplog: pytest.LogCaptureFixture) -> None:
    """At the level DEBUG each attempt has its traceback."""
    caplog.set_level(logging.DEBUG, "amqp10.worker")

    async def handle(message: Message) -> None:
        raise ValueError("bad order")

    await queues.put("orders", ["x"])
    retries = Retries(attempts=3, initial_delay=0)
    async with Worker(queues.connection, "orders", handle, retries=retries, dead_letters="dead") as worker:
        await until_done(worker, 1)
    assert [bool(record.exc_info) for record in caplog.records if record.name == "amqp10.worker"] == [True] * 3


async def test_warned_of_endless_releases(queues: Queues, caplog: pytest.LogCaptureFixture) -> None:
    """A handler that releases one message again and again is told once what to do; one that does it at times is not."""
    caplog.set_level(logging.INFO, "amqp10.worker")
    calls = 0

    async def handle(message: Message) -> Released | None:
        nonlocal calls
        calls += 1
        if calls <= 98 or 99 < calls < 350:
            return Released()
        return None

    await queues.put("orders", ["x", "y"])
    async with Worker(queues.connection, "orders", handle, concurrency=1, prefetch=1) as worker:
        await until_done(worker, 350)
    (line,) = [record for record in caplog.records if record.name == "amqp10.worker"]
    assert (line.levelname, line.__dict__["amqp_event"], line.__dict__["amqp_count"]) == (
        "WARNING",
        "released_again",
        100,
    )
    assert "released 100 messages in a row" in line.getMessage()
    assert "raise Retry(delay=...)" in line.getMessage()


async def test_fields_of_the_log(queues: Queues, caplog: pytest.LogCaptureFixture) -> None:
    """Each line names the message, and has what it says in attributes, too; an id cannot forge a line."""
    caplog.set_level(logging.INFO, "amqp10.worker")

    async def handle(message: Message) -> None:
        raise ValueError("bad order")

    async with queues.connection.sender("orders") as sender:
        await sender.send(Message("x", message_id="m-1\nforged"))
    retries = Retries(attempts=2, initial_delay=0)
    async with Worker(queues.connection, "orders", handle, retries=retries, dead_letters="dead") as worker:
        await until_done(worker, 1)
    lines = [record for record in caplog.records if record.name == "amqp10.worker"]
    assert [line.getMessage().partition(" failed")[0] for line in lines] == [
        "orders: message m-1\\nforged: attempt 1 of 2",
        "orders: message m-1\\nforged: dead-lettered: amqp:internal-error: ValueError: bad order (attempt 2 of 2)",
    ]
    fields = [{name: value for name, value in vars(line).items() if name.startswith("amqp_")} for line in lines]
    of_both = {"amqp_address": "orders", "amqp_message_id": "m-1\nforged"}
    said = "ValueError: bad order"
    assert fields == [
        of_both | {"amqp_event": "handler_failed", "amqp_attempt": 1, "amqp_again_in": 0.0, "amqp_error": said},
        of_both
        | {
            "amqp_event": "message_dead_lettered",
            "amqp_attempt": 2,
            "amqp_condition": "amqp:internal-error",
            "amqp_reason": f"{said} (attempt 2 of 2)",
        },
    ]


async def test_until_signal_outside_of_the_block(queues: Queues) -> None:
    """A worker that handles nothing says so, and does not wait for ever."""

    async def handle(message: Message) -> None: ...

    worker = Worker(queues.connection, "orders", handle)
    with anyio.fail_after(60), pytest.raises(LocalProtocolError, match="async with"):
        await worker.until_signal()
    async with worker:
        pass
    with anyio.fail_after(60), pytest.raises(LocalProtocolError, match="async with"):
        await worker.until_signal()


@pytest.mark.parametrize("before", [True, False])
async def test_until_signal_and_stop(queues: Queues, before: bool) -> None:
    """`stop()`, of a handler or of the block, ends the waiting; no signal came."""

    async def handle(message: Message) -> None:
        worker.stop()

    async with Worker(queues.connection, "orders", handle) as worker:
        with anyio.fail_after(60):
            if before:
                worker.stop()
            else:
                await queues.put("orders", ["x"])
            assert await worker.until_signal() is None


async def test_until_signal_says_which(queues: Queues) -> None:
    async def handle(message: Message) -> None: ...

    async def send_signal() -> None:
        await until(lambda: signal.getsignal(signal.SIGUSR1) is not signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGUSR1)

    async with Worker(queues.connection, "orders", handle) as worker, anyio.create_task_group() as tasks:
        tasks.start_soon(send_signal)
        with anyio.fail_after(60):
            assert await worker.until_signal(signal.SIGUSR1) is signal.SIGUSR1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_until_signal_where_loops_know_none(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop of asyncio on Windows: the error says what to do instead."""

    async def handle(message: Message) -> None: ...

    def add_signal_handler(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", add_signal_handler)
    async with Worker(queues.connection, "orders", handle) as worker:
        with pytest.raises(Unsupported, match=r"run on trio, or call stop\(\)"):
            await worker.until_signal()


async def no_argument() -> None: ...


async def two_arguments(message: Message, more: int) -> None: ...


@pytest.mark.parametrize("handler", [None, "handle", no_argument, two_arguments])
async def test_handlers_that_cannot_be_called(queues: Queues, handler: Any) -> None:
    """They are refused before the first message, by the name of the argument."""
    with pytest.raises(TypeError, match=r"handler (must be|is called)"):
        Worker(queues.connection, "orders", handler)


@pytest.mark.parametrize("count", [0, 7, 2**32 - 1])
async def test_attempts_that_nobody_made(queues: Queues, count: int) -> None:
    """A sender that claims very many attempts gets a dead letter, and no message that the worker holds for ever."""

    async def handle(message: Message) -> None:
        raise ValueError("at each attempt")

    claimed = Message("x", delivery_count=count, message_annotations={FAILED_ATTEMPTS: 2**63 - 1})
    async with queues.connection.sender("orders") as sender:
        await sender.send(claimed)
    async with Worker(queues.connection, "orders", handle, retries=AT_ONCE, dead_letters="dead") as worker:
        await until_done(worker, 1)
    (dead,) = await queues.take("dead")
    assert dead.message_annotations["x-opt-dead-letter-attempts"] == 2**32 - 2


def test_counters_are_listed() -> None:
    """`dir(Worker)` lists the counters, and so does an editor; a new worker has counted nothing."""
    counters = ("running", "held", "handled", "retried", "dead_lettered", "locks_lost")
    assert set(counters) <= set(dir(Worker))
    worker = Worker(Connection("amqp://localhost"), "q", print)
    assert [getattr(worker, each) for each in counters] == [0] * 6

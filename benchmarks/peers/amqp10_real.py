"""This project's client with real messages, as its documentation says to use it.

Variants, several joined by `+`: `task` relays with a task a message, at most 100 at a time, in place of batches;
`worker` by the worker, with as many handlers; `asyncio` runs on asyncio in place of trio.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import islice

import anyio
from real_messages import IN_FLIGHT, LINK_CREDIT, Messages, clock_of

from amqp10 import Accepted, Connection, Delivery, Message, Receiver, Sender
from amqp10.worker import Worker

AT_A_TIME = 100
clock = clock_of("amqp10")
messages = Messages(clock)


def orders() -> Iterator[Message]:
    for message_id, each in messages.each_order():
        yield Message(
            json.dumps(each["order"]).encode(),
            message_id=message_id,
            subject=each["subject"],
            reply_to=each["reply_to"],
            correlation_id=each["correlation_id"],
            content_type=each["content_type"],
            creation_time=each["creation_time"],
            application_properties=each["application_properties"],
            message_annotations=each["message_annotations"],
        )


def rows() -> Iterator[Message]:
    for message_id, row in messages.each_row():
        yield Message(row, message_id=message_id)


async def send(sender: Sender, made: Iterator[Message]) -> None:
    """Warm up, then send what counts."""
    for count in filter(None, (clock.warmup, clock.count)):
        await sender.send_many(islice(made, count))
        clock.tick(count)


async def one(sender: Sender) -> None:
    """Each when the one before is accepted."""
    body, now = clock.body, time.perf_counter
    for _ in range(clock.total):
        began = now()
        await sender.send(Message(body))
        clock.latencies.append(now() - began)
        clock.tick()


def read_order(delivery: Delivery) -> None:
    """Look at every field."""
    message = delivery.message
    properties, annotations = message.application_properties, message.message_annotations
    seen = (
        message.message_id,
        message.subject,
        message.reply_to,
        message.correlation_id,
        message.content_type,
        message.creation_time,
        message.body,
        properties["region"],
        properties["attempt"],
        properties["total"],
        properties["express"],
        properties["due"],
        properties["trace"],
        annotations["x-opt-partition-key"],
        annotations["x-opt-sequence-number"],
    )
    assert len(seen) == 15
    delivery.accept()


def read_row(delivery: Delivery) -> None:
    """Take its native values."""
    assert delivery.message.message_id
    assert len(delivery.message.body) == 19
    delivery.accept()


async def receive(receiver: Receiver, read: Callable[[Delivery], None]) -> None:
    async for delivery in receiver:
        read(delivery)
        if clock.tick():
            break


async def links(connection: Connection) -> None:
    """A task for each link."""
    async with anyio.create_task_group() as tasks:

        async def consume() -> None:
            async with connection.receiver(clock.address, credit=LINK_CREDIT) as receiver:
                async for delivery in receiver:
                    read_order(delivery)
                    if clock.tick():
                        clock.report()
                        tasks.cancel_scope.cancel()

        for _ in range(clock.links):
            tasks.start_soon(consume)


def derived(message: Message) -> Message:
    """Look at three fields, and make the message that is sent on."""
    region = message.application_properties["region"]
    return Message(
        message.body,
        subject=f"relayed.{message.subject}",
        correlation_id=message.message_id,
        application_properties={"region": region},
    )


async def relay(receiver: Receiver, sender: Sender) -> None:
    """In batches: send all, and accept each when what was made of it is accepted."""
    done = False
    while not done:
        batch = await receiver.receive_batch(AT_A_TIME)
        sent = [(delivery, await sender.submit(derived(delivery.message))) for delivery in batch]
        for delivery, on in sent:
            assert type(await on.outcome()) is Accepted
            delivery.accept()
        done = clock.tick(len(batch))


async def relay_task(receiver: Receiver, sender: Sender) -> None:
    """A task a message."""
    limit, taken = anyio.Semaphore(AT_A_TIME), 0

    async def handle(delivery: Delivery) -> None:
        await sender.send(derived(delivery.message))
        delivery.accept()
        clock.tick()
        limit.release()

    async with anyio.create_task_group() as tasks:
        async for delivery in receiver:
            await limit.acquire()
            tasks.start_soon(handle, delivery)
            taken += 1
            if taken == clock.total:
                break


async def relay_worker(connection: Connection, sender: Sender) -> None:
    """By the worker, so many handlers at a time."""
    done = anyio.Event()

    async def handle(message: Message) -> None:
        await sender.send(derived(message))
        if clock.tick():
            done.set()

    prefetch = IN_FLIGHT - AT_A_TIME
    async with Worker(connection, clock.address, handle, concurrency=AT_A_TIME, prefetch=prefetch):
        await done.wait()
        clock.report()


async def main() -> None:
    """Connect, do it, report."""
    async with Connection(clock.url) as connection:
        if clock.mode in ("order-send", "row-send", "one"):
            async with connection.sender(clock.address) as sender:
                clock.begin()
                if clock.mode == "one":
                    await one(sender)
                else:
                    await send(sender, orders() if clock.mode == "order-send" else rows())
                clock.report()
        elif clock.mode == "relay" and "worker" in clock.variant:
            async with connection.sender("relayed") as sender:
                clock.begin()
                await relay_worker(connection, sender)
        elif clock.mode == "relay":
            async with (
                connection.receiver(clock.address, credit=IN_FLIGHT) as receiver,
                connection.sender("relayed") as sender,
            ):
                clock.begin()
                await (relay_task if "task" in clock.variant else relay)(receiver, sender)
                clock.report()
        elif clock.mode == "links":
            clock.begin()
            await links(connection)
        else:
            async with connection.receiver(clock.address, credit=IN_FLIGHT) as receiver:
                clock.begin()
                await receive(receiver, read_order if clock.mode == "order-receive" else read_row)
                clock.report()


if clock.mode == "order-send":
    clock.also["json"] = messages.json_us()
anyio.run(main, backend="asyncio" if "asyncio" in clock.variant else "trio")

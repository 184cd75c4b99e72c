"""A vhost with a store, which may crash and begin again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from amqp10.messaging import Message

from ..clock import Clock
from ..inside.broker import Queue, QueuedMessage, Store, VirtualHostCore, VirtualHostSettings, load
from .queue_doubles import Taker

# The time of day and the broker's clock go at the same pace and begin anywhere.
DAY = 1_000_000_000.0


class Life:
    """A vhost with a store, from begin to crash."""

    def __init__(self, path: Path, clock: Clock, **settings: object) -> None:
        self.clock = clock
        self.vhost = VirtualHostCore(VirtualHostSettings(**settings), clock=clock)  # type: ignore[arg-type]
        self.store = Store(str(path), clock, self.wall)
        try:
            load(self.store, self.vhost, self.wall)
        except BaseException:
            self.store.file.close()  # which Python 3.13 warns of
            raise

    def wall(self) -> float:
        return DAY + self.clock.now + self.clock.jumped

    def queue(self, name: str = "q") -> Queue:
        node = self.vhost.declare(name, "queue")
        assert isinstance(node, Queue)
        return node

    def put(self, *bodies: object, name: str = "q", **fields: object) -> None:
        for body in bodies:
            payload = Message(body, **{"durable": True, **fields}).encode()  # type: ignore[arg-type]
            self.queue(name).put(QueuedMessage.read(payload, 0, self.clock.now, self.wall))

    def give(self, taker: Taker, name: str = "q") -> list[QueuedMessage]:
        """What the taker is given of the queue."""
        queue = self.queue(name)
        if taker.key not in queue.consumers:
            queue.add_consumer(taker)
        queue.in_line(taker)
        self.vhost.flush()
        return taker.taken

    def bodies(self, name: str = "q") -> list[object]:
        """All that waits in the queue, without taking it."""
        return [message.body for message in self.messages(name)]

    def messages(self, name: str = "q") -> list[Message]:
        browser = Taker(1000, copies=True)
        self.give(browser, name)
        self.queue(name).remove_consumer(browser)
        return [Message.decode(payload) for payload in browser.payloads]


Begin = Callable[..., Life]


def crash(begin: Begin, life: Life, **settings: object) -> Life:
    """What is noted is on the disk, and the broker ends without another word."""
    life.store.commit()
    return begin(**settings)

"""A clock that a test moves, and a queue of Service Bus by itself, without links."""

from __future__ import annotations

from uuid import UUID

from amqp10.broker.azure import AzureConfig, QueueConfig
from amqp10.messaging import Error, Message

from ..clock import Clock
from ..inside.broker import Entity, Namespace, QueuedMessage, Receiver, VirtualHostCore

NOON = 1_790_000_000.0


class Taker(Receiver):
    """Takes as many messages as it has credit for, and keeps them with their lock tokens."""

    def __init__(self, credit: int, *, locks: bool = True, largest: int = 1 << 30) -> None:
        self.credit = credit
        self.locks = locks
        self.largest = largest
        self.taken: list[tuple[UUID | None, Message]] = []
        self.drained = 0
        self.error: Error | None = None

    def ready(self) -> bool:
        return self.credit > 0

    def deliver(self, token: UUID | None, payload: bytes) -> bool:
        if len(payload) > self.largest:
            return False
        self.credit -= 1
        self.taken.append((token, Message.decode(payload)))
        return True

    def fed(self) -> None:
        pass

    def nothing_left(self) -> None:
        self.drained += 1

    def node_deleted(self, error: Error) -> None:
        self.error = error


class Bench:
    """One queue, its dead letters, and the broker's passes."""

    def __init__(self, config: QueueConfig) -> None:
        self.clock = Clock(NOON)
        self.vhost = VirtualHostCore(clock=lambda: self.clock.now - NOON)
        namespace = Namespace(AzureConfig([config], clock=self.clock), self.vhost)
        queue, dead = namespace.find(config.name), namespace.find(f"{config.name}/$DeadLetterQueue")
        assert queue is not None
        assert dead is not None
        self.queue, self.dead = queue, dead

    def send(self, message: Message, message_format: int = 0) -> None:
        """Put a message into the queue as a producer does."""
        self.queue.take(QueuedMessage.read(message.encode(), message_format, self.vhost.clock()))
        self.vhost.flush()

    def take(self, credit: int = 1, *, entity: Entity | None = None, locks: bool = True) -> list[tuple[UUID, Message]]:
        """Receive what is there, and go."""
        entity = entity or self.queue
        taker = Taker(credit, locks=locks)
        entity.add_receiver(taker)
        entity.in_line(taker)
        self.vhost.flush()
        entity.remove_receiver(taker)
        return [(token or UUID(int=0), message) for token, message in taker.taken]

    def take_one(self, *, entity: Entity | None = None) -> tuple[UUID, Message]:
        """Receive the message that is there."""
        [(token, message)] = self.take(entity=entity)
        return token, message

    def pass_time(self, seconds: float) -> None:
        """Let time pass, as the broker's own task does."""
        self.clock.now += seconds
        self.vhost.expire()
        self.vhost.flush()

"""RabbitMQ's direct reply-to: replies that come to a consumer without a queue (https://www.rabbitmq.com/docs/direct-reply-to).

A client that publishes on the channel of such a consumer may name the pseudo-queue as reply-to: the broker then puts
the consumer's own address in its place. Here each link has a channel of its own, and other links send the requests.
So the receiver sends one message to itself: the address that comes back is good on any channel.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ....engine import Handlers
from ....errors import DecodeError, LinkDetached
from ....messaging import Error, Source, Target
from ..channel import BASIC
from ..message.places import DIRECT_REPLY
from ..states import Step
from ..wire.framing import METHOD
from ..wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicPublish,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
)
from ..wire.properties import BasicProperties
from .receiver import ClientReceiver
from .receiving.consumer import Consumer


class DirectReplies(ClientReceiver):
    """A receiver of replies; all are settled. See `ReceiverLink` for the contract.

    Attributes:
        replies_at: the address for reply-to; "" until it is known.
    """

    handlers: ClassVar[Handlers] = {QueueDeclareOk: "receive_mailbox"}

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.replies_at: str = ""
        self._mailbox = ""  # the queue through which it learns its address

    def new_consumer(self) -> Consumer:
        return Consumer(self, "replies", no_ack=True)

    # Attaching

    def check_encodable(self) -> None:
        """Do nothing: the user chose nothing of what the link sends."""

    def _method_to_find(self, terminus: Source | Target) -> QueueDeclare:
        return QueueDeclare(exclusive=True, auto_delete=True)

    def prepare(self) -> None:
        self.consumer.start(0)
        self._ask(BasicConsume(queue=DIRECT_REPLY, consumer_tag=self.consumer.tag, no_ack=True))
        self._waits_for += 1  # for the address

    def receive_mailbox(self, method: QueueDeclareOk) -> None:
        """Send the message that brings the address."""
        self._mailbox = method.queue
        engine = self.engine
        publish = engine.variant.methods.encode(BasicPublish(routing_key=self._mailbox))
        properties = BasicProperties(reply_to=DIRECT_REPLY).encode(engine.variant.tables)
        engine.write(engine.variant.framing.frame(METHOD, self.channel.number, publish))
        engine.write(engine.variant.framing.message(self.channel.number, BASIC, properties, b"", engine.max_payload))
        self.channel.write(BasicGet(queue=self._mailbox, no_ack=True))
        self._answered()

    def receive_consume(self, method: BasicConsumeOk) -> None:
        self.consumer.advance(Step.RECEIVE_CONSUME_OK)
        self._answered()

    def receive_get(self, payload: bytes) -> None:
        self.channel.check_shape(payload)
        self.channel.expect_content(self._learn)

    def _learn(self, _: bytes) -> None:
        """Take the address from the message that came back, and delete its queue."""
        properties = BasicProperties.decode(self.channel.properties_octets, self.engine.variant.tables)
        if properties.reply_to in (None, "", DIRECT_REPLY):
            raise DecodeError(f"the server gave no address to the consumer of {DIRECT_REPLY}")
        self.replies_at = properties.reply_to
        self.channel.write(QueueDelete(queue=self._mailbox, nowait=True))
        self._answered()

    def receive_empty(self, _: BasicGetEmpty) -> None:
        error = "the message that was to bring the address of the replies did not come"
        self.channel.close_channel(Error("amqp:internal-error", error))
        self.end(True, LinkDetached("amqp:internal-error", error))

    def found(self, terminus: Source | Target) -> str | None:
        return self.replies_at

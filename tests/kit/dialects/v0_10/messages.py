"""What a transfer carries for a message."""

from __future__ import annotations

from amqp10 import Message
from amqp10.dialects.v0_10.message.to_transfer import write_message
from amqp10.dialects.v0_10.wire.commands import DeliveryProperties, MessageProperties
from amqp10.dialects.v0_10.wire.struct import decode_header
from amqp10.engine import Address

QUEUE = Address("", "q")


def there(
    message: Message, address: Address | None = QUEUE, *, to_qpid: bool = False
) -> tuple[DeliveryProperties, MessageProperties, bytes]:
    """Return what a transfer carries for it."""
    written = write_message(message.encode(), address, to_qpid=to_qpid)
    delivery, properties = decode_header(written.header)
    assert isinstance(delivery, DeliveryProperties)
    assert isinstance(properties, MessageProperties)
    return delivery, properties, written.body

"""The commands of execution, messages and transactions on one server (0-10 §10.1 to §10.3)."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from .struct import Command, Ranges, Struct, command, field, struct

INFINITE: Final = 0xFFFF_FFFF
"""The value of message.flow that grants any amount (0-10 §10.2 "flow")."""


@command(0x0301, "execution.sync")
class ExecutionSync(Command):
    """A command that is completed once all before it are."""


@command(0x0302, "execution.result")
class ExecutionResult(Command):
    """The result of a command."""

    command_id: int = field("sequence-no", required=True)
    value: Any | None = field("struct32")


@command(0x0303, "execution.exception")
class ExecutionException(Command):
    """A command failed, and its session with it."""

    error_code: int = field("uint16", required=True)
    command_id: int | None = field("sequence-no")
    class_code: int | None = field("uint8")
    command_code: int | None = field("uint8")
    field_index: int | None = field("uint8")
    description: str | None = field("str16")
    error_info: dict[str, Any] | None = field("map")


@struct("message.delivery-properties", code=0x0401)
class DeliveryProperties(Struct):
    """Properties of the delivery of a message; times are in ms, except `timestamp` and `expiration`."""

    discard_unroutable: bool = field("bit")
    immediate: bool = field("bit")
    redelivered: bool = field("bit")
    priority: int = field("uint8", required=True, default=4)
    delivery_mode: int = field("uint8", required=True, default=1)
    ttl: int | None = field("uint64")
    timestamp: int | None = field("datetime")
    expiration: int | None = field("datetime")
    exchange: str | None = field("str8")
    routing_key: str | None = field("str8")
    resume_id: str | None = field("str16")
    resume_ttl: int | None = field("uint64")


@struct("message.fragment-properties", code=0x0402)
class FragmentProperties(Struct):
    """Which part of a message this is."""

    first: bool = field("bit")
    last: bool = field("bit")
    fragment_size: int | None = field("uint64")


@struct("message.reply-to", size_width=2)
class ReplyTo(Struct):
    """The exchange and routing key for answers."""

    exchange: str | None = field("str8")
    routing_key: str | None = field("str8")


@struct("message.message-properties", code=0x0403)
class MessageProperties(Struct):
    """Properties that the sender gives a message."""

    content_length: int | None = field("uint64")
    message_id: UUID | None = field("uuid")
    correlation_id: bytes | None = field("vbin16")
    reply_to: ReplyTo | None = field("message.reply-to")
    content_type: str | None = field("str8")
    content_encoding: str | None = field("str8")
    user_id: bytes | None = field("vbin16")
    app_id: bytes | None = field("vbin16")
    application_headers: dict[str, Any] | None = field("map")


@struct("message.acquired", code=0x0404)
class Acquired(Struct):
    """The transfers that could be acquired."""

    transfers: Ranges = field("sequence-set", required=True)


@struct("message.message-resume-result", code=0x0405)
class MessageResumeResult(Struct):
    """The octet to go on from."""

    offset: int | None = field("uint64")


@command(0x0401, "message.transfer", content=True)
class MessageTransfer(Command):
    """A message."""

    destination: str = field("str8", default="")
    accept_mode: int = field("uint8", required=True, default=0)
    acquire_mode: int = field("uint8", required=True, default=0)


@command(0x0402, "message.accept")
class MessageAccept(Command):
    """Accept these transfers."""

    transfers: Ranges = field("sequence-set", required=True)


@command(0x0403, "message.reject")
class MessageReject(Command):
    """Reject these transfers, for any receiver."""

    transfers: Ranges = field("sequence-set", required=True)
    code: int = field("uint16", required=True, default=0)
    text: str | None = field("str8")


@command(0x0404, "message.release")
class MessageRelease(Command):
    """Release these transfers."""

    transfers: Ranges = field("sequence-set", required=True)
    set_redelivered: bool = field("bit")


@command(0x0405, "message.acquire", result="message.acquired")
class MessageAcquire(Command):
    """Acquire these transfers, which were only shown."""

    transfers: Ranges = field("sequence-set", required=True)


@command(0x0406, "message.resume", result="message.message-resume-result")
class MessageResume(Command):
    """Go on with a message that was cut off."""

    destination: str | None = field("str8")
    resume_id: str = field("str16", required=True)


@command(0x0407, "message.subscribe")
class MessageSubscribe(Command):
    """Ask for the messages of a queue."""

    queue: str = field("str8", required=True)
    destination: str | None = field("str8")
    accept_mode: int = field("uint8", required=True, default=0)
    acquire_mode: int = field("uint8", required=True, default=0)
    exclusive: bool = field("bit")
    resume_id: str | None = field("str16")
    resume_ttl: int | None = field("uint64")
    arguments: dict[str, Any] | None = field("map")


@command(0x0408, "message.cancel")
class MessageCancel(Command):
    """End a subscription."""

    destination: str = field("str8", required=True)


@command(0x0409, "message.set-flow-mode")
class MessageSetFlowMode(Command):
    """Set whether credit comes back by itself (1, window) or not (0, credit)."""

    destination: str = field("str8", default="")
    flow_mode: int = field("uint8", required=True)


@command(0x040A, "message.flow")
class MessageFlow(Command):
    """Grant credit, in messages (unit 0) or octets (1)."""

    destination: str = field("str8", default="")
    unit: int = field("uint8", required=True)
    value: int = field("uint32", default=INFINITE)


@command(0x040B, "message.flush")
class MessageFlush(Command):
    """Send the messages that are ready, then forget the credit."""

    destination: str = field("str8", default="")


@command(0x040C, "message.stop")
class MessageStop(Command):
    """Forget the credit."""

    destination: str = field("str8", default="")


@command(0x0501, "tx.select")
class TxSelect(Command):
    """Work in transactions from now on."""


@command(0x0502, "tx.commit")
class TxCommit(Command):
    """Commit the work of the transaction, and begin the next one."""


@command(0x0503, "tx.rollback")
class TxRollback(Command):
    """Roll back the work of the transaction, and begin the next one."""

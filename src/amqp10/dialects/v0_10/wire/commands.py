"""The commands and their structs, in the order of the specification (0-10 §10.1 to §10.6).

Written by `make tables` from `tools/tables/0-10.txt`: a change is made there. The commands of files and streams are in
`rare_commands`.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from .struct import Command, Ranges, Struct, field

# Class execution (3, §10.1)


class ExecutionSync(Command, name="execution.sync", code=0x0301):
    """A command that is completed once all before it are."""


class ExecutionResult(Command, name="execution.result", code=0x0302):
    """The result of a command."""

    command_id: int = field("sequence-no", required=True)
    value: Any | None = field("struct32")


class ExecutionException(Command, name="execution.exception", code=0x0303):
    """A command failed, and its session with it."""

    error_code: int = field("uint16", required=True)
    command_id: int | None = field("sequence-no")
    class_code: int | None = field("uint8")
    command_code: int | None = field("uint8")
    field_index: int | None = field("uint8")
    description: str | None = field("str16")
    error_info: dict[str, Any] | None = field("map")


# Class message (4, §10.2)


class DeliveryProperties(Struct, name="message.delivery-properties", code=0x0401):
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


class FragmentProperties(Struct, name="message.fragment-properties", code=0x0402):
    """Which part of a message this is."""

    first: bool = field("bit")
    last: bool = field("bit")
    fragment_size: int | None = field("uint64")


class ReplyTo(Struct, name="message.reply-to", size_width=2):
    """The exchange and routing key for answers."""

    exchange: str | None = field("str8")
    routing_key: str | None = field("str8")


class MessageProperties(Struct, name="message.message-properties", code=0x0403):
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


class Acquired(Struct, name="message.acquired", code=0x0404):
    """The transfers that could be acquired."""

    transfers: Ranges = field("sequence-set", required=True)


class MessageResumeResult(Struct, name="message.message-resume-result", code=0x0405):
    """The octet to go on from."""

    offset: int | None = field("uint64")


class MessageTransfer(Command, name="message.transfer", code=0x0401, content=True):
    """A message."""

    destination: str = field("str8", default="")
    accept_mode: int = field("uint8", required=True, default=0)
    acquire_mode: int = field("uint8", required=True, default=0)


class MessageAccept(Command, name="message.accept", code=0x0402):
    """Accept these transfers."""

    transfers: Ranges = field("sequence-set", required=True)


class MessageReject(Command, name="message.reject", code=0x0403):
    """Reject these transfers, for any receiver."""

    transfers: Ranges = field("sequence-set", required=True)
    code: int = field("uint16", required=True, default=0)
    text: str | None = field("str8")


class MessageRelease(Command, name="message.release", code=0x0404):
    """Release these transfers."""

    transfers: Ranges = field("sequence-set", required=True)
    set_redelivered: bool = field("bit")


class MessageAcquire(Command, name="message.acquire", code=0x0405, result="message.acquired"):
    """Acquire these transfers, which were only shown."""

    transfers: Ranges = field("sequence-set", required=True)


class MessageResume(Command, name="message.resume", code=0x0406, result="message.message-resume-result"):
    """Go on with a message that was cut off."""

    destination: str | None = field("str8")
    resume_id: str = field("str16", required=True)


class MessageSubscribe(Command, name="message.subscribe", code=0x0407):
    """Ask for the messages of a queue."""

    queue: str = field("str8", required=True)
    destination: str | None = field("str8")
    accept_mode: int = field("uint8", required=True, default=0)
    acquire_mode: int = field("uint8", required=True, default=0)
    exclusive: bool = field("bit")
    resume_id: str | None = field("str16")
    resume_ttl: int | None = field("uint64")
    arguments: dict[str, Any] | None = field("map")


class MessageCancel(Command, name="message.cancel", code=0x0408):
    """End a subscription."""

    destination: str = field("str8", required=True)


class MessageSetFlowMode(Command, name="message.set-flow-mode", code=0x0409):
    """Set whether credit comes back by itself (1, window) or not (0, credit)."""

    destination: str = field("str8", default="")
    flow_mode: int = field("uint8", required=True)


class MessageFlow(Command, name="message.flow", code=0x040A):
    """Grant credit, in messages (unit 0) or octets (1)."""

    destination: str = field("str8", default="")
    unit: int = field("uint8", required=True)
    value: int = field("uint32", default=0xFFFFFFFF)


class MessageFlush(Command, name="message.flush", code=0x040B):
    """Send the messages that are ready, then forget the credit."""

    destination: str = field("str8", default="")


class MessageStop(Command, name="message.stop", code=0x040C):
    """Forget the credit."""

    destination: str = field("str8", default="")


# Class tx (5, §10.3)


class TxSelect(Command, name="tx.select", code=0x0501):
    """Work in transactions from now on."""


class TxCommit(Command, name="tx.commit", code=0x0502):
    """Commit the work of the transaction, and begin the next one."""


class TxRollback(Command, name="tx.rollback", code=0x0503):
    """Roll back the work of the transaction, and begin the next one."""


# Class dtx (6, §10.4)


class XaResult(Struct, name="dtx.xa-result", code=0x0601):
    """The status of a command on a branch (X/Open XA)."""

    status: int = field("uint16", required=True)


class Xid(Struct, name="dtx.xid", code=0x0604):
    """A branch of a distributed transaction."""

    format: int = field("uint32", required=True)
    global_id: bytes = field("vbin8", required=True)
    branch_id: bytes = field("vbin8", required=True)


class GetTimeoutResult(Struct, name="dtx.get-timeout-result", code=0x0602):
    """The timeout of a branch, seconds."""

    timeout: int = field("uint32", required=True)


class RecoverResult(Struct, name="dtx.recover-result", code=0x0603):
    """The branches that are prepared."""

    in_doubt: list[Any] = field("array", required=True)


class DtxSelect(Command, name="dtx.select", code=0x0601):
    """Allow the session to start branches of distributed transactions."""


class DtxStart(Command, name="dtx.start", code=0x0602, result="dtx.xa-result"):
    """Make the session's work part of this branch from now on."""

    xid: Xid = field("dtx.xid", required=True)
    join: bool = field("bit")
    resume: bool = field("bit")


class DtxEnd(Command, name="dtx.end", code=0x0603, result="dtx.xa-result"):
    """End the session's work in this branch."""

    xid: Xid = field("dtx.xid", required=True)
    fail: bool = field("bit")
    suspend: bool = field("bit")


class DtxCommit(Command, name="dtx.commit", code=0x0604, result="dtx.xa-result"):
    """Commit the branch."""

    xid: Xid = field("dtx.xid", required=True)
    one_phase: bool = field("bit")


class DtxForget(Command, name="dtx.forget", code=0x0605):
    """Forget how the branch ended."""

    xid: Xid = field("dtx.xid", required=True)


class DtxGetTimeout(Command, name="dtx.get-timeout", code=0x0606, result="dtx.get-timeout-result"):
    """Ask after how many seconds the branch is rolled back."""

    xid: Xid = field("dtx.xid", required=True)


class DtxPrepare(Command, name="dtx.prepare", code=0x0607, result="dtx.xa-result"):
    """Prepare the branch, so that its commit can no longer fail."""

    xid: Xid = field("dtx.xid", required=True)


class DtxRecover(Command, name="dtx.recover", code=0x0608, result="dtx.recover-result"):
    """Ask which branches are prepared."""


class DtxRollback(Command, name="dtx.rollback", code=0x0609, result="dtx.xa-result"):
    """Undo the branch."""

    xid: Xid = field("dtx.xid", required=True)


class DtxSetTimeout(Command, name="dtx.set-timeout", code=0x060A):
    """Have the branch rolled back after `timeout` seconds; 0: never."""

    xid: Xid = field("dtx.xid", required=True)
    timeout: int = field("uint32", required=True)


# Class exchange (7, §10.5)


class ExchangeQueryResult(Struct, name="exchange.exchange-query-result", code=0x0701):
    """The properties of an exchange, or `not_found`."""

    type: str | None = field("str8")
    durable: bool = field("bit")
    not_found: bool = field("bit")
    arguments: dict[str, Any] | None = field("map")


class ExchangeBoundResult(Struct, name="exchange.exchange-bound-result", code=0x0702):
    """The reasons why there is no such binding; no flag set: there is one."""

    exchange_not_found: bool = field("bit")
    queue_not_found: bool = field("bit")
    queue_not_matched: bool = field("bit")
    key_not_matched: bool = field("bit")
    args_not_matched: bool = field("bit")


class ExchangeDeclare(Command, name="exchange.declare", code=0x0701):
    """Declare an exchange."""

    exchange: str = field("str8", required=True)
    type: str = field("str8", required=True)
    alternate_exchange: str | None = field("str8")
    passive: bool = field("bit")
    durable: bool = field("bit")
    auto_delete: bool = field("bit")
    arguments: dict[str, Any] | None = field("map")


class ExchangeDelete(Command, name="exchange.delete", code=0x0702):
    """Delete an exchange."""

    exchange: str = field("str8", required=True)
    if_unused: bool = field("bit")


class ExchangeQuery(Command, name="exchange.query", code=0x0703, result="exchange.exchange-query-result"):
    """Ask for the properties of an exchange."""

    name: str | None = field("str8")


class ExchangeBind(Command, name="exchange.bind", code=0x0704):
    """Bind a queue to an exchange."""

    queue: str = field("str8", required=True)
    exchange: str = field("str8", required=True)
    binding_key: str = field("str8", required=True)
    arguments: dict[str, Any] | None = field("map")


class ExchangeUnbind(Command, name="exchange.unbind", code=0x0705):
    """Unbind a queue from an exchange."""

    queue: str = field("str8", required=True)
    exchange: str = field("str8", required=True)
    binding_key: str = field("str8", required=True)


class ExchangeBound(Command, name="exchange.bound", code=0x0706, result="exchange.exchange-bound-result"):
    """Ask whether there is such a binding."""

    exchange: str | None = field("str8")
    queue: str = field("str8", required=True)
    binding_key: str | None = field("str8")
    arguments: dict[str, Any] | None = field("map")


# Class queue (8, §10.6)


class QueueQueryResult(Struct, name="queue.queue-query-result", code=0x0801):
    """The properties of a queue; no field is set if there is no such queue, whatever the specification requires."""

    queue: str | None = field("str8")
    alternate_exchange: str | None = field("str8")
    durable: bool = field("bit")
    exclusive: bool = field("bit")
    auto_delete: bool = field("bit")
    arguments: dict[str, Any] | None = field("map")
    message_count: int | None = field("uint32")
    subscriber_count: int | None = field("uint32")


class QueueDeclare(Command, name="queue.declare", code=0x0801):
    """Declare a queue."""

    queue: str = field("str8", required=True)
    alternate_exchange: str | None = field("str8")
    passive: bool = field("bit")
    durable: bool = field("bit")
    exclusive: bool = field("bit")
    auto_delete: bool = field("bit")
    arguments: dict[str, Any] | None = field("map")


class QueueDelete(Command, name="queue.delete", code=0x0802):
    """Delete a queue."""

    queue: str = field("str8", required=True)
    if_unused: bool = field("bit")
    if_empty: bool = field("bit")


class QueuePurge(Command, name="queue.purge", code=0x0803):
    """Remove all messages from a queue."""

    queue: str = field("str8", required=True)


class QueueQuery(Command, name="queue.query", code=0x0804, result="queue.queue-query-result"):
    """Ask for the properties of a queue."""

    queue: str = field("str8", required=True)

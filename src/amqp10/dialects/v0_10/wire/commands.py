"""The commands and their structs, in the order of the specification (0-10 §10.1 to §10.6).

Written by `make tables` from `tools/tables/0-10.txt`: a change is made there. The commands of files and streams are in
`rare_commands`.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from .struct import Command, Ranges, Struct, command, field, struct

# Class execution (3, §10.1)


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


# Class message (4, §10.2)


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
    value: int = field("uint32", default=0xFFFFFFFF)


@command(0x040B, "message.flush")
class MessageFlush(Command):
    """Send the messages that are ready, then forget the credit."""

    destination: str = field("str8", default="")


@command(0x040C, "message.stop")
class MessageStop(Command):
    """Forget the credit."""

    destination: str = field("str8", default="")


# Class tx (5, §10.3)


@command(0x0501, "tx.select")
class TxSelect(Command):
    """Work in transactions from now on."""


@command(0x0502, "tx.commit")
class TxCommit(Command):
    """Commit the work of the transaction, and begin the next one."""


@command(0x0503, "tx.rollback")
class TxRollback(Command):
    """Roll back the work of the transaction, and begin the next one."""


# Class dtx (6, §10.4)


@struct("dtx.xa-result", code=0x0601)
class XaResult(Struct):
    """The status of a command on a branch (X/Open XA)."""

    status: int = field("uint16", required=True)


@struct("dtx.xid", code=0x0604)
class Xid(Struct):
    """A branch of a distributed transaction."""

    format: int = field("uint32", required=True)
    global_id: bytes = field("vbin8", required=True)
    branch_id: bytes = field("vbin8", required=True)


@struct("dtx.get-timeout-result", code=0x0602)
class GetTimeoutResult(Struct):
    """The timeout of a branch, seconds."""

    timeout: int = field("uint32", required=True)


@struct("dtx.recover-result", code=0x0603)
class RecoverResult(Struct):
    """The branches that are prepared."""

    in_doubt: list[Any] = field("array", required=True)


@command(0x0601, "dtx.select")
class DtxSelect(Command):
    """Allow the session to start branches of distributed transactions."""


@command(0x0602, "dtx.start", result="dtx.xa-result")
class DtxStart(Command):
    """Make the session's work part of this branch from now on."""

    xid: Xid = field("dtx.xid", required=True)
    join: bool = field("bit")
    resume: bool = field("bit")


@command(0x0603, "dtx.end", result="dtx.xa-result")
class DtxEnd(Command):
    """End the session's work in this branch."""

    xid: Xid = field("dtx.xid", required=True)
    fail: bool = field("bit")
    suspend: bool = field("bit")


@command(0x0604, "dtx.commit", result="dtx.xa-result")
class DtxCommit(Command):
    """Commit the branch."""

    xid: Xid = field("dtx.xid", required=True)
    one_phase: bool = field("bit")


@command(0x0605, "dtx.forget")
class DtxForget(Command):
    """Forget how the branch ended."""

    xid: Xid = field("dtx.xid", required=True)


@command(0x0606, "dtx.get-timeout", result="dtx.get-timeout-result")
class DtxGetTimeout(Command):
    """Ask after how many seconds the branch is rolled back."""

    xid: Xid = field("dtx.xid", required=True)


@command(0x0607, "dtx.prepare", result="dtx.xa-result")
class DtxPrepare(Command):
    """Prepare the branch, so that its commit can no longer fail."""

    xid: Xid = field("dtx.xid", required=True)


@command(0x0608, "dtx.recover", result="dtx.recover-result")
class DtxRecover(Command):
    """Ask which branches are prepared."""


@command(0x0609, "dtx.rollback", result="dtx.xa-result")
class DtxRollback(Command):
    """Undo the branch."""

    xid: Xid = field("dtx.xid", required=True)


@command(0x060A, "dtx.set-timeout")
class DtxSetTimeout(Command):
    """Have the branch rolled back after `timeout` seconds; 0: never."""

    xid: Xid = field("dtx.xid", required=True)
    timeout: int = field("uint32", required=True)


# Class exchange (7, §10.5)


@struct("exchange.exchange-query-result", code=0x0701)
class ExchangeQueryResult(Struct):
    """The properties of an exchange, or `not_found`."""

    type: str | None = field("str8")
    durable: bool = field("bit")
    not_found: bool = field("bit")
    arguments: dict[str, Any] | None = field("map")


@struct("exchange.exchange-bound-result", code=0x0702)
class ExchangeBoundResult(Struct):
    """The reasons why there is no such binding; no flag set: there is one."""

    exchange_not_found: bool = field("bit")
    queue_not_found: bool = field("bit")
    queue_not_matched: bool = field("bit")
    key_not_matched: bool = field("bit")
    args_not_matched: bool = field("bit")


@command(0x0701, "exchange.declare")
class ExchangeDeclare(Command):
    """Declare an exchange."""

    exchange: str = field("str8", required=True)
    type: str = field("str8", required=True)
    alternate_exchange: str | None = field("str8")
    passive: bool = field("bit")
    durable: bool = field("bit")
    auto_delete: bool = field("bit")
    arguments: dict[str, Any] | None = field("map")


@command(0x0702, "exchange.delete")
class ExchangeDelete(Command):
    """Delete an exchange."""

    exchange: str = field("str8", required=True)
    if_unused: bool = field("bit")


@command(0x0703, "exchange.query", result="exchange.exchange-query-result")
class ExchangeQuery(Command):
    """Ask for the properties of an exchange."""

    name: str | None = field("str8")


@command(0x0704, "exchange.bind")
class ExchangeBind(Command):
    """Bind a queue to an exchange."""

    queue: str = field("str8", required=True)
    exchange: str = field("str8", required=True)
    binding_key: str = field("str8", required=True)
    arguments: dict[str, Any] | None = field("map")


@command(0x0705, "exchange.unbind")
class ExchangeUnbind(Command):
    """Unbind a queue from an exchange."""

    queue: str = field("str8", required=True)
    exchange: str = field("str8", required=True)
    binding_key: str = field("str8", required=True)


@command(0x0706, "exchange.bound", result="exchange.exchange-bound-result")
class ExchangeBound(Command):
    """Ask whether there is such a binding."""

    exchange: str | None = field("str8")
    queue: str = field("str8", required=True)
    binding_key: str | None = field("str8")
    arguments: dict[str, Any] | None = field("map")


# Class queue (8, §10.6)


@struct("queue.queue-query-result", code=0x0801)
class QueueQueryResult(Struct):
    """The properties of a queue; no field is set if there is no such queue, whatever the specification requires."""

    queue: str | None = field("str8")
    alternate_exchange: str | None = field("str8")
    durable: bool = field("bit")
    exclusive: bool = field("bit")
    auto_delete: bool = field("bit")
    arguments: dict[str, Any] | None = field("map")
    message_count: int | None = field("uint32")
    subscriber_count: int | None = field("uint32")


@command(0x0801, "queue.declare")
class QueueDeclare(Command):
    """Declare a queue."""

    queue: str = field("str8", required=True)
    alternate_exchange: str | None = field("str8")
    passive: bool = field("bit")
    durable: bool = field("bit")
    exclusive: bool = field("bit")
    auto_delete: bool = field("bit")
    arguments: dict[str, Any] | None = field("map")


@command(0x0802, "queue.delete")
class QueueDelete(Command):
    """Delete a queue."""

    queue: str = field("str8", required=True)
    if_unused: bool = field("bit")
    if_empty: bool = field("bit")


@command(0x0803, "queue.purge")
class QueuePurge(Command):
    """Remove all messages from a queue."""

    queue: str = field("str8", required=True)


@command(0x0804, "queue.query", result="queue.queue-query-result")
class QueueQuery(Command):
    """Ask for the properties of a queue."""

    queue: str = field("str8", required=True)

"""The commands of distributed transactions, exchanges and queues (0-10 §10.4 to §10.6)."""

from __future__ import annotations

from typing import Any, Final

from .struct import Command, Struct, command, field, struct

XA_OK: Final = 0
"""The status of a successful command on a branch."""


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

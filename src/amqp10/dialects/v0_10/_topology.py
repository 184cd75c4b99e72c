"""The commands of distributed transactions, exchanges and queues (0-10 §10.4 to §10.6)."""

from __future__ import annotations

from typing import Any

from ._declare import Command, Struct, command, field, struct


@struct("dtx.xa-result", code=0x0601)
class XaResult(Struct):
    """How it went (X/Open XA)."""

    status: int = field("uint16", required=True)


@struct("dtx.xid", code=0x0604)
class Xid(Struct):
    """A branch of a distributed transaction."""

    format: int = field("uint32", required=True)
    global_id: bytes = field("vbin8", required=True)
    branch_id: bytes = field("vbin8", required=True)


@struct("dtx.get-timeout-result", code=0x0602)
class GetTimeoutResult(Struct):
    """Seconds."""

    timeout: int = field("uint32", required=True)


@struct("dtx.recover-result", code=0x0603)
class RecoverResult(Struct):
    """Prepared branches."""

    in_doubt: list[Any] = field("array", required=True)


@command(0x0601, "dtx.select")
class DtxSelect(Command):
    """Branches of distributed transactions may be started."""


@command(0x0602, "dtx.start", result="dtx.xa-result")
class DtxStart(Command):
    """Work is of this branch from now on."""

    xid: Xid = field("dtx.xid", required=True)
    join: bool = field("bit")
    resume: bool = field("bit")


@command(0x0603, "dtx.end", result="dtx.xa-result")
class DtxEnd(Command):
    """Work is of no branch from now on."""

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
    """After how many seconds it is rolled back."""

    xid: Xid = field("dtx.xid", required=True)


@command(0x0607, "dtx.prepare", result="dtx.xa-result")
class DtxPrepare(Command):
    """Be able to commit the branch, come what may."""

    xid: Xid = field("dtx.xid", required=True)


@command(0x0608, "dtx.recover", result="dtx.recover-result")
class DtxRecover(Command):
    """Which branches are prepared."""


@command(0x0609, "dtx.rollback", result="dtx.xa-result")
class DtxRollback(Command):
    """Undo the branch."""

    xid: Xid = field("dtx.xid", required=True)


@command(0x060A, "dtx.set-timeout")
class DtxSetTimeout(Command):
    """Roll it back after so many seconds; 0 for never."""

    xid: Xid = field("dtx.xid", required=True)
    timeout: int = field("uint32", required=True)


@struct("exchange.exchange-query-result", code=0x0701)
class ExchangeQueryResult(Struct):
    """What there is."""

    type: str | None = field("str8")
    durable: bool = field("bit")
    not_found: bool = field("bit")
    arguments: dict[str, Any] | None = field("map")


@struct("exchange.exchange-bound-result", code=0x0702)
class ExchangeBoundResult(Struct):
    """Why there is no such binding; nothing set: there is."""

    exchange_not_found: bool = field("bit")
    queue_not_found: bool = field("bit")
    queue_not_matched: bool = field("bit")
    key_not_matched: bool = field("bit")
    args_not_matched: bool = field("bit")


@command(0x0701, "exchange.declare")
class ExchangeDeclare(Command):
    """An exchange shall be there."""

    exchange: str = field("str8", required=True)
    type: str = field("str8", required=True)
    alternate_exchange: str | None = field("str8")
    passive: bool = field("bit")
    durable: bool = field("bit")
    auto_delete: bool = field("bit")
    arguments: dict[str, Any] | None = field("map")


@command(0x0702, "exchange.delete")
class ExchangeDelete(Command):
    """An exchange shall be gone."""

    exchange: str = field("str8", required=True)
    if_unused: bool = field("bit")


@command(0x0703, "exchange.query", result="exchange.exchange-query-result")
class ExchangeQuery(Command):
    """What is known of an exchange."""

    name: str | None = field("str8")


@command(0x0704, "exchange.bind")
class ExchangeBind(Command):
    """Route to a queue what fits."""

    queue: str = field("str8", required=True)
    exchange: str = field("str8", required=True)
    binding_key: str = field("str8", required=True)
    arguments: dict[str, Any] | None = field("map")


@command(0x0705, "exchange.unbind")
class ExchangeUnbind(Command):
    """Do so no longer."""

    queue: str = field("str8", required=True)
    exchange: str = field("str8", required=True)
    binding_key: str = field("str8", required=True)


@command(0x0706, "exchange.bound", result="exchange.exchange-bound-result")
class ExchangeBound(Command):
    """Whether there is such a binding."""

    exchange: str | None = field("str8")
    queue: str = field("str8", required=True)
    binding_key: str | None = field("str8")
    arguments: dict[str, Any] | None = field("map")


@struct("queue.queue-query-result", code=0x0801)
class QueueQueryResult(Struct):
    """What there is; nothing at all for none, whatever the specification says of these fields."""

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
    """A queue shall be there."""

    queue: str = field("str8", required=True)
    alternate_exchange: str | None = field("str8")
    passive: bool = field("bit")
    durable: bool = field("bit")
    exclusive: bool = field("bit")
    auto_delete: bool = field("bit")
    arguments: dict[str, Any] | None = field("map")


@command(0x0802, "queue.delete")
class QueueDelete(Command):
    """A queue shall be gone."""

    queue: str = field("str8", required=True)
    if_unused: bool = field("bit")
    if_empty: bool = field("bit")


@command(0x0803, "queue.purge")
class QueuePurge(Command):
    """A queue shall be empty."""

    queue: str = field("str8", required=True)


@command(0x0804, "queue.query", result="queue.queue-query-result")
class QueueQuery(Command):
    """What is known of a queue."""

    queue: str = field("str8", required=True)

"""A server's channel, which is a session: all that the client asks for is done in the order of its methods.

Some things the owner has to answer before anything else may happen here - a request, a new consumer, the end of a
transaction, a publish without credit. They hold up what follows on the channel, which waits as frames. Acks go past it,
because they are what others wait for.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

from ....engine import (
    DeclareQueue,
    LinkEnded,
    PendingRequest,
    Request,
    RequestReceived,
    SessionBegun,
    SessionTerms,
    SessionUnmapped,
)
from ....errors import AmqpError, LocalProtocolError, RemoteProtocolError, SessionEnded
from ....messaging import ACCEPTED, Error, Rejected
from ..._kit.partial import largest_in_part
from ..acks import SIZE
from ..codes import SOFT, Fault, as_exception, code_of, text_of
from ..engine import PEER_ERRORS
from ..message.places import DIRECT_REPLY
from ..states import ChannelState
from ..wire.framing import BODY, HEADER, METHOD
from ..wire.method_table import Method
from ..wire.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from ..wire.rare_methods import BasicRecoverSync, BasicRecoverSyncOk, ExchangeBound
from .declare import answer_of, request_of
from .owners import SessionCore, TransactionWork
from .receiver import ServerReceiver
from .sender import FAILED, Consumers
from .transactions import ServerTransactions

if TYPE_CHECKING:
    from ....engine import Link
    from .owners import ConnectionCore

PUBLISH, ACK, NACK, REJECT = b"\0\x3c\0\x28", b"\0\x3c\0\x50", b"\0\x3c\0\x78", b"\0\x3c\0\x5a"
SETTLING = (ACK, NACK, REJECT)
SELECT = b"\0\x5a\0\x0a"


class ServerSession(SessionCore):
    """See `Session` for the contract."""

    hot: ClassVar = {
        PUBLISH: "receive_publish",
        ACK: "receive_ack",
        NACK: "receive_nack",
        REJECT: "receive_reject",
    }
    handlers: ClassVar = {
        AccessRequest: "receive_access",
        BasicQos: "receive_qos",
        BasicConsume: "receive_consume",
        BasicCancel: "receive_cancel",
        BasicGet: "receive_get",
        BasicRecover: "receive_recover",
        BasicRecoverAsync: "receive_recover",
        BasicRecoverSync: "receive_recover",
        ConfirmSelect: "receive_confirm",
        TxSelect: "receive_tx",
        TxCommit: "receive_tx",
        TxRollback: "receive_tx",
        ChannelFlowOk: "receive_flow_ok",
    } | dict.fromkeys(
        (
            *(ExchangeDeclare, ExchangeDelete, ExchangeBind, ExchangeUnbind, ExchangeBound),
            *(QueueDeclare, QueueDelete, QueuePurge, QueueBind, QueueUnbind),
        ),
        "receive_request",
    )

    def __init__(self, connection: ConnectionCore, number: int) -> None:
        self.connection = connection
        self.terms: SessionTerms | None = None
        self.remote: SessionTerms | None = SessionTerms()
        self.begun = False
        self.strict_window = True
        self.confirming = False
        self.last_queue = ""  # the queue of methods that name no queue
        self.replies_at = ""  # the queue that stands for the pseudo-queue of replies on this channel
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._holds: set[object] = set()  # reasons for which what comes has to wait
        self._selects = False  # a tx.select is among what waits: acks behind it are part of a transaction
        self._publisher: ServerReceiver | None = None
        self.work = TransactionWork()
        self.open_channel(connection.engine, number)
        self.consumers = Consumers(self)
        self.transactions = ServerTransactions(self, self.consumers)

    def announce(self) -> None:
        """Tell the owner of the session."""
        self.hold(self)
        self.engine.emit(SessionBegun(self))

    def begin(self, terms: SessionTerms | None = None) -> None:
        if self.begun or self.state is not ChannelState.OPEN:
            return
        self.terms = terms if terms is not None else SessionTerms()
        self.begun = True
        self.write(ChannelOpenOk())
        if self.connection.blocking_channels:
            self.ask(active=False)
        self.release(self)

    @property
    def sendable(self) -> bool:
        return self.begun

    def attach_sender(self, terms: Any, *, resuming: Any = None) -> Any:
        raise LocalProtocolError("only the client attaches links in AMQP 0-9-1")

    def attach_receiver(self, terms: Any, *, resuming: Any = None) -> Any:
        raise LocalProtocolError("only the client attaches links in AMQP 0-9-1")

    # What has to wait

    def hold(self, reason: object) -> None:
        """Look at nothing that comes until `reason` is released."""
        self._holds.add(reason)

    def release(self, reason: object) -> None:
        """Go on with what waits, unless another reason holds it."""
        self._holds.discard(reason)
        waiting = self._waiting
        while waiting and not self._holds and self.state is ChannelState.OPEN:
            kind, payload = waiting[0]
            if kind == METHOD and self._has_to_wait(payload):
                return
            waiting.popleft()
            self.connection.waits(-len(payload), -1)
            try:
                self._take(kind, payload)
            except PEER_ERRORS as fault:
                if isinstance(fault, Fault) and fault.soft:
                    self.fail(fault)
                else:
                    self.engine.blame(fault)
                return

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == METHOD:
            super().receive_method(payload)
        elif kind == HEADER:
            super().receive_header(payload)
        else:
            super().receive_body(payload)

    def _wait(self, kind: int, payload: bytes) -> None:
        self._waiting.append((kind, payload))
        self._selects = self._selects or (kind == METHOD and payload[:4] == SELECT)
        self.connection.waits(len(payload), 1, goes_on=kind != METHOD or payload[:4] != PUBLISH)

    def _has_to_wait(self, payload: bytes) -> bool:
        """Return whether the method is a publish whose credit was taken back since the last one."""
        publisher = self._publisher
        if payload[:4] != PUBLISH or publisher is None or publisher.credit > 0 or not publisher.attached:
            return False
        self.hold(publisher)
        return True

    def receive_method(self, payload: bytes) -> None:
        if (self._holds or self._waiting or self._has_to_wait(payload)) and self.state is ChannelState.OPEN:
            if payload[:4] not in SETTLING or self.transactions.selected or self._selects:
                self._wait(METHOD, payload)
            else:
                self._hot[payload[:4]](payload)
            return
        super().receive_method(payload)

    def receive_header(self, payload: bytes) -> None:
        if self._waiting:
            self._wait(HEADER, payload)
        else:
            super().receive_header(payload)

    def receive_body(self, payload: bytes) -> None:
        if self._waiting:
            self._wait(BODY, payload)
        else:
            super().receive_body(payload)

    # Publishing

    def receive_publish(self, payload: bytes) -> None:
        publisher = self._publisher
        at = 7 + payload[6]
        at += 1 + payload[at]
        if at + 1 != len(payload):
            self.check_shape(payload)
        bits = payload[at]
        if bits & 2:
            raise Fault(540, "immediate=true", BasicPublish.code)
        if publisher is None:
            publisher = self._publisher = ServerReceiver(self)
        publisher.begin_publish(b"\0" + payload[6:at], bool(bits & 1))
        self._content = publisher.arrived
        self._awaits_header = True

    def announced(self, size: int) -> None:
        limit = largest_in_part(self.engine.terms.max_message_size)
        if size > limit:
            raise Fault(311, f"a message of {size} octets; this side takes {limit}", BasicPublish.code, soft=True)

    def receive_confirm(self, method: ConfirmSelect) -> None:
        if self.transactions.selected:
            raise Fault(406, "cannot switch from tx to confirm mode", method.code, soft=True)
        self.confirming = True
        if self._publisher is not None:
            self._publisher.begin_confirming()
        if not method.nowait:
            self.write(ConfirmSelectOk())

    # Consuming

    def receive_qos(self, method: BasicQos) -> None:
        if method.prefetch_size:
            raise Fault(540, f"prefetch_size!=0 ({method.prefetch_size})", method.code)
        self.consumers.limit(method.prefetch_count, method.global_)
        self.write(BasicQosOk())

    def receive_consume(self, method: BasicConsume) -> None:
        if method.queue == DIRECT_REPLY:
            self._consume_replies(method)
            return
        method.queue = self._queue(method.queue, method)
        self.consumers.consume(method)

    def _consume_replies(self, method: BasicConsume) -> None:
        """Consume from RabbitMQ's direct reply-to, here a queue with an unguessable name, deleted with its consumer."""
        if not method.no_ack:
            raise Fault(406, "reply consumer cannot acknowledge", method.code, soft=True)
        if self.replies_at:
            raise Fault(406, "reply consumer already set", method.code, soft=True)
        self._ask(DeclareQueue(exclusive=True, auto_delete=True, for_replies=True), method)

    def replies_end(self, queue: str) -> None:
        """Forget the queue of replies if it is `queue`, which has lost its consumer; another queue may follow."""
        if queue == self.replies_at:
            self.replies_at = ""

    def receive_cancel(self, method: BasicCancel) -> None:
        self.consumers.cancel(method)

    def receive_get(self, method: BasicGet) -> None:
        method.queue = self._queue(method.queue, method)
        self.consumers.get(method)

    def receive_ack(self, payload: bytes) -> None:
        if len(payload) != SIZE:
            self.check_shape(payload)
        self.consumers.settle(int.from_bytes(payload[4:12], "big"), bool(payload[12] & 1), ACK, ACCEPTED)

    def receive_nack(self, payload: bytes) -> None:
        if len(payload) != SIZE:
            self.check_shape(payload)
        bits = payload[12]
        self.consumers.settle(
            int.from_bytes(payload[4:12], "big"), bool(bits & 1), NACK, None if bits & 2 else Rejected()
        )

    def receive_reject(self, payload: bytes) -> None:
        if len(payload) != SIZE:
            self.check_shape(payload)
        state = FAILED if payload[12] & 1 else Rejected()
        self.consumers.settle(int.from_bytes(payload[4:12], "big"), False, REJECT, state)

    def receive_recover(self, method: BasicRecover | BasicRecoverAsync | BasicRecoverSync) -> None:
        if not method.requeue:
            raise Fault(540, "requeue=false", method.code)
        self.consumers.recover()
        if isinstance(method, BasicRecover):
            self.write(BasicRecoverOk())
        elif isinstance(method, BasicRecoverSync):
            self.write(BasicRecoverSyncOk())

    def paused(self, paused: bool) -> None:
        self.consumers.pause(paused)

    def ask(self, *, active: bool) -> None:
        """Ask the client to send messages, or to send no more."""
        if self.begun:
            self.write(ChannelFlow(active))

    def receive_flow_ok(self, method: ChannelFlowOk) -> None:
        pass

    # Requests

    def receive_access(self, method: AccessRequest) -> None:
        self.write(AccessRequestOk())

    def receive_request(self, method: Any) -> None:
        if hasattr(method, "queue") and not isinstance(method, QueueDeclare | ExchangeBound):
            method.queue = self._queue(method.queue, method)
        self._ask(request_of(method), method)

    def _ask(self, request: Request[Any], method: Method) -> None:
        pending = PendingRequest(self, request)
        pending.context = method
        self.hold(pending)
        self.engine.emit(RequestReceived(pending))

    def _queue(self, name: str, method: Method) -> str:
        """Return the queue that a method means: without a name, the queue that was declared last on this channel."""
        if not name and not self.last_queue:
            raise Fault(404, "no previously declared queue", method.code, soft=True)
        return name or self.last_queue

    def answer(self, pending: PendingRequest[Any], result: Any) -> None:
        if pending.answered or self.state is not ChannelState.OPEN:
            return
        pending.answer(result)
        method = pending.context
        if isinstance(method, BasicConsume):
            self.replies_at = method.queue = result.name
            self.consumers.consume(method)
            self.release(pending)
            return
        if isinstance(method, QueueDeclare):
            self.last_queue = result.name
        if not getattr(method, "nowait", False):
            self.write(answer_of(method, result))
        self.release(pending)

    def refuse(self, pending: PendingRequest[Any], error: Error) -> None:
        if not pending.answered:
            pending.answered = True
            self.refuse_method(error, pending.context, (error.info or {}).get("reply-code", 0))

    def refuse_method(self, error: Error, method: Method, code: int = 0) -> None:
        """Close the channel, or the connection, because a method cannot be carried out."""
        code = code or code_of(error.condition)
        if code not in SOFT:
            self.engine.fail(Fault(code, error.description or "", method.code))
        elif self.state is ChannelState.OPEN:
            self._close(code, text_of(error, code), method.code)
            self._end_links(None)

    # Transactions

    def receive_tx(self, method: TxSelect | TxCommit | TxRollback) -> None:
        self.transactions.receive(method)

    # The end

    def end(self, error: Error | None = None) -> None:
        if self.state is ChannelState.OPEN:
            self.close_channel(error)
            self._end_links(None)

    def failed(self, error: RemoteProtocolError) -> None:
        self._end_links(error)

    def leave(self) -> None:
        """Confirm the publishes that the owner has looked at; the rest count as never sent."""
        if self._publisher is not None:
            self._publisher.drop()

    def closed(self, error: Error | None) -> None:
        cause = None if error is None else as_exception(SessionEnded, error)
        self._end_links(cause)
        self.begun = False
        if self in self.connection.sessions:
            self.connection.sessions.remove(self)
        self.engine.emit(SessionUnmapped(self, cause))

    def over(self, error: AmqpError | None) -> None:
        self._end_links(error, closed=False)
        self.begun = False
        self.engine.emit(SessionUnmapped(self, error))

    def links(self) -> list[Link]:
        """Return all links that are not over. Consumers come before transactions: the order decides about acks."""
        found: list[Link] = [*self.consumers.links(), *self.transactions.links()]
        return [*found, self._publisher] if self._publisher is not None else found

    def _end_links(self, cause: AmqpError | None, *, closed: bool = True) -> None:
        links = self.links()
        self.consumers.give_back(self.work.acked)  # if they count, the owner knows it by now
        self.connection.waits(-sum(len(payload) for _, payload in self._waiting), -len(self._waiting))
        self._waiting.clear()
        self.consumers.clear()
        self.transactions.clear()
        self._publisher = None
        for link in links:
            if link.attached or link.terms is None:
                link.attached = False
                self.engine.emit(LinkEnded(link, closed, cause))

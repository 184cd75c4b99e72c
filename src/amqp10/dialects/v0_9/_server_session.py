"""A server's channel, which is a session: publishing, consuming and declaring, in the order in which it was said.

What has to be answered by the owner before anything else may happen here - a request, a new consumer, the end of a
transaction, a publish without credit - holds up what follows on the channel. That waits as frames. Acks go past it, for
they are what others wait for.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

from ...engine import (
    DeclareQueue,
    LinkEnded,
    PendingRequest,
    Request,
    RequestReceived,
    Session,
    SessionBegun,
    SessionTerms,
    SessionUnmapped,
)
from ...errors import AmqpError, LocalProtocolError, RemoteProtocolError, SessionEnded
from ...messaging import Error
from ._acks import SIZE
from ._channel import Channel, State
from ._codes import SOFT, Fault, as_exception, code_of, text_of
from ._engine import PEERS_FAULTS
from ._frames import BODY, HEADER, METHOD
from ._mapping import DIRECT_REPLY
from ._method import Method
from ._methods import (
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
from ._methods_0_9 import BasicRecoverSync, BasicRecoverSyncOk, ExchangeBound
from ._server_consumer import Consumers
from ._server_publish import PublishLink
from ._server_requests import answer_of, request_of
from ._server_tx import ServerTransactions

if TYPE_CHECKING:
    from ...engine import Link
    from ._engine import V09Engine
    from ._server import ServerConnection

PUBLISH, ACK, NACK, REJECT = b"\0\x3c\0\x28", b"\0\x3c\0\x50", b"\0\x3c\0\x78", b"\0\x3c\0\x5a"
SETTLING = (ACK, NACK, REJECT)
SELECT = b"\0\x5a\0\x0a"


class ServerSession(Session, Channel):
    """See `Session` for the contract."""

    engine: V09Engine
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

    def __init__(self, connection: ServerConnection, number: int) -> None:
        self.connection = connection
        self.terms: SessionTerms | None = None
        self.remote: SessionTerms | None = SessionTerms()
        self.begun = False
        self.strict_window = True
        self.context: Any = None
        self.confirming = False
        self.last_queue = ""  # what a method means that names no queue
        self.replies_at = ""  # what stands for the pseudo-queue of replies on this channel
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._holds: set[object] = set()  # what has to happen before the rest may
        self._selects = False  # a tx.select was among what waits: acks behind it are part of a transaction
        self._publisher: PublishLink | None = None
        self.open_channel(connection.engine, number)
        self.consumers = Consumers(self)
        self.transactions = ServerTransactions(self)

    def announce(self) -> None:
        """Tell the owner of it."""
        self.hold(self)
        self.engine.emit(SessionBegun(self))

    def begin(self, terms: SessionTerms | None = None) -> None:
        if self.begun or self.channel_state is not State.OPEN:
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
        raise LocalProtocolError("a server of this dialect attaches no links")

    def attach_receiver(self, terms: Any, *, resuming: Any = None) -> Any:
        raise LocalProtocolError("a server of this dialect attaches no links")

    # What has to wait

    def hold(self, reason: object) -> None:
        """Nothing that comes now is looked at until the reason is gone."""
        self._holds.add(reason)

    def release(self, reason: object) -> None:
        """It is gone: go on with what waits."""
        self._holds.discard(reason)
        waiting = self._waiting
        while waiting and not self._holds and self.channel_state is State.OPEN:
            kind, payload = waiting[0]
            if kind == METHOD and self._has_to_wait(payload):
                return
            waiting.popleft()
            self.connection.waits(-len(payload), -1)
            try:
                self._take(kind, payload)
            except PEERS_FAULTS as fault:
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
        """Whether it is a publish, and the credit for it was taken back since the last one."""
        publisher = self._publisher
        if payload[:4] != PUBLISH or publisher is None or publisher.credit > 0 or not publisher.attached:
            return False
        self.hold(publisher)
        return True

    def receive_method(self, payload: bytes) -> None:
        if (self._holds or self._waiting or self._has_to_wait(payload)) and self.channel_state is State.OPEN:
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
            publisher = self._publisher = PublishLink(self)
        publisher.begin_publish(b"\0" + payload[6:at], bool(bits & 1))
        self._content = publisher.arrived
        self._awaits_header = True

    def announced(self, size: int) -> None:
        limit = self.engine.terms.max_message_size
        if limit and size > limit:
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
        """RabbitMQ's direct reply-to: here a queue, of a name that nobody guesses, which goes with its consumer."""
        if not method.no_ack:
            raise Fault(406, "reply consumer cannot acknowledge", method.code, soft=True)
        if self.replies_at:
            raise Fault(406, "reply consumer already set", method.code, soft=True)
        self._ask(DeclareQueue(exclusive=True, auto_delete=True, for_replies=True), method)

    def replies_end(self, queue: str) -> None:
        """Nothing is received from that queue any more; if it stands for the pseudo-queue, another may from now on."""
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
        self.consumers.settle(int.from_bytes(payload[4:12], "big"), bool(payload[12] & 1), ACK)

    def receive_nack(self, payload: bytes) -> None:
        if len(payload) != SIZE:
            self.check_shape(payload)
        bits = payload[12]
        self.consumers.settle(int.from_bytes(payload[4:12], "big"), bool(bits & 1), NACK if bits & 2 else REJECT)

    def receive_reject(self, payload: bytes) -> None:
        if len(payload) != SIZE:
            self.check_shape(payload)
        self.consumers.settle(int.from_bytes(payload[4:12], "big"), False, NACK if payload[12] & 1 else REJECT)

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
        """Ask for messages, or for none."""
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
        """The queue that is meant: without a name, the one that was declared last on this channel."""
        if not name and not self.last_queue:
            raise Fault(404, "no previously declared queue", method.code, soft=True)
        return name or self.last_queue

    def answer(self, pending: PendingRequest[Any], result: Any) -> None:
        if pending.answered or self.channel_state is not State.OPEN:
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
        """A method can not be done: the channel ends with that, or the connection."""
        code = code or code_of(error.condition)
        if code not in SOFT:
            self.engine.fail(Fault(code, error.description or "", method.code))
        elif self.channel_state is State.OPEN:
            self._close(code, text_of(error, code), method.code)
            self._end_links(None)

    # Transactions

    def receive_tx(self, method: TxSelect | TxCommit | TxRollback) -> None:
        self.transactions.receive(method)

    # The end

    def end(self, error: Error | None = None) -> None:
        if self.channel_state is State.OPEN:
            self.close_channel(error)
            self._end_links(None)

    def failed(self, error: RemoteProtocolError) -> None:
        self._end_links(error)

    def leave(self) -> None:
        """Confirm what was looked at; the rest never came."""
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
        """All that are not over. Consumers before transactions: those have a say in what becomes of the acks."""
        found: list[Link] = [*self.consumers.links(), *self.transactions.links()]
        return [*found, self._publisher] if self._publisher is not None else found

    def _end_links(self, cause: AmqpError | None, *, closed: bool = True) -> None:
        links = self.links()
        self.consumers.give_back(self.transactions.acked)  # if they count, the owner knows it by now
        self.connection.waits(-sum(len(payload) for _, payload in self._waiting), -len(self._waiting))
        self._waiting.clear()
        self.consumers.clear()
        self.transactions.clear()
        self._publisher = None
        for link in links:
            if link.attached or link.terms is None:
                link.attached = False
                self.engine.emit(LinkEnded(link, closed, cause))

"""A server's session, which is a channel: all that the client asks for is done in the order of its methods.

Some things the owner has to answer before anything else may happen here. They hold up the channel (`ServerChannel`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from ....engine import (
    DeclareQueue,
    Handlers,
    PendingRequest,
    Request,
    RequestReceived,
    SessionBegun,
    SessionTerms,
    SessionUnmapped,
)
from ....errors import AmqpError, LocalProtocolError, RemoteProtocolError, SessionEnded
from ....messaging import ACCEPTED, Error, Rejected
from ..._kit.causes import end_cause
from ..._kit.message.limits import message_limit
from ..acks import SIZE
from ..codes import SOFT, Fault, code_of, text_of
from ..message.places import DIRECT_REPLY
from ..session import SessionEndpoint
from ..states import ChannelState, Step
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
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from ..wire.rare_methods import BasicRecoverSync, BasicRecoverSyncOk, ExchangeBound
from .channel import ACK, NACK, PUBLISH, REJECT, ServerChannel, ServerChannelUser
from .parents import TransactionWork
from .receiver import ServerReceiver
from .requests import answer_of, request_of
from .sender import FAILED, Consumers
from .transactions import ServerTransactions

if TYPE_CHECKING:
    from ..engine import V09Engine
    from .link import ServerLink
    from .parents import ServerSessionConnection


class ServerSession(SessionEndpoint, ServerChannelUser):
    """See `Session` for the contract."""

    hot: ClassVar[dict[bytes, str]] = {
        PUBLISH: "receive_publish",
        ACK: "receive_ack",
        NACK: "receive_nack",
        REJECT: "receive_reject",
    }
    handlers: ClassVar[Handlers] = {
        AccessRequest: "receive_access",
        ChannelOpen: "receive_open",
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
    engine: V09Engine

    def __init__(self, connection: ServerSessionConnection, number: int) -> None:
        self.connection = connection
        self.engine = connection.engine
        self.terms: SessionTerms | None = None
        self.remote: SessionTerms | None = SessionTerms()
        self.confirming: bool = False
        self.last_queue: str = ""  # the queue of methods that name no queue
        self.replies_at: str = ""  # the queue that stands for the pseudo-queue of replies on this channel
        self.publisher: ServerReceiver | None = None
        self._methods: dict[PendingRequest[Any], Method] = {}  # of the requests that the owner has to answer
        self.work: TransactionWork = TransactionWork()
        self.channel: ServerChannel = ServerChannel(connection.engine, number, self, connection.backlog)
        self.consumers: Consumers = Consumers(self)
        self.transactions: ServerTransactions = ServerTransactions(self, self.consumers)

    @property
    def sendable(self) -> bool:
        return self.begun and self.consumers.room != 0

    @property
    def peer_window(self) -> int | None:
        return self.consumers.room

    def receive_open(self, method: ChannelOpen) -> None:
        raise Fault(504, f"channel {self.channel.number} is open already", method.code)

    def announce(self) -> None:
        """Tell the owner of the session."""
        self.channel.hold(self)
        self.engine.emit(SessionBegun(self))

    def begin(self, terms: SessionTerms | None = None) -> None:
        if not self.may(Step.BEGIN):
            return
        self.terms = terms if terms is not None else SessionTerms()
        self.advance(Step.BEGIN)
        self.channel.write(ChannelOpenOk())
        if self.connection.blocking_channels:
            self.ask(active=False)
        self.channel.release(self)

    def attach_sender(self, terms: Any, *, resuming: Any = None) -> Any:
        raise LocalProtocolError("only the client attaches links in AMQP 0-9-1")

    def attach_receiver(self, terms: Any, *, resuming: Any = None) -> Any:
        raise LocalProtocolError("only the client attaches links in AMQP 0-9-1")

    # Publishing

    def receive_publish(self, payload: bytes) -> None:
        publisher = self.publisher
        at = 7 + payload[6]
        at += 1 + payload[at]
        if at + 1 != len(payload):
            self.channel.check_shape(payload)
        bits = payload[at]
        if bits & 2:
            raise Fault(540, "immediate=true", BasicPublish.code)
        if publisher is None:
            publisher = self.publisher = ServerReceiver(self)
        publisher.begin_publish(b"\0" + payload[6:at], bool(bits & 1))
        channel = self.channel
        channel.take = publisher.arrived
        channel.awaits_header = True

    def announced(self, size: int) -> None:
        limit = message_limit(self.engine.terms.max_message_size)
        if size > limit:
            raise Fault(311, f"a message of {size} octets exceeds the limit of {limit}", BasicPublish.code, soft=True)

    def receive_confirm(self, method: ConfirmSelect) -> None:
        if self.transactions.selected:
            raise Fault(406, "cannot switch from tx to confirm mode", method.code, soft=True)
        self.confirming = True
        if self.publisher is not None:
            self.publisher.begin_confirming()
        if not method.nowait:
            self.channel.write(ConfirmSelectOk())

    # Consuming

    def receive_qos(self, method: BasicQos) -> None:
        if method.prefetch_size:
            raise Fault(540, f"prefetch_size!=0 ({method.prefetch_size})", method.code)
        self.consumers.limit(method.prefetch_count, method.global_)
        self.channel.write(BasicQosOk())

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
            self.channel.check_shape(payload)
        self.consumers.settle(int.from_bytes(payload[4:12], "big"), bool(payload[12] & 1), ACK, ACCEPTED)

    def receive_nack(self, payload: bytes) -> None:
        if len(payload) != SIZE:
            self.channel.check_shape(payload)
        bits = payload[12]
        self.consumers.settle(
            int.from_bytes(payload[4:12], "big"), bool(bits & 1), NACK, None if bits & 2 else Rejected()
        )

    def receive_reject(self, payload: bytes) -> None:
        if len(payload) != SIZE:
            self.channel.check_shape(payload)
        state = FAILED if payload[12] & 1 else Rejected()
        self.consumers.settle(int.from_bytes(payload[4:12], "big"), False, REJECT, state)

    def receive_recover(self, method: BasicRecover | BasicRecoverAsync | BasicRecoverSync) -> None:
        if not method.requeue:
            raise Fault(540, "requeue=false", method.code)
        self.consumers.recover(partial(self._recovered, method))

    def _recovered(self, method: BasicRecover | BasicRecoverAsync | BasicRecoverSync) -> None:
        """Answer basic.recover."""
        if isinstance(method, BasicRecover):
            self.channel.write(BasicRecoverOk())
        elif isinstance(method, BasicRecoverSync):
            self.channel.write(BasicRecoverSyncOk())

    def paused(self, paused: bool) -> None:
        self.consumers.pause(paused)

    def ask(self, *, active: bool) -> None:
        """Ask the client to send messages, or to send no more."""
        if self.begun:
            self.channel.write(ChannelFlow(active))

    def receive_flow_ok(self, method: ChannelFlowOk) -> None:
        pass

    # Requests

    def receive_access(self, method: AccessRequest) -> None:
        self.channel.write(AccessRequestOk())

    def receive_request(self, method: Any) -> None:
        if isinstance(method, QueueDeclare) and method.queue == DIRECT_REPLY:
            # A client asks so whether the server knows direct reply-to; RabbitMQ says yes in these words.
            self.channel.write(QueueDeclareOk(DIRECT_REPLY, 0, 1))
            return
        if isinstance(method, QueueBind | QueueUnbind) and not method.queue:
            method.routing_key = method.routing_key or self.last_queue  # (§1.7.2.3 "default-queue")
        if hasattr(method, "queue") and not isinstance(method, QueueDeclare | ExchangeBound):
            method.queue = self._queue(method.queue, method)
        self._ask(request_of(method), method)

    def _ask(self, request: Request[Any], method: Method) -> None:
        pending = PendingRequest(self, request)
        self._methods[pending] = method
        self.channel.hold(pending)
        self.engine.emit(RequestReceived(pending))

    def _queue(self, name: str, method: Method) -> str:
        """Return the queue that a method means: without a name, the queue that was declared last on this channel."""
        if not name and not self.last_queue:
            raise Fault(404, "no previously declared queue", method.code, soft=True)
        return name or self.last_queue

    def answer(self, pending: PendingRequest[Any], result: Any) -> None:
        if pending.answered or self.channel.state is not ChannelState.OPEN:
            return
        pending.answer(result)
        method = self._methods.pop(pending)
        if isinstance(method, BasicConsume):
            self.replies_at = method.queue = result.name
            self.consumers.consume(method)
            self.channel.release(pending)
            return
        if isinstance(method, QueueDeclare):
            self.last_queue = result.name
        if not getattr(method, "nowait", False):
            self.channel.write(answer_of(method, result))
        self.engine.flush()  # consumers that the request ended are told so before anything that follows it
        self.channel.release(pending)

    def refuse(self, pending: PendingRequest[Any], error: Error) -> None:
        if not pending.answered:
            pending.answered = True
            self.refuse_method(error, self._methods.pop(pending), (error.info or {}).get("reply-code", 0))

    def refuse_method(self, error: Error, method: Method, code: int = 0) -> None:
        """Close the channel, or the connection, because a method cannot be carried out."""
        code = code or code_of(error.condition)
        if code not in SOFT:
            self.engine.fail(Fault(code, error.description or "", method.code))
        elif self.channel.state is ChannelState.OPEN:
            self.channel.close_with(code, text_of(error, code), method.code)
            self._end_links(None)

    # Transactions

    @property
    def transactional(self) -> bool:
        return self.transactions.selected

    def receive_tx(self, method: TxSelect | TxCommit | TxRollback) -> None:
        self.transactions.receive(method)

    # The end

    def end(self, error: Error | None = None) -> None:
        if self.channel.state is ChannelState.OPEN:
            self.channel.close_channel(error)
            self._end_links(None)

    def failed(self, error: RemoteProtocolError) -> None:
        self._end_links(error)

    def before_close(self) -> None:
        """Confirm the publishes that the owner has looked at; the rest count as never sent."""
        self.advance(Step.END_SESSION)
        if self.publisher is not None:
            self.publisher.drop()

    def closed(self, error: Error | None) -> None:
        cause = end_cause(SessionEnded, error, asked=True)
        self._end_links(cause)
        self.advance(Step.FINISH)
        self.connection.forget(self)
        self.engine.emit(SessionUnmapped(self, cause))

    def over(self, error: AmqpError | None) -> None:
        self._end_links(error, closed=False)
        self.advance(Step.FINISH)
        self.engine.emit(SessionUnmapped(self, error))

    def links(self) -> list[ServerLink]:
        """Return all links that are not over. Consumers come before transactions: the order decides about acks."""
        found: list[ServerLink] = [*self.consumers.links(), *self.transactions.links()]
        return [*found, self.publisher] if self.publisher is not None else found

    def _end_links(self, cause: AmqpError | None, *, closed: bool = True) -> None:
        links = self.links()
        self.consumers.give_back(self.work.acked)  # if they count, the owner knows it by now
        self.channel.drop_waiting()
        self.consumers.clear()
        self.transactions.clear()
        self.publisher = None
        for link in links:
            link.end(closed, cause)

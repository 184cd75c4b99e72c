"""A client's requests: declaring, binding, deleting. One after the other, on a channel of their own.

A refusal closes the channel; the next request opens another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ...engine import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    ExchangeFacts,
    PendingRequest,
    PurgeQueue,
    QueryExchange,
    QueryQueue,
    QueueFacts,
    RequestAnswered,
    Unbind,
)
from ...errors import AmqpError, EncodeError, LocalProtocolError, RemoteProtocolError, RequestRefused, Unsupported
from ...messaging import Error
from ._asks import GetMessage, Got
from ._channel import Channel, State
from ._link import ON_DEMAND
from ._method import Method
from ._methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    ChannelOpen,
    ChannelOpenOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)

if TYPE_CHECKING:
    from ._session import ClientSession


GET_OK = b"\0\x3c\0\x47"
ANSWER_TO: dict[type[Method], type[Method]] = {
    ExchangeDeclare: ExchangeDeclareOk,
    ExchangeDelete: ExchangeDeleteOk,
    ExchangeBind: ExchangeBindOk,
    ExchangeUnbind: ExchangeUnbindOk,
    QueueDeclare: QueueDeclareOk,
    QueueBind: QueueBindOk,
    QueuePurge: QueuePurgeOk,
    QueueDelete: QueueDeleteOk,
    QueueUnbind: QueueUnbindOk,
    BasicGet: BasicGetEmpty,  # or basic.get-ok
}


class Requests(Channel):
    """The channel of one session's requests."""

    handlers: ClassVar = {ChannelOpenOk: "receive_open"} | dict.fromkeys(ANSWER_TO.values(), "receive_answer")
    hot: ClassVar = {GET_OK: "receive_got"}

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self._waiting: deque[PendingRequest[Any]] = deque()
        self._asked: PendingRequest[Any] | None = None
        self.channel_state = State.CLOSED

    def add(self, pending: PendingRequest[Any]) -> None:
        """Ask as soon as those before are answered.

        Raises:
            Unsupported: there is no such method.
            LocalProtocolError: it cannot be said.
        """
        on_demand = ON_DEMAND in self.session.connection.capabilities
        method = method_of(pending.request, self.session.engine.variant.tables.on_demand() if on_demand else {})
        try:
            self.session.engine.encode(method)
        except EncodeError as error:
            raise LocalProtocolError(str(error)) from error
        pending.context = method
        self._waiting.append(pending)
        try:
            self._next()
        except LocalProtocolError:  # no channel is free
            self._waiting.remove(pending)
            raise

    def _next(self) -> None:
        if self._asked is not None or not self._waiting or self.channel_state is State.CLOSING:
            return
        if self.channel_state is State.CLOSED:
            self.open_channel(self.session.engine, self.session.connection.free_channel())
            self.session.channels.append(self)
            self.write(ChannelOpen())
        self._asked = self._waiting.popleft()
        self.write(self._asked.context)

    def receive_open(self, _: ChannelOpenOk) -> None:
        pass

    def receive_answer(self, method: Method) -> None:
        if self._asked is None or type(method) is not ANSWER_TO[type(self._asked.context)]:
            raise RemoteProtocolError(f"{method.name}, for which nobody asked", "amqp:illegal-state")
        request, result = self._asked.request, result_of(self._asked.request, method)
        if isinstance(request, DeclareQueue) and not request.passive:
            self._note(result.name, request.arguments)
        elif isinstance(request, DeleteQueue):
            self._note(request.name, {})
        self._answered(result)

    def _note(self, queue: str, arguments: Mapping[str, Any]) -> None:
        """What a queue was declared as: nothing tells it afterwards."""
        for queues, name, value in (
            (self.session.engine.streams, "x-queue-type", "stream"),
            (self.session.engine.single_active, "x-single-active-consumer", True),
        ):
            (queues.add if arguments.get(name) == value else queues.discard)(queue)

    def _answered(self, result: Any) -> None:
        pending, self._asked = self._asked, None
        if pending is not None:
            pending.answer(result)
            self.engine.emit(RequestAnswered(pending))
        self._next()

    def receive_got(self, payload: bytes) -> None:
        self.check_shape(payload)
        if self._asked is None or type(self._asked.context) is not BasicGet:
            raise RemoteProtocolError("basic.get-ok, for which nobody asked", "amqp:illegal-state")
        number, route, left = payload[4:12], payload[12:-4], int.from_bytes(payload[-4:], "big")
        self.expect_content(lambda body: self._got(int.from_bytes(number, "big"), route, left, body))

    def _got(self, number: int, route: bytes, left: int, body: bytes) -> None:
        payload = self.engine.incoming.map(route, self.properties_octets, body, self.children)
        self.write(BasicAck(number))
        self._answered(Got(payload, left))

    # The end

    def failed(self, error: RemoteProtocolError) -> None:
        self._fail(error)

    def closed(self, error: Error | None) -> None:
        pending = self._asked
        if error is not None and pending is not None:
            if error.condition == "amqp:not-found" and isinstance(pending.request, QueryQueue | QueryExchange):
                self._asked = None
                pending.answer(None)
                self.engine.emit(RequestAnswered(pending))
            else:
                self._fail(RequestRefused(error.condition, error.description, error.info))
        if self.session.begun:
            self.session.channels.remove(self)
            self._next()
            return
        self.over(None)
        self.session.channel_gone(self)

    def over(self, error: AmqpError | None) -> None:
        lost = error if error is not None else LocalProtocolError("the session was ended")
        self._fail(lost)
        while self._waiting:
            self._asked = self._waiting.popleft()
            self._fail(lost)

    def _fail(self, error: AmqpError) -> None:
        pending, self._asked = self._asked, None
        if pending is not None:
            pending.fail(error)
            self.session.engine.emit(RequestAnswered(pending))


# Requests to methods


def _declare_queue(request: DeclareQueue, on_demand: dict[str, Any]) -> Method:
    arguments = dict(request.arguments)
    if request.passive and request.on_demand:
        arguments |= on_demand
    return QueueDeclare(
        queue=request.name,
        passive=request.passive,
        durable=request.durable,
        exclusive=request.exclusive,
        auto_delete=request.auto_delete,
        arguments=arguments,
    )


def _declare_exchange(request: DeclareExchange, _: object) -> Method:
    arguments = dict(request.arguments)
    if request.alternate is not None:
        arguments["alternate-exchange"] = request.alternate
    return ExchangeDeclare(
        exchange=request.name,
        type=request.type,
        passive=request.passive,
        durable=request.durable,
        auto_delete=request.auto_delete,
        internal=request.internal,
        arguments=arguments,
    )


def _bind(request: Bind, _: object) -> Method:
    if request.kind == "queue":
        return QueueBind(
            queue=request.destination,
            exchange=request.exchange,
            routing_key=request.key,
            arguments=dict(request.arguments),
        )
    return ExchangeBind(
        destination=request.destination,
        source=request.exchange,
        routing_key=request.key,
        arguments=dict(request.arguments),
    )


def _unbind(request: Unbind, _: object) -> Method:
    if request.kind == "queue":
        return QueueUnbind(
            queue=request.destination,
            exchange=request.exchange,
            routing_key=request.key,
            arguments=dict(request.arguments),
        )
    return ExchangeUnbind(
        destination=request.destination,
        source=request.exchange,
        routing_key=request.key,
        arguments=dict(request.arguments),
    )


METHODS_OF: dict[type[Any], Callable[[Any, dict[str, Any]], Method]] = {
    DeclareQueue: _declare_queue,
    DeleteQueue: lambda asked, _: QueueDelete(queue=asked.name, if_unused=asked.if_unused, if_empty=asked.if_empty),
    PurgeQueue: lambda asked, _: QueuePurge(queue=asked.name),
    QueryQueue: lambda asked, _: QueueDeclare(queue=asked.name, passive=True),
    DeclareExchange: _declare_exchange,
    DeleteExchange: lambda asked, _: ExchangeDelete(exchange=asked.name, if_unused=asked.if_unused),
    QueryExchange: lambda asked, _: ExchangeDeclare(exchange=asked.name, type="", passive=True),
    Bind: _bind,
    Unbind: _unbind,
    GetMessage: lambda asked, _: BasicGet(queue=asked.queue),
}


def method_of(request: Any, on_demand: dict[str, Any]) -> Method:
    """The method that asks.

    Args:
        on_demand: the argument that says so to a server that knows it.

    Raises:
        Unsupported: there is none.
    """
    make = METHODS_OF.get(type(request))
    if make is None:
        raise Unsupported(f"the dialect has no request {type(request).__name__}")
    return make(request, on_demand)


def result_of(request: Any, method: Method) -> Any:
    """What the answer says."""
    if isinstance(method, QueueDeclareOk):
        return QueueFacts(method.queue, method.message_count, method.consumer_count)
    if isinstance(method, QueuePurgeOk | QueueDeleteOk):
        return method.message_count
    return ExchangeFacts(request.name, "") if isinstance(request, QueryExchange) else None

"""A client's requests: to declare, bind, delete, purge, query or get. One after the other, on a channel of their own.

A refusal closes the channel; the next request opens another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ....engine import (
    ON_DEMAND_CAPABILITY,
    DeclareQueue,
    DeleteQueue,
    ExchangeFacts,
    Handlers,
    PendingRequest,
    QueryExchange,
    QueryQueue,
    QueueFacts,
)
from ....errors import (
    AmqpError,
    EncodeError,
    LocalProtocolError,
    RemoteProtocolError,
    RequestRefused,
    Unsupported,
)
from ....messaging import Error
from ..._kit.requests import WaitingRequests
from ..channel import Channel, ChannelUser
from ..requests import GetMessage, Got
from ..states import ChannelState
from ..wire.method_table import Method
from ..wire.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    ChannelOpenOk,
    ExchangeDeclare,
    QueueDeclare,
    QueueDeclareOk,
    QueueDeleteOk,
    QueuePurgeOk,
)
from ..wire.request_table import ANSWERS, method_for

if TYPE_CHECKING:
    from ..engine import V09Engine
    from .parents import ClientLinkSession


GET_OK = b"\0\x3c\0\x47"
ANSWER_TO: dict[type[Method], type[Method]] = ANSWERS | {BasicGet: BasicGetEmpty}  # or basic.get-ok


class RequestChannel(ChannelUser):
    """The requests of one session, on a channel that the first of them opens."""

    handlers: ClassVar[Handlers] = {ChannelOpenOk: "receive_open"} | dict.fromkeys(ANSWER_TO.values(), "receive_answer")
    hot: ClassVar[dict[bytes, str]] = {GET_OK: "receive_got"}
    channel: Channel

    def __init__(self, session: ClientLinkSession) -> None:
        self.session = session
        self.engine: V09Engine = session.engine
        self._is_open = False
        self._waiting = WaitingRequests(session)
        self._sent: Method | None = None  # what the oldest request waits for an answer to

    def add(self, pending: PendingRequest[Any]) -> None:
        """Send the request as soon as those before it are answered.

        Raises:
            Unsupported: the dialect has no method for it.
            LocalProtocolError: it cannot be encoded, or no channel is free.
        """
        try:
            self.engine.encode(self._method_of(pending))
        except EncodeError as error:
            raise LocalProtocolError(str(error)) from error
        self._waiting.add(pending)
        try:
            self._next()
        except LocalProtocolError:  # no channel is free
            self._waiting.remove(pending)
            raise

    def _method_of(self, pending: PendingRequest[Any]) -> Method:
        on_demand = ON_DEMAND_CAPABILITY in self.session.connection.capabilities
        return method_of(pending.request, self.engine.variant.tables.on_demand() if on_demand else {})

    def _next(self) -> None:
        if self._sent is not None or not self._waiting:
            return
        if not self._is_open:
            self.channel = self.session.open_channel(Channel, self)
            self._is_open = True
        elif self.channel.state is ChannelState.CLOSING:
            return
        self._sent = self._method_of(self._waiting.oldest)
        self.channel.write(self._sent)

    def receive_open(self, _: ChannelOpenOk) -> None:
        pass

    def receive_answer(self, method: Method) -> None:
        if self._sent is None or type(method) is not ANSWER_TO[type(self._sent)]:
            raise RemoteProtocolError(f"{method.name}, which was not asked for", "amqp:illegal-state")
        request = self._waiting.oldest.request
        result = result_of(request, method)
        if isinstance(request, DeclareQueue) and not request.passive:
            self._note(result.name, request.arguments)
        elif isinstance(request, DeleteQueue):
            self._note(request.name, {})
        self._answered(result)

    def _note(self, queue: str, arguments: Mapping[str, Any]) -> None:
        """Remember whether a queue is a stream or has a single active consumer, for nothing tells it afterwards."""
        for queues, name, value in (
            (self.session.engine.streams, "x-queue-type", "stream"),
            (self.session.engine.single_active, "x-single-active-consumer", True),
        ):
            (queues.add if arguments.get(name) == value else queues.discard)(queue)

    def _answered(self, result: Any) -> None:
        if self._sent is not None:
            self._sent = None
            self._waiting.answer(result)
        self._next()

    def receive_got(self, payload: bytes) -> None:
        self.channel.check_shape(payload)
        if self._sent is None or type(self._sent) is not BasicGet:
            raise RemoteProtocolError("basic.get-ok, which was not asked for", "amqp:illegal-state")
        number, route, left = payload[4:12], payload[12:-4], int.from_bytes(payload[-4:], "big")
        self.channel.expect_content(lambda body: self._got(int.from_bytes(number, "big"), route, left, body))

    def _got(self, number: int, route: bytes, left: int, body: bytes) -> None:
        payload = self.engine.incoming.map(route, self.channel.properties_octets, body, self.channel.children)
        self.channel.write(BasicAck(number))
        self._answered(Got(payload, left))

    # The end

    def failed(self, error: RemoteProtocolError) -> None:
        if self._sent is not None:
            self._sent = None
            self._waiting.fail(error)

    def closed(self, error: Error | None) -> None:
        self._is_open = False
        if self._sent is not None and self.session.begun:
            self._sent = None
            is_query = isinstance(self._waiting.oldest.request, QueryQueue | QueryExchange)
            if error is None:  # the peer closed the channel with reply code 200
                self._waiting.fail(RequestRefused())
            elif is_query and error.condition == "amqp:not-found":
                self._waiting.answer(None)
            else:
                self._waiting.refuse(error)
        if self.session.begun:
            self.session.channels.remove(self.channel)
            self._next()
            return
        self.over(None)
        self.session.channel_gone(self.channel)

    def over(self, error: AmqpError | None) -> None:
        self._sent = None
        self._waiting.fail_all(error or LocalProtocolError("the session was ended"))


# Requests to methods


def method_of(request: Any, on_demand: dict[str, Any]) -> Method:
    """Return the method for a request.

    Args:
        on_demand: the argument that asks a server to make the node; empty for a server that does not know it.

    Raises:
        Unsupported: the dialect has no method for it.
    """
    match request:
        case QueryQueue():
            return QueueDeclare(queue=request.name, passive=True)
        case QueryExchange():
            return ExchangeDeclare(exchange=request.name, type="", passive=True)
        case GetMessage():
            return BasicGet(queue=request.queue)
    method = method_for(request)
    if isinstance(method, QueueDeclare) and request.passive and request.on_demand:
        method.arguments = method.arguments | on_demand if method.arguments else on_demand
    if isinstance(method, ExchangeDeclare) and request.alternate is not None:
        method.arguments = (method.arguments or {}) | {"alternate-exchange": request.alternate}
    if method is None:
        raise Unsupported(f"AMQP 0-9-1 has no method for the request {type(request).__name__}")
    return method


def result_of(request: Any, method: Method) -> Any:
    """Return the result that the answer to a request carries."""
    if isinstance(method, QueueDeclareOk):
        return QueueFacts(method.queue, method.message_count, method.consumer_count)
    if isinstance(method, QueuePurgeOk | QueueDeleteOk):
        return method.message_count
    return ExchangeFacts(request.name, "") if isinstance(request, QueryExchange) else None

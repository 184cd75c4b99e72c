"""The client's requests as commands. A failed command ends its session in 0-10, so queries come first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final
from uuid import uuid4

from ....engine import (
    ON_DEMAND_ARGUMENT,
    Acquire,
    Bind,
    BindingFacts,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    ExchangeFacts,
    PurgeQueue,
    QueryBinding,
    QueryExchange,
    QueryQueue,
    QueueFacts,
    Request,
    Unbind,
)
from ....errors import Unsupported
from ..._kit.id_order import IdOrder
from ..arguments import DEAD_LETTERS, alternate_from, arguments_in, arguments_out
from ..codes import ErrorCode
from ..command_ids import ids_in, to_ranges, unwrap_serial
from ..wire.commands import (
    ExchangeBind,
    ExchangeBound,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeQuery,
    ExchangeUnbind,
    MessageAcquire,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueQuery,
    QueueQueryResult,
)
from ..wire.struct import Command
from .command_sequence import Commands, RequestFailed


@dataclass(frozen=True, slots=True)
class Invoke(Request[Any]):
    """Send any command of 0-10 as it is; the answer is its result, a struct or None."""

    command: Command


def commands_of(request: Request[Any], makes_nodes: bool) -> Commands:
    """Return the talk that does `request`.

    Raises:
        Unsupported: 0-10 has no such request.
        LocalProtocolError: an argument of the request has no type in 0-10.
    """
    if isinstance(request, DeclareQueue):
        return _declare_queue(request, makes_nodes, arguments_out(request.arguments))
    if isinstance(request, DeclareExchange):
        if request.internal:
            raise Unsupported("AMQP 0-10 has no internal exchanges")
        return _declare_exchange(request, arguments_out(request.arguments))
    if isinstance(request, Bind | Unbind):
        if request.kind != "queue":
            raise Unsupported("AMQP 0-10 binds queues, not exchanges")
        return _bind(request, arguments_out(request.arguments))
    if isinstance(request, QueryBinding):
        return _bound(request, None if request.arguments is None else arguments_out(request.arguments))
    talk = _TALKS.get(type(request))
    if talk is None:
        raise Unsupported(f"AMQP 0-10 has no request {type(request).__name__}")
    return talk(request)


def _facts(result: QueueQueryResult) -> QueueFacts:
    return QueueFacts(
        result.queue or "",
        result.message_count or 0,
        result.subscriber_count or 0,
        result.durable,
        result.exclusive,
        result.auto_delete,
        arguments_in(result.arguments)
        | ({DEAD_LETTERS: result.alternate_exchange} if result.alternate_exchange else {}),
    )


def _look(name: str) -> Commands:
    """Query the queue `name` and return its properties; fail the request if there is no such queue."""
    found = yield QueueQuery(name)
    if found is None or not found.queue:
        raise RequestFailed(ErrorCode.NOT_FOUND, f"there is no queue {name!r}")
    return found


def _declare_queue(request: DeclareQueue, makes_nodes: bool, arguments: dict[str, Any]) -> Commands:
    name = request.name or f"amqp10-{uuid4()}"
    # At Broker-J a query can create the queue, so a name that was made up here is not queried.
    found: Any = None
    if request.name:
        found = yield QueueQuery(name)
    there = found is not None and bool(found.queue)
    if request.passive:
        if not there and not (request.on_demand and makes_nodes):
            raise RequestFailed(ErrorCode.NOT_FOUND, f"there is no queue {name!r}")
        if not there:
            yield QueueDeclare(name, passive=True, arguments={ON_DEMAND_ARGUMENT: True})
    else:
        wanted = request.durable, request.exclusive, request.auto_delete
        if there and (found.durable, found.exclusive, found.auto_delete) != wanted:
            raise RequestFailed(ErrorCode.PRECONDITION_FAILED, f"the queue {name!r} exists with other properties")
        if not there or not request.exclusive:
            yield QueueDeclare(
                name,
                alternate_from(arguments),
                durable=request.durable,
                exclusive=request.exclusive,
                auto_delete=request.auto_delete,
                arguments=arguments,
            )
    return _facts((yield from _look(name)))


def _delete_queue(request: DeleteQueue) -> Commands:
    found = yield from _look(request.name)
    if request.if_unused and found.subscriber_count:
        raise RequestFailed(ErrorCode.PRECONDITION_FAILED, f"the queue {request.name!r} is in use")
    if request.if_empty and found.message_count:
        raise RequestFailed(ErrorCode.PRECONDITION_FAILED, f"the queue {request.name!r} is not empty")
    yield QueueDelete(request.name, if_unused=request.if_unused, if_empty=request.if_empty)
    return found.message_count or 0


def delete_owned(name: str) -> Commands:
    """Delete the queue `name` that was made for a link, if it still exists; the session may outlive its links."""
    found = yield QueueQuery(name)
    if found is not None and found.queue:
        yield QueueDelete(name)


def _purge_queue(request: PurgeQueue) -> Commands:
    found = yield from _look(request.name)
    yield QueuePurge(request.name)
    return found.message_count or 0


def _query_queue(request: QueryQueue) -> Commands:
    found = yield QueueQuery(request.name)
    return _facts(found) if found is not None and found.queue else None


def _declare_exchange(request: DeclareExchange, arguments: dict[str, Any]) -> Commands:
    found = yield ExchangeQuery(request.name)
    there = found is not None and not found.not_found
    if request.passive and not there:
        raise RequestFailed(ErrorCode.NOT_FOUND, f"there is no exchange {request.name!r}")
    if request.passive:
        return
    if there and (found.type != request.type or found.durable != request.durable):
        raise RequestFailed(
            ErrorCode.PRECONDITION_FAILED, f"the exchange {request.name!r} exists with other properties"
        )
    if not there:
        yield ExchangeDeclare(
            request.name,
            request.type,
            request.alternate,
            durable=request.durable,
            auto_delete=request.auto_delete,
            arguments=arguments,
        )


def _delete_exchange(request: DeleteExchange) -> Commands:
    yield from look_exchange(request.name)
    yield ExchangeDelete(request.name, if_unused=request.if_unused)


def look_exchange(name: str) -> Commands:
    """Query the exchange `name` and return its properties; fail the request if there is no such exchange."""
    found = yield ExchangeQuery(name)
    if found is None or found.not_found:
        raise RequestFailed(ErrorCode.NOT_FOUND, f"there is no exchange {name!r}")
    return found


def _query_exchange(request: QueryExchange) -> Commands:
    found = yield ExchangeQuery(request.name)
    if found is None or found.not_found:
        return None
    return ExchangeFacts(request.name, found.type or "", found.durable, arguments_in(found.arguments))


def _bind(request: Bind | Unbind, arguments: dict[str, Any]) -> Commands:
    yield from _look(request.destination)
    yield from look_exchange(request.exchange)
    if isinstance(request, Bind):
        yield ExchangeBind(request.destination, request.exchange, request.key, arguments)
        return
    bound = yield ExchangeBound(request.exchange, request.destination, request.key)
    if bound is not None and bound.key_not_matched:
        raise RequestFailed(ErrorCode.NOT_FOUND, f"there is no binding with the key {request.key!r}")
    yield ExchangeUnbind(request.destination, request.exchange, request.key)


def _bound(request: QueryBinding, arguments: dict[str, Any] | None) -> Commands:
    found = yield ExchangeBound(request.exchange, request.queue or "", request.key, arguments)
    missing = found.exchange_not_found or found.queue_not_found
    return BindingFacts(
        exchange=not found.exchange_not_found,
        queue=not found.queue_not_found,
        bound=not (missing or found.queue_not_matched),
        key=not (missing or found.key_not_matched),
        arguments=not (missing or found.args_not_matched),
    )


def _acquire(request: Acquire) -> Commands:
    shown = {unwrap_serial(each.delivery_id, 0): each for each in request.deliveries if each.delivery_id is not None}
    result = yield MessageAcquire(to_ranges(shown))
    order = IdOrder(shown, attrgetter("tag"))
    got = set(ids_in(order, result.transfers if result is not None else (), 0))
    acquired = tuple(each for number, each in shown.items() if number in got)
    for each in acquired:
        each.link.acquired(each)
    return acquired


def _invoke(request: Invoke) -> Commands:
    result = yield request.command
    return result


_TALKS: Final[dict[type[Request[Any]], Callable[[Any], Commands]]] = {
    DeleteQueue: _delete_queue,
    PurgeQueue: _purge_queue,
    QueryQueue: _query_queue,
    DeleteExchange: _delete_exchange,
    QueryExchange: _query_exchange,
    Invoke: _invoke,
    Acquire: _acquire,
}

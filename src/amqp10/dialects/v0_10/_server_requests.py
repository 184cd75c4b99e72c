"""What clients ask of a server, as requests of the seam, and the answers as results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...engine import (
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
from ._declare import Command, Struct
from ._requests import DEAD_LETTERS, ON_DEMAND_ARGUMENT, alternate_from, arguments_in, arguments_out
from ._topology import (
    ExchangeBind,
    ExchangeBound,
    ExchangeBoundResult,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeQuery,
    ExchangeQueryResult,
    ExchangeUnbind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueQuery,
    QueueQueryResult,
)

Answer = Callable[[Any], Struct | None]
"""Makes the result of a command of what the owner answered."""


def _nothing(_: object) -> None:
    return None


def _declare_queue(command: QueueDeclare) -> Request[Any]:
    """An exclusive queue that is to be deleted, is so with its session, not with its last subscription."""
    arguments = arguments_in(command.arguments)
    on_demand = arguments.pop(ON_DEMAND_ARGUMENT, False) is True
    if command.alternate_exchange:
        arguments[DEAD_LETTERS] = command.alternate_exchange
    return DeclareQueue(
        command.queue,
        command.durable,
        command.exclusive,
        command.auto_delete and not command.exclusive,
        command.passive,
        on_demand,
        arguments,
        command.exclusive and not command.auto_delete,
    )


def _queue(facts: QueueFacts | None) -> QueueQueryResult:
    if facts is None:
        return QueueQueryResult()
    arguments = arguments_out(facts.arguments or {})
    alternate = alternate_from(arguments)
    return QueueQueryResult(
        facts.name,
        alternate,
        bool(facts.durable),
        bool(facts.exclusive),
        bool(facts.auto_delete or (facts.exclusive and not facts.outlives)),
        arguments,
        facts.messages,
        facts.consumers,
    )


def _exchange(facts: ExchangeFacts | None) -> ExchangeQueryResult:
    if facts is None:
        return ExchangeQueryResult(not_found=True)
    return ExchangeQueryResult(facts.type, bool(facts.durable), False, arguments_out(facts.arguments or {}))


def _bound(facts: BindingFacts) -> ExchangeBoundResult:
    return ExchangeBoundResult(
        exchange_not_found=not facts.exchange,
        queue_not_found=not facts.queue,
        queue_not_matched=not facts.bound,
        key_not_matched=not facts.key,
        args_not_matched=not facts.arguments,
    )


_REQUESTS: Final[dict[type[Command], tuple[Callable[[Any], Request[Any]], Answer]]] = {
    QueueDeclare: (_declare_queue, _nothing),
    QueueDelete: (lambda each: DeleteQueue(each.queue, each.if_unused, each.if_empty), _nothing),
    QueuePurge: (lambda each: PurgeQueue(each.queue), _nothing),
    QueueQuery: (lambda each: QueryQueue(each.queue), _queue),
    ExchangeDeclare: (
        lambda each: DeclareExchange(
            each.exchange,
            each.type,
            each.durable,
            each.auto_delete,
            False,
            each.passive,
            each.alternate_exchange or None,
            arguments_in(each.arguments),
        ),
        _nothing,
    ),
    ExchangeDelete: (lambda each: DeleteExchange(each.exchange, each.if_unused), _nothing),
    ExchangeQuery: (lambda each: QueryExchange(each.name or ""), _exchange),
    ExchangeBind: (
        lambda each: Bind(each.queue, each.exchange, each.binding_key, arguments_in(each.arguments)),
        _nothing,
    ),
    ExchangeUnbind: (lambda each: Unbind(each.queue, each.exchange, each.binding_key), _nothing),
    ExchangeBound: (
        lambda each: QueryBinding(
            each.exchange or "",
            each.queue,
            each.binding_key,
            None if each.arguments is None else arguments_in(each.arguments),
        ),
        _bound,
    ),
}


def request_of(command: Command) -> tuple[Request[Any], Answer] | None:
    """The request that a command is, and what makes its result; None if it is none."""
    found = _REQUESTS.get(type(command))
    return None if found is None else (found[0](command), found[1])

"""The commands of clients as requests to the owner, and the owner's answers as results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ....engine import (
    ON_DEMAND_ARGUMENT,
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
    RequestRules,
    Unbind,
)
from ....errors import LocalProtocolError
from ..arguments import DEAD_LETTERS, alternate_from, arguments_in, arguments_out
from ..codes import ErrorCode, SessionFault
from ..wire.commands import (
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
from ..wire.struct import Command, Struct

RULES: Final = RequestRules(
    absent="amqp:not-found",
    reserved="amqp:not-allowed",
    different="amqp:not-allowed",
    compared=frozenset(("type", "alternate-exchange")),
    unsaid_differs=False,
    unknown_type="amqp:not-found",
    unknown_argument="amqp:not-implemented",
    needs_alternate=True,
    one_per_key=True,
)
"""The rules of 0-10 for requests (§10.5, §10.6), where they differ from those of other dialects."""
NO_LOCAL: Final = "no-local"
FILTERS: Final = "x-filter-"
"""Arguments of Qpid's Java client, ignored when it declares and binds: it repeats them when it subscribes."""

Answer = Callable[[Any], Struct | None]
"""Turns the owner's answer into the result of the command."""


def _nothing(_: object) -> None:
    return None


def _declare_queue(command: QueueDeclare) -> Request[Any]:
    """Return the request; an exclusive auto-delete queue ends with its session, not with its last subscription."""
    arguments = arguments_in(command.arguments)
    arguments.pop(NO_LOCAL, None)
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


def _bind(command: ExchangeBind) -> Request[Any]:
    arguments = {name: value for name, value in arguments_in(command.arguments).items() if not name.startswith(FILTERS)}
    return Bind(command.queue, command.exchange, command.binding_key, arguments)


def _shown_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a declaration made in any dialect; a value without a type in 0-10 becomes text."""
    shown: dict[str, Any] = {}
    for name, value in arguments.items():
        try:
            shown |= arguments_out({name: value})
        except LocalProtocolError:
            shown |= arguments_out({name: str(value)})
    return shown


def _queue(facts: QueueFacts | None) -> QueueQueryResult:
    if facts is None:
        return QueueQueryResult()
    arguments = _shown_arguments(facts.arguments or {})
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
    return ExchangeQueryResult(facts.type, bool(facts.durable), False, _shown_arguments(facts.arguments or {}))


def _bound(facts: BindingFacts) -> ExchangeBoundResult:
    return ExchangeBoundResult(
        exchange_not_found=not facts.exchange,
        queue_not_found=not facts.queue,
        queue_not_matched=not facts.bound,
        key_not_matched=not facts.key,
        args_not_matched=not facts.arguments,
    )


REQUESTS: Final[dict[type[Command], tuple[Callable[[Any], Request[Any]], Answer]]] = {
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
    ExchangeBind: (_bind, _nothing),
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


_NAMES: Final[dict[type[Command], tuple[str, ...]]] = {
    QueueDeclare: ("queue",),
    QueueDelete: ("queue",),
    QueuePurge: ("queue",),
    ExchangeDeclare: ("exchange",),
    ExchangeDelete: ("exchange",),
    ExchangeBind: ("queue", "exchange"),
    ExchangeUnbind: ("queue", "exchange"),
}
"""The fields that must not be blank."""


def request_of(command: Command) -> tuple[Request[Any], Answer]:
    """Return the request for `command`, which is one of `REQUESTS`, and what turns the answer into a result.

    Raises:
        SessionFault: a name in the command is blank.
    """
    for name in _NAMES.get(type(command), ()):
        if not getattr(command, name):
            raise SessionFault(
                ErrorCode.INVALID_ARGUMENT, f"the name of the {name} in {command.spec_name} must not be blank"
            )
    make, answer = REQUESTS[type(command)]
    return make(command), answer

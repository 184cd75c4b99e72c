"""What a client declares, binds and deletes, as requests of the seam; and the answers as methods."""

from __future__ import annotations

from typing import Any

from ...engine import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    PurgeQueue,
    QueueFacts,
    Unbind,
)
from ._method import Method
from ._methods import (
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
from ._table import DRAFT_TABLES, ON_DEMAND


def request_of(method: Any) -> Any:
    """What a method asks for."""
    arguments: dict[str, Any] = dict(getattr(method, "arguments", None) or {})
    match method:
        case QueueDeclare():
            return DeclareQueue(
                name=method.queue,
                durable=method.durable,
                exclusive=method.exclusive,
                auto_delete=method.auto_delete,
                passive=method.passive,
                on_demand=_on_demand(arguments) and method.passive,
                arguments=arguments,
            )
        case QueueDelete():
            return DeleteQueue(method.queue, if_unused=method.if_unused, if_empty=method.if_empty)
        case QueuePurge():
            return PurgeQueue(method.queue)
        case QueueBind():
            return Bind(method.queue, method.exchange, method.routing_key, arguments)
        case QueueUnbind():
            return Unbind(method.queue, method.exchange, method.routing_key, arguments)
        case ExchangeDeclare():
            alternate = arguments.pop("alternate-exchange", None)
            return DeclareExchange(
                name=method.exchange,
                type=method.type,
                durable=method.durable,
                auto_delete=method.auto_delete,
                internal=method.internal,
                passive=method.passive,
                alternate=alternate if isinstance(alternate, str) else None,
                arguments=arguments,
            )
        case ExchangeDelete():
            return DeleteExchange(method.exchange, if_unused=method.if_unused)
        case ExchangeBind():
            return Bind(method.destination, method.source, method.routing_key, arguments, "exchange")
        case _:
            assert isinstance(method, ExchangeUnbind)
            return Unbind(method.destination, method.source, method.routing_key, arguments, "exchange")


def _on_demand(arguments: dict[str, Any]) -> bool:
    """A client of this package asks for a node to be made; the draft spells it otherwise, and has no flags."""
    return any(arguments.pop(name, None) in (True, 1) for name in (ON_DEMAND, DRAFT_TABLES.spelled(ON_DEMAND)))


def answer_of(method: Method, result: Any) -> Method:
    """The method that says the result."""
    if isinstance(method, QueueDeclare):
        facts: QueueFacts = result
        return QueueDeclareOk(facts.name, facts.messages, facts.consumers)
    if isinstance(method, QueueDelete | QueuePurge):
        return (QueueDeleteOk if isinstance(method, QueueDelete) else QueuePurgeOk)(result)
    return _ANSWERS[type(method)]()


_ANSWERS: dict[type[Method], type[Method]] = {
    QueueBind: QueueBindOk,
    QueueUnbind: QueueUnbindOk,
    ExchangeDeclare: ExchangeDeclareOk,
    ExchangeDelete: ExchangeDeleteOk,
    ExchangeBind: ExchangeBindOk,
    ExchangeUnbind: ExchangeUnbindOk,
}

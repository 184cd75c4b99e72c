"""What a client declares, binds and deletes, as requests of the seam; and the answers as methods."""

from __future__ import annotations

from typing import Any

from ...engine import (
    Bind,
    BindingFacts,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    PurgeQueue,
    QueryBinding,
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
from ._methods_0_9 import ExchangeBound, ExchangeBoundOk
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
        case ExchangeBound():
            return QueryBinding(method.exchange, method.queue or None, method.routing_key or None)
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
    if isinstance(method, ExchangeBound):
        return _bound(method, result)
    return _ANSWERS[type(method)]()


def _bound(asked: ExchangeBound, facts: BindingFacts) -> ExchangeBoundOk:
    """What Qpid's brokers answer: 0 if it is bound, else a number and words that say what is missing."""
    exchange, queue, key = (f"{what!r}" for what in (asked.exchange, asked.queue, asked.routing_key))
    if not facts.exchange:
        code, text = 1, f"there is no exchange {exchange}"
    elif not facts.queue:
        code, text = 2, f"there is no queue {queue}"
    elif facts.key:
        code, text = 0, ""
    elif asked.routing_key and asked.queue:
        code, text = 6, f"queue {queue} is not bound to exchange {exchange} with the key {key}"
    elif asked.routing_key:
        code, text = 5, f"nothing is bound to exchange {exchange} with the key {key}"
    elif asked.queue:
        code, text = 4, f"queue {queue} is not bound to exchange {exchange}"
    else:
        code, text = 3, f"nothing is bound to exchange {exchange}"
    return ExchangeBoundOk(code, text.encode()[:255].decode(errors="ignore"))


_ANSWERS: dict[type[Method], type[Method]] = {
    QueueBind: QueueBindOk,
    QueueUnbind: QueueUnbindOk,
    ExchangeDeclare: ExchangeDeclareOk,
    ExchangeDelete: ExchangeDeleteOk,
    ExchangeBind: ExchangeBindOk,
    ExchangeUnbind: ExchangeUnbindOk,
}

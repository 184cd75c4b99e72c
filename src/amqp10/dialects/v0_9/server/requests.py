"""What a client declares, binds, queries, purges and deletes, as requests to the owner; and the answers as methods."""

from __future__ import annotations

from typing import Any

from ....engine import (
    ON_DEMAND_ARGUMENT,
    BindingFacts,
    QueryBinding,
    QueueFacts,
)
from ..wire.method_table import Method
from ..wire.methods import (
    ExchangeDeclare,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from ..wire.rare_methods import ExchangeBound, ExchangeBoundOk
from ..wire.request_table import ANSWERS, request_for
from ..wire.tables import DRAFT_TABLES


def request_of(method: Any) -> Any:
    """Return the request that a method makes."""
    arguments: dict[str, Any] = dict(getattr(method, "arguments", None) or {})
    match method:
        case QueueDeclare():
            on_demand = _on_demand(arguments) and method.passive
            return request_for(method, arguments, on_demand=on_demand)
        case ExchangeDeclare():
            is_name = isinstance(arguments.get("alternate-exchange"), str)  # else it is refused with the arguments
            return request_for(method, arguments, alternate=arguments.pop("alternate-exchange") if is_name else None)
        case ExchangeBound():
            return QueryBinding(method.exchange, method.queue or None, method.routing_key or None)
    return request_for(method, arguments)


def _on_demand(arguments: dict[str, Any]) -> bool:
    """Take out the argument by which a client of this package asks for a node to be made; return whether it was set.

    The draft spells the argument otherwise, and has no flags.
    """
    return any(
        arguments.pop(name, None) in (True, 1)
        for name in (ON_DEMAND_ARGUMENT, DRAFT_TABLES.spelled(ON_DEMAND_ARGUMENT))
    )


def answer_of(method: Method, result: Any) -> Method:
    """Return the method that answers with `result`."""
    if isinstance(method, QueueDeclare):
        facts: QueueFacts = result
        return QueueDeclareOk(facts.name, facts.messages, facts.consumers)
    if isinstance(method, QueueDelete | QueuePurge):
        return (QueueDeleteOk if isinstance(method, QueueDelete) else QueuePurgeOk)(result)
    if isinstance(method, ExchangeBound):
        return _bound(method, result)
    return ANSWERS[type(method)]()


def _bound(request: ExchangeBound, facts: BindingFacts) -> ExchangeBoundOk:
    """Return the answer of Qpid's brokers: 0 if it is bound, else a number and words for what is missing."""
    exchange, queue, key = (f"{what!r}" for what in (request.exchange, request.queue, request.routing_key))
    if not facts.exchange:
        code, text = 1, f"there is no exchange {exchange}"
    elif not facts.queue:
        code, text = 2, f"there is no queue {queue}"
    elif facts.key:
        code, text = 0, ""
    elif request.routing_key and request.queue:
        code, text = 6, f"queue {queue} is not bound to exchange {exchange} with the key {key}"
    elif request.routing_key:
        code, text = 5, f"nothing is bound to exchange {exchange} with the key {key}"
    elif request.queue:
        code, text = 4, f"queue {queue} is not bound to exchange {exchange}"
    else:
        code, text = 3, f"nothing is bound to exchange {exchange}"
    return ExchangeBoundOk(code, text.encode()[:255].decode(errors="ignore"))

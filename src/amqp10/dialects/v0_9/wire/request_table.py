"""Which method asks for what: one table, read by clients to ask and by servers to understand.

A row has the fields of both, `request=method` where the names differ.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ....engine import Bind, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue, PurgeQueue, Request, Unbind
from .method_table import Method
from .methods import (
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


class RequestRow(NamedTuple):
    """One row.

    Attributes:
        request: what is asked.
        method: what asks it.
        answer: the method that answers.
        fields: their fields, "request=method" where the names differ.
        kind: what is bound, "queue" or "exchange"; "" for what binds nothing.
    """

    request: type[Request[Any]]
    method: type[Method]
    answer: type[Method]
    fields: str
    kind: str = ""

    def pairs(self) -> list[tuple[str, str]]:
        """Return the names of each field, in the request and in the method."""
        return [(ours, theirs or ours) for ours, _, theirs in (each.partition("=") for each in self.fields.split())]


_QUEUE_BINDING: Final = "destination=queue exchange key=routing_key arguments"
_EXCHANGE_BINDING: Final = "destination exchange=source key=routing_key arguments"

ROWS: Final = (
    RequestRow(
        DeclareQueue, QueueDeclare, QueueDeclareOk, "name=queue passive durable exclusive auto_delete arguments"
    ),
    RequestRow(DeleteQueue, QueueDelete, QueueDeleteOk, "name=queue if_unused if_empty"),
    RequestRow(PurgeQueue, QueuePurge, QueuePurgeOk, "name=queue"),
    RequestRow(
        DeclareExchange,
        ExchangeDeclare,
        ExchangeDeclareOk,
        "name=exchange type passive durable auto_delete internal arguments",
    ),
    RequestRow(DeleteExchange, ExchangeDelete, ExchangeDeleteOk, "name=exchange if_unused"),
    RequestRow(Bind, QueueBind, QueueBindOk, _QUEUE_BINDING, "queue"),
    RequestRow(Unbind, QueueUnbind, QueueUnbindOk, _QUEUE_BINDING, "queue"),
    RequestRow(Bind, ExchangeBind, ExchangeBindOk, _EXCHANGE_BINDING, "exchange"),
    RequestRow(Unbind, ExchangeUnbind, ExchangeUnbindOk, _EXCHANGE_BINDING, "exchange"),
)
ANSWERS: Final = {row.method: row.answer for row in ROWS}
_BY_REQUEST: Final = {(row.request, row.kind): row for row in ROWS}
_BY_METHOD: Final = {row.method: row for row in ROWS}


def method_for(request: Request[Any]) -> Method | None:
    """Return the method that makes `request`, with its arguments copied; None if the table has no such method."""
    row = _BY_REQUEST.get((type(request), getattr(request, "kind", "")))
    if row is None:
        return None
    fields = {theirs: getattr(request, ours) for ours, theirs in row.pairs()}
    if "arguments" in fields:
        fields["arguments"] = dict(fields["arguments"])
    return row.method(**fields)


def request_for(method: Method, arguments: dict[str, Any], **more: Any) -> Request[Any]:
    """Return the request that `method` makes, with `arguments` if it has any."""
    row = _BY_METHOD[type(method)]
    values = {ours: getattr(method, theirs) for ours, theirs in row.pairs()}
    if "arguments" in values:
        values["arguments"] = arguments
    if row.kind:
        values["kind"] = row.kind
    return row.request(**values, **more)

"""What AMQP 1.0 has no word for: declaring, binding, emptying and deleting queues and exchanges.

A client asks with `Session.request(request)` and hears `RequestAnswered`; a server hears `RequestReceived` and answers
with `Session.answer` or `Session.refuse`. The requests here are those that several dialects have, in words of their
own; what only one of them has is a `Request` of that dialect's package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from ..errors import AmqpError
    from ._api import Session

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Request(Generic[R]):
    """The base of all requests; `R` is what the answer is."""


@dataclass(frozen=True, slots=True)
class RequestRules:
    """What a server has to do where the specifications differ; the defaults are RabbitMQ's rules, for 0-9-1.

    Attributes:
        absent: the condition that refuses to delete or unbind what is not there; None: that succeeds.
        reserved: the condition that refuses names that are the broker's.
        different: the condition that refuses to declare what is there and differs.
        compared: the terms in which what is there must not differ from what is declared.
        unsaid_differs: an alternate exchange that is there and not declared is a difference.
        unknown_type: the condition that refuses a type of exchange that there is not.
        unknown_argument: the condition that refuses arguments that mean nothing here; None: they are kept, unused.
        needs_alternate: an alternate exchange has to be there, and cannot be deleted while it is one.
        one_per_key: a queue has one binding to an exchange by each key; the arguments of the first one stay.
    """

    absent: str | None = None
    reserved: str = "amqp:unauthorized-access"
    different: str = "amqp:precondition-failed"
    compared: frozenset[str] = frozenset(
        ("type", "durable", "auto-delete", "internal", "exclusive", "alternate-exchange", "arguments")
    )
    unsaid_differs: bool = True
    unknown_type: str = "amqp:precondition-failed"
    unknown_argument: str | None = None
    needs_alternate: bool = False
    one_per_key: bool = False

    def differs(self, term: str, there: object, declared: object) -> bool:
        """Return whether what is there differs in that term from what is declared, as far as the rules compare it."""
        compares = term in self.compared and (declared is not None or self.unsaid_differs)
        return compares and there != declared


class PendingRequest(Generic[R]):
    """A request on its way.

    Attributes:
        session, request: of what, and what.
        answered: `result` or `error` is there.
        result: the answer.
        error: why there is none: `RequestRefused`, or what the session died of.
        context: belongs to the engine.
    """

    __slots__ = ("answered", "context", "error", "request", "result", "session")

    result: R

    def __init__(self, session: Session, request: Request[R]) -> None:
        self.session = session
        self.request = request
        self.answered = False
        self.error: AmqpError | None = None
        self.context: Any = None

    def answer(self, result: R) -> None:
        """Note the answer; the engine's part."""
        self.result = result
        self.answered = True

    def fail(self, error: AmqpError) -> None:
        """Note that there is none; the engine's part."""
        self.error = error
        self.answered = True


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue.

    Attributes:
        name: its name; the server's choice, where the request left it open.
        messages: those that are ready to be received.
        consumers: links that receive from it.
        durable, exclusive, auto_delete, arguments: how it was declared; None where the dialect does not say.
        outlives: see `DeclareQueue`.
    """

    name: str
    messages: int = 0
    consumers: int = 0
    durable: bool | None = None
    exclusive: bool | None = None
    auto_delete: bool | None = None
    arguments: Mapping[str, Any] | None = None
    outlives: bool = False


@dataclass(frozen=True, slots=True)
class ExchangeFacts:
    """An exchange: its type ("direct", "fanout", "topic", "headers"), and how it was declared."""

    name: str
    type: str
    durable: bool | None = None
    arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class BindingFacts:
    """What is there of a binding: the exchange, the queue, and a binding of the two that fits what was asked."""

    exchange: bool
    queue: bool
    bound: bool
    key: bool
    arguments: bool


@dataclass(frozen=True, slots=True)
class DeclareQueue(Request[QueueFacts]):
    """Make a queue, or find it if it is there and the same.

    Attributes:
        name: "" for one of the server's choice.
        durable: it survives the server.
        exclusive: for this connection only, and gone with it.
        auto_delete: gone with its last consumer.
        passive: only find it.
        on_demand: with `passive`: make it if nodes are made on demand here.
        arguments: `x-message-ttl` and others.
        outlives: an exclusive one stays when its session ends, and is free then.
        for_replies: others find an exclusive one, for they send to it.
    """

    name: str = ""
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    passive: bool = False
    on_demand: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    outlives: bool = False
    for_replies: bool = False


@dataclass(frozen=True, slots=True)
class DeleteQueue(Request[int]):
    """Delete a queue, with what is in it; the answer is how many messages that were."""

    name: str
    if_unused: bool = False
    if_empty: bool = False


@dataclass(frozen=True, slots=True)
class PurgeQueue(Request[int]):
    """Drop what is in a queue and not out for settlement; the answer is how many messages that were."""

    name: str


@dataclass(frozen=True, slots=True)
class QueryQueue(Request[QueueFacts | None]):
    """Look at a queue; None if it is not there."""

    name: str


@dataclass(frozen=True, slots=True)
class DeclareExchange(Request[None]):
    """Make an exchange, or find it if it is there and the same.

    Attributes:
        type: "direct", "fanout", "topic", "headers".
        internal: messages come to it from exchanges only.
        alternate: the exchange for what this one can not route; None for no such exchange.
    """

    name: str
    type: str = "direct"
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    passive: bool = False
    alternate: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteExchange(Request[None]):
    """Delete an exchange and its bindings."""

    name: str
    if_unused: bool = False


@dataclass(frozen=True, slots=True)
class QueryExchange(Request[ExchangeFacts | None]):
    """Look at an exchange; None if it is not there."""

    name: str


@dataclass(frozen=True, slots=True)
class Bind(Request[None]):
    """Bind a queue, or another exchange, to an exchange; a binding that is there already is left as it is.

    Attributes:
        destination: the queue or exchange that messages go to; `kind` says which.
        exchange: where they come from.
        key: the routing key, or a pattern of them.
        arguments: of a headers exchange: what has to fit.
    """

    destination: str
    exchange: str
    key: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["queue", "exchange"] = "queue"


@dataclass(frozen=True, slots=True)
class Unbind(Request[None]):
    """Undo `Bind`."""

    destination: str
    exchange: str
    key: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["queue", "exchange"] = "queue"


BranchId = tuple[int, bytes, bytes]
"""What a coordinator of distributed transactions calls a branch: format, global id, branch id (X/Open XA)."""


@dataclass(frozen=True, slots=True)
class LimitBranch(Request[None]):
    """Roll a transaction back that is not over or prepared so many seconds from now; 0: it may take any time.

    Attributes:
        transaction: its id, as it was declared.
    """

    transaction: bytes
    seconds: int


@dataclass(frozen=True, slots=True)
class PrepareBranch(Request[bool]):
    """Keep a transaction as a branch that can be committed, by whatever connection; False: it was rolled back.

    Attributes:
        transaction: its id, as it was declared.
    """

    transaction: bytes
    branch: BranchId


@dataclass(frozen=True, slots=True)
class CompleteBranch(Request[bool | None]):
    """End a branch that is prepared; whether it ended as it was to, None if there is no such branch."""

    branch: BranchId
    commit: bool


@dataclass(frozen=True, slots=True)
class QueryBranches(Request[tuple[BranchId, ...]]):
    """Which branches are prepared."""


@dataclass(frozen=True, slots=True)
class Acquire(Request[tuple[Any, ...]]):
    """Take what links that browse were shown, and have not settled; the answer is what could be had of it."""

    deliveries: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class QueryBinding(Request[BindingFacts]):
    """Look at a binding; of `queue`, `key` and `arguments` those that are None do not matter."""

    exchange: str
    queue: str | None = None
    key: str | None = None
    arguments: Mapping[str, Any] | None = None

"""Requests that AMQP 1.0 does not have: declaring, binding, emptying and deleting queues and exchanges.

A client asks with `Session.request(request)` and hears `RequestAnswered`; a server hears `RequestReceived` and answers
with `Session.answer` or `Session.refuse`. The requests here are those that several dialects share; a request of only
one dialect is defined in that dialect's package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from ..errors import AmqpError
    from ..messaging import Error

RequestResult = TypeVar("RequestResult")

DELAYED_RETRY_CAPABILITY: Final = "amqp10_delayed_retry"
"""The capability of a server whose queues keep a message until the `x-opt-delivery-time` of its outcome `modified`."""

ON_DEMAND_CAPABILITY: Final = "amqp10_on_demand"
"""The capability of a server that may make missing nodes on demand."""
ON_DEMAND_ARGUMENT: Final = "x-opt-on-demand"
"""The argument of a passive declaration that asks such a server to make the node."""


@dataclass(frozen=True, slots=True)
class Request(Generic[RequestResult]):
    """The base of all requests; `RequestResult` is the type of the answer."""


@dataclass(frozen=True, slots=True)
class RequestRules:
    """The rules of a server where the specifications differ; the defaults are RabbitMQ's, for 0-9-1.

    Attributes:
        absent: the condition that refuses to delete or unbind something that does not exist; None: that succeeds.
        reserved: the condition that refuses names that belong to the broker.
        different: the condition that refuses to declare something that exists and differs.
        compared: the terms in which an existing queue or exchange must equal the declared one.
        unsaid_differs: an existing alternate exchange that the declaration leaves out is a difference.
        unknown_type: the condition that refuses an unknown type of exchange.
        unknown_argument: the condition that refuses arguments without a meaning here; None: they are kept, unused.
        needs_alternate: an alternate exchange must exist, and cannot be deleted while it is in use as one.
        one_per_key: a queue has at most one binding to an exchange by each key; the arguments of the first one stay.
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
        """Return whether `there` differs from `declared`, if the rules compare `term` at all."""
        compares = term in self.compared and (declared is not None or self.unsaid_differs)
        return compares and there != declared


class PendingRequest(Generic[RequestResult]):
    """A request that is sent or received.

    Attributes:
        session: the session of the request.
        request: the request itself.
        answered: `result` or `error` is set.
        result: the answer.
        error: why the request was not answered: `RequestRefused`, or the error that ended the session.
    """

    __slots__ = ("answered", "error", "request", "result", "session")

    result: RequestResult

    def __init__(self, session: RequestSession, request: Request[RequestResult]) -> None:
        self.session: RequestSession = session
        self.request: Request[RequestResult] = request
        self.answered: bool = False
        self.error: AmqpError | None = None

    def answer(self, result: RequestResult) -> None:
        """Record the answer; only the engine calls it."""
        self.result = result
        self.answered = True

    def fail(self, error: AmqpError) -> None:
        """Record the error that takes the place of an answer; only the engine calls it."""
        self.error = error
        self.answered = True


class RequestOwner:
    """The code that sends requests on a session."""

    __slots__ = ()

    def on_answered(self, request: PendingRequest[Any]) -> None:
        """Act on the answer to a request of ours."""


class RequestSession(Protocol):
    """The session of a request; see `Session`."""

    @property
    def request_rules(self) -> RequestRules: ...

    @property
    def owner(self) -> RequestOwner: ...

    def answer(self, pending: PendingRequest[RequestResult], result: RequestResult, /) -> None: ...

    def refuse(self, pending: PendingRequest[Any], error: Error, /) -> None: ...


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue.

    Attributes:
        name: the queue's name; chosen by the server if the request left it open.
        messages: the number of messages that are ready to be received.
        consumers: the number of links that receive from the queue.
        durable, exclusive, auto_delete, arguments: how the queue was declared; None if the dialect does not tell.
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
    """The parts of a binding that exist: the exchange, the queue, and a binding of the two that fits the query."""

    exchange: bool
    queue: bool
    bound: bool
    key: bool
    arguments: bool


@dataclass(frozen=True, slots=True)
class DeclareQueue(Request[QueueFacts]):
    """Make a queue, or find it if it exists and is the same.

    Attributes:
        name: the queue's name; "": the server chooses one.
        durable: the queue survives the server.
        exclusive: the queue is for this connection only, and gone with it.
        auto_delete: the queue is gone with its last consumer.
        passive: only find the queue.
        on_demand: with `passive`: make the queue if the server makes nodes on demand.
        arguments: `x-message-ttl` and others.
        outlives: an exclusive queue stays when its session ends, and is no longer exclusive then.
        for_replies: other connections find an exclusive queue, so that they can send to it.
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
    """Delete a queue with its messages; the answer is the number of messages."""

    name: str
    if_unused: bool = False
    if_empty: bool = False


@dataclass(frozen=True, slots=True)
class PurgeQueue(Request[int]):
    """Drop the messages of a queue that are not out for settlement; the answer is the number of messages."""

    name: str


@dataclass(frozen=True, slots=True)
class QueryQueue(Request[QueueFacts | None]):
    """Look at a queue; the answer is None if it does not exist."""

    name: str


@dataclass(frozen=True, slots=True)
class DeclareExchange(Request[None]):
    """Make an exchange, or find it if it exists and is the same.

    Attributes:
        type: "direct", "fanout", "topic", "headers".
        internal: the exchange gets messages from other exchanges only.
        alternate: the exchange for messages that this one can not route; None: there is no such exchange.
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
    """Look at an exchange; the answer is None if it does not exist."""

    name: str


@dataclass(frozen=True, slots=True)
class Bind(Request[None]):
    """Bind a queue, or another exchange, to an exchange; an existing binding is left as it is.

    Attributes:
        destination: the queue or exchange that messages go to; `kind` says which.
        exchange: the exchange that messages come from.
        key: the routing key, or a pattern for routing keys.
        arguments: for a headers exchange: the headers that have to match.
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
"""The name of a branch of a distributed transaction: format, global id, branch id (X/Open XA)."""


@dataclass(frozen=True, slots=True)
class LimitBranch(Request[None]):
    """Roll a transaction back unless it is over or prepared in `seconds` from now; 0: it may take any time.

    Attributes:
        transaction: its id, as it was declared.
    """

    transaction: bytes
    seconds: int


@dataclass(frozen=True, slots=True)
class BeginBranch(Request[bool]):
    """Let a transaction be the work of a new branch; the answer False: the user has a branch of that name already.

    Attributes:
        transaction: its id, as it was declared.
    """

    transaction: bytes
    branch: BranchId


@dataclass(frozen=True, slots=True)
class PrepareBranch(Request[bool]):
    """Keep a transaction as a branch that any connection can commit; the answer False: it was rolled back.

    Attributes:
        transaction: its id, as it was declared.
    """

    transaction: bytes
    branch: BranchId


@dataclass(frozen=True, slots=True)
class CompleteBranch(Request[bool | None]):
    """End a prepared branch; the answer is whether it ended as asked, None if there is no such branch."""

    branch: BranchId
    commit: bool


@dataclass(frozen=True, slots=True)
class QueryBranches(Request[tuple[BranchId, ...]]):
    """Ask which branches are prepared."""


@dataclass(frozen=True, slots=True)
class Acquire(Request[tuple[Any, ...]]):
    """Acquire unsettled deliveries of links that browse; the answer has those that could be acquired."""

    deliveries: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class QueryBinding(Request[BindingFacts]):
    """Look at a binding; `queue`, `key` and `arguments` do not matter where they are None."""

    exchange: str
    queue: str | None = None
    key: str | None = None
    arguments: Mapping[str, Any] | None = None

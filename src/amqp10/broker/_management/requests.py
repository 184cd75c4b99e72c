"""Requests for queues, exchanges and bindings by name, which AMQP 1.0 itself does not have.

What one peer declares in its dialect exists for all others in theirs. The rules of the session's dialect
(`RequestRules`) say what is refused, and with which condition: RabbitMQ's rules, or others.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...engine import (
    Bind,
    BindingFacts,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    ExchangeFacts,
    PendingRequest,
    PurgeQueue,
    QueryBinding,
    QueryExchange,
    QueryQueue,
    QueueFacts,
    Request,
    RequestRules,
    RequestSession,
    Unbind,
    route_address,
)
from ...errors import EncodeError
from ...messaging import Error
from ...types import encode
from .._address import prefixed
from .._errors import Refused
from .._limits import MAX_KEY_LENGTH, check_count, check_name
from .._queues.arguments import KNOWN, QueueDeclaration, check_lasting
from .._queues.declared import DeclaredQueue
from .._queues.queue import Queue
from .._queues.topic import Topic
from .._routing.topology import ALTERNATE, RESERVED, USUAL_RULES, check_known, check_same
from .._users.users import DEFAULT_EXCHANGE, EVERYTHING

if TYPE_CHECKING:
    from .._queues.node import Node
    from .._routing.exchanges import Exchange
    from .._virtual_host_core import VirtualHostCore

DEAD_LETTERS: Final = "x-dead-letter-exchange"
"""The argument that makes an exchange the alternate exchange of a queue."""
_USUAL: Final = {"x-queue-type": "classic"}  # the type of a queue whose arguments name none
DEAD_LETTER_KEY: Final = "x-dead-letter-routing-key"
_ON_DEMAND: Final = QueueDeclaration()  # the terms of a queue that nobody declared


def check_owner(node: Node, asking: object) -> None:
    """Check that a node is not exclusive to another connection.

    Raises:
        Refused: it is exclusive to another connection than `asking`.
    """
    if node.owner is not None and node.owner is not asking:
        raise Refused("amqp:resource-locked", f"{node.name!r} is exclusive to another connection")


class Requests:
    """Carries out the requests of one connection.

    Args:
        owner: the connection, to which exclusive queues belong.

    Attributes:
        rights: what the connection may do, by RabbitMQ's rules for each request.
    """

    def __init__(self, vhost: VirtualHostCore, owner: object) -> None:
        self.rights = EVERYTHING
        self._vhost = vhost
        self._topology = vhost.topology
        self._owner = owner
        self._exclusive: dict[Queue, RequestSession | None] = {}  # with the session that declared it, or None
        self._lent: dict[Queue, RequestSession] = {}  # queues that belong to a session as long as it lives

    def answer(self, pending: PendingRequest[Any]) -> None:
        """Carry out a request, and answer or refuse it."""
        try:
            result = self.do(pending.request, pending.session.request_rules)
        except Refused as refusal:
            pending.session.refuse(pending, refusal.error)
        except EncodeError as error:
            pending.session.refuse(pending, Error("amqp:invalid-field", f"cannot be stored: {error}"))
        else:
            request = pending.request
            if isinstance(request, DeclareQueue) and request.exclusive and not request.passive:
                queue = self._vhost.nodes[result.name]
                assert isinstance(queue, Queue)
                if request.outlives:
                    self._lent[queue] = pending.session
                elif queue in self._exclusive:
                    self._exclusive[queue] = self._exclusive[queue] or pending.session
            pending.session.answer(pending, result)

    def do(self, request: Request[Any], rules: RequestRules = USUAL_RULES) -> Any:
        """Carry out a request by the rules of its dialect, and return the result.

        Raises:
            Refused: the request is refused.
            EncodeError: its arguments cannot be stored.
        """
        act = _ACTIONS.get(type(request))
        if act is None:
            raise Refused("amqp:not-implemented", f"the broker does not support the request {type(request).__name__}")
        return act(self, request, rules)

    def end(self) -> None:
        """Delete the exclusive queues of this connection, which has ended."""
        for queue in self._exclusive:
            if not queue.deleted:
                self._vhost.delete(queue)
        self._exclusive.clear()
        self._free(list(self._lent))

    def take_over(self, before: Requests, session: RequestSession) -> None:
        """Take over the exclusive queues of a session that was resumed on this connection."""
        exclusive = [queue for queue, whose in before._exclusive.items() if whose is session]
        lent = [queue for queue, whose in before._lent.items() if whose is session]
        for queue in exclusive:
            self._exclusive[queue] = before._exclusive.pop(queue)
        for queue in lent:
            self._lent[queue] = before._lent.pop(queue)
        for queue in exclusive + lent:
            queue.owner = self._owner

    def session_ended(self, session: RequestSession) -> None:
        """Make the queues that belonged to a session available to all peers."""
        self._free([queue for queue, lent_to in self._lent.items() if lent_to is session])

    def _free(self, queues: Iterable[Queue]) -> None:
        for queue in queues:
            del self._lent[queue]
            queue.owner = None

    def _check_arguments(self, arguments: Mapping[str, Any]) -> int:
        """Check the size of arguments; return their octets.

        Raises:
            Refused: they are too large.
        """
        if not arguments:
            return 0
        octets, limits = len(encode(dict(arguments))), self._vhost.peers
        if octets > limits.arguments:
            raise Refused("amqp:invalid-field", f"arguments must have at most {limits.arguments} octets, not {octets}")
        check_count("octets of all arguments", self._topology.argument_octets + octets - 1, limits.all_arguments)
        if self._vhost.account is not None:
            self._vhost.account.check_arguments(octets)
        return octets

    # Queues

    def _declare_queue(self, request: DeclareQueue, rules: RequestRules) -> QueueFacts:
        name = request.name
        node = self._vhost.nodes.get(name)
        if node is None and request.passive:
            address = name if prefixed(name) is not None else route_address("", name)
            return _facts(self._vhost.resolve(address, on_demand=request.on_demand, rights=self.rights))
        if not (request.passive or request.for_replies):
            name = name or f"amq.gen-{secrets.token_urlsafe(16)}"
            self._check_declare(name, request.arguments)
        if node is not None:
            if not (request.passive and node.for_replies):
                check_owner(node, self._owner)
            if not request.passive:
                _check_declared_again(node, request, rules)
            if isinstance(node, DeclaredQueue):
                node.used()
                if request.outlives and not request.passive:
                    self._take(node)
            return _facts(node)
        if request.name.startswith(RESERVED):
            raise Refused(rules.reserved, f"names that begin with {RESERVED!r} are reserved")
        check_known(request.arguments, KNOWN, rules)
        self._topology.check_alternate(request.arguments.get(DEAD_LETTERS), rules)
        check_name("a queue's name", name, MAX_KEY_LENGTH)
        octets = self._check_arguments(request.arguments)
        exclusive = request.exclusive and not request.outlives  # with `outlives` it is exclusive only for a while
        terms = QueueDeclaration(request.durable, exclusive, request.auto_delete, dict(request.arguments))
        check_lasting(terms)
        queue = self._vhost.declare_queue(
            name or f"amq.gen-{secrets.token_urlsafe(16)}", terms, self._owner if request.exclusive else None
        )
        queue.for_replies = request.for_replies
        self._topology.weigh(queue, octets, self._vhost.account)
        if exclusive:
            self._exclusive[queue] = None
        return _facts(queue)

    def _check_declare(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Check the rights to declare a queue, and to send its dead letters.

        Raises:
            Refused: a right is missing.
        """
        self.rights.check("configure", name)
        exchange, key = arguments.get(DEAD_LETTERS), arguments.get(DEAD_LETTER_KEY)
        if isinstance(exchange, str):
            self.rights.check("read", name)
            if exchange or not isinstance(key, str):
                self.rights.check("write", exchange or DEFAULT_EXCHANGE)
                return
            self.rights.check("write", key)
            parsed = prefixed(key)  # whether the key is an address depends on which queues exist when a message dies
            if parsed is not None:
                self.rights.check("write", parsed[0])

    def _take(self, queue: Queue) -> None:
        """Make an existing queue exclusive to this connection until the session ends.

        Raises:
            Refused: others use the queue.
        """
        if queue.owner is None and queue.users:
            raise Refused("amqp:resource-locked", f"queue {queue.name!r} is in use")
        queue.owner = self._owner

    def _query_queue(self, request: QueryQueue, rules: RequestRules) -> QueueFacts | None:
        node = self._vhost.nodes.get(request.name)
        return None if node is None else _facts(node)

    def _purge_queue(self, request: PurgeQueue, rules: RequestRules) -> int:
        node = self._node(request.name)
        self.rights.check("read", node.name)
        return 0 if isinstance(node, Topic) else _queue(node).purge()

    def _delete_queue(self, request: DeleteQueue, rules: RequestRules) -> int:
        mine = self._vhost.nodes.get(request.name)
        if mine is None or mine.owner is not self._owner:
            self.rights.check("configure", request.name)
        node = self._vhost.nodes.get(request.name)
        if node is None:
            if rules.absent is not None:
                raise Refused(rules.absent, f"there is no queue {request.name!r}")
            return 0
        check_owner(node, self._owner)
        facts = _facts(node)
        if request.if_unused and facts.consumers:
            raise Refused("amqp:precondition-failed", f"queue {node.name!r} is in use")
        if request.if_empty and facts.messages:
            raise Refused("amqp:precondition-failed", f"queue {node.name!r} is not empty")
        self._vhost.delete(node)
        if isinstance(node, Queue):
            self._exclusive.pop(node, None)
            self._lent.pop(node, None)
        return facts.messages

    def _node(self, name: str) -> Node:
        node = self._vhost.nodes.get(name)
        if node is None:
            raise Refused("amqp:not-found", f"there is no queue {name!r}")
        check_owner(node, self._owner)
        return node

    # Exchanges

    def _declare_exchange(self, request: DeclareExchange, rules: RequestRules) -> None:
        if request.passive:
            self._topology.find(request.name)
            return
        self.rights.check("configure", request.name or DEFAULT_EXCHANGE)
        arguments = dict(request.arguments)
        if request.alternate is not None:
            arguments[ALTERNATE] = request.alternate
        alternate = arguments.get(ALTERNATE)
        if isinstance(alternate, str):
            self.rights.check("read", request.name)
            self.rights.check("write", alternate or DEFAULT_EXCHANGE)
        exchanges, account = self._topology.exchanges, self._vhost.account
        octets = 0
        if request.name not in exchanges:
            check_name("an exchange's name", request.name, MAX_KEY_LENGTH)
            octets = self._check_arguments(arguments)
            check_count("exchanges", len(exchanges), self._vhost.peers.exchanges)
            if account is not None:
                account.check_exchanges()
        exchange = self._topology.declare(
            request.name,
            request.type,
            durable=request.durable,
            auto_delete=request.auto_delete,
            internal=request.internal,
            arguments=arguments,
            rules=rules,
            account=account,
        )
        self._topology.weigh(exchange, octets, account)

    def _query_exchange(self, request: QueryExchange, rules: RequestRules) -> ExchangeFacts | None:
        exchange = self._topology.exchanges.get(request.name)
        if exchange is None:
            return None
        return ExchangeFacts(exchange.name, exchange.kind, exchange.durable, exchange.arguments)

    def _delete_exchange(self, request: DeleteExchange, rules: RequestRules) -> None:
        self.rights.check("configure", request.name or DEFAULT_EXCHANGE)
        self._topology.delete(request.name, if_unused=request.if_unused, rules=rules)

    # Bindings

    def _bind(self, request: Bind, rules: RequestRules) -> None:
        exchange, destination = self._ends(request)
        topology, account = self._topology, self._vhost.account
        octets = 0
        if not exchange.find(destination, request.key, None if rules.one_per_key else request.arguments):
            limits = self._vhost.peers
            octets = self._check_arguments(request.arguments)
            check_count(f"bindings to {destination.name!r}", topology.count_to(destination), limits.bindings_by_queue)
            check_count("bindings", topology.binding_count, limits.bindings)
            if account is not None:
                account.check_bindings()
        binding = topology.bind(exchange, destination, request.key, request.arguments, rules, account)
        topology.weigh(binding, octets, account)

    def _unbind(self, request: Unbind, rules: RequestRules) -> None:
        try:
            exchange, destination = self._ends(request)
        except Refused as refusal:
            if rules.absent is None and refusal.error.condition == "amqp:not-found":
                return  # without both of its ends there is no binding
            raise
        self._topology.unbind(exchange, destination, request.key, request.arguments, rules)

    def _ends(self, request: Bind | Unbind) -> tuple[Exchange, Node | Exchange]:
        self.rights.check("write", request.destination or DEFAULT_EXCHANGE)
        self.rights.check("read", request.exchange or DEFAULT_EXCHANGE)
        if request.kind == "queue":
            destination: Node | Exchange = self._node(request.destination)
        else:
            destination = self._topology.find(request.destination)
        return self._topology.find(request.exchange), destination

    def _query_binding(self, request: QueryBinding, rules: RequestRules) -> BindingFacts:
        exchange = self._topology.exchanges.get(request.exchange)
        node = self._vhost.nodes.get(request.queue) if request.queue is not None else None
        if exchange is None or (request.queue is not None and node is None):
            return BindingFacts(exchange is not None, request.queue is None or node is not None, False, False, False)
        if not exchange.name:  # the default exchange, which every node is bound to by its name, without arguments
            names = self._vhost.nodes if request.queue is None else [request.queue]
            by_name = bool(names) and (request.key is None or request.key in names)
            return BindingFacts(True, True, bool(names), by_name, by_name and not request.arguments)
        all_ = [binding for same in exchange.bindings.values() for binding in same]
        there = [each for each in all_ if node is None or each.destination is node]
        keyed = [each for each in there if request.key is None or each.key == request.key]
        fitting = [each for each in keyed if request.arguments is None or each.arguments == request.arguments]
        return BindingFacts(True, True, bool(there), bool(keyed), bool(fitting))


def _facts(node: Node) -> QueueFacts:
    if isinstance(node, Topic):
        # Each receiver of a topic has a queue of its own there.
        return QueueFacts(node.name, 0, len(node.subscriptions), True, False, False, {})
    queue = _queue(node)
    terms = queue.terms or _ON_DEMAND
    return QueueFacts(
        node.name,
        queue.depth - queue.unsettled,
        queue.users,
        terms.durable,
        node.owner is not None,
        terms.auto_delete,
        terms.arguments,
        node.owner is not None and not terms.exclusive,
    )


def _queue(node: Node) -> Queue:
    """Return a node that is a queue of the broker's own kind.

    Raises:
        Refused: it belongs to another service.
    """
    if not isinstance(node, Queue):
        reason = f"{node.name!r} is of another service: it is not declared, asked about, purged or deleted like a queue"
        raise Refused("amqp:precondition-failed", reason)
    return node


def _check_declared_again(node: Node, request: DeclareQueue, rules: RequestRules) -> None:
    """Check that a node that exists is the queue that is declared again.

    A queue that was never declared, such as one made on demand, has no terms but these: durable or not, as asked.

    Raises:
        Refused: it differs.
    """
    if isinstance(node, Topic):
        raise Refused("amqp:precondition-failed", f"{node.name!r} is a topic, not a queue")
    terms = (node.terms if isinstance(node, Queue) else None) or QueueDeclaration(request.durable)
    exclusive = request.exclusive and not request.outlives
    becomes_exclusive = exclusive and not terms.exclusive  # which no rules allow
    if becomes_exclusive or rules.differs("exclusive", terms.exclusive, exclusive):
        raise Refused("amqp:resource-locked", f"queue {node.name!r} has exclusive {terms.exclusive!r}")
    # A dialect that compares no arguments has a field of its own for this one.
    dead_letters = ("alternate-exchange", terms.arguments.get(DEAD_LETTERS), request.arguments.get(DEAD_LETTERS))
    check_same(
        f"queue {node.name!r}",
        rules,
        ("durable", terms.durable, request.durable),
        ("auto-delete", terms.auto_delete, request.auto_delete),
        ("arguments", _meant(terms.arguments), _meant(request.arguments)),
        *(() if "arguments" in rules.compared else (dead_letters,)),
    )


def _meant(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a queue that have a meaning here; the others may differ."""
    return _USUAL | {name: value for name, value in arguments.items() if name in KNOWN}


_ACTIONS: Final[dict[type[Request[Any]], Callable[[Requests, Any, RequestRules], Any]]] = {
    DeclareQueue: Requests._declare_queue,
    QueryQueue: Requests._query_queue,
    PurgeQueue: Requests._purge_queue,
    DeleteQueue: Requests._delete_queue,
    DeclareExchange: Requests._declare_exchange,
    QueryExchange: Requests._query_exchange,
    DeleteExchange: Requests._delete_exchange,
    Bind: Requests._bind,
    Unbind: Requests._unbind,
    QueryBinding: Requests._query_binding,
}

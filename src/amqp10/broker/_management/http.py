"""The management node of RabbitMQ 4, served here: HTTP in messages (https://www.rabbitmq.com/docs/amqp#management).

    PUT, GET, DELETE   /queues/NAME             declare, query, delete
    DELETE             /queues/NAME/messages    purge
    PUT, DELETE        /exchanges/NAME          declare, delete
    POST, GET          /bindings                bind; query by source, destination and key
    DELETE             /bindings/BINDING        unbind; a query gives the path of each binding
    PUT                /auth/tokens             replace the token of the login
    GET                /quarantine              list the first 100; ?after=NUMBER continues
    GET, POST, DELETE  /quarantine/NUMBER       read, release (to the address "to" of the body, if given), drop

A request's `subject` is the method and its `to` the path, with names percent-encoded; a response's `subject` is the
status. A refusal has RabbitMQ's status. Where RabbitMQ ends the session, such as for an unknown path or method, this
broker answers 404, 405 or 400, and the session goes on. The paths of the quarantine are this broker's own.
"""

from __future__ import annotations

import itertools
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import parse_qsl, quote, unquote

from ...engine import Bind, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue, PurgeQueue, QueryQueue, Unbind
from ...errors import EncodeError
from ...messaging import AmqpValue, Message
from ...types import Array, UInt, ULong, encode, skip
from .._errors import Refused
from .._queues.stream import Stream
from .._routing.exchanges import KINDS
from .._routing.topology import RESERVED

if TYPE_CHECKING:
    from ...engine import QueueFacts
    from .._peer import Peer
    from .._quarantine import QuarantinedMessage
    from .._routing.exchanges import Binding

ME: Final = "$me"
"""The reply-to that means the other link of the pair."""

_VALUE: Final = b"\x00\x53\x77"  # the first octets of an amqp-value section
_QUEUE: Final = {"durable": bool, "exclusive": bool, "auto_delete": bool, "arguments": Mapping}
_LASTING: Final = ("quorum", "stream")
_EXCHANGE: Final = {"type": str, "durable": bool, "auto_delete": bool, "internal": bool, "arguments": Mapping}
_BINDING: Final = {
    **dict.fromkeys(("source", "destination_queue", "destination_exchange", "binding_key"), str),
    "arguments": Mapping,
}
_RELEASE: Final = {"to": str}
_MAX_LISTED: Final = 100
_LOCATION: Final = re.compile(r"src=([\w.~%-]+);dst([eq])=([\w.~%-]+);key=([\w.~%-]*);args=([\w-]*)", re.ASCII)
_FAULTS: Final = {"amqp:not-found": 404, "amqp:precondition-failed": 409, "amqp:unauthorized-access": 403}


Kind = Literal["queue", "exchange"]


class Refusal(Exception):
    """A request is refused with this status."""

    def __init__(self, status: int, description: str) -> None:
        super().__init__(description)
        self.status = status


class Management:
    """The management node, as one connection sees it.

    Args:
        peer: the connection.
        host: the name of the broker, which is the leader and the only replica of each queue.
    """

    def __init__(self, peer: Peer, host: str) -> None:
        self._vhost = peer.vhost
        self._peer = peer
        self._host = host

    def answer(self, payload: bytes) -> bytes:
        """Answer a request; return the encoded response.

        Raises:
            DecodeError: the request cannot be decoded.
        """
        if payload.startswith(_VALUE):
            # RabbitMQ's client for Python marks a missing body so, against the order of §3.2; RabbitMQ takes any order.
            end = skip(payload)
            payload = payload[end:] + payload[:end]
        request = Message.decode(payload)
        request.check()
        try:
            status, body = self._carry_out(request)
        except Refusal as refusal:
            status, body = refusal.status, str(refusal)
        response = Message(
            AmqpValue(body),
            subject=str(status),
            correlation_id=request.message_id,
            application_properties={"http:response": "1.1"},
        )
        return response.encode()

    def _carry_out(self, request: Message) -> tuple[int, object]:
        if not request.to or not request.subject or request.message_id is None or request.reply_to != ME:
            raise Refusal(400, f"a request must have `to`, `subject`, `message_id`, and `reply_to` {ME}")
        path, _, query = request.to.partition("?")
        try:
            steps = [unquote(step, errors="strict") for step in path.split("/")]
            parameters = dict(parse_qsl(query, keep_blank_values=True, errors="strict"))
        except ValueError:
            raise Refusal(400, f"{request.to!r:.200} is not percent-encoded UTF-8") from None
        match steps:
            case ["", "queues", name]:
                methods = {"PUT": self._declare_queue, "GET": self._queue, "DELETE": self._delete_queue}
            case ["", "queues", name, "messages"]:
                methods = {"DELETE": self._purge_queue}
            case ["", "exchanges", name]:
                methods = {"PUT": self._declare_exchange, "DELETE": self._delete_exchange}
            case ["", "auth", "tokens"]:
                name, methods = "", {"PUT": self._renew_login}
            case ["", "quarantine"]:
                name, methods = "", {"GET": lambda name, body: self._quarantined(parameters)}
            case ["", "quarantine", name]:
                methods = {"GET": self._read_quarantined, "POST": self._release, "DELETE": self._drop_quarantined}
            case ["", "bindings"]:
                name, methods = "", {"POST": self._bind, "GET": lambda name, body: self._bindings(parameters)}
            case ["", "bindings", _]:
                name, methods = path.rpartition("/")[2], {"DELETE": self._unbind}
            case _:
                raise Refusal(404, f"there is no resource {path!r:.200}")
        if steps[1] == "quarantine":
            self._check_administrator("the quarantine")
        if request.subject not in methods:
            raise Refusal(405, f"{path!r:.200} takes {', '.join(methods)}, not {request.subject!r:.60}")
        return methods[request.subject](name, request.body)

    def _check_administrator(self, what: str) -> None:
        try:
            self._peer.rights.check_administrator(what)
        except Refused as refusal:
            raise Refusal(403, str(refusal)) from None

    def _do(self, request: Any, **other: int) -> Any:
        """Carry out a request; `other` maps conditions to statuses that differ from the usual ones."""
        try:
            return self._peer.do(request)
        except Refused as refusal:
            condition = refusal.error.condition
            status = other.get(condition.rpartition(":")[2].replace("-", "_"), _FAULTS.get(condition, 400))
            raise Refusal(status, str(refusal)) from None
        except EncodeError as error:
            raise Refusal(400, f"cannot be stored: {error}") from None

    # Tokens

    def _renew_login(self, name: str, body: object) -> tuple[int, object]:
        token = body.value if isinstance(body, AmqpValue) else None
        if not isinstance(token, bytes):
            raise Refusal(400, "a token must be binary, in an amqp-value section")
        tokens = self._peer.tokens
        if tokens is None:
            raise Refusal(404, "this broker accepts no tokens")
        try:
            why = tokens.renew(token.decode())
        except UnicodeDecodeError:
            why = "the token is not UTF-8"
        if why is not None:
            raise Refusal(403, why)
        return 204, None

    # Queues

    def _declare_queue(self, name: str, body: object) -> tuple[int, object]:
        fields = _fields("queue", body, _QUEUE)
        if not name:
            raise Refusal(400, "declare queue with empty name not allowed")
        _check_name("queue", name)
        arguments = _arguments(fields)
        durable, exclusive = fields.get("durable", True), fields.get("exclusive", False)
        there = name in self._vhost.nodes
        if not there and arguments.get("x-queue-type") in _LASTING and (exclusive or not durable):
            raise Refusal(400, f"a {arguments['x-queue-type']} queue must be durable and not exclusive")
        auto_delete = fields.get("auto_delete", False)
        facts = self._do(DeclareQueue(name, durable, exclusive, auto_delete, arguments=arguments))
        return 200 if there else 201, self._shown(facts)

    def _queue(self, name: str, body: object) -> tuple[int, object]:
        facts = self._do(QueryQueue(name))
        if facts is None:
            raise Refusal(404, f"there is no queue {name!r}")
        return 200, self._shown(facts)

    def _shown(self, facts: QueueFacts) -> dict[str, object]:
        arguments = dict(facts.arguments or {})
        return {
            "leader": self._host,
            "message_count": ULong(facts.messages),
            "consumer_count": UInt(facts.consumers),
            "name": facts.name,
            "vhost": "/",
            "durable": bool(facts.durable),
            "auto_delete": bool(facts.auto_delete),
            "exclusive": bool(facts.exclusive),
            "type": arguments.get("x-queue-type", "classic"),
            "arguments": arguments,
            "replicas": Array("string", [self._host]),
        }

    def _delete_queue(self, name: str, body: object) -> tuple[int, object]:
        _check_lines(name)
        return 200, {"message_count": ULong(self._do(DeleteQueue(name)))}

    def _purge_queue(self, name: str, body: object) -> tuple[int, object]:
        if isinstance(self._vhost.nodes.get(name), Stream):
            raise Refusal(400, f"queue {name!r} is a stream, which cannot be purged")
        return 200, {"message_count": ULong(self._do(PurgeQueue(name)))}

    # Exchanges

    def _declare_exchange(self, name: str, body: object) -> tuple[int, object]:
        fields = _fields("exchange", body, _EXCHANGE)
        kind = fields.get("type", "direct")
        if kind not in KINDS:
            raise Refusal(400, f"there are no exchanges of type {kind!r:.60}")
        _check_exchange(name)
        if name not in self._vhost.topology.exchanges:
            _check_name("exchange", name)
        self._do(
            DeclareExchange(
                name,
                kind,
                durable=fields.get("durable", True),
                auto_delete=fields.get("auto_delete", False),
                internal=fields.get("internal", False),
                arguments=_arguments(fields),
            )
        )
        return 204, None

    def _delete_exchange(self, name: str, body: object) -> tuple[int, object]:
        _check_exchange(name)
        _check_name("exchange", name)
        self._do(DeleteExchange(name))
        return 204, None

    # Bindings

    def _bind(self, name: str, body: object) -> tuple[int, object]:
        fields = _fields("binding", body, _BINDING)
        source, key = fields.get("source"), fields.get("binding_key")
        kind: Kind = "queue" if "destination_queue" in fields else "exchange"
        destination = fields.get(f"destination_{kind}")
        if source is None or key is None or destination is None or "arguments" not in fields:
            raise Refusal(
                400, "a binding must have source, destination_queue or destination_exchange, binding_key, arguments"
            )
        self._check_ends(source, kind, destination)
        # A missing end is no fault of the path, which is /bindings.
        self._do(Bind(destination, source, key, _arguments(fields), kind), not_found=400, precondition_failed=400)
        return 204, None

    def _bindings(self, parameters: Mapping[str, str]) -> tuple[int, object]:
        kind = "queue" if "dstq" in parameters else "exchange"
        source, destination, key = parameters.get("src"), parameters.get(f"dst{kind[0]}"), parameters.get("key")
        if source is None or destination is None or key is None:
            raise Refusal(400, "a query for bindings needs src, dstq or dste, and key")
        self._check_ends(source, kind, destination)
        return 200, [_told_binding(each, kind) for each in self._found(source, kind, destination, key)]

    def _unbind(self, name: str, body: object) -> tuple[int, object]:
        read = _LOCATION.fullmatch(name)
        if read is None:
            raise Refusal(400, f"{name!r:.200} does not name a binding: src=NAME;dstq=NAME;key=KEY;args=HASH")
        source, destination, key = (unquote(read[part]) for part in (1, 3, 4))
        kind: Kind = "queue" if read[2] == "q" else "exchange"
        self._check_ends(source, kind, destination)
        for each in self._found(source, kind, destination, key):
            if _hash(each.arguments) == read[5]:
                self._do(Unbind(destination, source, key, each.arguments, kind), not_found=400)
        return 204, None

    # The quarantine

    def _quarantined(self, parameters: Mapping[str, str]) -> tuple[int, object]:
        after = _number(parameters.get("after", "0"))
        later = (message for message in self._vhost.quarantine if message.number > after)
        return 200, [_shown_quarantined(message) for message in itertools.islice(later, _MAX_LISTED)]

    def _read_quarantined(self, name: str, body: object) -> tuple[int, object]:
        message = self._found_quarantined(name)
        return 200, {**_shown_quarantined(message), "payload": message.payload}

    def _release(self, name: str, body: object) -> tuple[int, object]:
        fields = _fields("release", body if body is not None else {}, _RELEASE)
        number = self._found_quarantined(name).number
        try:
            self._vhost.quarantine.release(number, fields.get("to"))
        except ValueError as error:
            raise Refusal(409, str(error)) from None
        return 204, None

    def _drop_quarantined(self, name: str, body: object) -> tuple[int, object]:
        self._vhost.quarantine.drop(self._found_quarantined(name).number)
        return 204, None

    def _found_quarantined(self, name: str) -> QuarantinedMessage:
        try:
            return self._vhost.quarantine[_number(name)]
        except KeyError:
            raise Refusal(404, f"there is no message {name} in the quarantine") from None

    def _check_ends(self, source: str, kind: str, destination: str) -> None:
        _check_exchange(source)
        if kind == "exchange":
            _check_exchange(destination)

    def _found(self, source: str, kind: str, destination: str, key: str) -> list[Binding]:
        topology = self._vhost.topology
        exchange = topology.exchanges.get(source)
        end: Any = (self._vhost.nodes if kind == "queue" else topology.exchanges).get(destination)
        return [] if exchange is None or end is None else exchange.find(end, key, None)


def _fields(what: str, body: object, known: Mapping[str, type]) -> dict[str, Any]:
    """Return the body of a request if it is a map with only the `known` fields.

    Raises:
        Refusal: it is anything else.
    """
    if not isinstance(body, Mapping):
        raise Refusal(400, f"the body of this request must be a map: the {what}")
    for name, value in body.items():
        if not isinstance(name, str) or not isinstance(value, known.get(name, ())):
            raise Refusal(400, f"bad {what} property {name!r:.60}: {value!r:.60}")
    return dict(body)


def _arguments(fields: Mapping[str, Any]) -> dict[str, Any]:
    arguments = fields.get("arguments", {})
    if not all(isinstance(name, str) for name in arguments):
        raise Refusal(400, "the names of arguments must be strings")
    return {str(name): value for name, value in arguments.items()}


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise Refusal(400, f"{text!r:.60} is not a number")
    return int(text)


def _shown_quarantined(message: QuarantinedMessage) -> dict[str, object]:
    return {
        "number": ULong(message.number),
        "node": message.node,
        "time": message.time,
        "reason": message.reason,
        "message_format": UInt(message.message_format),
        "durable": message.durable,
        "bytes": ULong(len(message.payload)),
    }


def _check_lines(name: str) -> None:
    if "\n" in name or "\r" in name:
        raise Refusal(400, f"bad name {name!r:.200}: line feed and carriage return are not allowed")


def _check_name(what: str, name: str) -> None:
    _check_lines(name)
    if name.startswith(RESERVED):
        raise Refusal(403, f"{what} {name!r:.200} starts with the reserved prefix {RESERVED!r}")


def _check_exchange(name: str) -> None:
    if not name:
        raise Refusal(403, "operation not permitted on the default exchange")


def _told_binding(binding: Binding, kind: str) -> dict[str, object]:
    source, destination = binding.exchange.name, binding.destination.name
    ends = f"src={quote(source, safe='')};dst{kind[0]}={quote(destination, safe='')}"
    return {
        "source": source,
        f"destination_{kind}": destination,
        "binding_key": binding.key,
        "arguments": dict(binding.arguments),
        "location": f"/bindings/{ends};key={quote(binding.key, safe='')};args={_hash(binding.arguments)}",
    }


def _hash(arguments: Mapping[str, Any]) -> str:
    """Return the hash that distinguishes bindings of one key; "" for no arguments, as most clients expect."""
    if not arguments:
        return ""
    return urlsafe_b64encode(sha256(encode(dict(sorted(arguments.items())))).digest()[:9]).decode()

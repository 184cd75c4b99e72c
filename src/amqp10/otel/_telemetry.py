"""Spans and metrics by OpenTelemetry's conventions for messaging, version 1.44.0 (docs/operate/opentelemetry.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter, time_ns
from types import TracebackType
from typing import Any, Final
from weakref import WeakSet

from opentelemetry import context, metrics, trace
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider

from .._version import __version__
from ..client import Connection, Health
from ..client.internals import Link as ClientLink
from ..client.internals import endpoint_of, terminus_of
from ..errors import DecodeError, LocalProtocolError
from ..messaging import Message
from ._context import inject, span_context
from ._services import NAME, attributes_of, brief, destination

SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"

SYSTEMS: Final = {
    "activemq": "activemq",
    "artemis": "activemq",
    "rabbitmq": "rabbitmq",
    "service-bus": "servicebus",
    "event-hubs": "eventhubs",
}
"""`messaging.system` by the name of a broker's profile; "amqp" for brokers without a name in the conventions."""

BOUNDARIES: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

GAUGES: Final[tuple[tuple[str, str, str, Callable[[Health], float | None]], ...]] = (
    ("amqp10.connection.credit", "{message}", "The credit of the sender that has least", lambda h: h.credit),
    ("amqp10.connection.unsettled", "{message}", "Deliveries without an outcome", lambda h: h.unsettled),
    ("amqp10.connection.oldest_unsettled", "s", "Age of the oldest of these", lambda h: h.oldest_unsettled),
    ("amqp10.connection.window", "{frame}", "Transfer frames that the peer takes", lambda h: h.window),
    ("amqp10.connection.reconnects", "{reconnect}", "How often it was restored", lambda h: h.reconnects),
    ("amqp10.connection.queued", "By", "Bytes that wait to be written", lambda h: h.queued),
    ("amqp10.connection.token.expires_in", "s", "Until the token ends", lambda h: h.token_expires_in),
)
"""Gauges beyond the conventions: name, unit, description, and how to read the value."""


class Operation:
    """A span that is current within a block.

    Args:
        ended: called with the seconds that the block took, and its `error.type` if it failed.
    """

    def __init__(self, span: Span, ended: Callable[[float, str | None], None]) -> None:
        self._span = span
        self._failure: str | None = None
        self._ended = ended
        self._began = perf_counter()
        self._token: Any = None

    @property
    def span(self) -> Span:
        """The span, which is exported when the block ends."""
        return self._span

    def __enter__(self) -> Operation:
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def fail(self, kind: str, description: str) -> None:
        """Record a failure for which the block raises nothing.

        Args:
            kind: `error.type`.
        """
        self._failure = kind
        self._span.set_attribute("error.type", kind)
        self._span.set_status(Status(StatusCode.ERROR, description))

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # In the synchronous API, a block is entered and left in separate contexts.
        if trace.get_current_span() is self._span:
            context.detach(self._token)
        if exc is not None:
            self._failure = error_type(exc)
            _fail(self._span, exc)
        self._span.end()
        self._ended(perf_counter() - self._began, self._failure)


class Telemetry:
    """Makes the spans and metrics of instrumented links.

    Args:
        tracer_provider, meter_provider: None for OpenTelemetry's global providers.
    """

    def __init__(self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None) -> None:
        self._tracer = trace.get_tracer("amqp10", __version__, tracer_provider, schema_url=SCHEMA)
        meter = metrics.get_meter("amqp10", __version__, meter_provider, schema_url=SCHEMA)
        self._duration = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of messaging operation initiated by a producer or consumer client.",
            explicit_bucket_boundaries_advisory=BOUNDARIES,
        )
        self._process_duration = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of processing operation.",
            explicit_bucket_boundaries_advisory=BOUNDARIES,
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            "{message}",
            "Number of messages producer attempted to send to the broker.",
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            "{message}",
            "Number of messages that were delivered to the application.",
        )
        self.connections: WeakSet[Connection] = WeakSet()
        for name, unit, description, read in GAUGES:
            meter.create_observable_gauge(name, [self._observer(read)], unit, description)

    def _observer(self, read: Callable[[Health], float | None]) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            for connection in list(self.connections):
                try:
                    value = read(connection.health())
                except RuntimeError:
                    continue  # it changed while the exporter's thread read it
                if value is not None:
                    yield Observation(value, {**_server(connection), "amqp10.container_id": connection.container_id})

        return observe

    # Operations

    def operation(
        self,
        link: ClientLink,
        name: str,
        kind: SpanKind,
        *,
        type_: str | None = None,
        message: Message | None = None,
        made_by: Sequence[Message] = (),
        more: Mapping[str, Any] | None = None,
    ) -> Operation:
        """Return a block whose span is current within it, and whose duration is measured.

        Args:
            name: the name of the operation.
            type_: the operation type of the conventions; None if they have none.
            message: the message of the operation.
            made_by: messages to whose creation the span is linked.
            more: further attributes.
        """
        attributes = self._attributes(link, name, type_, message) | dict(more or {})
        span = self._tracer.start_span(
            _span_name(link, name, attributes), kind=kind, attributes=attributes, links=links_to(made_by)
        )
        return Operation(span, lambda seconds, failure: self._measure(link, attributes, seconds, failure))

    def create(self, link: ClientLink, message: Message) -> Message:
        """Return a message of a batch with the context of a new creation span, unless it has a context."""
        if span_context(message) is not None:
            return message
        attributes = self._attributes(link, "create", "create", message)
        span = self._tracer.start_span(
            _span_name(link, "create", attributes), kind=SpanKind.PRODUCER, attributes=attributes
        )
        span.end()
        return inject(message, trace.set_span_in_context(trace.NonRecordingSpan(span.get_span_context())))

    def sent(self, link: ClientLink, name: str, count: int, error: BaseException | None = None) -> None:
        """Count messages that were sent, or failed to be sent."""
        failure = None if error is None else error_type(error)
        self._sent.add(count, _for_metrics(link, self._attributes(link, name, "send", None), failure))

    def received(self, link: ClientLink, deliveries: Sequence[Any], began_ns: int, *, batch: bool) -> None:
        """Make the span of a finished receive, whose messages are known only now."""
        messages = [message for each in deliveries if (message := readable(each)) is not None]
        attributes = self._attributes(link, "receive", "receive", None if batch or not messages else messages[0])
        if batch:
            attributes["messaging.batch.message_count"] = len(deliveries)
        span = self._tracer.start_span(
            _span_name(link, "receive", attributes),
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=links_to(messages),
            start_time=began_ns,
        )
        span.end()
        self._measure(link, attributes, (time_ns() - began_ns) / 1e9, None)
        self._consumed.add(len(deliveries), _for_metrics(link, attributes, None))

    def receive_failed(self, link: ClientLink, error: Exception, began_ns: int) -> None:
        """Make the span of a failed receive."""
        attributes = self._attributes(link, "receive", "receive", None)
        span = self._tracer.start_span(
            _span_name(link, "receive", attributes), kind=SpanKind.CLIENT, attributes=attributes, start_time=began_ns
        )
        _fail(span, error)
        span.end()
        self._measure(link, attributes, (time_ns() - began_ns) / 1e9, error_type(error))

    def _measure(self, link: ClientLink, attributes: Mapping[str, Any], seconds: float, failure: str | None) -> None:
        process = attributes.get("messaging.operation.type") == "process"
        (self._process_duration if process else self._duration).record(seconds, _for_metrics(link, attributes, failure))

    def received_there(self, link: ClientLink, name: str, count: int) -> None:
        """Count messages in the answer to a request."""
        self._consumed.add(count, _for_metrics(link, self._attributes(link, name, "receive", None), None))

    def _attributes(self, link: ClientLink, name: str, type_: str | None, message: Message | None) -> dict[str, Any]:
        connection: Connection = link.connection
        system = system_of(connection)
        attributes: dict[str, Any] = {
            "messaging.system": system,
            "messaging.operation.name": name,
            **_server(connection),
        }
        if type_ is not None:
            attributes["messaging.operation.type"] = type_
        address, temporary = address_of(link)
        if address is None and message is not None:
            address = message.to
        if address is not None:
            attributes |= destination(system, address)
        if message is not None and type_ in ("receive", "process"):
            attributes |= attributes_of(system, message)
        if temporary:
            attributes["messaging.destination.temporary"] = True
        if message is not None:
            if message.message_id is not None:
                attributes["messaging.message.id"] = brief(message.message_id)
            if message.correlation_id is not None:
                attributes["messaging.message.conversation_id"] = brief(message.correlation_id)
        return attributes


def readable(delivery: Any) -> Message | None:
    """Return the message of a delivery; None if it is malformed."""
    try:
        message: Message = delivery.message
    except DecodeError:
        return None
    return message if is_readable(message) else None


def readable_payload(payload: bytes) -> Message | None:
    """Return the message in a payload; None if it is malformed."""
    try:
        message = Message.decode(payload)
    except DecodeError:
        return None
    return message if is_readable(message) else None


def is_readable(message: Message) -> bool:
    """Return whether the sections that telemetry reads are well-formed, since they are decoded only on access."""
    try:
        _ = message.message_annotations, message.application_properties, message.message_id, message.to
    except DecodeError:
        return False
    return True


def error_type(error: BaseException) -> str:
    """Return the AMQP condition of an error, or else its class."""
    condition = getattr(error, "condition", None)
    return brief(condition) if condition is not None else type(error).__qualname__


def _fail(span: Span, error: BaseException) -> None:
    span.set_attribute("error.type", error_type(error))
    if isinstance(error, Exception):  # a cancellation is not a failure
        span.set_status(Status(StatusCode.ERROR, brief(str(error))))


def links_to(messages: Sequence[Message]) -> list[Link]:
    """Return links to the spans that created messages."""
    found = [span_context(message) for message in messages]
    return [Link(each) for each in found if each is not None]


def _has_name(link: ClientLink) -> bool:
    """Return whether the link has one lasting address. Addresses of single messages would be too many values."""
    address, temporary = address_of(link)
    return address is not None and not temporary


def _span_name(link: ClientLink, operation: str, attributes: Mapping[str, Any]) -> str:
    if _has_name(link):
        return f"{operation} {attributes[NAME]}"
    return f"{operation} {attributes.get('server.address', '')}:{attributes.get('server.port', '')}"


def _for_metrics(link: ClientLink, attributes: Mapping[str, Any], failure: str | None) -> dict[str, Any]:
    """Return the attributes with few values, without temporary nodes and values from messages."""
    kept = {name: value for name, value in attributes.items() if name in _OF_METRICS}
    if not _has_name(link):
        kept.pop(NAME, None)
    if failure is not None:
        kept["error.type"] = failure
    return kept


_OF_METRICS: Final = frozenset(
    {
        "messaging.system",
        "messaging.operation.name",
        "messaging.operation.type",
        NAME,
        "messaging.destination.subscription.name",
        "messaging.destination.partition.id",
        "messaging.consumer.group.name",
        "server.address",
        "server.port",
    }
)


def system_of(connection: Connection) -> str:
    """Return `messaging.system`."""
    try:
        return SYSTEMS.get(connection.profile.name, "amqp")
    except LocalProtocolError:  # never opened
        return "amqp"


def _server(connection: Connection) -> dict[str, Any]:
    endpoint = endpoint_of(connection)
    if endpoint is None:
        return {}
    return {
        "server.address": endpoint.host or endpoint.path,
        **({"server.port": endpoint.port} if endpoint.port else {}),
    }


def address_of(link: ClientLink) -> tuple[str | None, bool]:
    """Return the address of a link, and whether its name is temporary."""
    terminus = terminus_of(link)
    if terminus is None:
        return None, False
    return (link.address if terminus.dynamic and link.open else terminus.address), bool(terminus.dynamic)

"""Instrumented senders, receivers and deliveries: subclasses of the client's."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import time_ns
from types import TracebackType
from typing import Any

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, TracerProvider

from .._arguments import checked
from ..client import Connection, Receiver, Requester, Sender
from ..client.internals import ReceiverCore, ReceiverDelivery, check_messages, set_link_wrapper
from ..messaging import OUTCOMES, Data, Message, TransactionalState
from ._context import inject
from ._services import is_management, operation_of, refusal, settling, table
from ._telemetry import Operation, Telemetry, address_of, is_readable, links_to, readable, readable_payload, system_of

_BATCH = "messaging.batch.message_count"


@checked
def instrument(
    connection: Connection | None = None,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    each_delivery: bool = True,
) -> None:
    """Let links created from now on make spans and metrics.

    Args:
        connection: instrument only its links; None for all connections of the process, including those of
            `amqp10.sync`.
        tracer_provider, meter_provider: where spans and metrics go; None for OpenTelemetry's global providers.
        each_delivery: also make a span for each outcome, and for each block of `with delivery`. Set it to False for
            large batches, which keep the spans of receiving, with links to the messages.
    """
    telemetry = Telemetry(tracer_provider, meter_provider)
    types: dict[type, type] = {}
    members = {"telemetry": telemetry, "each_delivery": each_delivery}

    def wrap(on: Any, cls: type) -> type:
        telemetry.connections.add(on)
        if cls not in types:
            base = next(base for of, base in _TRACING.items() if issubclass(cls, of))
            types[cls] = type(cls.__name__, (base, cls), {**members, "__doc__": cls.__doc__})
        return types[cls]

    if connection is not None:
        telemetry.connections.add(connection)
    set_link_wrapper(connection, wrap)


@checked
def uninstrument(connection: Connection | None = None) -> None:
    """Stop instrumenting new links; existing links stay instrumented."""
    set_link_wrapper(connection, None)


class TracingSender(Sender):
    """A sender that makes spans."""

    telemetry: Telemetry

    def traced(self, message: Message) -> Message:
        return self.telemetry.create(self, message)

    async def send(self, message: object, *, settled: bool = False, transaction: Any = None) -> None:
        message = message if isinstance(message, Message) else Message(message)
        with self._sending(message):
            await super().send(inject(message), settled=settled, transaction=transaction)

    async def submit(self, message: object, *, settled: bool = False, transaction: Any = None) -> Any:
        if is_management(address_of(self)[0]):
            return await super().submit(message, settled=settled, transaction=transaction)
        message = message if isinstance(message, Message) else Message(message)
        with self._sending(message):
            return await super().submit(inject(message), settled=settled, transaction=transaction)

    async def send_encoded(self, payload: bytes, *, message_format: int = 0, **settings: Any) -> None:
        message = readable_payload(payload)
        # Each data section of an Azure batch is a message with its own context.
        batch = message_format != 0 and message is not None and isinstance(message.body, Data)
        count = len(message.body) if batch and message is not None else 1
        made_by = () if message is None or batch else (message,)
        more = {_BATCH: count} if batch else {}
        only = None if batch else message
        with self.telemetry.operation(
            self, "send", SpanKind.CLIENT, type_="send", message=only, made_by=made_by, more=more
        ):
            try:
                await super().send_encoded(payload, message_format=message_format, **settings)
            except BaseException as error:
                self.telemetry.sent(self, "send", count, error)
                raise
        self.telemetry.sent(self, "send", count)

    def forward(self, payload: bytes, message_format: int, **settings: Any) -> Any:
        """Forward a message for a bridge; it keeps the context of its creation."""
        message = readable_payload(payload)
        made_by = () if message is None else (message,)
        with self.telemetry.operation(self, "send", SpanKind.CLIENT, type_="send", message=message, made_by=made_by):
            try:
                delivery = super().forward(payload, message_format, **settings)  # type: ignore[misc]
            except Exception as error:
                self.telemetry.sent(self, "send", 1, error)
                raise
        self.telemetry.sent(self, "send", 1)
        return delivery

    @contextmanager
    def _sending(self, message: Message) -> Iterator[None]:
        made_by = (message,)
        with self.telemetry.operation(self, "send", SpanKind.PRODUCER, type_="send", message=message, made_by=made_by):
            try:
                yield
            except BaseException as error:
                self.telemetry.sent(self, "send", 1, error)
                raise
        self.telemetry.sent(self, "send", 1)

    async def send_many(self, messages: Any, **settings: Any) -> int:
        check_messages(messages)
        taken = 0

        def carrying(message: object) -> Message:
            nonlocal taken
            taken += 1
            return self.traced(message if isinstance(message, Message) else Message(message))

        async def each_later(source: AsyncIterable[object]) -> AsyncIterator[Message]:
            async for message in source:
                yield carrying(message)

        def each(source: Iterable[object]) -> Iterator[Message]:
            return map(carrying, source)

        # This span's context is not sent: each message has the context of its own creation.
        with self.telemetry.operation(self, "send", SpanKind.CLIENT, type_="send") as operation:
            error: BaseException | None = None
            try:
                carried = each_later(messages) if isinstance(messages, AsyncIterable) else each(messages)
                count: int = await super().send_many(carried, **settings)
                return count
            except BaseException as caught:
                error = caught
                raise
            finally:
                operation.span.set_attribute(_BATCH, taken)
                self.telemetry.sent(self, "send", taken, error)


class TracingReceiver(Receiver):
    """A receiver that makes spans."""

    telemetry: Telemetry
    each_delivery: bool

    def __init__(self, core: ReceiverCore) -> None:
        super().__init__(core)
        if self.each_delivery:
            core.derive = tracing_delivery
        core.processing = self._processing

    def _processing(self, messages: Sequence[Message]) -> Operation:
        messages = list(filter(is_readable, messages))
        only = messages[0] if len(messages) == 1 else None
        return self.telemetry.operation(
            self, "process", SpanKind.CONSUMER, type_="process", message=only, made_by=messages
        )

    async def receive(self) -> Any:
        began = time_ns()
        try:
            delivery = await super().receive()
        except Exception as error:
            self.telemetry.receive_failed(self, error, began)
            raise
        self.telemetry.received(self, (delivery,), began, batch=False)
        return delivery

    __anext__ = receive

    async def receive_batch(self, size: int, *, max_wait: float | None = None) -> list[Any]:
        began = time_ns()
        try:
            deliveries: list[Any] = await super().receive_batch(size, max_wait=max_wait)
        except Exception as error:
            self.telemetry.receive_failed(self, error, began)
            raise
        self.telemetry.received(self, deliveries, began, batch=True)
        return deliveries


class TracingRequester(Requester):
    """A requester that makes spans for requests to a management node, which are operations of the service.

    Other requests are messages, with the spans of their sender.
    """

    telemetry: Telemetry

    async def request(self, message: object, *, transaction: Any = None) -> Message:
        if not (isinstance(message, Message) and is_management(address_of(self.sender)[0])):
            return await super().request(message, transaction=transaction)
        found = operation_of(system_of(self.sender.connection), message)
        if found is None:
            return await super().request(message, transaction=transaction)
        name, type_, more = found
        count = len(table(message).get("messages", ())) if type_ == "send" else None
        if count is not None:
            more = {**more, _BATCH: count}
        with self.telemetry.operation(self.sender, name, SpanKind.CLIENT, type_=type_, more=more) as operation:
            if count is not None:
                self.telemetry.sent(self.sender, name, count)
            answer = await super().request(message, transaction=transaction)
            if (why := refusal(answer)) is not None:
                operation.fail(*why)
            elif type_ == "receive":
                self._take(answer, name, operation.span)
            return answer

    def _take(self, answer: Message, name: str, span: Span) -> None:
        """Count the messages of an answer, and link to the spans that created them."""
        payloads = [each.get("message") for each in table(answer).get("messages") or () if isinstance(each, dict)]
        messages = [readable_payload(each) for each in payloads if isinstance(each, bytes)]
        for link in links_to([each for each in messages if each is not None]):
            span.add_link(link.context)
        span.set_attribute(_BATCH, len(messages))
        self.telemetry.received_there(self.sender, name, len(messages))


class TracingDelivery(ReceiverDelivery):
    """A delivery that makes spans."""

    __slots__ = ()

    def _settle(self, state: Any) -> None:
        outcome = state.outcome if isinstance(state, TransactionalState) else state
        receiver: Any = self.link.owner.face  # type: ignore[attr-defined]
        system = system_of(receiver.connection)
        # Event Hubs ignores outcomes.
        if type(outcome) not in OUTCOMES or self.local_settled or system == "eventhubs":
            super()._settle(state)
            return
        name, more = settling(system, outcome)
        message = readable(self)
        made_by = () if message is None else (message,)
        telemetry: Telemetry = receiver.telemetry
        with telemetry.operation(
            receiver, name, SpanKind.CLIENT, type_="settle", message=message, made_by=made_by, more=more
        ):
            super()._settle(state)

    def __enter__(self) -> Message:
        message: Message = super().__enter__()
        receiver: Any = self.link.owner.face  # type: ignore[attr-defined]
        operation = receiver.telemetry.operation
        self.processing = operation(  # type: ignore[misc]
            receiver, "process", SpanKind.CONSUMER, type_="process", message=message, made_by=(message,)
        )
        self.processing.__enter__()
        return message

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            super().__exit__(exc_type, exc, traceback)
        finally:
            self.processing.__exit__(exc_type, exc, traceback)


_TRACING: dict[type, type] = {Sender: TracingSender, Requester: TracingRequester, Receiver: TracingReceiver}
_deliveries: dict[type, type] = {}


def tracing_delivery(cls: type) -> type:
    """Return the subclass of `cls` that makes spans."""
    if cls not in _deliveries:
        _deliveries[cls] = type(cls.__name__, (TracingDelivery, cls), {"__slots__": ("processing",)})
    return _deliveries[cls]

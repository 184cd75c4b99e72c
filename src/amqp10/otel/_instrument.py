"""Senders, receivers and deliveries that tell of what they do: subclasses of those of the client."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import time_ns
from types import TracebackType
from typing import Any

from opentelemetry import trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanKind, TracerProvider

from ..client import Connection, Delivery, Receiver, Sender
from ..client.internals import check_messages, not_accepted, set_link_wrapper
from ..messaging import Accepted, Message, Modified, Rejected, Released, TransactionalState
from ._context import inject, span_context
from ._telemetry import Operation, Telemetry, readable, readable_payload

_SETTLING = {Accepted: "accept", Rejected: "reject", Released: "release", Modified: "modify"}


def instrument(
    connection: Connection | None = None,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    each_delivery: bool = True,
) -> None:
    """Let the links that are made from now on make spans and metrics.

    Args:
        connection: those of this one; None: those of all connections of the process, of `amqp10.sync` too.
        tracer_provider, meter_provider: where to; None: OpenTelemetry's global ones.
        each_delivery: also make a span of each outcome, and of each block of `with delivery`. False is for what
            receives large batches: there are the spans of receiving, with links to the messages.
    """
    telemetry = Telemetry(tracer_provider, meter_provider)
    types: dict[type, type] = {}
    members = {"telemetry": telemetry, "each_delivery": each_delivery}

    def wrap(on: Any, cls: type) -> type:
        telemetry.connections.add(on)
        if cls not in types:
            base = TracingSender if issubclass(cls, Sender) else TracingReceiver
            types[cls] = type(cls.__name__, (base, cls), {**members, "__doc__": cls.__doc__})
        return types[cls]

    if connection is not None:
        telemetry.connections.add(connection)
    set_link_wrapper(connection, wrap)


def uninstrument(connection: Connection | None = None) -> None:
    """Let the links that are made from now on be as they were; those that exist go on as they are."""
    set_link_wrapper(connection, None)


class TracingSender(Sender):
    """What a sender does beside sending."""

    telemetry: Telemetry

    async def send(self, message: object, *, settled: bool = False, transaction: Any = None) -> None:
        message = message if isinstance(message, Message) else Message(message)
        with self._sending(message):
            # As `Sender.send`, but what it submits is no operation of its own.
            delivery = await super().submit(inject(message), settled=settled, transaction=transaction)
            outcome = await delivery.outcome()
            if type(outcome) is not Accepted:
                raise not_accepted(outcome, self.connection.profile)

    async def submit(self, message: object, *, settled: bool = False, transaction: Any = None) -> Any:
        message = message if isinstance(message, Message) else Message(message)
        with self._sending(message):
            return await super().submit(inject(message), settled=settled, transaction=transaction)

    def forward(self, payload: bytes, message_format: int, **settings: Any) -> Any:
        """Hand on a message that came elsewhere, for a bridge: its context is that of its making, and stays."""
        message = readable_payload(payload)
        made_by = () if message is None else (message,)
        with self.telemetry.operation(self, "send", SpanKind.CLIENT, message=message, made_by=made_by):
            try:
                delivery = super().forward(payload, message_format, **settings)  # type: ignore[misc]
            except Exception as error:
                self.telemetry.sent(self, "send", 1, error)
                raise
        self.telemetry.sent(self, "send", 1)
        return delivery

    @contextmanager
    def _sending(self, message: Message) -> Iterator[None]:
        with self.telemetry.operation(self, "send", SpanKind.PRODUCER, message=message, made_by=(message,)):
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
            made = message if isinstance(message, Message) else Message(message)
            if span_context(made) is not None:
                return made
            context = trace.set_span_in_context(trace.NonRecordingSpan(self.telemetry.create(self, made)))
            return inject(made, context)

        async def each_later(source: AsyncIterable[object]) -> AsyncIterator[Message]:
            async for message in source:
                yield carrying(message)

        def each(source: Iterable[object]) -> Iterator[Message]:
            return map(carrying, source)

        # Its context does not travel: each message has that of its own making.
        with self.telemetry.operation(self, "send", SpanKind.CLIENT) as span:
            error: BaseException | None = None
            try:
                carried = each_later(messages) if isinstance(messages, AsyncIterable) else each(messages)
                count: int = await super().send_many(carried, **settings)
                return count
            except BaseException as caught:
                error = caught
                raise
            finally:
                span.set_attribute("messaging.batch.message_count", taken)
                self.telemetry.sent(self, "send", taken, error)


class TracingReceiver(Receiver):
    """What a receiver does beside receiving."""

    telemetry: Telemetry
    each_delivery: bool

    def __init__(self, core: Any) -> None:
        super().__init__(core)
        if self.each_delivery:
            core.derive = tracing_delivery
        core.processing = self._processing

    def _processing(self, deliveries: Sequence[Delivery]) -> Operation:
        messages = [message for each in deliveries if (message := readable(each)) is not None]
        only = messages[0] if len(messages) == len(deliveries) == 1 else None
        return self.telemetry.operation(self, "process", SpanKind.CONSUMER, message=only, made_by=messages)

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


class TracingDelivery(Delivery):
    """What a delivery does beside being one."""

    __slots__ = ()

    def _settle(self, state: Any) -> None:
        outcome = state.outcome if isinstance(state, TransactionalState) else state
        name = _SETTLING.get(type(outcome))
        receiver: Any = self.link.owner.face  # type: ignore[attr-defined]
        if name is None or self.local_settled:
            super()._settle(state)
            return
        message = readable(self)
        made_by = () if message is None else (message,)
        telemetry: Telemetry = receiver.telemetry
        with telemetry.operation(receiver, name, SpanKind.CLIENT, type_="settle", message=message, made_by=made_by):
            super()._settle(state)

    def __enter__(self) -> Message:
        message: Message = super().__enter__()
        receiver: Any = self.link.owner.face  # type: ignore[attr-defined]
        operation = receiver.telemetry.operation
        self.processing = operation(  # type: ignore[misc]
            receiver, "process", SpanKind.CONSUMER, message=message, made_by=(message,)
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


_deliveries: dict[type, type] = {}


def tracing_delivery(cls: type) -> type:
    """Return the class of deliveries that tell of what is done with them."""
    if cls not in _deliveries:
        _deliveries[cls] = type(cls.__name__, (TracingDelivery, cls), {"__slots__": ("processing",)})
    return _deliveries[cls]

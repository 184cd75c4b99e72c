"""A link's messages as frames: basic.publish, and its content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....errors import EncodeError, LocalProtocolError
from ...channel import BASIC
from ...message.places import DIRECT_REPLY
from ...wire.framing import END, METHOD
from ...wire.methods import BasicPublish

if TYPE_CHECKING:
    from ...engine import V09Engine
    from ...message.to_basic import PublishTemplate, ToBasic

MAX_METHODS = 2048
"""Frames of basic.publish that are remembered."""


class PublishWriter:
    """Writes the messages of one link.

    Args:
        mapping: converts its messages.
        channel: the number of its channel.
    """

    __slots__ = ("_channel", "_engine", "_mapping", "_methods")

    def __init__(self, engine: V09Engine, mapping: ToBasic, channel: int) -> None:
        self._engine = engine
        self._mapping = mapping
        self._channel = channel
        self._methods: dict[tuple[str, str, bool], bytes] = {}  # (exchange, key, settled) -> frame of basic.publish

    def write(self, payload: bytes, settled: bool) -> None:
        """Write a message.

        Raises:
            LocalProtocolError: the dialect cannot express it.
        """
        try:
            route, body = self._mapping.map(payload)
        except EncodeError as error:
            raise LocalProtocolError(str(error)) from error
        engine, size = self._engine, len(body)
        if route.opening_fits == (settled, size):  # like the last one of its route. benchmarks/amqp091.py
            opening = route.opening
            engine.output += (opening, body, END)
            engine.output_size += len(opening) + size + 1
            return
        method = self._methods.get((route.exchange, route.key, settled))
        if method is None:
            method = self._method_frame(route, settled)
        framing = engine.variant.framing
        content = framing.message(self._channel, BASIC, route.properties, body, engine.max_payload, route.children)
        engine.output += (method, content)
        engine.output_size += len(method) + len(content)
        if 0 < size <= engine.max_payload and not route.children:
            route.opening_fits, route.opening = (settled, size), method + content[: -size - 1]

    def check(self, payload: bytes) -> None:
        """Check that the dialect can express a message.

        Raises:
            LocalProtocolError: it cannot.
        """
        route, _ = self.map(payload)
        self._method(route, True)

    def frames(self, payload: bytes, channel: int) -> bytes:
        """Return the frames of a message that is part of a transaction, for the channel that commits it.

        Raises:
            LocalProtocolError: the dialect cannot express it.
        """
        route, body = self.map(payload)
        framing = self._engine.variant.framing
        content = framing.message(channel, BASIC, route.properties, body, self._engine.max_payload, route.children)
        return framing.frame(METHOD, channel, self._method(route, True)) + content

    def map(self, payload: bytes) -> tuple[PublishTemplate, bytes]:
        """Return the route of a message, and its body.

        Raises:
            LocalProtocolError: the dialect cannot express it.
        """
        try:
            return self._mapping.map(payload)
        except EncodeError as error:
            raise LocalProtocolError(str(error)) from error

    def _method_frame(self, route: PublishTemplate, settled: bool) -> bytes:
        """Return the frame of basic.publish, with which all messages of `route` begin."""
        if len(self._methods) >= MAX_METHODS:
            self._methods.clear()
        frame = self._engine.variant.framing.frame(METHOD, self._channel, self._method(route, not settled))
        self._methods[route.exchange, route.key, settled] = frame
        return frame

    def _method(self, route: PublishTemplate, mandatory: bool) -> bytes:
        """Return the payload of the method basic.publish for a message.

        Replies to a pseudo-queue are never mandatory: RabbitMQ would return them although they arrive.
        """
        mandatory = mandatory and (bool(route.exchange) or not route.key.startswith(f"{DIRECT_REPLY}."))
        publish = BasicPublish(exchange=route.exchange, routing_key=route.key, mandatory=mandatory)
        try:
            return self._engine.variant.methods.encode(publish)
        except EncodeError as error:
            raise LocalProtocolError(str(error)) from error

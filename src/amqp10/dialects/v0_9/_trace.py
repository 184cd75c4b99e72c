"""Frames as lines for people: the method with its fields, content by its properties and size. Secrets stay out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ...engine import Tracer, takes_tokens
from ...errors import AmqpError
from ._frames import BODY, HEADER, HEARTBEAT, METHOD, FrameReader
from ._method import Method
from ._properties import SETS

if TYPE_CHECKING:
    from ._variant import Variant

_SECRET: Final = {
    "connection.start-ok": {"response"},
    "connection.secure": {"challenge"},
    "connection.secure-ok": {"response"},
    "connection.update-secret": {"new_secret"},
    "message.transfer": {"security_token", "body"},
    "message.append": {"bytes"},
}
SHOWN_BODY: Final = 256


def describe(method: Method) -> str:
    """The method with the fields that say something."""
    secret = _SECRET.get(method.name, set())
    shown = []
    for field in method.fields:
        value = getattr(method, field.name)
        if field.name in secret:
            shown.append(f"{field.name}=<secret>")
        elif value != field.default and value not in (None, {}):
            shown.append(f"{field.name}={value!r}")
    return f"{method.name}({', '.join(shown)})"


class FrameTracer(Tracer):
    """Both directions of one connection.

    Args:
        bodies: show the beginning of what body frames carry, too; never that of messages to and from `$cbs`.
    """

    def __init__(self, variant: Variant, bodies: bool = False) -> None:
        self._sent = Direction(variant, bodies)
        self._received = Direction(variant, bodies)

    def sent(self, data: bytes) -> list[str]:
        return [f"> {line}" for line in self._sent.lines(data)]

    def received(self, data: bytes) -> list[str]:
        return [f"< {line}" for line in self._received.lines(data)]


class Direction:
    """One way, cut into header and frames."""

    def __init__(self, variant: Variant, bodies: bool) -> None:
        self._variant = variant
        self._bodies = bodies
        self._reader = FrameReader(variant.framing, 0xFFFF_FFFF)
        self._begun = False
        self._lost = False
        self._secret: set[int] = set()  # channels whose content carries a token

    def lines(self, data: bytes) -> Iterator[str]:
        """A line for each header and frame that these bytes complete."""
        if self._lost:
            yield f"{len(data)} bytes"
            return
        reader = self._reader
        if not data:
            return
        reader.feed(data)
        try:
            if not self._begun and reader.starts_with(b"AMQP"):
                header = reader.take(8)
                if header is None:
                    return
                yield f"header {self._variant.name if header == self._variant.header else repr(header)}"
            self._begun = True
            for kind, channel, payload in reader.frames():
                yield f"[{channel}] {self._line(kind, channel, payload)}"
        except AmqpError as error:
            self._lost = True
            yield f"no frames from here on: {error}"

    def _line(self, kind: int, channel: int, payload: bytes) -> str:
        try:
            return self._frame(kind, channel, payload)
        except AmqpError as error:  # the next frame begins where it should all the same
            if kind == METHOD:
                self._secret.add(channel)  # it is not known where its content goes
            return f"not to be read: {error}"

    def _frame(self, kind: int, channel: int, payload: bytes) -> str:
        secret = channel in self._secret
        if kind == METHOD:
            method = self._variant.methods.decode(payload)
            names = (getattr(method, name, None) for name in ("routing_key", "exchange", "queue"))
            (self._secret.add if any(map(takes_tokens, names)) else self._secret.discard)(channel)
            return describe(method) if method is not None else f"unknown method {payload[:4].hex()}"
        if kind == HEADER and len(payload) >= 14:
            known = SETS.get(int.from_bytes(payload[:2], "big"))
            size = int.from_bytes(payload[4:12], "big")
            said = repr(known.decode(payload, self._variant.tables, 12)) if known is not None else "unknown properties"
            return f"content header of {size} bytes: {'<secret>' if secret else said}"
        if kind == BODY:
            rest = "..." if len(payload) > SHOWN_BODY else ""
            shown = " <secret>" if secret else f" {payload[:SHOWN_BODY]!r}{rest}"
            return f"body of {len(payload)} bytes" + (shown if self._bodies else "")
        return "heartbeat" if kind == HEARTBEAT else f"frame of type {kind}, {len(payload)} bytes"

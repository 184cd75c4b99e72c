"""Frames as lines for people: the method with its fields, content by its properties and size. Secrets stay out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ....engine import takes_tokens
from ....errors import AmqpError
from ..._kit.tracer import BothDirections, Direction, show_body, show_call
from .frames import FrameReader
from .framing import BODY, HEADER, HEARTBEAT, METHOD
from .method_table import Method
from .properties import SETS

if TYPE_CHECKING:
    from .variant import Variant

_SECRET: Final = {
    "connection.start-ok": {"response"},
    "connection.secure": {"challenge"},
    "connection.secure-ok": {"response"},
    "connection.update-secret": {"new_secret"},
    "message.transfer": {"security_token", "body"},
    "message.append": {"bytes"},
}


def describe(method: Method) -> str:
    """Return the method with the fields that have a value, and with its secret ones unread."""
    secret = _SECRET.get(method.name, ())
    values = ((field.name, getattr(method, field.name), field.default) for field in method.fields)
    fields = [
        (name, value)
        for name, value, default in values
        if name in secret or (value != default and value not in (None, {}))
    ]
    return show_call(method.name, fields, secret)


class FrameTracer(BothDirections):
    """Traces both directions of one connection.

    Args:
        bodies: show the beginning of what body frames carry, too; never that of messages to and from `$cbs`.
    """

    def __init__(self, variant: Variant, bodies: bool = False) -> None:
        super().__init__(FrameDirection(variant, bodies), FrameDirection(variant, bodies))


class FrameDirection(Direction):
    """One way, cut into header and frames."""

    def __init__(self, variant: Variant, bodies: bool) -> None:
        self._variant = variant
        self._bodies = bodies
        self._reader = FrameReader(variant.framing, 0xFFFF_FFFF)
        self._begun = False
        self._secret: set[int] = set()  # channels whose content carries a token

    def read(self, data: bytes) -> Iterator[str]:
        reader = self._reader
        if not data:
            return
        reader.feed(data)
        if not self._begun and reader.starts_with(b"AMQP"):
            header = reader.take(8)
            if header is None:
                return
            yield f"header {self._variant.name if header == self._variant.header else repr(header)}"
        self._begun = True
        for kind, channel, payload in reader.frames():
            yield f"[{channel}] {self._line(kind, channel, payload)}"

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
            shown = repr(known.decode(payload, self._variant.tables, 12)) if known is not None else "unknown properties"
            return f"content header of {size} bytes: {'<secret>' if secret else shown}"
        if kind == BODY:
            return f"body of {len(payload)} bytes" + (show_body(payload, secret=secret) if self._bodies else "")
        return "heartbeat" if kind == HEARTBEAT else f"frame of type {kind}, {len(payload)} bytes"

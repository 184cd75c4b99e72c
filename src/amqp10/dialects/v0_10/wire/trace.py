"""The traffic as lines to read: one for each header, control or command. Secrets never get into a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ....engine import takes_tokens
from ....errors import AmqpError
from ..._kit.tracer import BothDirections, Direction, show_body, show_call
from .commands import DeliveryProperties
from .controls import ConnectionSecure, ConnectionSecureOk, ConnectionStartOk
from .frames import CONTROL, PROTOCOL_HEADER, Assembly, FrameReader
from .struct import Packed, decode_command, decode_control, decode_header

_SECRET: Final = {ConnectionStartOk: {"response"}, ConnectionSecure: {"challenge"}, ConnectionSecureOk: {"response"}}


def describe(packed: Packed) -> str:
    """Return a control or command by the specification's name, with its fields that have a value, secrets left out."""
    values = ((each.name, getattr(packed, each.name)) for each in packed.fields)
    fields = [(name, value) for name, value in values if value is not None and value is not False]
    return show_call(packed.spec_name, fields, _SECRET.get(type(packed), ()))


class FrameTracer(BothDirections):
    """Both directions of one connection.

    Args:
        bodies: show the beginning of messages' bodies, too; never that of messages to `$cbs`.
    """

    def __init__(self, bodies: bool = False) -> None:
        super().__init__(FrameDirection(bodies), FrameDirection(bodies))


class FrameDirection(Direction):
    """One direction, cut into headers and assemblies."""

    def __init__(self, bodies: bool) -> None:
        self._bodies = bodies
        self._reader = FrameReader()
        self._begun = False

    def read(self, data: bytes) -> Iterator[str]:
        self._reader.feed(data)
        if not self._begun:
            header = self._reader.protocol_header()
            if header is None:
                return
            self._begun = True
            yield f"header {'AMQP 0-10' if header == PROTOCOL_HEADER else repr(header)}"
        while (assembly := self._reader.next()) is not None:
            yield self._line(assembly)

    def _line(self, assembly: Assembly) -> str:
        secret = False
        try:
            packed: Packed
            if assembly.kind == CONTROL:
                packed = decode_control(assembly.front)
                line = describe(packed)
            else:
                packed = command = decode_command(assembly.front)
                line = describe(command) + (" sync" if command.sync else "")
            if assembly.header is not None:
                structs = decode_header(assembly.header)
                secret = any(
                    takes_tokens(getattr(each, name, None))
                    for each in (packed, *structs)
                    for name in ("destination", "exchange", "routing_key")
                )
                for each in structs:
                    shown = each if isinstance(each, DeliveryProperties) or not secret else "<secret>"
                    line += f" {describe(shown) if isinstance(shown, Packed) else shown}"
        except AmqpError as error:
            line, secret = f"not to be read: {error}", True  # its destination is unknown, so its body may hold a secret
        body = assembly.payload
        if body:
            line += f" + {len(body)} bytes" + (show_body(body, secret=secret) if self._bodies else "")
        return f"[{assembly.channel}] {line}"

"""What crosses the wire, as lines to read: one a header, control or command. Secrets never get into a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...engine import Tracer, takes_tokens
from ...errors import AmqpError
from ._commands import DeliveryProperties
from ._controls import ConnectionSecure, ConnectionSecureOk, ConnectionStartOk
from ._declare import Packed, decode_command, decode_control, decode_header
from ._frames import CONTROL, PROTOCOL_HEADER, Assembly, FrameReader

SHOWN_BODY: Final = 256
_SECRET: Final = {ConnectionStartOk: "response", ConnectionSecure: "challenge", ConnectionSecureOk: "response"}


def describe(said: Packed) -> str:
    """A control or command by the specification's name, with the fields that say something, secrets left out."""
    secret = _SECRET.get(type(said))
    shown = [
        f"{each.name}={'<secret>' if each.name == secret else repr(value)}"
        for each in said.fields
        if (value := getattr(said, each.name)) is not None and value is not False
    ]
    return f"{said.spec_name}({', '.join(shown)})"


class FrameTracer(Tracer):
    """Both directions of one connection.

    Args:
        bodies: show the beginning of messages' bodies, too; never that of messages to `$cbs`.
    """

    def __init__(self, bodies: bool = False) -> None:
        self._bodies = bodies
        self._sent = _Direction(bodies)
        self._received = _Direction(bodies)

    def sent(self, data: bytes) -> list[str]:
        return [f"> {line}" for line in self._sent.lines(data)]

    def received(self, data: bytes) -> list[str]:
        return [f"< {line}" for line in self._received.lines(data)]


class _Direction:
    """One way, cut into headers and assemblies."""

    def __init__(self, bodies: bool) -> None:
        self._bodies = bodies
        self._reader = FrameReader()
        self._begun = False
        self._lost = False

    def lines(self, data: bytes) -> Iterator[str]:
        """A line for all that these bytes complete."""
        if self._lost:
            yield f"{len(data)} bytes"
            return
        try:
            self._reader.feed(data)
            if not self._begun:
                header = self._reader.protocol_header()
                if header is None:
                    return
                self._begun = True
                yield f"header {'AMQP 0-10' if header == PROTOCOL_HEADER else repr(header)}"
            while (assembly := self._reader.next()) is not None:
                yield self._line(assembly)
        except AmqpError as error:
            self._lost = True
            yield f"no frames from here on: {error}"

    def _line(self, assembly: Assembly) -> str:
        secret = False
        try:
            said: Packed
            if assembly.kind == CONTROL:
                said = decode_control(assembly.front)
                line = describe(said)
            else:
                said = command = decode_command(assembly.front)
                line = describe(command) + (" sync" if command.sync else "")
            if assembly.header is not None:
                structs = decode_header(assembly.header)
                secret = any(
                    takes_tokens(getattr(each, name, None))
                    for each in (said, *structs)
                    for name in ("destination", "exchange", "routing_key")
                )
                for each in structs:
                    shown = each if isinstance(each, DeliveryProperties) or not secret else "<secret>"
                    line += f" {describe(shown) if isinstance(shown, Packed) else shown}"
        except AmqpError as error:
            line, secret = f"not to be read: {error}", True  # it is not known where it goes
        body = assembly.payload
        if body:
            line += f" + {len(body)} bytes"
            if self._bodies and secret:
                line += " <secret>"
            elif self._bodies:
                line += f" {body[:SHOWN_BODY]!r}{'...' if len(body) > SHOWN_BODY else ''}"
        return f"[{assembly.channel}] {line}"

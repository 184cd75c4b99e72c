"""What crosses the wire, as lines to read: one a command. Secrets never get into a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from ...engine import Tracer
from ...errors import AmqpError
from ._commands import Command, ConnectionChallenge, ConnectionResponse, ConnectionTune
from ._frames import INITIATION, CommandReader

SHOWN_BODY: Final = 256
_SECRET: Final = {ConnectionChallenge: {"challenges"}, ConnectionResponse: {"responses"}, ConnectionTune: {"options"}}
_NO_LIMIT: Final = 0xFFFF_FFFF


def describe(command: Command) -> str:
    """The command with the fields that say something, secrets left out."""
    shown = []
    secret = _SECRET.get(type(command), set())
    for each in fields(command):
        value = getattr(command, each.name)
        if value:
            shown.append(f"{each.name}={'<secret>' if each.name in secret else repr(value)}")
    return f"{command.title()}({', '.join(shown)})"


class CommandTracer(Tracer):
    """Both directions of one connection.

    Args:
        bodies: show the beginning of messages, too.
    """

    def __init__(self, bodies: bool = False) -> None:
        self._sent = _Direction(bodies)
        self._received = _Direction(bodies)

    def sent(self, data: bytes) -> list[str]:
        return [f"> {line}" for line in self._sent.lines(data)]

    def received(self, data: bytes) -> list[str]:
        return [f"< {line}" for line in self._received.lines(data)]


class _Direction:
    """One way, cut into commands."""

    def __init__(self, bodies: bool) -> None:
        self._bodies = bodies
        self._reader = CommandReader(_NO_LIMIT)
        self._first = b""
        self._begun = False
        self._lost = False

    def lines(self, data: bytes) -> Iterator[str]:
        """A line for each command that these bytes complete."""
        if self._lost:
            yield f"{len(data)} bytes"
            return
        if not self._begun:
            self._first += data
            if len(self._first) < len(INITIATION):
                return
            data, self._begun = self._first, True
            if data.startswith(INITIATION):  # the client's; a server sends none
                yield f"initiation AMQP/Fast {data[1]}"
                data = data[2:]
        self._reader.feed(data)
        try:
            while (read := self._reader.next()) is not None:
                yield self._line(*read)
        except AmqpError as error:
            self._lost = True
            yield f"no commands from here on: {error}"

    def _line(self, command: Command, content: bytes) -> str:
        line = describe(command)
        if not content:
            return line
        shown = f" {content[:SHOWN_BODY]!r}{'...' if len(content) > SHOWN_BODY else ''}" if self._bodies else ""
        return f"{line} + {len(content)} bytes{shown}"

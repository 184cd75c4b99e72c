"""What crosses the wire, as lines to read: one a command. Secrets never get into a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from ...engine import Tracer, takes_tokens
from ...errors import AmqpError
from ._commands import Command, ConnectionChallenge, ConnectionResponse, ConnectionTune, HandleOpen
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
        bodies: show the beginning of messages, too; never that of messages to and from `$cbs`.
    """

    def __init__(self, bodies: bool = False) -> None:
        secret: set[int] = set()
        self._sent = _Direction(bodies, secret)
        self._received = _Direction(bodies, secret)

    def sent(self, data: bytes) -> list[str]:
        return [f"> {line}" for line in self._sent.lines(data)]

    def received(self, data: bytes) -> list[str]:
        return [f"< {line}" for line in self._received.lines(data)]


class _Direction:
    """One way, cut into commands.

    Args:
        secret: handles whose messages carry tokens; of both directions.
    """

    def __init__(self, bodies: bool, secret: set[int]) -> None:
        self._bodies = bodies
        self._secret = secret
        self._unnamed: set[int] = set()  # handles whose messages say where they go
        self._parted: set[int] = set()  # handles with a message of which more is to come
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
        if isinstance(command, HandleOpen):
            self._unnamed.discard(command.handle_id)
            self._secret.discard(command.handle_id)
            if not command.dest_name:
                self._unnamed.add(command.handle_id)
        handle, named = getattr(command, "handle_id", None), takes_tokens(getattr(command, "dest_name", None))
        if not content:
            if named and handle is not None:
                self._secret.add(handle)
            return line
        assert handle is not None
        # The last fragment says where a message goes, if the handle does not.
        begun = handle in self._unnamed and (handle in self._parted or getattr(command, "partial", True))
        (self._parted.add if getattr(command, "partial", False) else self._parted.discard)(handle)
        if not self._bodies:
            return f"{line} + {len(content)} bytes"
        if named or begun or handle in self._secret:
            return f"{line} + {len(content)} bytes <secret>"
        return f"{line} + {len(content)} bytes {content[:SHOWN_BODY]!r}{'...' if len(content) > SHOWN_BODY else ''}"

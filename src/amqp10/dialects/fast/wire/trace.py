"""What crosses the wire, as lines to read: one a command. Secrets never get into a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from ....engine import takes_tokens
from ..._kit.tracer import BothDirections, Direction, show_body, show_call
from .command_table import Command
from .commands import ConnectionChallenge, ConnectionResponse, ConnectionTune, HandleOpen
from .frames import INITIATION, CommandReader

_SECRET: Final = {ConnectionChallenge: {"challenges"}, ConnectionResponse: {"responses"}, ConnectionTune: {"options"}}
_NO_LIMIT: Final = 0xFFFF_FFFF


def describe(command: Command) -> str:
    """Return the command with the fields that have a value, secrets left out."""
    shown = [(each.name, value) for each in fields(command) if (value := getattr(command, each.name))]
    return show_call(command.title(), shown, _SECRET.get(type(command), ()))


class CommandTracer(BothDirections):
    """Both directions of one connection.

    Args:
        bodies: show the beginning of messages, too; never that of messages to and from `$cbs`.
    """

    def __init__(self, bodies: bool = False) -> None:
        secret: set[int] = set()
        super().__init__(CommandDirection(bodies, secret), CommandDirection(bodies, secret))


class CommandDirection(Direction):
    """One way, cut into commands.

    Args:
        secret: handles whose messages carry tokens; of both directions.
    """

    units = "commands"

    def __init__(self, bodies: bool, secret: set[int]) -> None:
        self._bodies = bodies
        self._secret = secret
        self._unnamed: set[int] = set()  # handles whose messages say where they go
        self._parted: set[int] = set()  # handles on which a message is incomplete
        self._reader = CommandReader(_NO_LIMIT)
        self._first = b""
        self._begun = False

    def read(self, data: bytes) -> Iterator[str]:
        if not self._begun:
            self._first += data
            if len(self._first) < len(INITIATION):
                return
            data, self._begun = self._first, True
            if data.startswith(INITIATION):  # the client's; a server sends none
                yield f"initiation AMQP/Fast {data[1]}"
                data = data[2:]
        self._reader.feed(data)
        while (read := self._reader.next()) is not None:
            yield self._line(*read)

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
        secret = bool(named or begun) or handle in self._secret
        return f"{line} + {len(content)} bytes" + (show_body(content, secret=secret) if self._bodies else "")

"""Commands sent one after the other, where each may depend on the result of the one before."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

from ....errors import EncodeError
from ....messaging import Error
from ..codes import ErrorCode, SessionFault, condition
from ..command_ids import CommandOwner, PendingCommand
from ..wire.struct import Command

Commands = Generator[Command, Any, Any]
"""Yields commands, is sent their results (None for a command without one), and returns what the caller wants."""


class RequestFailed(Exception):
    """Raised by a talk when the request can not be done; the session goes on."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(description)
        self.error: Error = Error(condition(code), description, {"reply-code": code})


class Invoker(Protocol):
    """The session on which commands are sent."""

    def invoke(self, command: Command, owner: CommandOwner | None = None, about: Any = None) -> PendingCommand: ...

    def after_round_trip(self, call: Callable[..., None], *arguments: Any) -> None: ...


class CommandSequence(CommandOwner):
    """Runs a talk: each command asks for its completion, and the next follows it.

    Args:
        done: called with what the talk returns.
        failed: called with the error if the talk does not come to its end.
    """

    __slots__ = ("_commands", "_done", "_failed", "_result_type", "_session", "_value")

    def __init__(
        self, session: Invoker, commands: Commands, done: Callable[[Any], None], failed: Callable[[Error], None]
    ) -> None:
        self._session = session
        self._commands = commands
        self._done = done
        self._failed = failed
        self._value: Any = None
        self._result_type: str | None = None  # the name of the struct that the command under way results in
        self._go_on(None)

    def _go_on(self, value: Any) -> None:
        try:
            command = self._commands.send(value)
        except StopIteration as end:
            self._done(end.value)
        except RequestFailed as refusal:
            self._failed(refusal.error)
        else:
            self._value, self._result_type = None, command.result
            try:
                self._session.invoke(command, self)
            except EncodeError as error:  # a name that is too long, for one
                self._session.after_round_trip(self._failed, Error("amqp:invalid-field", str(error)))

    def result(self, sent: PendingCommand, value: Any) -> None:
        """Keep `value`, the result of the command; its completion follows.

        Raises:
            SessionFault: the command does not have a result of that kind.
        """
        if getattr(value, "spec_name", None) != self._result_type:
            raise SessionFault(ErrorCode.ILLEGAL_ARGUMENT, f"the result must be a {self._result_type}")
        self._value = value

    def completed(self, sent: PendingCommand) -> None:
        """Send the next command of the talk, now that the one under way is completed."""
        if self._result_type is not None and self._value is None:
            self._failed(Error("amqp:internal-error", f"the server sent no {self._result_type}"))
        else:
            self._go_on(self._value)

    def failed(self, sent: PendingCommand, error: Error) -> None:
        """Tell that the command failed; the session ends with that."""
        self._failed(error)

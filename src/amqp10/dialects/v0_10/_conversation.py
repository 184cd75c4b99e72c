"""Several commands after each other, where the next one depends on what the one before gave."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from ...errors import EncodeError
from ...messaging import Error
from ._codes import SessionFault
from ._declare import Command
from ._ledger import CommandOwner, Sent

if TYPE_CHECKING:
    from ._client_session import ClientSession

Talk = Generator[Command, Any, Any]
"""Yields commands, is sent their results (None without one), and returns what all of it was for."""


class Refusal(Exception):
    """What a talk raises when what was asked can not be: nothing was lost with that."""

    def __init__(self, condition: str, description: str, code: int) -> None:
        super().__init__(description)
        self.error = Error(condition, description, {"reply-code": code})


class Conversation(CommandOwner):
    """Runs a talk: each command asks for its completion, and the next follows it.

    Args:
        done: hears what the talk returns.
        failed: hears why it did not come to that.
    """

    __slots__ = ("_done", "_failed", "_session", "_talk", "_value", "_wanted")

    def __init__(
        self, session: ClientSession, talk: Talk, done: Callable[[Any], None], failed: Callable[[Error], None]
    ) -> None:
        self._session = session
        self._talk = talk
        self._done = done
        self._failed = failed
        self._value: Any = None
        self._wanted: str | None = None  # the struct that the command under way results in
        self._go_on(None)

    def _go_on(self, value: Any) -> None:
        try:
            command = self._talk.send(value)
        except StopIteration as end:
            self._done(end.value)
        except Refusal as refusal:
            self._failed(refusal.error)
        else:
            self._value, self._wanted = None, command.result
            try:
                self._session.invoke(command, self)
            except EncodeError as error:  # a name that is too long, for one
                self._session.soon(self._failed, Error("amqp:invalid-field", str(error)))

    def result(self, sent: Sent, value: Any) -> None:
        """What the command gave; its completion follows.

        Raises:
            SessionFault: it is not what such a command gives.
        """
        if getattr(value, "spec_name", None) != self._wanted:
            raise SessionFault(531, f"a result that is no {self._wanted}")
        self._value = value

    def completed(self, sent: Sent) -> None:
        """It is done."""
        if self._wanted is not None and self._value is None:
            self._failed(Error("amqp:internal-error", f"the server gave no {self._wanted}"))
        else:
            self._go_on(self._value)

    def failed(self, sent: Sent, error: Error) -> None:
        """It is not, and the session ends with that."""
        self._failed(error)

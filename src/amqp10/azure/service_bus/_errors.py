"""What Service Bus says no by: its conditions as errors of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from ...errors import AmqpError, LinkDetached


class ServiceBusError(AmqpError):
    """Service Bus refused a request, an outcome or a link.

    Attributes:
        condition: its word for why, such as "com.microsoft:argument-error"; None where it has none.
        description: its words.
    """

    meant: ClassVar[str | None] = None  # the condition of a class of its own

    def __init__(self, condition: str | None = None, description: str | None = None) -> None:
        condition = condition if condition is not None else self.meant
        super().__init__(condition, description)
        self.condition = condition
        self.description = description

    def __str__(self) -> str:
        return ": ".join(part for part in (self.condition, self.description) if part) or "no reason given"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.condition, self.description)


class MessageLockLost(ServiceBusError):
    """The lock of a message has ended, or was never this receiver's: the message comes again, to whomever."""

    meant: ClassVar[str] = "com.microsoft:message-lock-lost"


class SessionLockLost(ServiceBusError):
    """The lock of a session has ended, with its link: whoever asks next gets the session, and what is not settled."""

    meant: ClassVar[str] = "com.microsoft:session-lock-lost"


class SessionCannotBeLocked(ServiceBusError):
    """Somebody else has the session."""

    meant: ClassVar[str] = "com.microsoft:session-cannot-be-locked"


class NoSession(ServiceBusError):
    """No session with messages was free within the time that `next_session` was to wait."""

    meant: ClassVar[str] = "com.microsoft:timeout"


class MessageNotFound(ServiceBusError):
    """There is no message of that sequence number in that state."""

    meant: ClassVar[str] = "com.microsoft:message-not-found"


class EntityNotFound(ServiceBusError):
    """There is no such entity, or no rule of that name."""

    meant: ClassVar[str] = "com.microsoft:messaging-entity-not-found"


class RuleExists(ServiceBusError):
    """The subscription has a rule of that name."""

    meant: ClassVar[str] = "com.microsoft:entity-already-exists"


class ServerBusy(ServiceBusError):
    """The service is busy, and did nothing: ask again after some seconds."""

    meant: ClassVar[str] = "com.microsoft:server-busy"


_KINDS: Final[dict[str | None, type[ServiceBusError]]] = {
    each.meant: each
    for each in (
        MessageLockLost,
        SessionLockLost,
        SessionCannotBeLocked,
        NoSession,
        MessageNotFound,
        EntityNotFound,
        RuleExists,
        ServerBusy,
    )
}


def error_of(condition: str | None, description: str | None) -> ServiceBusError:
    """Return the error for a condition."""
    name = None if condition is None else str(condition)
    return _KINDS.get(name, ServiceBusError)(name, description)


def refusal(error: AmqpError) -> ServiceBusError | None:
    """Return the error for a link that was refused or detached under a condition that only Service Bus has, or None."""
    if not isinstance(error, LinkDetached) or not str(error.condition).startswith("com.microsoft:"):
        return None
    return error_of(error.condition, error.description)


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise what Service Bus refuses a link by as an error of its own."""
    try:
        yield
    except LinkDetached as error:
        said = refusal(error)
        if said is None:
            raise
        raise said from error

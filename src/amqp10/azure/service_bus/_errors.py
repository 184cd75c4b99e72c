"""The refusals of Service Bus as exceptions, by their conditions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from ...errors import AmqpError, LinkDetached


class ServiceBusError(AmqpError):
    """Service Bus refused a request, an outcome or a link.

    Attributes:
        condition: the service's condition, such as "com.microsoft:argument-error"; None: it gave none.
        description: the service's explanation.
    """

    meant: ClassVar[str | None] = None  # the condition that a subclass stands for

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
    """The lock of a message has expired, or belongs to another receiver: the message is delivered again."""

    meant: ClassVar[str] = "com.microsoft:message-lock-lost"


class SessionLockLost(ServiceBusError):
    """The lock of a session ended with its link: the next receiver of the session gets its unsettled messages."""

    meant: ClassVar[str] = "com.microsoft:session-lock-lost"


class SessionCannotBeLocked(ServiceBusError):
    """Another receiver has the session."""

    meant: ClassVar[str] = "com.microsoft:session-cannot-be-locked"


class NoSession(ServiceBusError):
    """No session with messages was free within the `max_wait` of `next_session`."""

    meant: ClassVar[str] = "com.microsoft:timeout"


class MessageNotFound(ServiceBusError):
    """No message has that sequence number and that state."""

    meant: ClassVar[str] = "com.microsoft:message-not-found"


class EntityNotFound(ServiceBusError):
    """No entity or rule has that name."""

    meant: ClassVar[str] = "com.microsoft:messaging-entity-not-found"


class RuleExists(ServiceBusError):
    """The subscription already has a rule of that name."""

    meant: ClassVar[str] = "com.microsoft:entity-already-exists"


class ServerBusy(ServiceBusError):
    """The service is busy and did nothing: try again after some seconds."""

    meant: ClassVar[str] = "com.microsoft:server-busy"


_KINDS: Final[dict[str | None, type[ServiceBusError]]] = {
    each.meant: each
    for each in (
        MessageLockLost,
        SessionLockLost,
        SessionCannotBeLocked,
        MessageNotFound,
        EntityNotFound,
        RuleExists,
        ServerBusy,
    )
}


def error_of(condition: str | None, description: str | None) -> ServiceBusError:
    """Return the error for the condition of an answer or an outcome."""
    name = None if condition is None else str(condition)
    return _KINDS.get(name, ServiceBusError)(name, description)


def refusal(error: AmqpError) -> ServiceBusError | None:
    """Return the error for a link that ended under a condition of Service Bus's own; None: it ended otherwise."""
    if not isinstance(error, LinkDetached) or not str(error.condition).startswith("com.microsoft:"):
        return None
    if error.condition == NoSession.meant:  # the end of a link that asked for the next session
        return NoSession(error.condition, error.description)
    return error_of(error.condition, error.description)


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise a `LinkDetached` with a condition of Service Bus's own as a `ServiceBusError`."""
    try:
        yield
    except LinkDetached as error:
        reason = refusal(error)
        if reason is None:
            raise
        raise reason from error

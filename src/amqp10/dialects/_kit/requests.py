"""The requests of a client that wait for the peer's answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...engine import PendingRequest, RequestAnswered
from ...errors import RequestRefused
from .causes import as_exception

if TYPE_CHECKING:
    from ...errors import AmqpError
    from ...messaging import Error
    from .parents import EventSource


class WaitingRequests:
    """Requests without an answer, oldest first. Each is answered or fails once, and its owner is told.

    `answer`, `refuse` and `fail` concern the oldest request, or `pending`: nothing happens if that waits no longer.

    Args:
        parent: the session, or another object, whose engine takes the events.
    """

    __slots__ = ("_parent", "_waiting")

    def __init__(self, parent: EventSource) -> None:
        self._parent = parent
        self._waiting: dict[PendingRequest[Any], None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def oldest(self) -> PendingRequest[Any]:
        return next(iter(self._waiting))

    def add(self, pending: PendingRequest[Any]) -> None:
        self._waiting[pending] = None

    def remove(self, pending: PendingRequest[Any]) -> None:
        """Forget a request that could not be sent."""
        del self._waiting[pending]

    def answer(self, result: Any, pending: PendingRequest[Any] | None = None) -> None:
        """Answer a request with `result`."""
        if pending is None:
            pending = self.oldest
        if pending in self._waiting:
            pending.answer(result)
            self._tell(pending)

    def refuse(self, error: Error, pending: PendingRequest[Any] | None = None) -> None:
        """Fail a request that the peer refused with `error`."""
        self.fail(as_exception(RequestRefused, error), pending)

    def fail(self, cause: AmqpError, pending: PendingRequest[Any] | None = None) -> None:
        """Fail a request, because of `cause`."""
        if pending is None:
            pending = self.oldest
        if pending in self._waiting:
            pending.fail(cause)
            self._tell(pending)

    def fail_all(self, cause: AmqpError) -> None:
        """Fail all requests, because of `cause`: no answer will come."""
        while self._waiting:
            self.fail(cause)

    def _tell(self, pending: PendingRequest[Any]) -> None:
        del self._waiting[pending]
        self._parent.engine.emit(RequestAnswered(pending))

"""What links have left, by the session and by the connection that they were on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from ...engine import LinkSession


class Leaving(Protocol):
    """Something that links have left.

    Attributes:
        session, connection: those of the last link that left; None: links are attached, or the connection is over.
    """

    session: LinkSession | None
    connection: object


T = TypeVar("T", bound=Leaving)


class LeftBehind(Generic[T]):
    """What may expire when a session or a connection ends: found without a look at all that the broker retains."""

    def __init__(self) -> None:
        self._by_end: dict[object, dict[T, None]] = {}

    def leave(self, left: T, session: LinkSession, connection: object) -> None:
        """Record that the last link has left."""
        left.session, left.connection = session, connection
        for end in (session, connection):
            self._by_end.setdefault(end, {})[left] = None

    def take(self, left: T) -> None:
        """Forget it, because a link is attached again, the connection is over, or it has ended."""
        for end in (left.session, left.connection):
            of_end = self._by_end.get(end, {})
            of_end.pop(left, None)
            if not of_end:
                self._by_end.pop(end, None)
        left.session = left.connection = None

    def of(self, end: object) -> list[T]:
        """Return what links of this session, or of this connection, have left."""
        return list(self._by_end.get(end, ()))

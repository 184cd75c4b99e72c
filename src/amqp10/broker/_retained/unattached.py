"""What no link is attached to, by the session and by the connection of the last link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from ...engine import LinkSession


class Attachable(Protocol):
    """Something that links attach to, and leave.

    Attributes:
        session, connection: those of the last link that left; None: links are attached, or the connection is over.
    """

    session: LinkSession | None
    connection: object


T = TypeVar("T", bound=Attachable)


class Unattached(Generic[T]):
    """What may expire when a session or a connection ends: found without a look at all that the broker retains."""

    def __init__(self) -> None:
        self._by_end: dict[object, dict[T, None]] = {}

    def add(self, thing: T, session: LinkSession, connection: object) -> None:
        """Add what its last link has left."""
        thing.session, thing.connection = session, connection
        for end in (session, connection):
            self._by_end.setdefault(end, {})[thing] = None

    def remove(self, thing: T) -> None:
        """Remove it, because a link is attached again, the connection is over, or it has ended."""
        for end in (thing.session, thing.connection):
            of_end = self._by_end.get(end, {})
            of_end.pop(thing, None)
            if not of_end:
                self._by_end.pop(end, None)
        thing.session = thing.connection = None

    def of(self, end: object) -> list[T]:
        """Return what links of this session, or of this connection, have left."""
        return list(self._by_end.get(end, ()))

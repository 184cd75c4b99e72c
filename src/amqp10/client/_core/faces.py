"""What users hold of a connection, session, link or transaction, and its core: the part for the rest of the package."""

from __future__ import annotations

from typing import Protocol, TypeVar

C = TypeVar("C", covariant=True)


class Face(Protocol[C]):
    """What users hold. Its core is private, so that editors offer only what users call."""

    @property
    def _core(self) -> C: ...


def core_of(face: Face[C]) -> C:
    """Return the core of a connection, session, link or transaction."""
    return face._core

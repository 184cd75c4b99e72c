"""Exception groups of one: where a single task of a task group failed, users see its error instead of a group."""

from __future__ import annotations

from types import TracebackType


def only(error: BaseException) -> BaseException:
    """Return the only exception of a group, however deeply nested; return any other exception unchanged."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


class Ungrouped:
    """A block that raises the only exception of a group in place of the group, with its own cause and context."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(exc, BaseExceptionGroup) and (error := only(exc)) is not exc:
            context = error.__context__
            try:
                raise error  # `from None` would remove its cause
            finally:
                error.__context__ = context

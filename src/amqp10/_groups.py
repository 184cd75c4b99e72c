"""Groups of one exception: a task group raises one where a single task failed, and users are to see what failed."""

from __future__ import annotations

from types import TracebackType


def only(error: BaseException) -> BaseException:
    """Return the one exception that a group of one stands for; anything else as it is."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


class Ungrouped:
    """A block that raises, in place of a group of one, what it stands for, with the cause and the context of that."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(exc, BaseExceptionGroup) and (error := only(exc)) is not exc:
            context = error.__context__
            try:
                raise error  # and not `from None`, which would take its cause away
            finally:
                error.__context__ = context

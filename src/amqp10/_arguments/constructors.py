"""Constructors that only the package calls: they say what a program calls instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def made_by(call: str, first: str) -> Callable[[C], C]:
    """Decorate a class whose objects a call of the package makes, and show no signature of its constructor.

    Args:
        call: what a program calls, as its users write it.
        first: the name of the class of its first argument, which no program has.

    The decorated class raises:
        TypeError: it is called with something else, as by a program.
    """

    def decorate(cls: C) -> C:
        init: Callable[..., None] = cls.__init__  # type: ignore[misc]

        @functools.wraps(init)
        def checked_init(self: Any, *args: Any, **kwargs: Any) -> None:
            if not args or first not in [each.__name__ for each in type(args[0]).__mro__]:
                raise TypeError(f"{cls.__name__}() is not for programs: {call} makes one")
            init(self, *args, **kwargs)

        checked_init.__doc__ = f"`{call}` makes one."
        cls.__init__ = checked_init  # type: ignore[misc]
        cls.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        return cls

    return decorate

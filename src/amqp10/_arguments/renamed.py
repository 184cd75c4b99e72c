"""Names of before: they work, with a warning, and neither editors nor type checkers offer them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


class Renamed:
    """An attribute under the name that it had before: `prepared = Renamed("traced")` in the body of its class.

    Written where type checkers do not look (`if not TYPE_CHECKING:`), so that they report the old name.

    Attributes:
        name: the name that it has now.
        note: what the warning says besides.
    """

    def __init__(self, name: str, note: str = "") -> None:
        self.name, self.note = name, note

    def __set_name__(self, owner: type, name: str) -> None:
        self._before = f"{owner.__name__}.{name}"

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        warnings.warn(f"{self._before} is called {self.name} now{self.note}", DeprecationWarning, stacklevel=2)
        return getattr(instance, self.name)


class Missing:
    """A name that users of a class look for in vain: its error says what has what they want.

    Attributes:
        text: what the error says.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        raise AttributeError(self.text, name=self._name, obj=instance)


def current_names(cls: type) -> list[str]:
    """Return what `dir` lists of a class, but for names that its attributes had before, and those it has not."""
    return [name for name in dir(cls) if not isinstance(getattr(cls, name, None), Renamed | Missing)]


def renamed_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose names were others before; see `Renamed`.

    Args:
        module: the name of the module.
        names: the name that each has now, by the one that it had.
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is called {names[name]} now", DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], names[name])

    return find

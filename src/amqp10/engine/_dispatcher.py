"""Dispatch: what receives events, frames, methods or commands has a table from their types to its methods.

    class Channel(Dispatcher):
        handlers = {ChannelFlow: "receive_flow", ChannelClose: "receive_close"}

    channel.by_type[type(method)](channel, method)

The names become methods when the class is made, so that a class may override what its base has in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

Handlers: TypeAlias = Mapping[type[Any], str]


class Dispatcher:
    """An object with a method for each type of what it receives.

    Attributes:
        handlers: type -> name of the method for it. A class adds to the tables of its bases.
        by_type: type -> the method itself, which is called with the object first.
    """

    handlers: ClassVar[Handlers] = {}
    by_type: ClassVar[Mapping[type[Any], Callable[..., None]]] = {}

    def __init_subclass__(cls, **facts: Any) -> None:
        super().__init_subclass__(**facts)
        names: dict[type[Any], str] = {}
        for base in reversed(cls.__mro__):
            names |= vars(base).get("handlers", {})
        cls.by_type = {kind: getattr(cls, name) for kind, name in names.items()}

"""What a command is, and the table of all commands by their codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from .struct import Record


class Command(Record):
    """The base of commands.

    Attributes:
        code: its octet.
        carries: octets of a message follow it, as many as its fragment-size says.
    """

    code: ClassVar[int] = 0
    carries: ClassVar[bool] = False

    def __init_subclass__(cls, code: int, carries: bool = False) -> None:
        cls.code, cls.carries = code, carries
        super().__init_subclass__()

    @classmethod
    def title(cls) -> str:
        """Return the specification's name of the command, such as "handle-send"."""
        name = cls.__name__
        return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)[1:]


def declared(module: Mapping[str, Any]) -> dict[int, type[Command]]:
    """Return the commands that a module declares, by code."""
    kinds = [each for each in module.values() if isinstance(each, type) and issubclass(each, Command)]
    return {each.code: each for each in kinds if each.__module__ == module["__name__"]}

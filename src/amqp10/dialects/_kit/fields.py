"""Classes whose fields are declared in their body, with a type of the dialect each; a codec follows from them.

class BasicAck(Method, name="basic.ack", code=(60, 80)):
    delivery_tag: int = longlong()
    multiple: bool = bit()
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Field:
    """One field, as declared.

    Attributes:
        name: its Python name.
        type: the name of its type in the dialect.
        default: the value of an instance that was given none.
        required: it is an error if the field is absent.
        lenient: text of the users' own, which older programs may write in an encoding other than UTF-8.
    """

    name: str
    type: str
    default: Any = None
    required: bool = False
    lenient: bool = False


class Fields:
    """The base of classes with declared fields: those of the base first, then their own."""

    fields: ClassVar[tuple[Field, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        declared = [(name, value) for name, value in vars(cls).items() if isinstance(value, Field)]
        own = tuple(replace(field, name=name) for name, field in declared)
        for field in own:
            setattr(cls, field.name, field.default)
        cls.fields = (*cls.fields, *own)
        cls._defaults = {field.name: field.default for field in cls.fields}

    def __init__(self, *values: Any, **named: Any) -> None:
        names = self._defaults
        if len(values) > len(names) or not named.keys() <= names.keys():
            unknown = ", ".join(named.keys() - names.keys()) or "more"
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(names)}, not {unknown}")
        given = vars(self)
        given.update(zip(names, values, strict=False))
        given.update(named)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._defaults)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ((name, getattr(self, name), default) for name, default in self._defaults.items())
        given = (f"{name}={value!r}" for name, value, default in values if value != default)
        return f"{type(self).__name__}({', '.join(given)})"

"""The decorator that makes a class of declared fields a composite type (see `_composite`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, dataclass_transform

from ._composite import Composite, Field, is_taken, register
from ._derive import derive
from ._values import Symbol

C = TypeVar("C", bound=Composite)


@dataclass_transform()
def composite(code: int, name: str, *, provides: tuple[str, ...] = ()) -> Callable[[type[C]], type[C]]:
    """Make a class of declared fields a composite type with these two descriptors.

    Raises:
        ValueError: a descriptor is taken already.
    """

    def declare(bare: type[C]) -> type[C]:
        if is_taken(code, name):
            raise ValueError(f"the descriptor 0x{code:02x} or {name} is taken")
        namespace = {key: value for key, value in vars(bare).items() if key not in ("__dict__", "__weakref__")}
        fields = []
        for key in bare.__annotations__:
            declared = namespace.get(key)
            if isinstance(declared, Field):
                del namespace[key]
                fields.append(replace(declared, name=key))
        namespace |= {
            "__slots__": tuple(each.name for each in fields),
            "__match_args__": tuple(each.name for each in fields),
            "descriptor_code": code,
            "descriptor_name": Symbol(name),
            "fields": tuple(fields),
        }
        # `provides` may also be said in the body of the class.
        archetypes = provides or namespace.get("provides", ())
        namespace["provides"] = archetypes
        metaclass: Any = type(bare)
        cls: type[C] = metaclass(bare.__name__, bare.__bases__, namespace)
        cls.__qualname__ = bare.__qualname__
        derived = derive(cls, defined=namespace)
        for method in derived.methods:
            setattr(cls, method.__name__, method)
        if "__hash__" not in vars(bare):
            # Equality is by value, so that only what cannot change may be hashed.
            cls.__hash__ = None if fields else _hash_of_type  # type: ignore[assignment]
        register(cls, derived.reader)
        return cls

    return declare


def _hash_of_type(self: Composite) -> int:
    return hash(type(self))

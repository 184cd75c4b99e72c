"""What a method is, and the table of those that one dialect has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from ....errors import DecodeError, EncodeError
from ..._kit.fields import Field, Fields
from .fields import read_fields, write_fields
from .tables import Tables

Code = tuple[int, int]


class Method(Fields):
    """The base of all methods.

    Attributes:
        name: as the specification writes it, "basic.publish".
        code: the number of its class, and its number there.
        carries: whether content follows it: a header, and a body (§4.2.6).
    """

    name: ClassVar[str]
    code: ClassVar[Code]
    carries: ClassVar[bool] = False

    def __init_subclass__(cls, *, name: str, code: Code, carries: bool = False) -> None:
        super().__init_subclass__()
        cls.name, cls.code, cls.carries = name, code, carries


class MethodTable:
    """The methods of one dialect.

    Args:
        methods: all of them.
        tables: how its field tables are written.
        moved: method name -> code, for methods that have another code in this dialect.
        without: method name -> the fields that it lacks in this dialect.
    """

    def __init__(
        self,
        methods: Iterable[type[Method]],
        tables: Tables,
        moved: Mapping[str, Code] | None = None,
        without: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.tables = tables
        self._layouts: dict[type[Method], tuple[bytes, tuple[Field, ...]]] = {}
        self._by_code: dict[bytes, tuple[type[Method], tuple[Field, ...]]] = {}
        for method in methods:
            left_out = (without or {}).get(method.name, ())
            fields = tuple(field for field in method.fields if field.name not in left_out)
            number, index = (moved or {}).get(method.name, method.code)
            code = number.to_bytes(2, "big") + index.to_bytes(2, "big")
            self._layouts[method] = code, fields
            self._by_code[code] = method, fields

    def __contains__(self, method: type[Method]) -> bool:
        return method in self._layouts

    def __iter__(self) -> Any:
        return iter(self._layouts)

    def code(self, method: type[Method]) -> Code:
        """Return the class and number of a method in this dialect."""
        code, _ = self._layouts[method]
        return int.from_bytes(code[:2], "big"), int.from_bytes(code[2:], "big")

    def has(self, payload: bytes, *methods: type[Method]) -> bool:
        """Return whether the payload of a frame is one of `methods`; what follows its code is not read."""
        found = self._by_code.get(payload[:4])
        return found is not None and found[0] in methods

    def encode(self, method: Method) -> bytes:
        """Return the payload of a method's frame.

        Raises:
            EncodeError: a field is of the wrong type or out of range; the error names it.
        """
        code, fields = self._layouts[type(method)]
        out = bytearray(code)
        try:
            write_fields(out, fields, method, self.tables)
        except EncodeError as error:
            raise EncodeError(f"{method.name}: {error}") from None
        return bytes(out)

    def decode(self, payload: bytes) -> Method | None:
        """Return the method in the payload of a frame; None for a method that is not known.

        Raises:
            DecodeError: it is malformed, or octets follow it.
        """
        found = self._by_code.get(payload[:4])
        if found is None:
            if len(payload) < 4:
                raise DecodeError("a method frame is too short for a method")
            return None
        kind, fields = found
        try:
            values, end = read_fields(payload, 4, fields, self.tables)
        except DecodeError as error:
            raise type(error)(f"{kind.name}: {error}") from None
        if end != len(payload):
            raise DecodeError(f"{kind.name}: {len(payload) - end} octets follow it")
        return kind(**values)


def declared(module: Mapping[str, Any]) -> tuple[type[Method], ...]:
    """Return the methods that a module declares, in their order."""
    kinds = [each for each in module.values() if isinstance(each, type) and issubclass(each, Method)]
    return tuple(each for each in kinds if each.__module__ == module["__name__"])

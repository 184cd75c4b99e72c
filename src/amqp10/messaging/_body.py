"""The three forms of a body (§3.2.6-8), to choose one that the plain Python value would not give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from ..errors import EncodeError


class Data:
    """A body of opaque binary, in one or more data sections (§3.2.6).

    `Message(b"...")` is the same as `Message(Data(b"..."))`. `bytes(data)` joins the sections; iterating yields them
    one by one, and `data.parts` has them all.

    Raises:
        EncodeError: no section is given, or one is not bytes, bytearray or memoryview.
    """

    __slots__ = ("parts",)

    def __init__(self, *parts: bytes | bytearray | memoryview) -> None:
        if not parts:
            raise EncodeError("a data body must have at least one section")
        for part in parts:
            if not isinstance(part, bytes | bytearray | memoryview):
                raise EncodeError(f"a data section must be bytes, not {type(part).__qualname__}")
        self.parts: tuple[bytes, ...] = tuple(map(bytes, parts))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __bytes__(self) -> bytes:
        return b"".join(self.parts)

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, Data) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        return f"Data({', '.join(map(repr, self.parts))})"


class AmqpSequence:
    """A body of structured data, in one or more amqp-sequence sections (§3.2.7).

    Each argument is one section: a list of values of any type. Iterating yields the sections, and `sequence.parts` has
    them all.

    Raises:
        EncodeError: no section is given, or one is not a list or tuple.
    """

    __slots__ = ("parts",)

    def __init__(self, *parts: Iterable[Any]) -> None:
        if not parts:
            raise EncodeError("an amqp-sequence body must have at least one section")
        for part in parts:
            if not isinstance(part, list | tuple):
                raise EncodeError(f"an amqp-sequence section must be a list, not {type(part).__qualname__}")
        self.parts: tuple[list[Any], ...] = tuple(map(list, parts))

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, AmqpSequence) else NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"AmqpSequence({', '.join(map(repr, self.parts))})"


class AmqpValue:
    """A body of a single AMQP value (§3.2.8).

    `Message("text")` is the same as `Message(AmqpValue("text"))`. Only a value of bytes needs `AmqpValue`, because
    plain bytes become a data section.
    """

    __slots__ = ("value",)
    __match_args__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value: Any = value

    def __eq__(self, other: object) -> bool:
        return bool(self.value == other.value) if isinstance(other, AmqpValue) else NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"AmqpValue({self.value!r})"

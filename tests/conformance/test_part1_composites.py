"""Composite types (§1.3, §1.4), as `Composite` declares and represents them."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.errors import DecodeError, EncodeError
from amqp10.types import (
    Array,
    Composite,
    Described,
    Symbol,
    UInt,
    ULong,
    composite,
    decode,
    decode_composite,
    encode,
    field,
)


@composite(0x0000_F000_0000_0002, "example:binding:list", provides=("example:binding",))
class Binding(Composite):
    """A type that provides an archetype."""


@composite(0x0000_F000_0000_0003, "example:shelf:list")
class Shelf(Composite):
    """A type with fields that require it."""

    usual: Any = field("*", requires="example:binding")
    others: dict[Any, Any] | None = field("map", requires="example:binding")


@composite(0x0000_F000_0000_0001, "example:book:list")
class Book(Composite):
    """The example of §1.4, and a field of every kind."""

    title: str = field("string", mandatory=True)
    authors: tuple[str, ...] = field("string", multiple=True)
    isbn: str | None = field("string")
    copies: int = field("uint", default=1)


CODE = ULong(0x0000_F000_0000_0001)
NAME = Symbol("example:book:list")


def on_wire(*fields: Any) -> bytes:
    """A described list with the book's descriptor."""
    return encode(Described(CODE, list(fields)))


@pytest.mark.spec("1.4", "a composite value is a described list whose items are the fields, in order")
def test_representation() -> None:
    """The generic codec sees the descriptor and the fields."""
    book = Book("AMQP for & by Dummies", ("Rob J. Godfrey", "Rafael H. Schloming"), None, 3)
    seen = decode(book.encode())
    assert seen.descriptor == CODE
    assert seen.value[0] == "AMQP for & by Dummies"
    assert seen.value[1] == Array("string", ["Rob J. Godfrey", "Rafael H. Schloming"])
    assert seen.value[2:] == [None, 3]
    assert Book.decode(book.encode()) == book


@pytest.mark.spec("1.4", "trailing nulls may be left out of the list")
def test_trailing_nulls() -> None:
    """They are not written; read, they mean the same whether they are there or not."""
    assert decode(Book("t").encode()).value == ["t"]
    assert Book.decode(on_wire("t")) == Book.decode(on_wire("t", None, None, None)) == Book("t")


@pytest.mark.spec("1.4", "a field that is not multiple is its value, or null for none")
def test_single() -> None:
    """Null in the middle is no value, or the default."""
    assert Book.decode(on_wire("t", None, "isbn")).isbn == "isbn"
    assert Book.decode(on_wire("t", None, None)).copies == 1


@pytest.mark.spec("1.4", "a field with a default that is null has the default")
def test_default() -> None:
    """The default is written as null, and null is read as the default; an explicit default too."""
    assert decode(Book("t", copies=1).encode()).value == ["t"]
    assert Book.decode(on_wire("t", None, None, UInt(1))) == Book.decode(on_wire("t")) == Book("t", copies=1)


@pytest.mark.spec("1.4", "a multiple field is null for none, the value for one, an array for more")
def test_multiple() -> None:
    """All forms are read; an array is written; a null and an empty array are the same."""
    for written, authors in (
        (None, ()),
        (Array("string", []), ()),
        ("a", ("a",)),
        (Array("string", ["a"]), ("a",)),
        (Array("string", ["a", "b"]), ("a", "b")),
    ):
        assert Book.decode(on_wire("t", written)).authors == authors
    assert decode(Book("t", ("a",), "i").encode()).value[1] == Array("string", ["a"])
    assert decode(Book("t", (), "i").encode()).value[1] is None


@pytest.mark.spec("1.4", "a mandatory field is never null")
def test_mandatory() -> None:
    """It cannot be written as null, and what was read as null is refused, by the field's name."""
    with pytest.raises(EncodeError, match="example:book:list title"):
        Book(isbn="i").encode()
    for data in (on_wire(), on_wire(None, "a")):
        with pytest.raises(DecodeError, match="example:book:list title"):
            Book.decode(data)


@pytest.mark.spec("1.4", "a field has the type that is declared for it")
def test_field_types() -> None:
    """A value of another type is refused in either direction; there are no fields beyond the declared."""
    with pytest.raises(DecodeError, match="isbn: expected string, found symbol"):
        Book.decode(on_wire("t", None, Symbol("i")))
    with pytest.raises(EncodeError, match="copies: -1"):
        Book("t", copies=-1).encode()
    with pytest.raises(DecodeError, match="5 fields"):
        Book.decode(on_wire("t", None, None, None, 5))


@pytest.mark.spec("1.4", "a field that requires an archetype holds a type that provides it")
def test_archetypes() -> None:
    """Any other known type, and what is not described, is refused in either direction; one of no known type is kept."""
    code = ULong(0x0000_F000_0000_0003)
    unknown = Described(Symbol("example:unknown"), [])
    for fits in (Binding(), unknown, Described(Symbol("example:binding:list"), [])):
        assert Shelf.decode(Shelf(fits, {1: fits}).encode()).usual in (fits, Binding())
    for wrong in (Book("t"), Described(CODE, ["t"]), "binding", 1):
        with pytest.raises(EncodeError, match=r"example:shelf:list usual: expected example:binding, not .*"):
            Shelf(wrong).encode()
        with pytest.raises(DecodeError, match=r"example:shelf:list usual: expected example:binding, not .*"):
            Shelf.decode(encode(Described(code, [wrong])))
    with pytest.raises(EncodeError, match=r"example:shelf:list others: expected example:binding, not .*"):
        Shelf(others={1: Book("t")}).encode()
    with pytest.raises(DecodeError, match=r"example:shelf:list others: expected example:binding, not .*"):
        Shelf.decode(encode(Described(code, [None, {1: Book("t")}])))


@pytest.mark.spec("1.3", "the descriptor of a type is its symbol or its number")
def test_either_descriptor() -> None:
    """Both descriptors name the type; the number is written."""
    for descriptor in (CODE, NAME):
        assert decode_composite(encode(Described(descriptor, ["t"])))[0] == Book("t")
    assert decode(Book("t").encode()).descriptor == CODE

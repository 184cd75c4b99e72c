"""Maps with keys of one kind: symbols in `fields` (§2.8.13), symbols or ulongs in annotations (§3.2.10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from ..errors import DecodeError, EncodeError
from ._values import Map, Symbol, ULong

Keys = Literal["symbol", "annotation"]

_NAMES: Final = {"symbol": "symbol", "annotation": "symbol or ulong"}


def key_of(key: Any, keys: Keys) -> Symbol | ULong | None:
    """Return a key as on the wire: a `str` as a symbol, in annotations an `int` as a ulong; None if it is no key.

    Raises:
        ValueError: a `str` is not ASCII.
    """
    kind = type(key)
    if kind is Symbol or (kind is ULong and keys == "annotation"):
        return key  # type: ignore[no-any-return]
    if isinstance(key, str):
        return Symbol(key.encode("ascii"), "ascii")
    return ULong(key) if kind is int and keys == "annotation" else None


def keyed_to_write(value: Mapping[Any, Any] | Map, keys: Keys) -> dict[Any, Any]:
    """Return a map with its keys as on the wire.

    Raises:
        EncodeError: a key has a forbidden type, or occurs twice.
    """
    return _keyed(value, keys, EncodeError)


def keyed_as_read(value: dict[Any, Any] | Map, keys: Keys) -> dict[Any, Any]:
    """Return a map that was read, as a `dict`, with string keys, which some peers send, turned into symbols.

    Raises:
        DecodeError: a key has a forbidden type, or occurs twice.
    """
    if type(value) is dict and all(type(key) is Symbol for key in value):
        return value
    if any(type(key) is int for key in value):  # an AMQP long; only in values to write may an int stand for a ulong
        raise DecodeError(f"a key is of type long; it has to be a {_NAMES[keys]}")
    return _keyed(value, keys, DecodeError)


def _keyed(value: Mapping[Any, Any] | Map, keys: Keys, error: type[DecodeError | EncodeError]) -> dict[Any, Any]:
    keyed: dict[Any, Any] = {}
    for key, item in value.items():
        try:
            known = key_of(key, keys)
        except ValueError:
            raise error(f"the key {key!r:.60} is not ASCII, as a symbol must be") from None
        if known is None:
            raise error(f"the key {key!r:.60} is of type {type(key).__name__}; it has to be a {_NAMES[keys]}")
        if known in keyed:
            raise error(f"the key {key!r:.60} comes twice")
        keyed[known] = item
    return keyed

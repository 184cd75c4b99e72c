"""Arguments of queues, exchanges and bindings: the maps of 0-10, to and from the mappings that requests hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...errors import LocalProtocolError
from .message.header_values import NoEquivalent, from_header, to_header

# The argument that holds a queue's alternate-exchange in dialects that have no field for it.
DEAD_LETTERS: Final = "x-dead-letter-exchange"
DEAD_LETTER_KEY: Final = "x-dead-letter-routing-key"


def arguments_out(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return `arguments` as a map of 0-10.

    Raises:
        LocalProtocolError: a value has a type that a map of 0-10 cannot hold.
    """
    try:
        return {str(key): to_header(value) for key, value in arguments.items()}
    except NoEquivalent:
        raise LocalProtocolError(f"an argument in {dict(arguments)!r:.200} has no type in AMQP 0-10") from None


def alternate_from(arguments: dict[str, Any]) -> str | None:
    """Take the exchange for dead letters out of `arguments` and return it, for 0-10 has a field for it.

    Return None, and leave `arguments` as it is, if no such exchange is named or if dead letters get another routing
    key: the field has no room for a key.
    """
    exchange = arguments.get(DEAD_LETTERS)
    if not isinstance(exchange, str) or DEAD_LETTER_KEY in arguments:
        return None
    del arguments[DEAD_LETTERS]
    return exchange


def arguments_in(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the peer's `arguments` in the types of AMQP 1.0; leave out values that AMQP 1.0 has no type for."""
    converted = {}
    for key, value in (arguments or {}).items():
        try:
            converted[key] = from_header(value)
        except NoEquivalent:
            continue
    return converted

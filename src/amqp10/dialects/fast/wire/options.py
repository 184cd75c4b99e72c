"""How one side describes itself beyond the fields of its commands: by options of tune (server) and open (client)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....errors import EncodeError
from ....types import Symbol
from .values import write_value

if TYPE_CHECKING:
    from ....engine import ConnectionTerms
    from .values import Table


@dataclass(frozen=True, slots=True)
class PeerOptions:
    """See `ConnectionTerms`."""

    container_id: str
    hostname: str | None
    capabilities: tuple[str, ...]
    properties: dict[Any, Any]


def to_table(terms: ConnectionTerms, *, named: bool) -> Table:
    """Return the options that describe this side, with those of its properties that a table can hold.

    Args:
        named: include the container's name; a client leaves it out, because a field of its open holds the name.
    """
    properties = {
        str(name): str(value) if isinstance(value, str) else value for name, value in terms.properties.items()
    }
    table: Table = {"properties": {name: value for name, value in properties.items() if _fits(name, value)}}
    if named:
        table["container-id"] = terms.container_id
    if terms.hostname is not None:
        table["hostname"] = terms.hostname
    if terms.offered_capabilities:
        table["capabilities"] = " ".join(terms.offered_capabilities)
    return table


def _fits(name: str, value: Any) -> bool:
    try:
        return len(name.encode()) < 256 and "\0" not in name and len(write_value(value)) < 512
    except EncodeError:
        return False


def read_names(options: Table) -> PeerOptions:
    """Read the options that `to_table` writes; the result is empty for a peer that sends none of them."""
    properties = options.get("properties")
    capabilities = text(options.get("capabilities")) or ""
    return PeerOptions(
        text(options.get("container-id")) or "",
        text(options.get("hostname")),
        tuple(Symbol(word) for word in capabilities.split() if word.isascii()),
        {Symbol(name): value for name, value in properties.items() if name.isascii()}
        if isinstance(properties, dict)
        else {},
    )


def text(value: Any) -> str | None:
    """Return `value` if it is text, else None."""
    return value if isinstance(value, str) else None

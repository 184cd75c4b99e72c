"""Addresses of exchanges and queues, for the dialects that have both; one spelling in all of them.

It is RabbitMQ's, version 2 (https://www.rabbitmq.com/docs/amqp#addresses), names percent-encoded:

    /queues/NAME             a queue; to send: the default exchange, with the name as routing key
    /exchanges/NAME/KEY      an exchange, and the routing key
    /exchanges/NAME          the same; each message's subject is the routing key
    NAME                     a queue, as for /queues/NAME, but not percent-encoded
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

QUEUES: Final = "/queues/"
EXCHANGES: Final = "/exchanges/"


@dataclass(frozen=True, slots=True)
class Address:
    """Where messages go, or come from.

    Attributes:
        exchange: its name; "" is the default exchange, which knows every queue by its name.
        key: the routing key; None if each message's subject says it.
    """

    exchange: str
    key: str | None

    @property
    def queue(self) -> str | None:
        """The queue that is meant; None for an exchange."""
        return self.key if not self.exchange else None

    def __str__(self) -> str:
        return route_address(self.exchange, self.key)


def parse_address(text: str) -> Address:
    """Read an address.

    Raises:
        ValueError: it begins like one of this spelling, and goes on in no way that means something.
    """
    if text.startswith(QUEUES):
        name = _decoded(text, text[len(QUEUES) :])
        return Address("", name)
    if text.startswith(EXCHANGES):
        name, slash, key = text[len(EXCHANGES) :].partition("/")
        return Address(_decoded(text, name), _decoded(text, key) if slash else None)
    if not text:
        raise ValueError("an address must not be empty")
    return Address("", text)


def route_address(exchange: str, key: str | None) -> str:
    """Return the address of an exchange with a routing key; of a queue if it is the default exchange."""
    if not exchange:
        return QUEUES + quote(key or "", safe="")
    address = EXCHANGES + quote(exchange, safe="")
    return address if key is None else f"{address}/{quote(key, safe='')}"


def _decoded(text: str, part: str) -> str:
    if "/" in part or (not part and not text.startswith(EXCHANGES)):
        raise ValueError(
            f"{text!r} is not an address: use /queues/NAME, /exchanges/NAME/KEY, /exchanges/NAME or a plain name"
        )
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError as error:
        raise ValueError(f"{text!r} is not an address: it must be percent-encoded UTF-8") from error

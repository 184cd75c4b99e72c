"""AMQPLAIN: what PLAIN says, as a field table; for servers that offer nothing else (RabbitMQ's, and old ones)."""

from __future__ import annotations

from typing import Final

from ...sasl import ClientExchange, Mechanism, Plain
from ._table import TABLES

SIZE: Final = 4  # octets that say how large a table is, which are left out here


class Amqplain(Mechanism):
    """The user and password of a `Plain`, and as readable."""

    name = "AMQPLAIN"
    strength = Plain.strength - 1

    def __init__(self, plain: Plain) -> None:
        self._plain = plain

    @property
    def needs_tls(self) -> bool:
        return self._plain.needs_tls

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        _, user, password = (self._plain.exchange(hostname).initial() or b"").split(b"\0")
        login = bytearray()
        TABLES.write(login, {"LOGIN": user.decode(), "PASSWORD": password.decode()})
        return Said(bytes(login[SIZE:]))

    def __repr__(self) -> str:
        return f"Amqplain({self._plain!r})"


class Said(ClientExchange):
    """All of it is said at once."""

    def __init__(self, message: bytes) -> None:
        self._message = message

    def initial(self) -> bytes:
        return self._message

    def respond(self, challenge: bytes) -> bytes:
        return self._message  # the server did not look at the initial response


def with_amqplain(mechanisms: tuple[Mechanism, ...]) -> tuple[Mechanism, ...]:
    """These, and for whoever has a password AMQPLAIN, too."""
    return (*mechanisms, *(Amqplain(each) for each in mechanisms if isinstance(each, Plain)))

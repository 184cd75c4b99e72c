"""AMQPLAIN: what PLAIN says, as a field table; for servers that offer nothing else (RabbitMQ's, and old ones)."""

from __future__ import annotations

from typing import ClassVar, Final

from ....sasl import ClientExchange, Mechanism, Plain
from ..wire.tables import TABLES

SIZE: Final = 4  # octets of a table's length, which are left out here


class Amqplain(Mechanism):
    """Sends the user and password of a `Plain`, just as readable."""

    name = "AMQPLAIN"
    strength: ClassVar[int] = Plain.strength - 1

    def __init__(self, plain: Plain) -> None:
        self._plain = plain

    @property
    def needs_tls(self) -> bool:
        return self._plain.needs_tls

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        _, user, password = (self._plain.exchange(hostname).initial() or b"").split(b"\0")
        login = bytearray()
        TABLES.write(login, {"LOGIN": user.decode(), "PASSWORD": password.decode()})
        return AmqplainExchange(bytes(login[SIZE:]))

    def __repr__(self) -> str:
        return f"Amqplain({self._plain!r})"


class AmqplainExchange(ClientExchange):
    """Sends everything at once."""

    def __init__(self, message: bytes) -> None:
        self._message = message

    def initial(self) -> bytes:
        return self._message

    def respond(self, challenge: bytes) -> bytes:
        return self._message  # the server did not look at the initial response


def with_amqplain(mechanisms: tuple[Mechanism, ...]) -> tuple[Mechanism, ...]:
    """Return `mechanisms`, and an `Amqplain` for each of them that is a `Plain`, which has a password."""
    return (*mechanisms, *(Amqplain(each) for each in mechanisms if isinstance(each, Plain)))

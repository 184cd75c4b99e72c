"""How a connection opens: start, start-ok, (secure, secure-ok)*, tune, tune-ok, open, open-ok (0-10 §9.1).

The mechanisms are those of `amqp10.sasl`. Each side takes the peer's controls and sends its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...engine import ConnectionTerms
from ...errors import RemoteProtocolError
from ...sasl import Anonymous, Challenge, ClientHandshake, ServerHandshake, Step, Success
from ...types import Symbol
from .message.header_values import NoEquivalent, from_header, to_header
from .wire.controls import (
    ConnectionOpen,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from .wire.frames import MAX_FRAME_SIZE, MIN_MAX_FRAME_SIZE
from .wire.struct import Control

if TYPE_CHECKING:
    from ...sasl import Authenticator, Mechanism

LOCALE: Final = "en_US"
MAX_CHANNELS: Final = 256

Write = Callable[[Control], None]


def properties_out(properties: Any) -> dict[str, Any]:
    """Return connection properties as a map of 0-10; leave out values that it has no type for."""
    converted: dict[str, Any] = {}
    for key, value in properties.items():
        try:
            converted[str(key)] = to_header(str(value) if isinstance(value, str) else value)
        except NoEquivalent:
            continue
    return converted


def properties_in(properties: Any) -> dict[Any, Any]:
    """Return the peer's properties as AMQP 1.0 has them: keyed by symbols."""
    converted = {}
    for key, value in (properties or {}).items():
        try:
            converted[Symbol(key)] = from_header(value)
        except NoEquivalent:
            continue
    return converted


def heartbeat_of(idle_timeout: float | None, least: int, most: int) -> int:
    """Return the seconds between heartbeats for `idle_timeout`, within `least` and `most`; 0: no heartbeats."""
    if not idle_timeout or not most:
        return 0
    return max(1, least, min(most, int(idle_timeout / 2)))


class ClientLogin:
    """The client's side.

    Attributes:
        mechanism: the mechanism in use.
        proved: the server has accepted the credentials.
        heartbeat: seconds between heartbeats, as agreed.
    """

    def __init__(
        self, write: Write, terms: ConnectionTerms, mechanisms: tuple[Mechanism, ...] | None, secure: bool
    ) -> None:
        self._write = write
        self._terms = terms
        allowed = mechanisms if mechanisms is not None else (Anonymous(),)
        self._handshake = ClientHandshake(allowed, terms.hostname, secure)
        self.proved: bool = False
        self.heartbeat: int = 0
        self.channel_max: int = 0
        self.max_frame_size: int = MIN_MAX_FRAME_SIZE
        self.server_properties: dict[Any, Any] = {}

    @property
    def mechanism(self) -> str:
        return self._handshake.mechanism

    def start(self, start: ConnectionStart) -> None:
        """Choose one of the mechanisms that the server offers, and answer."""
        if self.mechanism:
            raise RemoteProtocolError("connection.start came twice", "amqp:illegal-state")
        self.server_properties = properties_in(start.server_properties)
        response = self._handshake.start([each for each in start.mechanisms if isinstance(each, str)]) or b""
        properties = {"product": "amqp10", "qpid.client_process": self._terms.container_id}
        properties |= {"clientName": self._terms.container_id} | properties_out(self._terms.properties)
        self._write(
            ConnectionStartOk(client_properties=properties, mechanism=self.mechanism, response=response, locale=LOCALE)
        )

    def secure(self, secure: ConnectionSecure) -> None:
        """Answer a challenge of the mechanism."""
        if not self.mechanism or self.proved:
            raise RemoteProtocolError("connection.secure out of order", "amqp:illegal-state")
        self._write(ConnectionSecureOk(self._handshake.respond(secure.challenge)))

    def tune(self, tune: ConnectionTune) -> None:
        """Agree on limits; the server's connection.tune also says that the login succeeded."""
        if self.proved or not self.mechanism:
            raise RemoteProtocolError("connection.tune out of order", "amqp:illegal-state")
        self._handshake.finish(None)
        self.proved = True
        theirs = max(MIN_MAX_FRAME_SIZE, tune.max_frame_size or MAX_FRAME_SIZE)
        self.max_frame_size = min(theirs, _largest_frame(self._terms))
        channels = tune.channel_max if tune.channel_max is not None else 0xFFFF
        self.channel_max = min(self._terms.channel_max, channels)
        most = tune.heartbeat_max if tune.heartbeat_max is not None else 0xFFFF
        self.heartbeat = heartbeat_of(self._terms.idle_timeout, tune.heartbeat_min or 0, most)
        self._write(ConnectionTuneOk(self.channel_max, self.max_frame_size, self.heartbeat))

    def open(self, terms: ConnectionTerms) -> None:
        """Ask for the virtual host."""
        self._write(ConnectionOpen(virtual_host=terms.virtual_host or terms.hostname or "", capabilities=[]))


class ServerLogin:
    """The server's side.

    Attributes:
        identity: who the client proved to be.
        handshake: knows why the credentials were refused, and whether the mechanism was offered.
        refused: the credentials were refused.
    """

    def __init__(self, write: Write, terms: ConnectionTerms, authenticator: Authenticator) -> None:
        self._write = write
        self._terms = terms
        self.handshake: ServerHandshake = ServerHandshake(authenticator, last_word=True)
        self._properties: dict[Any, Any] = {}
        self._name = ""
        self.identity: str | None = None
        self.proved: bool = False
        self.refused: bool = False
        self.tuned: bool = False
        self.heartbeat: int = 0
        self.channel_max: int = 0
        self.max_frame_size: int = _largest_frame(terms)
        self._most_channels = min(MAX_CHANNELS, terms.channel_max + 1)

    @property
    def mechanism(self) -> str:
        return self.handshake.mechanism

    def offer(self) -> None:
        """Send connection.start: the mechanisms, the locale, and the properties of this server."""
        properties = {
            "product": "amqp10",
            "capabilities": list(self._terms.offered_capabilities),
            "qpid.features": ["qpid.jms-selector"],
        }
        self._write(
            ConnectionStart(
                server_properties=properties | properties_out(self._terms.properties),
                mechanisms=list(self.handshake.offered),
                locales=[LOCALE],
            )
        )

    def start_ok(self, start: ConnectionStartOk) -> None:
        """Take the mechanism that the client chose, its first response and its properties."""
        if self.mechanism:
            raise RemoteProtocolError("connection.start-ok came twice", "amqp:illegal-state")
        self._properties = properties_in(start.client_properties)
        name = self._properties.get("clientName", self._properties.get("qpid.client_process"))
        self._name = name if isinstance(name, str) else ""
        self._take(self.handshake.start(start.mechanism, start.response or None))

    def secure_ok(self, secure: ConnectionSecureOk) -> None:
        """Take the client's response to a challenge."""
        if not self.mechanism or self.proved or self.refused:
            raise RemoteProtocolError("connection.secure-ok out of order", "amqp:illegal-state")
        self._take(self.handshake.step(secure.response))

    def _take(self, step: Step) -> None:
        if isinstance(step, Challenge):
            self._write(ConnectionSecure(step.data))
        elif isinstance(step, Success):
            self.identity = step.identity
            self.proved = True
            self._write(ConnectionTune(self._most_channels, self.max_frame_size, 0, 0xFFFF))
        else:
            self.refused = True

    def tune_ok(self, tune: ConnectionTuneOk) -> None:
        """Take the limits that the client agrees to."""
        if not self.proved or self.tuned:
            raise RemoteProtocolError("connection.tune-ok out of order", "amqp:illegal-state")
        size = tune.max_frame_size if tune.max_frame_size is not None else self.max_frame_size
        if not MIN_MAX_FRAME_SIZE <= size <= self.max_frame_size or self._most_channels < tune.channel_max < 0xFFFF:
            raise RemoteProtocolError("connection.tune-ok beyond the limits that were offered", "amqp:not-allowed")
        self.tuned = True
        self.channel_max = min(tune.channel_max, self._most_channels)
        self.max_frame_size = size
        self.heartbeat = tune.heartbeat or 0

    def opened(self, open_: ConnectionOpen) -> ConnectionTerms:
        """Return the client's terms, now that it asks for a virtual host."""
        if not self.tuned:
            raise RemoteProtocolError("connection.open before connection.tune-ok", "amqp:illegal-state")
        return ConnectionTerms(
            container_id=self._name,
            hostname=open_.virtual_host or None,
            max_frame_size=self.max_frame_size,
            channel_max=self.channel_max,
            idle_timeout=2.0 * self.heartbeat if self.heartbeat else None,
            properties=self._properties,
        )


def _largest_frame(terms: ConnectionTerms) -> int:
    """Return the size of frame to ask for, octets: what `terms` say, as far as 0-10 can say it (§9.9.1)."""
    return max(MIN_MAX_FRAME_SIZE, min(terms.max_frame_size, MAX_FRAME_SIZE))

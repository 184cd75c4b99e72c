"""How a connection opens: start, start-ok, (secure, secure-ok)*, tune, tune-ok, open, open-ok (0-10 §9.1).

The mechanisms are those of `amqp10.sasl`. Each side is fed the peer's controls and says its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...engine import ConnectionTerms
from ...errors import AuthenticationFailed, RemoteProtocolError
from ...sasl import Challenge, Success, choose
from ...types import Symbol
from ._controls import (
    ConnectionOpen,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from ._declare import Control
from ._frames import MAX_FRAME_SIZE, MIN_FRAME_SIZE
from ._headers import NoEqual, from_header, to_header

if TYPE_CHECKING:
    from ...sasl import Authenticator, ClientExchange, Mechanism, ServerExchange

MAX_ROUNDS: Final = 10
LOCALE: Final = "en_US"
MAX_CHANNELS: Final = 256
ON_DEMAND: Final = "amqp10_on_demand"
"""Among the capabilities in the server's properties: it may make nodes that are not there (see `_requests`)."""

Say = Callable[[Control], None]


def properties_out(properties: Any) -> dict[str, Any]:
    """Connection properties as a map; what has no kind there is left out."""
    said: dict[str, Any] = {}
    for key, value in properties.items():
        try:
            said[str(key)] = to_header(str(value) if isinstance(value, str) else value)
        except NoEqual:
            continue
    return said


def properties_in(properties: Any) -> dict[Any, Any]:
    """The peer's properties as AMQP 1.0 says them: by symbols."""
    said = {}
    for key, value in (properties or {}).items():
        try:
            said[Symbol(key)] = from_header(value)
        except NoEqual:
            continue
    return said


def heartbeat_of(idle_timeout: float | None, least: int, most: int) -> int:
    """Seconds between heartbeats for that idle timeout; 0 for none."""
    if not idle_timeout or not most:
        return 0
    return max(1, least, min(most, int(idle_timeout / 2)))


class ClientLogin:
    """The client's side.

    Attributes:
        mechanism: in use.
        proved: the server has let us in.
        heartbeat: seconds between heartbeats, as agreed.
    """

    def __init__(
        self, say: Say, terms: ConnectionTerms, mechanisms: tuple[Mechanism, ...] | None, secure: bool
    ) -> None:
        self._say = say
        self._terms = terms
        self._mechanisms = mechanisms
        self._secure = secure
        self._exchange: ClientExchange | None = None
        self._rounds = 0
        self.mechanism: str | None = None
        self.proved = False
        self.heartbeat = 0
        self.channel_max = 0
        self.max_frame_size = MIN_FRAME_SIZE
        self.server_properties: dict[Any, Any] = {}

    def start(self, start: ConnectionStart) -> None:
        """The offer: choose, and answer."""
        if self._exchange is not None or self._rounds:
            raise RemoteProtocolError("connection.start came twice", "amqp:illegal-state")
        self._rounds = 1
        self.server_properties = properties_in(start.server_properties)
        offered = [each for each in start.mechanisms if isinstance(each, str)]
        if self._mechanisms is None:
            self.mechanism, response = "ANONYMOUS", b""
            if "ANONYMOUS" not in offered:
                raise AuthenticationFailed("the server asks for SASL, which this side does not do")
        else:
            mechanism = choose(offered, self._mechanisms, secure=self._secure)
            self.mechanism = mechanism.name
            self._exchange = mechanism.exchange(self._terms.hostname)
            response = self._exchange.initial() or b""
        properties = {"product": "amqp10", "qpid.client_process": self._terms.container_id}
        properties |= {"clientName": self._terms.container_id} | properties_out(self._terms.properties)
        self._say(
            ConnectionStartOk(client_properties=properties, mechanism=self.mechanism, response=response, locale=LOCALE)
        )

    def secure(self, secure: ConnectionSecure) -> None:
        """A challenge."""
        self._rounds += 1
        if self._exchange is None or self.proved or self._rounds > MAX_ROUNDS:
            raise RemoteProtocolError("connection.secure out of order", "amqp:illegal-state")
        self._say(ConnectionSecureOk(self._exchange.respond(secure.challenge)))

    def tune(self, tune: ConnectionTune) -> None:
        """We are in; agree on limits, and ask for the virtual host when it is time."""
        if self.proved or self.mechanism is None:
            raise RemoteProtocolError("connection.tune out of order", "amqp:illegal-state")
        if self._exchange is not None:
            self._exchange.finish(None)
        self.proved = True
        theirs = tune.max_frame_size if tune.max_frame_size is not None else MAX_FRAME_SIZE
        self.max_frame_size = max(MIN_FRAME_SIZE, min(self._terms.max_frame_size, theirs or MAX_FRAME_SIZE))
        self.max_frame_size = min(self.max_frame_size, MAX_FRAME_SIZE)
        channels = tune.channel_max if tune.channel_max is not None else 0xFFFF
        self.channel_max = min(self._terms.channel_max, channels)
        most = tune.heartbeat_max if tune.heartbeat_max is not None else 0xFFFF
        self.heartbeat = heartbeat_of(self._terms.idle_timeout, tune.heartbeat_min or 0, most)
        self._say(ConnectionTuneOk(self.channel_max, self.max_frame_size, self.heartbeat))

    def open(self, terms: ConnectionTerms) -> None:
        """Ask for the virtual host."""
        self._say(ConnectionOpen(virtual_host=terms.virtual_host or terms.hostname or "", capabilities=[]))


class ServerLogin:
    """The server's side.

    Attributes:
        identity: who the client proved to be.
        refused: its credentials were not good.
        was_offered: the mechanism was.
        remote: what the client said, once it asked for a virtual host.
    """

    def __init__(self, say: Say, terms: ConnectionTerms, authenticator: Authenticator) -> None:
        self._say = say
        self._terms = terms
        self._authenticator = authenticator
        self._offered = tuple(authenticator.mechanisms())
        self._exchange: ServerExchange | None = None
        self._rounds = 0
        self._properties: dict[Any, Any] = {}
        self._name = ""
        self._last_word = False  # the mechanism's is out
        self.mechanism: str | None = None
        self.identity: str | None = None
        self.proved = False
        self.refused = False
        self.was_offered = True
        self.tuned = False
        self.heartbeat = 0
        self.channel_max = 0
        self.max_frame_size = MIN_FRAME_SIZE
        self._most_channels = min(MAX_CHANNELS, terms.channel_max + 1)

    def offer(self) -> None:
        """The first word."""
        properties = {
            "product": "amqp10",
            "capabilities": list(self._terms.offered_capabilities),
            "qpid.features": ["qpid.jms-selector"],
        }
        self._say(
            ConnectionStart(
                server_properties=properties | properties_out(self._terms.properties),
                mechanisms=list(self._offered),
                locales=[LOCALE],
            )
        )

    def start_ok(self, start: ConnectionStartOk) -> None:
        """The client's choice."""
        if self.mechanism is not None:
            raise RemoteProtocolError("connection.start-ok came twice", "amqp:illegal-state")
        self.mechanism = start.mechanism
        self._properties = properties_in(start.client_properties)
        name = self._properties.get("clientName", self._properties.get("qpid.client_process"))
        self._name = name if isinstance(name, str) else ""
        if start.mechanism not in self._offered:
            self._authenticator.refuse(start.mechanism)
            self.refused, self.was_offered = True, False
            return
        self._exchange = self._authenticator.exchange(start.mechanism)
        self._step(start.response)

    def secure_ok(self, secure: ConnectionSecureOk) -> None:
        """The answer to a challenge."""
        if self._exchange is None or self.proved or self.refused:
            raise RemoteProtocolError("connection.secure-ok out of order", "amqp:illegal-state")
        if self._last_word:
            self._let_in()
        else:
            self._step(secure.response)

    def _step(self, response: bytes) -> None:
        self._rounds += 1
        assert self._exchange is not None
        if self._rounds > MAX_ROUNDS:
            raise RemoteProtocolError("the SASL exchange does not end", "amqp:not-allowed")
        step = self._exchange.step(response if response or self._rounds > 1 else None)
        if isinstance(step, Challenge):
            self._say(ConnectionSecure(step.data))
        elif not isinstance(step, Success):
            self.refused = True
        else:
            self.identity = step.identity
            if step.additional:  # 0-10 has no place for it but a challenge, whose answer is empty
                self._last_word = True
                self._say(ConnectionSecure(step.additional))
            else:
                self._let_in()

    def _let_in(self) -> None:
        self.proved = True
        self._say(ConnectionTune(self._most_channels, MAX_FRAME_SIZE, 0, 0xFFFF))

    def tune_ok(self, tune: ConnectionTuneOk) -> None:
        """The limits that hold."""
        if not self.proved or self.tuned:
            raise RemoteProtocolError("connection.tune-ok out of order", "amqp:illegal-state")
        size = tune.max_frame_size if tune.max_frame_size is not None else MAX_FRAME_SIZE
        if not size >= MIN_FRAME_SIZE or self._most_channels < tune.channel_max < 0xFFFF:
            raise RemoteProtocolError("connection.tune-ok beyond the limits that were offered", "amqp:not-allowed")
        self.tuned = True
        self.channel_max = min(tune.channel_max, self._most_channels)
        self.max_frame_size = size
        self.heartbeat = tune.heartbeat or 0

    def opened(self, open_: ConnectionOpen) -> ConnectionTerms:
        """What the client says of itself."""
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

"""Challenge and response: the mechanisms of `amqp10.sasl` in tables.

    server: challenge(mechanisms) ─> client: response(mechanism) ─> (challenge ─> response)* ─> server: tune

A response is in the field "response", a challenge in "challenge", and a server's last word in the options of its tune,
as "additional". PLAIN has the fields "login" and "password", as the specification's example does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import AuthenticationFailed, RemoteProtocolError
from ...sasl import Anonymous, Challenge, Success, choose
from ._commands import ConnectionChallenge, ConnectionResponse

if TYPE_CHECKING:
    from ...sasl import Authenticator, ClientExchange, Mechanism, ServerExchange
    from ._values import Table

MAX_ROUNDS: Final = 10
"""Challenges in one exchange; no mechanism needs more than three."""


class ClientLogin:
    """The client's side.

    Args:
        mechanisms: what the credentials allow; None for nobody in particular.
        hostname: the server's name.
        secure: secrets may cross the transport as they are.
    """

    def __init__(self, mechanisms: tuple[Mechanism, ...] | None, hostname: str | None, secure: bool) -> None:
        self._mechanisms = mechanisms if mechanisms is not None else (Anonymous(),)
        self._hostname = hostname
        self._secure = secure
        self._exchange: ClientExchange | None = None
        self._rounds = 0
        self.mechanism = ""

    def respond(self, challenge: ConnectionChallenge) -> ConnectionResponse:
        """What to say to that.

        Raises:
            AuthenticationFailed, InsecureTransport: there is nothing to be said.
            RemoteProtocolError: the server goes on and on.
        """
        self._rounds += 1
        if self._rounds > MAX_ROUNDS:
            raise RemoteProtocolError("the server's challenges do not end", "amqp:not-allowed")
        if self._exchange is None:
            mechanism = choose(challenge.mechanisms.split(), self._mechanisms, secure=self._secure)
            self.mechanism = mechanism.name
            self._exchange = mechanism.exchange(self._hostname)
            response = self._exchange.initial()
        else:
            response = self._exchange.respond(octets(challenge.challenges, "challenge") or b"")
        return ConnectionResponse(mechanism=self.mechanism, responses=responses(self.mechanism, response))

    def finish(self, options: Table) -> None:
        """The server lets us in.

        Raises:
            AuthenticationFailed: it could not prove itself.
        """
        if self._exchange is None:
            raise AuthenticationFailed("the server asked for nothing", None)
        self._exchange.finish(octets(options, "additional"))


class ServerLogin:
    """The server's side."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._offered = tuple(authenticator.mechanisms())
        self._exchange: ServerExchange | None = None
        self._rounds = 0
        self.mechanism = ""

    def offer(self) -> ConnectionChallenge:
        """The first challenge."""
        return ConnectionChallenge(version=1, mechanisms=" ".join(self._offered))

    def receive(self, response: ConnectionResponse) -> ConnectionChallenge | Success:
        """What the client says.

        Raises:
            AuthenticationFailed: it is not let in.
        """
        self._rounds += 1
        if self._exchange is None and response.mechanism in self._offered:
            self.mechanism = response.mechanism
            self._exchange = self._authenticator.exchange(self.mechanism)
        elif self._exchange is None:
            self._authenticator.refuse(response.mechanism)
        if self._exchange is None or response.mechanism != self.mechanism or self._rounds > MAX_ROUNDS:
            raise _Refused(f"the client chose {response.mechanism}, which was not offered")
        step = self._exchange.step(said(self.mechanism, response.responses))
        if isinstance(step, Challenge):
            return ConnectionChallenge(
                version=1, mechanisms=" ".join(self._offered), challenges={"challenge": step.data}
            )
        if not isinstance(step, Success):
            raise _Refused(f"the client's credentials were refused ({self.mechanism})")
        return step


class _Refused(AuthenticationFailed):
    condition = "amqp:unauthorized-access"

    def __init__(self, reason: str) -> None:
        super().__init__(reason, 1)


def octets(table: Table, name: str) -> bytes | None:
    """A field of octets."""
    value = table.get(name)
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else None


def responses(mechanism: str, response: bytes | None) -> Table:
    """A response as a table."""
    if mechanism == "PLAIN" and response is not None and response.count(b"\0") == 2:
        authzid, login, password = response.split(b"\0")
        table: Table = {"login": login, "password": password}
        return table | {"authzid": authzid} if authzid else table
    return {} if response is None else {"response": response}


def said(mechanism: str, table: Table) -> bytes | None:
    """The response that a table has."""
    if mechanism == "PLAIN" and "response" not in table:
        fields = [octets(table, name) or b"" for name in ("authzid", "login", "password")]
        return b"\0".join(fields) if not any(b"\0" in field for field in fields) else b""
    return octets(table, "response")

"""Challenge and response: the mechanisms of `amqp10.sasl` in tables.

    server: challenge(mechanisms) ─> client: response(mechanism) ─> (challenge ─> response)* ─> server: tune

A response is in the field "response", a challenge in "challenge", and a server's last word in the options of its tune,
as "additional". PLAIN has the fields "login" and "password", as the specification's example does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import AuthenticationFailed
from ...sasl import Anonymous, Challenge, ClientHandshake, ServerHandshake, Success
from .wire.commands import ConnectionChallenge, ConnectionResponse

if TYPE_CHECKING:
    from ...sasl import Authenticator, Mechanism
    from .wire.values import Table


class ClientLogin:
    """The client's side.

    Args:
        mechanisms: the logins that the credentials allow; None for an anonymous login.
        hostname: the server's name.
        secure: secrets may cross the transport as they are.
    """

    def __init__(self, mechanisms: tuple[Mechanism, ...] | None, hostname: str | None, secure: bool) -> None:
        self._handshake = ClientHandshake(mechanisms if mechanisms is not None else (Anonymous(),), hostname, secure)

    @property
    def mechanism(self) -> str:
        return self._handshake.mechanism

    def respond(self, challenge: ConnectionChallenge) -> ConnectionResponse:
        """Return the response to `challenge`.

        Raises:
            AuthenticationFailed, InsecureTransport: no allowed mechanism can respond.
            RemoteProtocolError: the server sent more challenges than the mechanism has.
        """
        response: bytes | None
        if not self.mechanism:
            response = self._handshake.start(challenge.mechanisms.split())
        else:
            response = self._handshake.respond(octets(challenge.challenges, "challenge") or b"")
        return ConnectionResponse(mechanism=self.mechanism, responses=responses(self.mechanism, response))

    def finish(self, options: Table) -> None:
        """Check the server's last word of the login, which is in the options of its tune.

        Raises:
            AuthenticationFailed: the server could not prove itself, or tuned without a challenge.
        """
        if not self.mechanism:
            raise AuthenticationFailed("the server ended the login without a challenge", None)
        self._handshake.finish(octets(options, "additional"))


class ServerLogin:
    """The server's side."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._handshake = ServerHandshake(authenticator)

    @property
    def mechanism(self) -> str:
        return self._handshake.mechanism

    def offer(self) -> ConnectionChallenge:
        """Return the first challenge, which lists the mechanisms offered."""
        return ConnectionChallenge(version=1, mechanisms=" ".join(self._handshake.offered))

    def receive(self, response: ConnectionResponse) -> ConnectionChallenge | Success:
        """Take a response of the client; return the next challenge, or `Success` when the login is complete.

        Raises:
            AuthenticationFailed: the client is refused.
            RemoteProtocolError: the client sent more responses than the mechanism has.
        """
        handshake = self._handshake
        octets = response_of(response.mechanism, response.responses)
        if not handshake.mechanism:
            step = handshake.start(response.mechanism, octets)
        elif response.mechanism != handshake.mechanism:
            raise _FastAuthenticationFailed(
                f"the client began with {handshake.mechanism} and changed to {response.mechanism}"
            )
        else:
            step = handshake.step(octets)
        if isinstance(step, Challenge):
            challenge = {"challenge": step.data}
            return ConnectionChallenge(version=1, mechanisms=" ".join(handshake.offered), challenges=challenge)
        if not isinstance(step, Success):
            raise _FastAuthenticationFailed(handshake.refusal)
        return step


class _FastAuthenticationFailed(AuthenticationFailed):
    condition = "amqp:unauthorized-access"

    def __init__(self, reason: str) -> None:
        super().__init__(reason, 1)


def octets(table: Table, name: str) -> bytes | None:
    """Return the field `name` as octets; None if it is missing or of another type."""
    value = table.get(name)
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else None


def responses(mechanism: str, response: bytes | None) -> Table:
    """Return the table that carries `response`; for PLAIN, the fields "login" and "password"."""
    if mechanism == "PLAIN" and response is not None and response.count(b"\0") == 2:
        authzid, login, password = response.split(b"\0")
        table: Table = {"login": login, "password": password}
        return table | {"authzid": authzid} if authzid else table
    return {} if response is None else {"response": response}


def response_of(mechanism: str, table: Table) -> bytes | None:
    """Return the response that `table` carries; None if it has no response."""
    if mechanism == "PLAIN" and "response" not in table:
        fields = [octets(table, name) or b"" for name in ("authzid", "login", "password")]
        return b"\0".join(fields) if not any(b"\0" in field for field in fields) else b""
    return octets(table, "response")

"""The SASL layer before AMQP (§5.3): frames in the order of §5.3.2, around the mechanisms of `amqp10.sasl`.

Server: mechanisms ─> init ─> (challenge ─> response)* ─> outcome. Both sides are here, each a machine that is fed
performatives and asked for the bytes to send.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ...errors import AmqpError, AuthenticationFailed, RemoteProtocolError
from ...sasl import Challenge, ClientHandshake, ServerHandshake, Success
from .wire.frames import encode_sasl_frame
from .wire.performatives import SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse

if TYPE_CHECKING:
    from ...sasl import Authenticator, Mechanism
    from ...types import Composite

_REASONS = {
    1: "the server refused the credentials",
    2: "the server's authentication failed for a reason of its own",
    3: "the server's authentication is out of order, for good",
    4: "the server's authentication is out of order at the moment",
}


class _SaslLayer(ABC):
    """What both sides share.

    Attributes:
        done: the outcome is ok.
        error: why it is not; the exchange is over then.
        mechanism: the name of the mechanism in use.
        identity: who the peer proved to be; server side only.
    """

    def __init__(self) -> None:
        self.done = False
        self.error: AmqpError | None = None
        self.mechanism: str | None = None
        self.identity: str | None = None
        self._output: list[bytes] = []

    def frames(self) -> bytes:
        """Return what is to be sent now."""
        output = b"".join(self._output)
        self._output.clear()
        return output

    def receive(self, performative: Composite) -> None:
        """Take a SASL frame of the peer. Never raises: see `error`."""
        if self.done or self.error is not None:
            return
        try:
            self._receive(performative)
        except AmqpError as error:
            self.error = error

    @abstractmethod
    def _receive(self, performative: Composite) -> None: ...

    def _send(self, performative: Composite) -> None:
        self._output.append(encode_sasl_frame(performative))

    def _unexpected(self, performative: Composite) -> RemoteProtocolError:
        return RemoteProtocolError(f"{performative.descriptor_name} out of order (§5.3.2)", "amqp:illegal-state")


class ClientSasl(_SaslLayer):
    """The client's side: waits for the offer, chooses, answers.

    Args:
        mechanisms: what the credentials allow.
        hostname: the server's name, told in the init.
        secure: secrets may cross the transport as they are.
    """

    mechanism: str | None

    def __init__(self, mechanisms: tuple[Mechanism, ...], hostname: str | None, secure: bool) -> None:
        super().__init__()
        self._hostname = hostname
        self._handshake = ClientHandshake(mechanisms, hostname, secure)

    def _receive(self, performative: Composite) -> None:
        handshake, chosen = self._handshake, self.mechanism is not None
        if isinstance(performative, SaslMechanisms) and not chosen:
            initial = handshake.start(map(str, performative.sasl_server_mechanisms))
            self.mechanism = handshake.mechanism
            self._send(SaslInit(mechanism=self.mechanism, initial_response=initial, hostname=self._hostname))
        elif isinstance(performative, SaslChallenge) and chosen:
            self._send(SaslResponse(response=handshake.respond(bytes(performative.challenge))))
        elif isinstance(performative, SaslOutcome) and chosen:
            code = performative.code
            if code != 0:
                raise AuthenticationFailed(
                    f"{_REASONS.get(code, 'the server refused with an unknown code')} ({self.mechanism})", code
                )
            handshake.finish(performative.additional_data)
            self.done = True
        else:
            raise self._unexpected(performative)


class ServerSasl(_SaslLayer):
    """The server's side: offers at once, asks, and says how it ended."""

    mechanism: str | None
    identity: str | None
    error: AmqpError | None

    def __init__(self, authenticator: Authenticator) -> None:
        super().__init__()
        self._handshake = ServerHandshake(authenticator)
        self._send(SaslMechanisms(sasl_server_mechanisms=self._handshake.offered))

    def _receive(self, performative: Composite) -> None:
        if isinstance(performative, SaslInit) and self.mechanism is None:
            self.mechanism, response = str(performative.mechanism), performative.initial_response
            step = self._handshake.start(self.mechanism, None if response is None else bytes(response))
        elif isinstance(performative, SaslResponse) and self.mechanism is not None:
            step = self._handshake.step(bytes(performative.response))
        else:
            raise self._unexpected(performative)
        if isinstance(step, Challenge):
            self._send(SaslChallenge(challenge=step.data))
        elif isinstance(step, Success):
            self.identity = step.identity
            self._send(SaslOutcome(code=0, additional_data=step.additional))
            self.done = True
        else:
            self._send(SaslOutcome(code=1))
            self.error = AuthenticationFailed(self._handshake.refusal, 1)

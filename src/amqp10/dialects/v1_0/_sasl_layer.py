"""The SASL layer before AMQP (§5.3): frames in the order of §5.3.2, around the mechanisms of `amqp10.sasl`.

Server: mechanisms ─> init ─> (challenge ─> response)* ─> outcome. Both sides are here, each a machine that is fed
performatives and asked for the bytes to send.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ...errors import AmqpError, AuthenticationFailed, RemoteProtocolError
from ...sasl import Challenge, Success, choose
from ._frames import encode_sasl_frame
from ._performatives import SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse

if TYPE_CHECKING:
    from ...sasl import Authenticator, ClientExchange, Mechanism, ServerExchange
    from ...types import Composite

MAX_ROUNDS = 10  # challenges in one exchange; no mechanism needs more than three

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
        self._rounds = 0

    def frames(self) -> bytes:
        """What is to be sent now."""
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

    def _count_round(self) -> None:
        self._rounds += 1
        if self._rounds > MAX_ROUNDS:
            raise RemoteProtocolError("the SASL exchange does not end", "amqp:not-allowed")

    def _unexpected(self, performative: Composite) -> RemoteProtocolError:
        return RemoteProtocolError(f"{performative.descriptor_name} out of order (§5.3.2)", "amqp:illegal-state")


class ClientSasl(_SaslLayer):
    """The client's side: waits for the offer, chooses, answers.

    Args:
        mechanisms: what the credentials allow.
        hostname: the server's name, told in the init.
        secure: secrets may cross the transport as they are.
    """

    def __init__(self, mechanisms: tuple[Mechanism, ...], hostname: str | None, secure: bool) -> None:
        super().__init__()
        self._mechanisms = mechanisms
        self._hostname = hostname
        self._secure = secure
        self._exchange: ClientExchange | None = None

    def _receive(self, performative: Composite) -> None:
        exchange = self._exchange
        if isinstance(performative, SaslMechanisms) and exchange is None:
            mechanism = choose(
                [str(name) for name in performative.sasl_server_mechanisms], self._mechanisms, secure=self._secure
            )
            self.mechanism = mechanism.name
            self._exchange = exchange = mechanism.exchange(self._hostname)
            self._send(SaslInit(mechanism=mechanism.name, initial_response=exchange.initial(), hostname=self._hostname))
        elif isinstance(performative, SaslChallenge) and exchange is not None:
            self._count_round()
            self._send(SaslResponse(response=exchange.respond(bytes(performative.challenge))))
        elif isinstance(performative, SaslOutcome) and exchange is not None:
            code = performative.code
            if code != 0:
                raise AuthenticationFailed(
                    f"{_REASONS.get(code, 'the server refused with an unknown code')} ({self.mechanism})", code
                )
            exchange.finish(performative.additional_data)
            self.done = True
        else:
            raise self._unexpected(performative)


class ServerSasl(_SaslLayer):
    """The server's side: offers at once, asks, and says how it ended."""

    def __init__(self, authenticator: Authenticator) -> None:
        super().__init__()
        self._authenticator = authenticator
        self._offered = tuple(authenticator.mechanisms())
        self._exchange: ServerExchange | None = None
        self._send(SaslMechanisms(sasl_server_mechanisms=self._offered))

    def _receive(self, performative: Composite) -> None:
        if isinstance(performative, SaslInit) and self._exchange is None:
            name = str(performative.mechanism)
            self.mechanism = name
            if name not in self._offered:
                self._authenticator.refuse(name)
                self._fail(f"the client chose {name}, which was not offered")
                return
            self._exchange = self._authenticator.exchange(name)
            response = performative.initial_response
        elif isinstance(performative, SaslResponse) and self._exchange is not None:
            response = performative.response
        else:
            raise self._unexpected(performative)
        self._count_round()
        step = self._exchange.step(None if response is None else bytes(response))
        if isinstance(step, Challenge):
            self._send(SaslChallenge(challenge=step.data))
        elif isinstance(step, Success):
            self.identity = step.identity
            self._send(SaslOutcome(code=0, additional_data=step.additional))
            self.done = True
        else:
            self._fail(f"the client's credentials were refused ({self.mechanism})")

    def _fail(self, reason: str) -> None:
        self._send(SaslOutcome(code=1))
        self.error = AuthenticationFailed(reason, 1)

"""One login, from either side: a mechanism, then rounds of challenge and response; dialects supply the frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ..errors import RemoteProtocolError
from ._choose import choose
from ._mechanism import Challenge, ClientExchange, Failure, Mechanism, ServerExchange, Step, Success

if TYPE_CHECKING:
    from ._authenticator import Authenticator

MAX_ROUNDS: Final = 10
"""The limit of responses in one login; no mechanism needs more than three."""


class _Handshake:
    """The part of a login that both sides share.

    Attributes:
        mechanism: the name of the mechanism; "" before the client has chosen.
    """

    mechanism = ""
    _rounds = 0

    def _count_round(self) -> None:
        self._rounds += 1
        if self._rounds > MAX_ROUNDS:
            raise RemoteProtocolError("the SASL exchange does not end", "amqp:not-allowed")


class ClientHandshake(_Handshake):
    """The client's side.

    Args:
        mechanisms: the mechanisms that the credentials allow.
        hostname: the server's name, as the user knows it.
        secure: whether secrets may cross the transport in the clear.
    """

    mechanism: str

    def __init__(self, mechanisms: Sequence[Mechanism], hostname: str | None, secure: bool) -> None:
        self._mechanisms = mechanisms
        self._hostname = hostname
        self._secure = secure
        self._exchange: ClientExchange | None = None

    def start(self, offered: Iterable[str]) -> bytes | None:
        """Choose one of the mechanisms that the server offers; return the initial response, or None.

        Raises:
            AuthenticationFailed, InsecureTransport: see `choose`.
        """
        mechanism = choose(offered, self._mechanisms, secure=self._secure)
        self._exchange = mechanism.exchange(self._hostname)
        self.mechanism = mechanism.name
        return self._exchange.initial()

    def respond(self, challenge: bytes) -> bytes:
        """Return the answer to a challenge.

        Raises:
            AuthenticationFailed: see `ClientExchange.respond`.
            RemoteProtocolError: no mechanism was chosen yet, or the server sends too many challenges.
        """
        if self._exchange is None:
            raise RemoteProtocolError("a challenge before a mechanism was chosen", "amqp:illegal-state")
        self._count_round()
        return self._exchange.respond(challenge)

    def finish(self, additional: bytes | None) -> None:
        """Take the server's report that the login succeeded.

        Raises:
            AuthenticationFailed: the server could not prove its identity.
            RemoteProtocolError: no mechanism was chosen yet.
        """
        if self._exchange is None:
            raise RemoteProtocolError("the server sent an outcome before a login began", "amqp:illegal-state")
        self._exchange.finish(additional)


class ServerHandshake(_Handshake):
    """The server's side.

    Args:
        authenticator: decides who may log in.
        last_word: whether the mechanism's final data is sent as another challenge, because the dialect's success has no
            field for it.

    Attributes:
        offered: the names of the offered mechanisms.
        was_offered: whether the client chose an offered mechanism.
        refusal: the reason of a refusal, for this side only; "" unless the client was refused.
    """

    def __init__(self, authenticator: Authenticator, *, last_word: bool = False) -> None:
        self.offered: tuple[str, ...] = tuple(authenticator.mechanisms())
        self.was_offered: bool = True
        self.refusal: str = ""
        self._authenticator = authenticator
        self._last_word = last_word
        self._proved: Success | None = None  # set once the final data is sent as a challenge
        self._exchange: ServerExchange | None = None

    def start(self, mechanism: str, response: bytes | None) -> Step:
        """Take the client's choice, and its initial response if it sent one.

        Raises:
            RemoteProtocolError: see `step`.
        """
        self.mechanism = mechanism
        if mechanism not in self.offered:
            self._authenticator.refuse(mechanism)
            self.was_offered = False
            self.refusal = f"the client chose {mechanism}, which was not offered"
            return Failure()
        self._exchange = self._authenticator.exchange(mechanism)
        return self.step(response)

    def step(self, response: bytes | None) -> Step:
        """Take a response.

        Raises:
            RemoteProtocolError: no mechanism was chosen yet, or the client sends too many responses.
        """
        if self._proved is not None:
            return self._proved
        if self._exchange is None:
            raise RemoteProtocolError("a response before a mechanism was chosen", "amqp:illegal-state")
        self._count_round()
        step = self._exchange.step(response)
        if isinstance(step, Success) and step.additional and self._last_word:
            self._proved = step
            return Challenge(step.additional)
        if not isinstance(step, Challenge | Success):
            self.refusal = f"the client's credentials were refused ({self.mechanism})"
        return step

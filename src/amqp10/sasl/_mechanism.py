"""The interface: a mechanism is a login that can be tried any number of times, an exchange is one try (RFC 4422).

Pure challenge and response: no frames, no sockets. Secrets never show in a `repr` or an error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


class ClientExchange(ABC):
    """One try of a client."""

    @abstractmethod
    def initial(self) -> bytes | None:
        """Return the initial response; None where the server speaks first."""

    def respond(self, challenge: bytes) -> bytes:
        """Return the answer to a challenge.

        Raises:
            AuthenticationFailed: the challenge is not one of this mechanism's, or the server could not prove itself.
        """
        return b""

    def finish(self, additional: bytes | None) -> None:  # noqa: B027  # most servers prove nothing
        """Check the server's last word: it says that the login succeeded.

        Raises:
            AuthenticationFailed: the server could not prove itself.
        """


class Mechanism(ABC):
    """A client's login.

    Attributes:
        name: as registered with IANA.
        strength: the strongest that is offered is used. 0: it proves nobody (ANONYMOUS), and is not used in place of
            one that is refused for want of TLS; 10: the password crosses as it is (PLAIN); 20 to 40: it does not
            (SCRAM, by length of digest), 42 to 44: bound to TLS, too; 45, 46: a token; 50: a certificate (EXTERNAL).
        needs_tls: a secret crosses the wire as it is, so the transport must be secure.
    """

    name: ClassVar[str]
    strength: ClassVar[int]

    @property
    def needs_tls(self) -> bool:
        return False

    @abstractmethod
    def exchange(self, hostname: str | None = None) -> ClientExchange:
        """Begin a new try; `hostname` is the server's name as the user knows it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


@dataclass(frozen=True, slots=True)
class Challenge:
    """The server asks on."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Refusal(Challenge):
    """The server says why the client is not let in; whatever is answered, `Failure` follows."""

    reason: str


@dataclass(frozen=True, slots=True)
class Success:
    """The client is who it says. `identity` None: nobody in particular (ANONYMOUS)."""

    identity: str | None
    additional: bytes | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The client is not let in; it is never told why."""


Step = Challenge | Success | Failure


class ServerExchange(ABC):
    """One try, from the server's side.

    Attributes:
        claimed: who the client says it is, as far as it said so; nothing of it is proved.
    """

    claimed: str | None = None

    @abstractmethod
    def step(self, response: bytes | None) -> Step:
        """Take a response (None: an init without an initial one). Never raises for what the client sends."""

"""The interface of mechanisms: a mechanism is a login that can be tried repeatedly, an exchange is one try (RFC 4422).

It has no frames and no sockets. Secrets never appear in a `repr` or an error. For another mechanism, see "How to add…"
in CONTRIBUTING.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


class ClientExchange(ABC):
    """One try of a client."""

    @abstractmethod
    def initial(self) -> bytes | None:
        """Return the initial response; None if the server speaks first."""

    def respond(self, challenge: bytes) -> bytes:
        """Return the answer to a challenge.

        Raises:
            AuthenticationFailed: the challenge is invalid, or the server could not prove its identity.
        """
        return b""

    def finish(self, additional: bytes | None) -> None:  # noqa: B027  # most mechanisms prove nothing of the server
        """Check the server's final data, after it reported that the login succeeded.

        Raises:
            AuthenticationFailed: the server could not prove its identity.
        """


class Mechanism(ABC):
    """A client's login.

    Attributes:
        name: as registered with IANA.
        strength: the strongest offered mechanism is used. 0: no identity (ANONYMOUS), and no substitute for a mechanism
            that needs TLS; 10: the password in the clear (PLAIN); 20 to 40: SCRAM, by the length of the digest; 42 to
            44: SCRAM bound to TLS; 45, 46: a token; 50: a certificate (EXTERNAL).
        needs_tls: whether a secret crosses the wire in the clear, so that the transport must be secure.
    """

    name: ClassVar[str]
    strength: ClassVar[int]

    @property
    def needs_tls(self) -> bool:
        return False

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that no error and no log may show, even if the server repeats them."""
        return ()

    @abstractmethod
    def exchange(self, hostname: str | None = None) -> ClientExchange:
        """Begin a new try; `hostname` is the server's name as the user knows it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


@dataclass(frozen=True, slots=True)
class Challenge:
    """The server's next challenge."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Refusal(Challenge):
    """A challenge with the reason of a refusal; `Failure` follows, whatever the client answers."""

    reason: str


@dataclass(frozen=True, slots=True)
class Success:
    """The client has proved its `identity`; None for ANONYMOUS."""

    identity: str | None
    additional: bytes | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The client is refused, and never told why."""


Step = Challenge | Success | Failure


class ServerExchange(ABC):
    """One try, from the server's side.

    Attributes:
        claimed: the identity that the client claims, unproved; None if it has named none.
    """

    claimed: str | None = None

    @abstractmethod
    def step(self, response: bytes | None) -> Step:
        """Take a response; None for an init without an initial response. Never raises, whatever the client sends."""

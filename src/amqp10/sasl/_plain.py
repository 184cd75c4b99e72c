"""ANONYMOUS (RFC 4505), PLAIN (RFC 4616) and EXTERNAL (RFC 4422, appendix A): one message each."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from ._mechanism import Challenge, ClientExchange, Failure, Mechanism, ServerExchange, Step, Success
from ._prepare import prepare


class _Once(ClientExchange):
    """An exchange that is its initial response."""

    def __init__(self, message: bytes) -> None:
        self._message = message

    def initial(self) -> bytes | None:
        return self._message

    def respond(self, challenge: bytes) -> bytes:
        return self._message  # a server that ignored the initial response asks for it with an empty challenge


class Anonymous(Mechanism):
    """Nobody in particular. `trace` is what the server may log."""

    name = "ANONYMOUS"
    strength = 0

    def __init__(self, trace: str = "") -> None:
        self._trace = trace

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        return _Once(self._trace.encode())


class External(Mechanism):
    """Whoever the layer below says: the client certificate of the TLS connection. `authzid`: act as somebody else."""

    name = "EXTERNAL"
    strength = 50

    def __init__(self, authzid: str | None = None) -> None:
        self._authzid = authzid

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        return _Once((self._authzid or "").encode())


class Plain(Mechanism):
    """User and password, readable: over TLS, to loopback, or with `allow_insecure=True` anywhere.

    Raises:
        ValueError: user or password has a NUL, or characters that no login has.
    """

    name = "PLAIN"
    strength = 10

    def __init__(self, user: str, password: str, *, authzid: str = "", allow_insecure: bool = False) -> None:
        if "\0" in user + password + authzid:
            raise ValueError("a PLAIN login has no NUL character")
        self.user = user
        self._password = password
        self._authzid = authzid
        self._allow_insecure = allow_insecure

    @property
    def needs_tls(self) -> bool:
        return not self._allow_insecure

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        return _Once(f"{self._authzid}\0{self.user}\0{self._password}".encode())

    def __repr__(self) -> str:
        return f"Plain({self.user!r}, ...)"


# Server side


class AnonymousServer(ServerExchange):
    def step(self, response: bytes | None) -> Step:
        return Success(None)


class ExternalServer(ServerExchange):
    """`identity` is the certificate's; only that one may be acted as."""

    def __init__(self, identity: str) -> None:
        self._identity = identity

    def step(self, response: bytes | None) -> Step:
        if response is None:
            return Challenge(b"")
        if response and not hmac.compare_digest(response, self._identity.encode()):
            return Failure()
        return Success(self._identity)


class PlainServer(ServerExchange):
    """`password_of` gives a user's password, None for a user that is not there."""

    def __init__(self, password_of: Callable[[str], str | None]) -> None:
        self._password_of = password_of

    def step(self, response: bytes | None) -> Step:
        if response is None:
            return Challenge(b"")
        parts = response.split(b"\0")
        if len(parts) != 3:
            return Failure()
        try:
            authzid, user, given = (part.decode() for part in parts)
            user, given = prepare(user), prepare(given)
        except ValueError:
            return Failure()
        password = self._password_of(user)
        # The comparison is made for unknown users too, so that they take as long.
        right = hmac.compare_digest(given.encode(), (prepare(password) if password else "\1").encode())
        if not right or password is None or authzid not in ("", user):
            return Failure()
        return Success(user)

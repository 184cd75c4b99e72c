"""ANONYMOUS (RFC 4505), PLAIN (RFC 4616) and EXTERNAL (RFC 4422, appendix A): one message each."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable

from .._arguments import checked
from ._mechanism import Challenge, ClientExchange, Failure, Mechanism, ServerExchange, Step, Success
from ._prepare import encode


class _Once(ClientExchange):
    """An exchange that is its initial response."""

    def __init__(self, message: bytes) -> None:
        self._message = message

    def initial(self) -> bytes | None:
        return self._message

    def respond(self, challenge: bytes) -> bytes:
        return self._message  # a server that ignored the initial response asks for it with an empty challenge


@checked
class Anonymous(Mechanism):
    """Login without an identity. The server may log `trace`.

    Raises:
        ValueError: `trace` has a NUL.
    """

    name = "ANONYMOUS"
    strength = 0

    def __init__(self, trace: str = "") -> None:
        self._message = encode(trace)

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        return _Once(self._message)


class Mssbcbs(Anonymous):
    """ANONYMOUS under the name of Azure's services, which identify the client by tokens at `$cbs`."""

    name = "MSSBCBS"


@checked
class External(Mechanism):
    """Login by the client certificate of the TLS connection. `authzid`: act as another user.

    Raises:
        ValueError: `authzid` has a NUL.
    """

    name = "EXTERNAL"
    strength = 50

    def __init__(self, authzid: str | None = None) -> None:
        self._message = encode(authzid or "")

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        return _Once(self._message)


@checked
class Plain(Mechanism):
    """Login by user and password in the clear: over verified TLS, on loopback, or with `allow_insecure=True`.

    Raises:
        ValueError: the user is empty, or an argument has a NUL.
    """

    name = "PLAIN"
    strength = 10

    def __init__(self, user: str, password: str, *, authzid: str = "", allow_insecure: bool = False) -> None:
        if not user:
            raise ValueError("the user name must not be empty")
        self.user = user
        self._message = b"\0".join((encode(authzid), encode(user), encode(password)))
        self._secrets = () if password == user else (password, base64.b64encode(self._message).decode())
        self._allow_insecure = allow_insecure

    @property
    def needs_tls(self) -> bool:
        return not self._allow_insecure

    @property
    def secrets(self) -> tuple[str, ...]:
        return self._secrets

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        return _Once(self._message)

    def __repr__(self) -> str:
        return f"Plain({self.user!r}, ...)"


# Server side


class AnonymousServer(ServerExchange):
    def step(self, response: bytes | None) -> Step:
        return Success(None)


class ExternalServer(ServerExchange):
    """The server side of EXTERNAL. The client may only act as `identity`, that of its certificate; None without one."""

    def __init__(self, identity: str | None) -> None:
        self._identity = identity

    def step(self, response: bytes | None) -> Step:
        if response is None:
            return Challenge(b"")
        if self._identity is None or (response and not hmac.compare_digest(response, self._identity.encode())):
            return Failure()
        return Success(self._identity)


class PlainServer(ServerExchange):
    """The server side of PLAIN. `check` returns the identity of a user with a password; None to refuse."""

    def __init__(self, check: Callable[[str, str], str | None]) -> None:
        self._check = check

    def step(self, response: bytes | None) -> Step:
        if response is None:
            return Challenge(b"")
        parts = response.split(b"\0")
        if len(parts) != 3:
            return Failure()
        try:
            authzid, user, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            return Failure()
        self.claimed = user
        identity = self._check(user, password)
        return Success(identity) if identity is not None and authzid in ("", user) else Failure()

"""XOAUTH2 and OAUTHBEARER (RFC 7628): an access token as login."""

from __future__ import annotations

from collections.abc import Callable

from ._mechanism import Challenge, ClientExchange, Failure, Mechanism, ServerExchange, Step, Success

TokenVerifier = Callable[[str | None, str], str | None]
"""(user or None, token) -> who it is for, None to refuse. Must be quick: the server waits."""


class _Bearer(ClientExchange):
    def __init__(self, message: bytes, acknowledgment: bytes) -> None:
        self._message = message
        self._acknowledgment = acknowledgment
        self._sent = False

    def initial(self) -> bytes | None:
        self._sent = True
        return self._message

    def respond(self, challenge: bytes) -> bytes:
        if not self._sent or not challenge:
            return self.initial() or b""
        return self._acknowledgment  # the challenge says why it failed; the outcome comes after this


class XOAuth2(Mechanism):
    """User and access token, as Google and Microsoft take them. The token crosses the wire readable."""

    name = "XOAUTH2"
    strength = 45

    def __init__(self, user: str, token: str, *, allow_insecure: bool = False) -> None:
        self.user = user
        self._token = token
        self._allow_insecure = allow_insecure
        _check(user, token)

    @property
    def needs_tls(self) -> bool:
        return not self._allow_insecure

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        return _Bearer(f"user={self.user}\1auth=Bearer {self._token}\1\1".encode(), b"")

    def __repr__(self) -> str:
        return f"XOAuth2({self.user!r}, ...)"


class OAuthBearer(Mechanism):
    """An access token (RFC 7628), for a user if one is named. The token crosses the wire readable."""

    name = "OAUTHBEARER"
    strength = 46

    def __init__(
        self,
        token: str,
        *,
        user: str | None = None,
        host: str | None = None,
        port: int | None = None,
        allow_insecure: bool = False,
    ) -> None:
        self.user = user
        self._token = token
        self._host = host
        self._port = port
        self._allow_insecure = allow_insecure
        _check(user or "", token, host or "")

    @property
    def needs_tls(self) -> bool:
        return not self._allow_insecure

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        authzid = f"a={self.user.replace('=', '=3D').replace(',', '=2C')}" if self.user else ""
        host = self._host or hostname
        parts = [f"host={host}"] if host else []
        if self._port is not None:
            parts.append(f"port={self._port}")
        parts.append(f"auth=Bearer {self._token}")
        return _Bearer((f"n,{authzid},\1" + "\1".join(parts) + "\1\1").encode(), b"\1")


def _check(*texts: str) -> None:
    if any("\1" in text or "\0" in text for text in texts):
        raise ValueError("a login by token has no control characters")


class BearerServer(ServerExchange):
    """Either mechanism, from the server's side."""

    def __init__(self, verify: TokenVerifier) -> None:
        self._verify = verify

    def step(self, response: bytes | None) -> Step:
        if response is None:
            return Challenge(b"")
        try:
            parts = response.decode().split("\1")
        except ValueError:
            return Failure()
        user = token = None
        for part in parts:
            if part.startswith("user="):
                user = part[5:]
            elif part.startswith("n,a="):
                user = part[4:].rstrip(",").replace("=2C", ",").replace("=3D", "=")
            elif part.lower().startswith("auth=bearer "):
                token = part[12:]
        identity = self._verify(user, token) if token else None
        return Success(identity) if identity is not None else Failure()

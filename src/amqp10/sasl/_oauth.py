"""XOAUTH2 and OAUTHBEARER (RFC 7628): login by an access token."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from .._arguments import check_range, checked
from ..errors import AuthenticationFailed
from ._mechanism import Challenge, ClientExchange, Failure, Mechanism, ServerExchange, Step, Success
from ._prepare import encode

_log = logging.getLogger("amqp10.sasl")

TokenVerifier = Callable[[str | None, str], str | None]
"""Takes the user, or None, and the token; returns the identity, or None to refuse. An exception also refuses.

It must be quick, because the server waits.
"""


class _Bearer(ClientExchange):
    def __init__(self, message: bytes, acknowledgment: bytes) -> None:
        self._message = message
        self._acknowledgment = acknowledgment
        self._refused = False

    def initial(self) -> bytes | None:
        return self._message

    def respond(self, challenge: bytes) -> bytes:
        if not challenge:  # a server that ignored the initial response asks for it with an empty challenge
            return self._message
        # The challenge has the reason of the refusal; the answer only triggers the outcome (RFC 7628, section 3.2.3).
        self._refused = True
        return self._acknowledgment

    def finish(self, additional: bytes | None) -> None:
        if self._refused:
            raise AuthenticationFailed("the server refused the token, and then reported success")


@checked
class XOAuth2(Mechanism):
    """Login by user and access token, for Google and Microsoft. The token crosses the wire in the clear.

    Raises:
        ValueError: the user is empty, or an argument has control characters.
    """

    name = "XOAUTH2"
    strength = 45

    def __init__(self, user: str, token: str, *, allow_insecure: bool = False) -> None:
        if not user:
            raise ValueError("the user name must not be empty")
        _check(user, token)
        self.user = user
        self._message = encode(f"user={user}\1auth=Bearer {token}\1\1")
        self._secrets = (token,)
        self._allow_insecure = allow_insecure

    @property
    def needs_tls(self) -> bool:
        return not self._allow_insecure

    @property
    def secrets(self) -> tuple[str, ...]:
        return self._secrets

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        return _Bearer(self._message, b"")

    def __repr__(self) -> str:
        return f"XOAuth2({self.user!r}, ...)"


@checked
class OAuthBearer(Mechanism):
    """Login by an access token (RFC 7628), optionally for a user. The token crosses the wire in the clear.

    Args:
        host, port: the server's address, to send with the token; None for the connection's host, and no port.

    Raises:
        ValueError: an argument has control characters, or the port is out of range.
    """

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
        _check(user or "", token, host or "")
        if port is not None:
            check_range("port", port, 1, 65_535)
        authzid = f"a={user.replace('=', '=3D').replace(',', '=2C')}" if user else ""
        self.user = user
        self._header = encode(f"n,{authzid},\1")
        self._token = encode(f"auth=Bearer {token}\1\1")
        self._host = host
        self._port = port
        self._secrets = (token,)
        self._allow_insecure = allow_insecure

    @property
    def needs_tls(self) -> bool:
        return not self._allow_insecure

    @property
    def secrets(self) -> tuple[str, ...]:
        return self._secrets

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        host = self._host or hostname
        where = f"host={host}\1" if host else ""
        if self._port is not None:
            where += f"port={self._port}\1"
        return _Bearer(self._header + where.encode() + self._token, b"\1")

    def __repr__(self) -> str:
        return f"OAuthBearer(..., user={self.user!r})"


def _check(*texts: str) -> None:
    if any(ord(char) < 0x20 or char == "\x7f" for text in texts for char in text):
        raise ValueError("a login by token must not have control characters")


# Server side


class _BearerServer(ServerExchange):
    """The part that both mechanisms share. A refusal is sent as JSON, and fails once the client has acknowledged it."""

    def __init__(self, verify: TokenVerifier) -> None:
        self._verify = verify
        self._refused = False

    def step(self, response: bytes | None) -> Step:
        if self._refused:
            return Failure()
        if response is None:
            return Challenge(b"")
        try:
            user, token = self._parse(response.decode())
        except ValueError:
            return Failure()
        try:
            identity = self._verify(user, token)
        except Exception as error:
            # Only the class, because the message may quote the token.
            _log.warning("the token verifier failed with %s", type(error).__name__)
            identity = None
        if identity is not None:
            return Success(identity)
        self._refused = True
        return Challenge(json.dumps({"status": "invalid_token"}).encode())

    def _parse(self, message: str) -> tuple[str | None, str]:
        """Return user and token; raise ValueError if the message is invalid."""
        raise ValueError(message)

    def _pairs(self, parts: list[str]) -> dict[str, str]:
        """Parse `key=value` pairs between control characters; two control characters end the message."""
        if parts[-2:] != ["", ""]:
            raise ValueError("not ended")
        return {key: value for key, _, value in (part.partition("=") for part in parts[:-2])}

    def _token(self, pairs: dict[str, str]) -> str:
        kind, _, token = pairs.get("auth", "").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise ValueError("no bearer token")
        return token


class XOAuth2Server(_BearerServer):
    def _parse(self, message: str) -> tuple[str | None, str]:
        pairs = self._pairs(message.split("\1"))
        return pairs.get("user") or None, self._token(pairs)


class OAuthBearerServer(_BearerServer):
    def _parse(self, message: str) -> tuple[str | None, str]:
        header, *parts = message.split("\1")
        binding, authzid, rest = header.split(",")
        if binding not in ("n", "y") or rest or (authzid and not authzid.startswith("a=")):
            raise ValueError("not a GS2 header without channel binding")
        user = authzid[2:].replace("=2C", ",").replace("=3D", "=")
        return user or None, self._token(self._pairs(parts))

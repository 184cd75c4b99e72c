"""Tokens in tests: a wall clock that goes as the event loop's does, sources that fail on purpose, and a network that
leads to an embedded broker in memory, so that hours of token life pass in no time."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from amqp10 import LoginTokens, SasKey, Token
from amqp10.broker import Broker, JwtKey, SasRule, TokenRules
from amqp10.errors import ConnectionLost
from amqp10.net import StreamFacts

from .inside.client import supervisor

KEY = "the-key-of-the-policy"
SECRET = "the-secret-of-the-issuer"
EPOCH = 1_700_000_000.0


def wall() -> float:
    """Seconds since 1970, by the event loop's clock."""
    return EPOCH + anyio.current_time()


def jwt(claims: dict[str, Any], secret: str = SECRET, algorithm: str = "HS256") -> str:
    """A JSON Web Token with a signature of HS256, whatever it says of itself."""

    def part(octets: bytes) -> str:
        return base64.urlsafe_b64encode(octets).decode().rstrip("=")

    signed = ".".join(part(json.dumps(each).encode()) for each in ({"alg": algorithm, "typ": "JWT"}, claims))
    return f"{signed}.{part(hmac.digest(secret.encode(), signed.encode(), 'sha256'))}"


class Source:
    """Gives tokens for a user, and does on the way what the test says.

    Attributes:
        asked: scopes, in order.
        behave: called before each token is given, with how many were asked for before; may raise or wait.
    """

    def __init__(self, lifetime: float = 600.0, scope: str = "read:*/* write:*/* configure:*/*", **claims: Any) -> None:
        self.asked: list[str] = []
        self.given: list[str] = []
        self.behave: Callable[[int], Any] = lambda count: None
        self._lifetime = lifetime
        self._claims = {"sub": "ann", "scope": scope, **claims}

    async def get_token(self, scope: str) -> Token:
        self.asked.append(scope)
        waiting = self.behave(len(self.asked) - 1)
        if waiting is not None:
            await waiting
        end = wall() + self._lifetime
        value = jwt({**self._claims, "exp": end, "jti": len(self.asked)})
        self.given.append(value)
        return Token(value, end)


def logins(source: Source, **settings: Any) -> LoginTokens:
    return LoginTokens(source, clock=wall, **settings)


def sas_key(lifetime: float = 600.0) -> SasKey:
    return SasKey("policy", KEY, lifetime=lifetime, clock=wall)


def rules(**settings: Any) -> TokenRules:
    said: dict[str, Any] = {"sas": [SasRule("policy", KEY)], "jwt": [JwtKey(SECRET)], "clock": wall} | settings
    return TokenRules(**said)


class Network:
    """Leads every connection to one broker, without sockets.

    Attributes:
        down: it leads nowhere.
        connected: how many connections were made.
        secure: secrets may cross as they are, as far as the client knows.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, broker: Broker) -> None:
        self.down = False
        self.connected = 0
        self.secure = True
        self._broker = broker
        self._streams: list[Any] = []
        monkeypatch.setattr(supervisor, "connect", self._connect)

    async def _connect(self, endpoint: Any, *_: Any) -> tuple[Any, StreamFacts]:
        await anyio.lowlevel.checkpoint()
        if self.down:
            raise ConnectionLost(f"cannot connect to {endpoint}")
        stream = self._broker.open_stream()
        self._streams.append(stream)
        self.connected += 1
        return stream, StreamFacts(secure=self.secure)

    async def cut(self) -> None:
        """Cut all connections that there are."""
        for stream in self._streams:
            await anyio.aclose_forcefully(stream)
        self._streams.clear()

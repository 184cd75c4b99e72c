"""Tokens that expire, and their sources: your own provider, an azure-identity credential, or a shared access key.

    async with Connection("amqps://host", tokens=CbsTokens(SasKey("policy", key))) as connection: ...

`LoginTokens` logs in with a token; `CbsTokens` puts tokens to the node `$cbs`.
"""

from __future__ import annotations

import base64
import hmac
import inspect
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self, TypeAlias, runtime_checkable
from urllib.parse import parse_qs, quote_plus

from ._arguments import checked
from ._calls import in_thread
from ._json import parse_json

SAS_PREFIX: Final = "SharedAccessSignature "
"""The prefix of every SAS token."""


@checked
@dataclass(frozen=True, slots=True)
class Token:
    """A token and its expiry.

    Attributes:
        value: the text that is sent.
        expires_on: seconds since 1970; None if the token has no known expiry and so is never renewed.
    """

    value: str = field(repr=False)
    expires_on: float | None = None

    @classmethod
    @checked
    def read(cls, value: str) -> Self:
        """Make a token from its text. Its expiry is `se` of a SAS token, or `exp` of a JWT."""
        return cls(value, _end_of(value))


@runtime_checkable
class TokenProvider(Protocol):
    """A source of tokens. You can pass credentials of azure-identity directly, synchronous and asyncio ones."""

    async def get_token(self, scope: str) -> Token:
        """Return a token that has not expired. It may be the token returned before, as long as that has some time left.

        Args:
            scope: the audience of the token, usually a URI.
        """


@runtime_checkable
class Credential(Protocol):
    """A credential of azure-identity: `get_token` returns an object with `token` and `expires_on`."""

    def get_token(self, *scopes: str) -> Any:
        """Return a token for `scopes`, or a coroutine that returns one."""


@runtime_checkable
class CredentialWithInfo(Protocol):
    """A credential in azure-core's newer form (`SupportsTokenInfo`), which is preferred if it has both forms."""

    def get_token_info(self, *scopes: str) -> Any:
        """Return an object with `token` and `expires_on` for `scopes`, or a coroutine that returns one."""


TokenSource: TypeAlias = (
    TokenProvider | Credential | CredentialWithInfo | Callable[[str], "Token | str | Awaitable[Token | str]"]
)
"""A source of tokens: a provider, a credential, or a function of the scope, async or not.

A plain function runs in a thread, because it may wait for a server. A returned `str` is read by `Token.read`.
"""


async def ask(source: TokenSource, scope: str) -> Token:
    """Return a token from `source` for `scope`.

    Raises:
        TypeError: the source did not return a token.
        Exception: whatever the source raises.

    Cancelling: a function that runs in a thread goes on, and its token is dropped.
    """
    function: Any = getattr(source, "get_token_info", None) or getattr(source, "get_token", source)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        given = await function(scope)
    else:
        given = await in_thread(function, scope, abandon_on_cancel=True)
    if isinstance(given, Token):
        return given
    if isinstance(given, str):
        return Token.read(given)
    value = getattr(given, "token", None)
    if not isinstance(value, str):
        kind = type(given).__name__
        raise TypeError(f"a source of tokens must return a Token, a str or an object with `token`, not a {kind}")
    end = getattr(given, "expires_on", None)
    return Token(value, float(end)) if isinstance(end, int | float) else Token.read(value)


@checked
class SasKey:
    """A shared access key of Azure Service Bus or Event Hubs, which signs its own tokens.

    Args:
        name: the policy that the key belongs to.
        key: the key as the portal shows it.
        lifetime: how long each token is valid, in seconds.
        clock: returns the time in seconds since 1970.

    Raises:
        ValueError: the name or the key is empty, or the lifetime is not positive.
    """

    def __init__(
        self, name: str, key: str, *, lifetime: float = 3600.0, clock: Callable[[], float] = time.time
    ) -> None:
        if not name or not key:
            raise ValueError("a shared access key needs a name and a key, and one of them is empty")
        if lifetime <= 0:
            raise ValueError(f"lifetime must be more than 0 seconds, not {lifetime}")
        self.name = name
        self._key = key
        self._lifetime = lifetime
        self._clock = clock

    async def get_token(self, scope: str) -> Token:
        """Return a new token for the resource `scope`.

        Args:
            scope: the resource's URI, such as amqps://namespace.servicebus.windows.net/queue.
        """
        return self.sign(scope, int(self._clock() + self._lifetime))

    @checked
    def sign(self, resource: str, expires_on: int) -> Token:
        """Return a token for `resource` that expires at `expires_on`, in seconds since 1970."""
        signature = quote_plus(sas_signature(self._key, quote_plus(resource), str(expires_on)))
        value = f"{SAS_PREFIX}sr={quote_plus(resource)}&sig={signature}&se={expires_on}&skn={quote_plus(self.name)}"
        return Token(value, float(expires_on))

    def __repr__(self) -> str:
        return f"SasKey({self.name!r}, ...)"


def sas_signature(key: str, resource: str, expires_on: str) -> str:
    """Return the signature of a SAS token, in base64.

    Args:
        resource: the token's `sr`, percent-encoded.
        expires_on: the token's `se`.
    """
    digest = hmac.digest(key.encode(), f"{resource}\n{expires_on}".encode(), "sha256")
    return base64.b64encode(digest).decode()


def _end_of(value: str) -> float | None:
    try:
        if value.startswith(SAS_PREFIX):
            end = float(parse_qs(value.removeprefix(SAS_PREFIX), strict_parsing=True)["se"][0])
        else:
            _, claims, _ = value.split(".")
            end = parse_json(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
            if not isinstance(end, int | float):
                return None
        return float(end) if math.isfinite(end) else None
    except (ValueError, LookupError, TypeError, OverflowError):
        return None

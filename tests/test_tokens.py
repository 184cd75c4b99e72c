"""Tokens and what gives them: SAS tokens as Azure has them, providers, credentials and functions of all kinds."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from dataclasses import dataclass
from typing import Any

import anyio
import azure.identity
import azure.identity.aio
import pytest
from azure.core.credentials import AccessTokenInfo, TokenRequestOptions
from azure.core.pipeline.transport import (
    AsyncioRequestsTransport,
    AsyncioRequestsTransportResponse,
    RequestsTransport,
)
from requests import Response

from amqp10 import SasKey, Token, TokenProvider
from amqp10.tokens import ask, sas_signature

from .kit.token_rig import jwt


def test_sas_token() -> None:
    """The form that Azure documents; the signature was computed by openssl over the encoded resource and the end."""
    key = SasKey("RootManageSharedAccessKey", "c2VjcmV0+/=", lifetime=60, clock=lambda: 1_700_000_000.9)
    token = key.sign("sb://ns.servicebus.windows.net/my queue", 1_700_003_600)
    assert token.value == (
        "SharedAccessSignature sr=sb%3A%2F%2Fns.servicebus.windows.net%2Fmy+queue"
        "&sig=x7EPL7m8uzr0tXwSN8PznNAiVQB2gLops4A7GaiPatw%3D"
        "&se=1700003600&skn=RootManageSharedAccessKey"
    )
    assert token.expires_on == 1_700_003_600
    assert sas_signature("k", "r", "1") == "vgkgmT+BdyVbhVMhrUeyc1qYlgEUPwWY9bw2Rd4Yba4="


@pytest.mark.anyio
async def test_sas_key() -> None:
    key = SasKey("policy", "secret", lifetime=60, clock=lambda: 1_700_000_000.9)
    assert isinstance(key, TokenProvider)
    token = await key.get_token("sb://ns/q")
    assert token.expires_on == 1_700_000_060
    assert Token.read(token.value) == token
    assert repr(key) == "SasKey('policy', ...)"
    assert "secret" not in repr(token) + str(vars(SasKey))
    for name, secret, lifetime in (("", "k", 60), ("n", "", 60), ("n", "k", 0)):
        with pytest.raises(ValueError, match=r"empty|more than 0"):
            SasKey(name, secret, lifetime=lifetime)


@pytest.mark.parametrize(
    ("value", "end"),
    [
        (jwt({"exp": 5}), 5.0),
        (jwt({"exp": 5.5}), 5.5),
        (jwt({"exp": "5"}), None),
        (jwt({}), None),
        ("SharedAccessSignature sr=a&se=7", 7.0),
        ("SharedAccessSignature sr=a&se=x", None),
        ("SharedAccessSignature ", None),
        ("a.b.c", None),
        ("a.W10.c", None),  # a list
        ("opaque", None),
        pytest.param(jwt({"exp": 10**400}), None, id="huge"),
        (jwt({"exp": float("nan")}), None),
        ("SharedAccessSignature sr=a&se=inf", None),
        pytest.param(f"a.{base64.urlsafe_b64encode(b'[' * 100_000).decode()}.c", None, id="nested"),
    ],
)
def test_read(value: str, end: float | None) -> None:
    """The end is read from the token, where it says one."""
    assert Token.read(value) == Token(value, end)


@dataclass
class AccessToken:
    """What azure-identity's credentials return."""

    token: str
    expires_on: int


class Credential:
    """A credential for threads: it takes any number of scopes, and blocks."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        self.calls.append((scopes, threading.current_thread()))
        return AccessToken("t", 9)


class AsyncCredential:
    """One for asyncio."""

    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        await anyio.lowlevel.checkpoint()
        return AccessToken("t", 9)


class CredentialWithInfo:
    """One in azure-core's newer form, and without the older."""

    def get_token_info(self, *scopes: str, options: TokenRequestOptions | None = None) -> AccessTokenInfo:
        return AccessTokenInfo(f"info of {scopes}", 9)


class AsyncCredentialWithInfo(AsyncCredential):
    """One for asyncio, in both forms."""

    async def get_token_info(self, *scopes: str, options: TokenRequestOptions | None = None) -> AccessTokenInfo:
        await anyio.lowlevel.checkpoint()
        return AccessTokenInfo(f"info of {scopes}", 9, refresh_on=5)


class Called:
    async def __call__(self, scope: str) -> Token:
        return Token(scope, 9)


@pytest.mark.anyio
async def test_sources() -> None:
    """Providers, credentials and functions, those that block in a thread of their own."""
    credential = Credential()
    assert await ask(credential, "s") == Token("t", 9.0)
    scopes, thread = credential.calls[0]
    assert scopes == ("s",)
    assert thread is not threading.main_thread()
    assert await ask(AsyncCredential(), "s") == Token("t", 9.0)
    assert await ask(CredentialWithInfo(), "s") == Token("info of ('s',)", 9.0)
    assert await ask(AsyncCredentialWithInfo(), "s") == Token("info of ('s',)", 9.0)
    assert await ask(Called(), "s") == Token("s", 9)

    async def coroutine(scope: str) -> str:
        return jwt({"exp": 3})

    assert (await ask(coroutine, "")).expires_on == 3
    assert (await ask(lambda scope: coroutine(scope), "")).expires_on == 3  # is no coroutine function
    assert await ask(lambda scope: "opaque", "") == Token("opaque")
    assert await ask(lambda scope: AccessToken("t", None), "") == Token("t")  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="not a int"):
        await ask(lambda scope: 5, "")  # type: ignore[arg-type, return-value]


def entra(request: Any, asked: list[str]) -> AsyncioRequestsTransportResponse:
    """Answer a request as Microsoft Entra's endpoint of tokens does."""
    asked.append(str(request.body))
    answer = Response()
    answer.status_code = 200
    answer.headers["Content-Type"] = "application/json"
    base = "https://login.microsoftonline.com/tenant"
    said = {"token_type": "Bearer", "expires_in": 3600, "access_token": "of Entra", "issuer": f"{base}/v2.0"}
    said |= {"authorization_endpoint": f"{base}/oauth2/v2.0/authorize", "token_endpoint": f"{base}/oauth2/v2.0/token"}
    answer.raw = io.BytesIO(json.dumps(said).encode())
    return AsyncioRequestsTransportResponse(request, answer)


class Entra(RequestsTransport):  # type: ignore[misc]
    """Microsoft Entra, without a network."""

    def __init__(self, asked: list[str]) -> None:
        super().__init__()
        self._asked = asked

    def send(self, request: Any, **_: Any) -> Any:
        return entra(request, self._asked)


class AsyncEntra(AsyncioRequestsTransport):  # type: ignore[misc]
    """The same for asyncio."""

    def __init__(self, asked: list[str]) -> None:
        super().__init__()
        self._asked = asked

    async def send(self, request: Any, **_: Any) -> Any:
        return entra(request, self._asked)


@pytest.mark.anyio
async def test_azure_identity(anyio_backend: str) -> None:
    """Its credentials are sources as they are, also for asyncio; the scope goes to Entra."""
    asked: list[str] = []
    settings: dict[str, Any] = {"disable_instance_discovery": True, "transport": Entra(asked)}
    secret = azure.identity.ClientSecretCredential("tenant", "me", "secret", **settings)
    credentials: list[Any] = [secret, azure.identity.ChainedTokenCredential(secret)]
    if anyio_backend == "asyncio":
        settings["transport"] = AsyncEntra(asked)
        credentials.append(azure.identity.aio.ClientSecretCredential("tenant", "me", "secret", **settings))
    for credential in credentials:
        before = time.time()
        token = await ask(credential, "https://servicebus.azure.net/.default")
        assert token.value == "of Entra"
        assert token.expires_on is not None
        assert before + 3590 < token.expires_on < time.time() + 3601
    assert any("https://servicebus.azure.net/.default" in body for body in asked)


@pytest.mark.anyio
async def test_a_thread_that_hangs() -> None:
    """Cancelling does not wait for it."""
    go = threading.Event()

    def hang(scope: str) -> str:
        go.wait(20)
        return "late"

    with anyio.move_on_after(0.05) as scope:
        await ask(hang, "")
    go.set()
    assert scope.cancelled_caught

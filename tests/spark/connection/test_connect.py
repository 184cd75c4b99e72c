"""How Spark's options become a connection."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from amqp10 import Connection, SasKey
from amqp10.broker import Broker, JwtKey, SasRule, TokenRules
from amqp10.broker.azure import AzureConfig
from amqp10.errors import AuthenticationFailed
from amqp10.net import TLS
from amqp10.spark import Options
from amqp10.spark._connection.connect import connection
from amqp10.testing import CertificateAuthority

from ...kit.token_rig import SECRET, jwt

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "sasl", ["plain", *(f"scram-sha-{size}{plus}" for size in (1, 256, 512) for plus in ("", "-plus"))]
)
async def test_mechanisms(tmp_path: Path, sasl: str) -> None:
    """The one that is named is used, and no other in its place."""
    authority = CertificateAuthority(tmp_path)
    files = authority.server("127.0.0.1")
    tls = TLS(certificate=files.certificate, key=files.key)
    login = {"username": "ann", "password": "secret", "sasl": sasl}
    async with Broker(users={"ann": "secret"}, tls=tls) as broker:
        options = Options.parse({"url": broker.url, "tls.ca": str(authority.ca), **login})
        async with connection(options) as opened:
            assert opened.mechanism == sasl.upper()
    async with Broker(users={"ann": "secret"}) as broker:
        options = Options.parse({"url": broker.url, **login})
        if sasl.endswith("-plus"):
            with pytest.raises(AuthenticationFailed, match=sasl.upper()):
                await connection(options).__aenter__()
        else:
            async with connection(options) as opened:
                assert opened.mechanism == sasl.upper()


TOMORROW = time.time() + 86_400
RULES = TokenRules([SasRule("policy", "k/+=")], [JwtKey(SECRET)], required=True)


@pytest.mark.parametrize(
    "login",
    [
        {"username": "policy", "password": "k/+="},
        {"token": SasKey("policy", "k/+=").sign("amqps://127.0.0.1/orders", int(TOMORROW)).value},
        {"token": jwt({"exp": TOMORROW, "scope": "write:*/* read:*/*"})},
    ],
    ids=["shared access key", "SAS token", "JSON Web Token"],
)
async def test_tokens_at_cbs(login: dict[str, str]) -> None:
    """A shared access key signs them; one that is there already is put as it is."""
    async with Broker(azure=AzureConfig(["orders"]), tokens=RULES) as broker:
        options = Options.parse({"url": broker.url, "sasl": "cbs", **login})
        async with connection(options) as opened, opened.sender("orders") as sender:
            await sender.send(b"x")
        assert "k/+=" not in repr(options)


async def test_a_key_in_the_url() -> None:
    """It does, too, percent-encoded; a wrong one is told by what is attached."""
    async with Broker(azure=AzureConfig(["orders"]), tokens=RULES) as broker:

        def opened_by(key: str) -> Connection:
            url = broker.url.replace("://", f"://policy:{key}@")
            return connection(Options.parse({"url": url, "sasl": "cbs"}))

        async with opened_by("k%2F%2B%3D") as opened, opened.sender("orders"):
            pass
        async with opened_by("wrong") as opened:
            with pytest.raises(AuthenticationFailed, match="not signed with the key of a known rule"):
                await opened.sender("orders").__aenter__()


@pytest.mark.parametrize(
    ("given", "words"),
    [({}, "'sasl' is 'cbs', which needs option 'username'"), ({"username": "policy"}, "needs option 'password'")],
)
def test_no_token_for_cbs(given: dict[str, Any], words: str) -> None:
    """What is missing is named."""
    with pytest.raises(ValueError, match=words):
        connection(Options.parse({"url": "amqp://localhost", "sasl": "cbs", **given}))


async def test_event_hubs_without_credentials() -> None:
    """Nobody asks for any: none are put."""
    async with Broker() as broker:
        options = Options.parse({"url": broker.url, "address": "hub", "mode": "eventhubs"})
        async with connection(options) as opened:
            assert opened.mechanism == "ANONYMOUS"

"""Connection strings, names and credentials: where they lead, and what tokens they give."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from azure.core.credentials import AccessToken, AzureNamedKeyCredential, AzureSasCredential

from amqp10 import SasKey, Token
from amqp10.azure._namespace import ConnectionString, Namespace, url_of
from amqp10.tokens import ask

PORTAL = "Endpoint=sb://Name.servicebus.windows.net/;SharedAccessKeyName=policy;SharedAccessKey=c2VjcmV0PQ==;"
EMULATOR = "Endpoint=sb://localhost;SharedAccessKeyName=p;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
SIGNATURE = "SharedAccessSignature sr=sb%3a%2f%2fh%2fq&sig=abc%3d&se=2000000000&skn=policy"


def read(where: str, credential: Any = None) -> Namespace:
    return Namespace.read(where, credential, scope="the service's", entity_of=str.upper)


def test_of_the_portal() -> None:
    """A key may have '=' in it, names ignore case, parts of other clients are left out."""
    string = ConnectionString.read(PORTAL + "EntityPath=orders;TransportType=AmqpWebSockets")
    assert (string.url, string.entity, string.emulator) == ("amqps://name.servicebus.windows.net", "orders", False)
    assert isinstance(string.source, SasKey)
    assert "c2VjcmV0" not in repr(string)
    token = anyio.run(ask, string.source, "sb://x/y")
    assert token == SasKey("policy", "c2VjcmV0PQ==").sign("sb://x/y", int(token.expires_on or 0))


def test_of_the_emulator() -> None:
    string = ConnectionString.read(EMULATOR)
    assert (string.url, string.emulator) == ("amqp://localhost", True)
    assert ConnectionString.read(EMULATOR.replace("localhost", "127.0.0.1:7000")).url == "amqp://127.0.0.1:7000"
    assert read(EMULATOR).tokens.allow_insecure
    assert not read(PORTAL).tokens.allow_insecure


def test_of_a_signature() -> None:
    """A token that is signed already comes as it is, with its own end."""
    string = ConnectionString.read(f"endpoint=sb://h/;sharedaccesssignature={SIGNATURE}")
    assert string.source is not None
    assert anyio.run(ask, string.source, "whatever") == Token(SIGNATURE, 2_000_000_000.0)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Endpoint=;SharedAccessKeyName=a", "must begin with Endpoint"),
        ("Endpoint=sb://h;nonsense secret", "without '='"),
        ("Endpoint=sb://h;Endpoint=sb://g", "two parts 'endpoint'"),
        ("Endpoint=sb://h;SharedAccessKey=secret", "together"),
        (f"{PORTAL}SharedAccessSignature={SIGNATURE}", "must not have both"),
        ("Endpoint=http://h", "begins with sb://"),
    ],
)
def test_no_connection_string(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule) as caught:
        ConnectionString.read(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("where", "url"),
    [
        ("name.servicebus.windows.net", "amqps://name.servicebus.windows.net"),
        ("sb://name.servicebus.windows.net/", "amqps://name.servicebus.windows.net"),
        ("amqp://127.0.0.1:5000", "amqp://127.0.0.1:5000"),
        ("amqps://[::1]:5671/", "amqps://[::1]:5671"),
        ("wss://name.servicebus.windows.net", "wss://name.servicebus.windows.net/$servicebus/websocket"),
        ("amqps://h.example/?idle_timeout=30", "amqps://h.example?idle_timeout=30"),
        ("ws://127.0.0.1:80/other", "ws://127.0.0.1:80/other"),
    ],
)
def test_url(where: str, url: str) -> None:
    assert url_of(where) == url
    assert read(where, SasKey("a", "b")).url == url


def test_credentials() -> None:
    """A key signs for the audience; others are asked for the scope of the service."""

    class Entra:
        def get_token(self, *scopes: str) -> AccessToken:
            return AccessToken(scopes[0], 2_000_000_000)

    for credential, scope in (
        (SasKey("policy", "key"), None),
        (AzureNamedKeyCredential("policy", "key"), None),
        (AzureSasCredential(SIGNATURE), None),
        (Entra(), "the service's"),
        (lambda scope: "a token", "the service's"),
    ):
        tokens = read("h.example", credential).tokens
        assert tokens.scope == scope
        assert callable(tokens.audience)
        assert tokens.audience("orders") == "sb://h.example/ORDERS"
        assert anyio.run(ask, tokens.source, "x").value
    assert isinstance(read("amqps://a%20policy:the%2Fkey@h.example").tokens.source, SasKey)
    credential = AzureSasCredential("before")
    source = read("h.example", credential).tokens.source
    credential.update(SIGNATURE)
    assert anyio.run(ask, source, "x").value == SIGNATURE


def test_who_comes() -> None:
    with pytest.raises(ValueError, match="give a credential"):
        read("h.example")
    with pytest.raises(ValueError, match="give a credential"):
        read("Endpoint=sb://h.example")
    with pytest.raises(ValueError, match="leave out one"):
        read(PORTAL, SasKey("a", "b"))

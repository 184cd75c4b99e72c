"""The address of an Azure namespace and the login there: a connection string, or a name and a credential."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ..client import CbsTokens
from ..tokens import SasKey, Token, TokenSource

_SCHEMES: Final = {"": "amqps", "sb": "amqps", "amqps": "amqps", "amqp": "amqp", "wss": "wss", "ws": "ws"}
_WEBSOCKET: Final = "/$servicebus/websocket"
"""The path at which both services take AMQP over WebSockets."""
_FIELDS: Final = (
    *("endpoint", "sharedaccesskeyname", "sharedaccesskey", "sharedaccesssignature", "entitypath"),
    "usedevelopmentemulator",
)


@dataclass(frozen=True, slots=True)
class ConnectionString:
    """The parts of a connection string of Service Bus or Event Hubs.

    Attributes:
        url: `amqps://HOST`; for the emulator, which has no TLS, `amqp://HOST:PORT`.
        source: the source of tokens, from the key or token in the string; None: the string has neither.
        entity: the only entity the string is for; None: the whole namespace.
        emulator: whether the string is for an emulator, on this machine or in a private network.
    """

    url: str
    source: TokenSource | None = field(repr=False)
    entity: str | None = None
    emulator: bool = False

    @classmethod
    def read(cls, text: str) -> ConnectionString:
        """Read a connection string as the portal and the emulator show it.

        Raises:
            ValueError: `text` is not a connection string. The error contains no secret.
        """
        settings: dict[str, str] = {}
        for part in filter(None, (each.strip() for each in text.split(";"))):
            name, separator, value = part.partition("=")
            name = name.strip().lower()
            if not separator or name in settings:
                what = f"has two parts {name!r}" if separator else "has a part without '='"
                raise ValueError(f"a connection string must have the form NAME=VALUE;NAME=VALUE, but this one {what}")
            if name in _FIELDS:  # other clients use other fields
                settings[name] = value.strip()
        endpoint = settings.get("endpoint", "")
        if not endpoint:
            raise ValueError("a connection string must begin with Endpoint=sb://NAMESPACE.servicebus.windows.net/")
        emulator = settings.get("usedevelopmentemulator", "").lower() == "true"
        name, key = settings.get("sharedaccesskeyname", ""), settings.get("sharedaccesskey", "")
        signature = settings.get("sharedaccesssignature", "")
        if bool(name) is not bool(key):
            raise ValueError(
                "a connection string must have SharedAccessKeyName and SharedAccessKey together, or neither"
            )
        if key and signature:
            raise ValueError("a connection string must not have both a SharedAccessKey and a SharedAccessSignature")
        source = SasKey(name, key) if key else _given(signature) if signature else None
        url = url_of(endpoint, secure=not emulator)
        return cls(url, source, settings.get("entitypath") or None, emulator)


@dataclass(frozen=True, slots=True)
class Namespace:
    """The URL of a namespace and the tokens for it: `Connection(namespace.url, tokens=namespace.tokens)`.

    Attributes:
        url: where to connect.
        tokens: put at the node `$cbs`, one for each entity.
        entity: the only entity that may be used; None: the whole namespace.
    """

    url: str
    tokens: CbsTokens
    entity: str | None = None

    @classmethod
    def read(
        cls,
        where: str,
        credential: Any = None,
        *,
        scope: str,
        entity_of: Callable[[str], str],
        clock: Callable[[], float] = time.time,
    ) -> Namespace:
        """Read the address and the credential that a user gives.

        Args:
            where: a connection string, or `NAMESPACE.servicebus.windows.net`, alone or in a URL.
            credential: one of azure-identity, azure-core's AzureNamedKeyCredential or AzureSasCredential, a `SasKey`,
                or any other source of tokens; None: the connection string or the URL has the key.
            scope: the scope of tokens of Microsoft Entra.
            entity_of: returns the entity of an address; each token is for one entity.
            clock: the time in seconds since 1970.

        Raises:
            ValueError: `where` is malformed, or there are two credentials, or no credential. The error contains no
                secret.
        """
        entity, emulator = None, False
        if "endpoint=" in where.lower():
            string = ConnectionString.read(where)
            url, found, entity, emulator = string.url, string.source, string.entity, string.emulator
        else:
            url, found = url_of(where), _in_url(where)
        if credential is None and found is None and "endpoint=" in where.lower():
            raise ValueError(
                "this connection string has no key: copy one with SharedAccessKeyName=...;SharedAccessKey=..., or "
                "give a credential: credential=DefaultAzureCredential() of azure-identity"
            )
        if credential is not None and found is not None:
            raise ValueError("the connection string or URL already has a key: leave out one of the two credentials")
        source, by_audience = _source(credential if found is None else found)
        host = urlsplit(url).hostname
        tokens = CbsTokens(
            source,
            None if by_audience else scope,
            audience=lambda address: f"sb://{host}/{entity_of(address)}",
            allow_insecure=emulator,
            clock=clock,
        )
        return cls(url, tokens, entity)


def url_of(where: str, *, secure: bool = True) -> str:
    """Return the URL to connect to, without credentials.

    Args:
        where: a host, or a URL with the scheme sb, amqps, amqp, wss or ws.
        secure: whether sb means TLS.

    Raises:
        ValueError: `where` is neither a host nor such a URL.
    """
    parts = urlsplit(where if "://" in where else f"//{where}")
    scheme = _SCHEMES.get(parts.scheme.lower())
    if scheme is None or not parts.hostname or " " in where:
        known = ", ".join(f"{each}://" for each in _SCHEMES if each)
        raise ValueError(
            f"a namespace must be NAME.servicebus.windows.net, or a URL that begins with {known}; or it is a "
            "connection string, which has Endpoint=sb://..."
        )
    if not secure and scheme == "amqps":
        scheme = "amqp"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = f":{parts.port}" if parts.port is not None else ""
    path = (parts.path.rstrip("/") or _WEBSOCKET) if scheme in ("wss", "ws") else ""
    query = f"?{parts.query}" if parts.query else ""
    return f"{scheme}://{host}{port}{path}{query}"


def _in_url(where: str) -> TokenSource | None:
    """Return the key that a URL gives as user and password; None: it has no credentials."""
    parts = urlsplit(where if "://" in where else f"//{where}")
    return SasKey(unquote(parts.username), unquote(parts.password)) if parts.username and parts.password else None


def _source(credential: Any) -> tuple[TokenSource, bool]:
    """Return the source of tokens, and whether it takes the audience in place of a scope."""
    if credential is None:
        raise ValueError(
            "give a credential: credential=DefaultAzureCredential() of azure-identity, credential=SasKey(name, key), "
            "or a connection string with a SharedAccessKey"
        )
    named = getattr(credential, "named_key", None)
    if named is not None:
        return SasKey(named.name, named.key), True
    signature = getattr(credential, "signature", None)
    if isinstance(signature, str):
        return lambda scope: Token.read(credential.signature), True  # the signature may be updated
    return credential, isinstance(credential, SasKey)


def _given(signature: str) -> TokenSource:
    token = Token.read(signature)
    return lambda scope: token

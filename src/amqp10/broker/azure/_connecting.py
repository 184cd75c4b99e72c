"""What Microsoft's SDKs need to come here: a rule to sign tokens by, and a connection string that names it."""

from __future__ import annotations

from typing import Final

from .._tokens.rules import SasRule

EMULATOR_RULE: Final = SasRule("RootManageSharedAccessKey", "SAS_KEY_VALUE")
"""What the documentation of Microsoft's emulator says to log in by."""


def connection_string(url: str, rule: SasRule = EMULATOR_RULE, entity: str | None = None) -> str:
    """Return what SDKs connect by to a broker that listens at this URL, without TLS unless the URL says so.

    Args:
        entity: the event hub, or queue, that it is for; None: for all.

    Raises:
        ValueError: it is no URL of amqp or amqps.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("amqp", "amqps"):
        raise ValueError(f"Azure SDKs need a URL that begins with amqp:// or amqps://, not {url!r:.200}")
    host = rest.split("/", 1)[0].rpartition("@")[2]
    text = f"Endpoint=sb://{host};SharedAccessKeyName={rule.name};SharedAccessKey={rule.key};"
    if scheme != "amqps":
        text += "UseDevelopmentEmulator=true;"
    return text if entity is None else f"{text}EntityPath={entity};"

"""What Microsoft's SDKs need to connect: a rule to sign tokens with, and a connection string that names it."""

from __future__ import annotations

from typing import Final

from ..._arguments import checked, without_secrets
from .._tokens.rules import SasRule

EMULATOR_RULE: Final = SasRule("RootManageSharedAccessKey", "SAS_KEY_VALUE")
"""The rule in the documentation of Microsoft's emulator."""


@checked
def connection_string(url: str, rule: SasRule = EMULATOR_RULE, entity: str | None = None) -> str:
    """Return a connection string for SDKs and a broker that listens at this URL; without TLS unless the URL says so.

    Args:
        entity: the only event hub or queue that it is for; None: the whole namespace.

    Raises:
        ValueError: it is not a URL of amqp or amqps.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("amqp", "amqps"):
        what = without_secrets(url) if separator else "a text without ://"
        raise ValueError(f"Azure SDKs need a URL that begins with amqp:// or amqps://, not {what}")
    host = rest.split("/", 1)[0].rpartition("@")[2]
    text = f"Endpoint=sb://{host};SharedAccessKeyName={rule.name};SharedAccessKey={rule.key};"
    if scheme != "amqps":
        text += "UseDevelopmentEmulator=true;"
    return text if entity is None else f"{text}EntityPath={entity};"

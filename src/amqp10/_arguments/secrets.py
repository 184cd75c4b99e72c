"""Secrets: which arguments have one, and how an error shows a value that may contain one."""

from __future__ import annotations

import re
from typing import Final

SECRETS: Final = frozenset(
    {
        *("cert", "credential", "key", "key_password", "password", "sasl", "secret", "tls", "token", "tokens", "users"),
        *("proxy", "url", "where"),  # URLs and connection strings ("where" of the clients for Azure) have passwords
        "headers",  # of an HTTP request: they may contain a login
    }
)
"""The arguments whose value no error shows, because it may contain a secret."""

_HIDDEN: Final = (
    (re.compile(r"(:(?://)?).*@", re.DOTALL), r"\1...@"),  # USER:PASSWORD@ of a URL
    (re.compile(r"(?i:((?:key|sig|signature|password|secret|token)\s*=)).*", re.DOTALL), r"\1..."),
)
"""Where a text has a password, a key or a token, and what is shown instead."""


def without_secrets(value: object) -> str:
    """Return the beginning of a value's `repr`, without a password or key in a URL or a connection string."""
    text = repr(value)
    for pattern, instead in _HIDDEN:
        text = pattern.sub(instead, text)
    return text[:200]

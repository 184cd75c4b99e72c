"""What keeps the peer supplied with tokens, for as long as the connection lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._settings import LoginTokens
from .cbs import CbsKeeper
from .login import LoginKeeper

if TYPE_CHECKING:
    from .._core.connection import ConnectionCore, TokenKeeper
    from .._settings import Tokens


def token_keeper(connection: ConnectionCore, tokens: Tokens | None) -> TokenKeeper | None:
    """Return what renews the tokens of a connection; None where it has none."""
    if tokens is None:
        return None
    if isinstance(tokens, LoginTokens):
        return LoginKeeper(connection, tokens)
    return CbsKeeper(connection, tokens)

"""Hides the secrets of a login in what the server says: some servers repeat what they could not read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ._mechanism import Mechanism

SHORTEST: Final = 6
"""The length, in characters, of the shortest secret that is looked for: shorter ones occur in ordinary words."""
_SHOWN: Final = "<secret>"


class Secrets:
    """The secrets of one login.

    Args:
        mechanisms: the mechanisms that the credentials allow.
    """

    __slots__ = ("_hidden",)

    def __init__(self, mechanisms: Iterable[Mechanism] = ()) -> None:
        found = {secret for one in mechanisms for secret in one.secrets if len(secret) >= SHORTEST}
        quoted = {text for each in found for text in (each, repr(each)[1:-1], repr(each.encode())[2:-1])}
        # What hides a secret is found, too, lest a second call finds a secret in it.
        texts = [_SHOWN, *sorted(quoted, key=len, reverse=True)]
        self._hidden = re.compile("|".join(map(re.escape, texts)))

    def hide(self, text: str) -> str:
        """Return `text` without the secrets, also where a `repr` quotes them."""
        return self._hidden.sub(_SHOWN, text)

    def __repr__(self) -> str:
        return "Secrets(...)"

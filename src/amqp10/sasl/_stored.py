"""Stored passwords of a server: SCRAM keys, from which the password cannot be read (RFC 5802 §3, RFC 5803).

A thief of the keys can try passwords, the slower the more iterations they have, and can pose as the server. The keys,
or a recorded login, do not suffice to log in as the user by SCRAM.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from .._arguments import checked
from ._prepare import prepare
from ._scram import DIGESTS, MAX_ITERATIONS, MIN_ITERATIONS, SERVER_ITERATIONS, ScramKeys, derive_keys

_ENTRY: Final = re.compile(r"(SCRAM-SHA-\d+)\$(\d{1,7}):([\w+/=]+)\$([\w+/=]+):([\w+/=]+)", re.ASCII)


@checked
@dataclass(frozen=True, slots=True, repr=False)
class StoredKeys:
    """The keys of one password for each SCRAM mechanism; `str` and `parse` convert them for a file.

    Attributes:
        keys: the keys by mechanism.
    """

    keys: Mapping[str, ScramKeys]

    @classmethod
    @checked
    def from_password(cls, password: str, *, iterations: int = SERVER_ITERATIONS, salt: bytes | None = None) -> Self:
        """Derive the keys of a password. This is slow on purpose: about 25 ms for the usual 10,000 iterations.

        Args:
            iterations: makes trying a password slower, for a thief of the keys and for each login.
            salt: 16 octets; None for random ones.

        Raises:
            ValueError: SASLprep prohibits a character of the password, or `iterations` is out of range.
        """
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ValueError(f"iterations must be in {MIN_ITERATIONS}..{MAX_ITERATIONS}, not {iterations}")
        prepared, salt = prepare(password), salt if salt is not None else secrets.token_bytes(16)
        return cls({name: derive_keys(digest, prepared, salt, iterations) for name, digest in DIGESTS.items()})

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the result of `str`.

        Raises:
            ValueError: `text` is invalid, or lacks one of the mechanisms.
        """
        keys = {}
        for entry in text.split(","):
            read = _ENTRY.fullmatch(entry.strip())
            if read is None or not MIN_ITERATIONS <= int(read[2]) <= MAX_ITERATIONS:
                raise ValueError(
                    "the keys of a password must have the form MECHANISM$ITERATIONS:SALT$STORED:SERVER, in base64"
                )
            salt, stored, server = (base64.b64decode(part, validate=True) for part in read.groups()[2:])
            keys[read[1]] = ScramKeys(salt, int(read[2]), b"", stored, server)
        if keys.keys() != DIGESTS.keys():
            raise ValueError(f"the keys of a password must be for one of {', '.join(DIGESTS)}")
        return cls(keys)

    def fits(self, password: str) -> bool:
        """Return whether these are the keys of a prepared password. As slow as deriving keys."""
        mine = self.keys["SCRAM-SHA-256"]
        derived = derive_keys("sha256", password, mine.salt, mine.iterations)
        return hmac.compare_digest(derived.stored_key, mine.stored_key)

    def __str__(self) -> str:
        return ",".join(
            f"{name}${each.iterations}:{_text(each.salt)}${_text(each.stored_key)}:{_text(each.server_key)}"
            for name, each in self.keys.items()
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


def _text(octets: bytes) -> str:
    return base64.b64encode(octets).decode()

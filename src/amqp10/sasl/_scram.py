"""SCRAM-SHA-1, -256 and -512 (RFC 5802, RFC 7677), without channel binding; both sides.

    client                                        server
    n,,n=user,r=<nonce>                  ──>
                                         <──      r=<nonce><more>,s=<salt>,i=<iterations>
    c=biws,r=<nonce><more>,p=<proof>     ──>
                                         <──      v=<signature>      (a challenge, or the outcome's additional data)

The password never crosses the wire, and the server proves that it knows the user too. Deriving the keys is slow on
purpose, and blocks: a millisecond for the usual 4096 iterations, half a second for the most that is accepted.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ..errors import AuthenticationFailed
from ._mechanism import Challenge, ClientExchange, Failure, Mechanism, ServerExchange, Step, Success
from ._prepare import prepare

MIN_ITERATIONS = 4096  # RFC 7677, section 4; a server that asks for less wants to guess the password
MAX_ITERATIONS = 1_000_000  # beyond that a server could keep us busy for minutes
SERVER_ITERATIONS = 10_000  # some 10 ms for a client of SCRAM-SHA-512, at each new connection
_GS2 = "n,,"  # no channel binding, no authorization identity


@dataclass(frozen=True, slots=True, repr=False)
class ScramKeys:
    """What a side keeps of a password for one digest."""

    salt: bytes
    iterations: int
    client_key: bytes
    stored_key: bytes
    server_key: bytes


def derive_keys(digest: str, password: str, salt: bytes, iterations: int = MIN_ITERATIONS) -> ScramKeys:
    """The keys of a prepared password."""
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    return ScramKeys(salt, iterations, client_key, stored_key, hmac.digest(salted, b"Server Key", digest))


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _fields(message: str) -> dict[str, str]:
    """`a=b,c=d` as a mapping; the first of each name counts."""
    found: dict[str, str] = {}
    for part in message.split(","):
        name, equals, value = part.partition("=")
        if equals:
            found.setdefault(name, value)
    return found


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _number(digits: str) -> int:
    """Not `int` alone, which takes underscores, signs and digits of all scripts."""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise ValueError("not a count")
    return int(digits)


def _nonce() -> str:
    return _base64(secrets.token_bytes(18))


class ScramClient(ClientExchange):
    """One try.

    Args:
        keys_of: (salt, iterations) -> the user's keys.
        nonce: given in tests only.
    """

    def __init__(
        self, digest: str, user: str, keys_of: Callable[[bytes, int], ScramKeys], nonce: str | None = None
    ) -> None:
        self._digest = digest
        self._keys_of = keys_of
        self._nonce = nonce if nonce is not None else _nonce()
        self._first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._server_signature: bytes | None = None
        self._verified = False

    def initial(self) -> bytes | None:
        return (_GS2 + self._first).encode()

    def respond(self, challenge: bytes) -> bytes:
        if self._server_signature is not None:  # a server that sends its last word as a challenge
            self._verify(challenge)
            return b""
        if not challenge:  # a server that ignored the initial response
            return (_GS2 + self._first).encode()
        return self._prove(challenge)

    def _prove(self, challenge: bytes) -> bytes:
        try:
            text = challenge.decode()
            fields = _fields(text)
            nonce, salt, iterations = fields["r"], base64.b64decode(fields["s"], validate=True), _number(fields["i"])
        except (KeyError, ValueError):
            raise AuthenticationFailed("the server's SCRAM challenge is malformed") from None
        if "m" in fields:
            raise AuthenticationFailed("the server demands a SCRAM extension")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("the server's SCRAM nonce is not ours: a replayed or forged challenge")
        if not salt:
            raise AuthenticationFailed("the server's SCRAM salt is empty")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise AuthenticationFailed(
                f"the server's SCRAM iteration count {iterations} is not within {MIN_ITERATIONS}..{MAX_ITERATIONS}"
            )
        keys = self._keys_of(salt, iterations)
        without_proof = f"c={_base64(_GS2.encode())},r={nonce}"
        message = f"{self._first},{text},{without_proof}".encode()
        proof = _xor(keys.client_key, hmac.digest(keys.stored_key, message, self._digest))
        self._server_signature = hmac.digest(keys.server_key, message, self._digest)
        return f"{without_proof},p={_base64(proof)}".encode()

    def finish(self, additional: bytes | None) -> None:
        if not self._verified:
            self._verify(additional or b"")

    def _verify(self, final: bytes) -> None:
        fields = _fields(final.decode(errors="replace"))
        if "e" in fields:
            raise AuthenticationFailed("the server refused the SCRAM proof", 1)
        try:
            signature = base64.b64decode(fields["v"], validate=True)
        except (KeyError, ValueError):
            signature = b""
        if self._server_signature is None or not hmac.compare_digest(signature, self._server_signature):
            raise AuthenticationFailed(
                "the server could not prove that it knows the user: not the server it says it is"
            )
        self._verified = True


class _Scram(Mechanism):
    """User and password; the password does not cross the wire.

    Raises:
        ValueError: the user is empty, or SASLprep prohibits a character (RFC 4013).
    """

    digest: ClassVar[str]

    def __init__(self, user: str, password: str) -> None:
        prepared = prepare(user)
        if not prepared:
            raise ValueError("the user name is empty")
        self.user = user
        self._prepared = prepared
        self._password = prepare(password)
        self._keys: ScramKeys | None = None

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        return ScramClient(self.digest, self._prepared, self._keys_of)

    def _keys_of(self, salt: bytes, iterations: int) -> ScramKeys:
        """Kept for the next try, for a user's salt stays: reconnecting shall not cost what guessing does."""
        keys = self._keys
        if keys is None or keys.salt != salt or keys.iterations != iterations:
            keys = self._keys = derive_keys(self.digest, self._password, salt, iterations)
        return keys

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.user!r}, ...)"


class ScramSha1(_Scram):
    """SCRAM-SHA-1 (RFC 5802)."""

    name = "SCRAM-SHA-1"
    strength = 20
    digest = "sha1"


class ScramSha256(_Scram):
    """SCRAM-SHA-256 (RFC 7677)."""

    name = "SCRAM-SHA-256"
    strength = 30
    digest = "sha256"


class ScramSha512(_Scram):
    """SCRAM-SHA-512."""

    name = "SCRAM-SHA-512"
    strength = 40
    digest = "sha512"


DIGESTS = {mechanism.name: mechanism.digest for mechanism in (ScramSha512, ScramSha256, ScramSha1)}


# Server side


class ScramServer(ServerExchange):
    """One try, from the server's side.

    Args:
        keys_of: prepared user name -> the user's own name and keys; for a user that is not there None and made-up
            keys, so that a client cannot tell the two apart.
        nonce: given in tests only.
    """

    def __init__(
        self, digest: str, keys_of: Callable[[str], tuple[str | None, ScramKeys]], nonce: str | None = None
    ) -> None:
        self._digest = digest
        self._keys_of = keys_of
        self._nonce = nonce if nonce is not None else _nonce()
        self._identity: str | None = None
        self._keys: ScramKeys | None = None
        self._gs2 = ""
        self._messages = ""
        self._over = False

    def step(self, response: bytes | None) -> Step:
        if response is None and self._keys is None:
            return Challenge(b"")
        if response is None or self._over:
            return Failure()
        try:
            text = response.decode()
            return self._first(text) if self._keys is None else self._final(text)
        except (KeyError, ValueError):
            return Failure()

    def _first(self, text: str) -> Step:
        binding, authzid, bare = text.split(",", 2)
        if binding not in ("n", "y") or bare.startswith("m="):  # "p=...": a channel binding that was not offered
            return Failure()
        fields = _fields(bare)
        escaped = fields["n"]
        if "=" in escaped.replace("=2C", "").replace("=3D", ""):
            return Failure()
        self.claimed = escaped.replace("=2C", ",").replace("=3D", "=")
        user = prepare(self.claimed)
        if not user or authzid not in ("", f"a={escaped}") or not fields["r"]:
            return Failure()
        self._gs2 = f"{binding},{authzid},"
        self._nonce = fields["r"] + self._nonce
        self._identity, self._keys = self._keys_of(user)
        challenge = f"r={self._nonce},s={_base64(self._keys.salt)},i={self._keys.iterations}"
        self._messages = f"{bare},{challenge}"
        return Challenge(challenge.encode())

    def _final(self, text: str) -> Step:
        keys, digest = self._keys, self._digest
        assert keys is not None
        self._over = True
        without_proof, _, proof64 = text.rpartition(",p=")
        fields = _fields(without_proof)
        if fields["r"] != self._nonce or base64.b64decode(fields["c"], validate=True) != self._gs2.encode():
            return Failure()
        proof = base64.b64decode(proof64, validate=True)
        message = f"{self._messages},{without_proof}".encode()
        client_key = _xor(proof, hmac.digest(keys.stored_key, message, digest))
        right = hmac.compare_digest(hashlib.new(digest, client_key).digest(), keys.stored_key)
        if not right or self._identity is None:
            return Failure()
        signature = hmac.digest(keys.server_key, message, digest)
        return Success(self._identity, f"v={_base64(signature)}".encode())

"""SCRAM-SHA-1, -256 and -512 (RFC 5802, RFC 7677), without channel binding; both sides.

The password never crosses the wire, and the server proves that it knows the user too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from ..errors import AuthenticationFailed
from ._mechanism import Challenge, ClientExchange, Failure, Mechanism, ServerExchange, Step, Success
from ._prepare import prepare

MIN_ITERATIONS = 4096  # RFC 7677, section 4
MAX_ITERATIONS = 1_000_000  # beyond that a server could keep us busy for minutes
SERVER_ITERATIONS = 4096
_GS2 = "n,,"  # no channel binding, no authorization identity


def _hmac(digest: str, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, digest)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _fields(message: str) -> dict[str, str]:
    """`a=b,c=d` as a mapping; a first of each name counts."""
    found: dict[str, str] = {}
    for part in message.split(","):
        name, equals, value = part.partition("=")
        if equals:
            found.setdefault(name, value)
    return found


@lru_cache(maxsize=256)
def _salted(digest: str, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)


def _nonce() -> str:
    return base64.b64encode(secrets.token_bytes(18)).decode()


class ScramClient(ClientExchange):
    """One try. `nonce` is given in tests only."""

    def __init__(self, digest: str, user: str, password: str, nonce: str | None = None) -> None:
        self._digest = digest
        self._password = prepare(password)
        self._nonce = nonce if nonce is not None else _nonce()
        name = prepare(user).replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={self._nonce}"
        self._server_signature: bytes | None = None
        self._asked = self._verified = False

    def initial(self) -> bytes | None:
        return (_GS2 + self._first_bare).encode()

    def respond(self, challenge: bytes) -> bytes:
        if not challenge and not self._asked:
            return self.initial() or b""
        if self._server_signature is not None:  # a server that sends its last word as a challenge
            self._verify(challenge)
            return b""
        self._asked = True
        try:
            text = challenge.decode()
            fields = _fields(text)
            nonce, salt = fields["r"], base64.b64decode(fields["s"], validate=True)
            iterations = int(fields["i"])
        except (KeyError, ValueError, binascii.Error):
            raise AuthenticationFailed("the server's SCRAM challenge is malformed") from None
        if "m" in fields:
            raise AuthenticationFailed("the server demands a SCRAM extension")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("the server's SCRAM nonce is not ours: a replayed or forged challenge")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS or not salt:
            raise AuthenticationFailed(
                f"the server's SCRAM iteration count {iterations} is not within {MIN_ITERATIONS}..{MAX_ITERATIONS}"
            )
        digest = self._digest
        salted = _salted(digest, self._password, salt, iterations)
        client_key = _hmac(digest, salted, b"Client Key")
        stored_key = hashlib.new(digest, client_key).digest()
        without_proof = f"c={base64.b64encode(_GS2.encode()).decode()},r={nonce}"
        message = f"{self._first_bare},{text},{without_proof}".encode()
        proof = _xor(client_key, _hmac(digest, stored_key, message))
        self._server_signature = _hmac(digest, _hmac(digest, salted, b"Server Key"), message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def finish(self, additional: bytes | None) -> None:
        if not self._verified:
            self._verify(additional or b"")

    def _verify(self, final: bytes) -> None:
        fields = _fields(final.decode(errors="replace"))
        if "e" in fields:
            raise AuthenticationFailed("the server refused the SCRAM proof", 1)
        try:
            signature = base64.b64decode(fields["v"], validate=True)
        except (KeyError, ValueError, binascii.Error):
            signature = b""
        if self._server_signature is None or not hmac.compare_digest(signature, self._server_signature):
            raise AuthenticationFailed(
                "the server could not prove that it knows the user: not the server it says it is"
            )
        self._verified = True


class _Scram(Mechanism):
    """User and password; neither crosses the wire."""

    digest: ClassVar[str]

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self._password = password

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        return ScramClient(self.digest, self.user, self._password)

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


@dataclass(frozen=True, slots=True, repr=False)
class ScramKeys:
    """What a server keeps of a password for one digest."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def derive_keys(digest: str, password: str, salt: bytes, iterations: int = SERVER_ITERATIONS) -> ScramKeys:
    """The keys of a password."""
    salted = _salted(digest, prepare(password), salt, iterations)
    stored_key = hashlib.new(digest, _hmac(digest, salted, b"Client Key")).digest()
    return ScramKeys(salt, iterations, stored_key, _hmac(digest, salted, b"Server Key"))


class ScramServer(ServerExchange):
    """`keys_of` gives a user's keys, made-up ones for a user that is not there (with False), so that a client cannot
    tell the two apart. `nonce` is given in tests only."""

    def __init__(self, digest: str, keys_of: Callable[[str], tuple[ScramKeys, bool]], nonce: str | None = None) -> None:
        self._digest = digest
        self._keys_of = keys_of
        self._nonce = nonce if nonce is not None else _nonce()
        self._user: str | None = None
        self._keys: ScramKeys | None = None
        self._known = False
        self._gs2 = ""
        self._messages = ""

    def step(self, response: bytes | None) -> Step:
        if response is None:
            return Challenge(b"")
        try:
            text = response.decode()
            return self._first(text) if self._keys is None else self._final(text)
        except (KeyError, ValueError, binascii.Error):
            return Failure()

    def _first(self, text: str) -> Step:
        binding, authzid, bare = text.split(",", 2)
        if binding not in ("n", "y") or bare.startswith("m="):  # "p=...": a channel binding that was not offered
            return Failure()
        fields = _fields(bare)
        escaped = fields["n"]
        if "=" in escaped.replace("=2C", "").replace("=3D", ""):
            return Failure()
        user = prepare(escaped.replace("=2C", ",").replace("=3D", "="))
        if authzid not in ("", f"a={escaped}") or not fields["r"]:
            return Failure()
        self._user, self._gs2 = user, f"{binding},{authzid},"
        self._nonce = fields["r"] + self._nonce
        self._keys, self._known = self._keys_of(user)
        salt = base64.b64encode(self._keys.salt).decode()
        challenge = f"r={self._nonce},s={salt},i={self._keys.iterations}"
        self._messages = f"{bare},{challenge}"
        return Challenge(challenge.encode())

    def _final(self, text: str) -> Step:
        keys, digest = self._keys, self._digest
        assert keys is not None
        without_proof, _, proof64 = text.rpartition(",p=")
        fields = _fields(without_proof)
        if fields["r"] != self._nonce or base64.b64decode(fields["c"], validate=True).decode() != self._gs2:
            return Failure()
        proof = base64.b64decode(proof64, validate=True)
        message = f"{self._messages},{without_proof}".encode()
        client_key = _xor(proof, _hmac(digest, keys.stored_key, message))
        right = hmac.compare_digest(hashlib.new(digest, client_key).digest(), keys.stored_key)
        if not right or not self._known:
            return Failure()
        signature = base64.b64encode(_hmac(digest, keys.server_key, message)).decode()
        return Success(self._user, f"v={signature}".encode())

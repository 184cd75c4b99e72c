"""SCRAM-SHA-1, -256 and -512 (RFC 5802, RFC 7677), with and without channel binding; both sides.

    client                                        server
    n,,n=user,r=<nonce>                  ──>
                                         <──      r=<nonce><more>,s=<salt>,i=<iterations>
    c=biws,r=<nonce><more>,p=<proof>     ──>
                                         <──      v=<signature>      (a challenge, or the outcome's additional data)

The password never crosses the wire, and the server proves that it knows the user, too. Deriving the keys is slow on
purpose, and blocks: a millisecond for the usual 4096 iterations, half a second for the accepted maximum.

Each mechanism has a -PLUS variant, by which both sides also prove which server certificate they see ("p=..." in place
of "n", and the certificate's hash in the proof): an attacker who terminates TLS in between shows another certificate. A
client that supports -PLUS but was not offered it may send "y". A server that did offer it then knows that its offer was
changed on the way, and refuses, as this server does. This client sends "n", because Broker-J refuses all else, and
because an attacker who changes the offer may as well leave only PLAIN. What helps is to name a -PLUS mechanism.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from .._arguments import checked
from ..errors import AuthenticationFailed, InsecureTransport
from ._mechanism import Challenge, ClientExchange, Failure, Mechanism, Refusal, ServerExchange, Step, Success
from ._prepare import prepare

MIN_ITERATIONS = 4096  # RFC 7677, section 4; fewer iterations would help the server to guess the password
MAX_ITERATIONS = 1_000_000  # with more, a server could keep us busy for minutes
SERVER_ITERATIONS = 10_000  # about 10 ms for a client of SCRAM-SHA-512, at each new connection

# Channel binding in the header of a client's first message (RFC 5802 §7), without an authorization identity.
_UNBOUND: Final = "n"
_NOT_OFFERED: Final = "y"
_BOUND: Final = "p=tls-server-end-point"  # RFC 5929 §4; Python lacks tls-exporter, and tls-unique is unsafe

_OTHER_TYPE: Final = "unsupported-channel-binding-type"
_NOT_HERE: Final = "channel-binding-not-supported"
_STRIPPED: Final = "server-does-support-channel-binding"
_OTHER_CHANNEL: Final = "channel-bindings-dont-match"

_WITHOUT: Final = "name a mechanism that does without, as ScramSha256(user, password)"
_PROXY: Final = f"if a proxy there ends TLS on purpose, {_WITHOUT}"
_ERRORS: Final = {
    _OTHER_TYPE: f"the server cannot bind a login to its certificate (tls-server-end-point): {_WITHOUT}",
    _NOT_HERE: "the server cannot bind a login to TLS",
    _OTHER_CHANNEL: f"the server has another certificate than was seen here: somebody is in between; {_PROXY}",
}


@dataclass(frozen=True, slots=True, repr=False)
class ScramKeys:
    """The keys of a password for one digest."""

    salt: bytes
    iterations: int
    client_key: bytes
    stored_key: bytes
    server_key: bytes


def derive_keys(digest: str, password: str, salt: bytes, iterations: int = MIN_ITERATIONS) -> ScramKeys:
    """Derive the keys of a prepared password."""
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    return ScramKeys(salt, iterations, client_key, stored_key, hmac.digest(salted, b"Server Key", digest))


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _fields(message: str) -> dict[str, str]:
    """Parse `a=b,c=d` as a mapping; the first value of each name counts."""
    found: dict[str, str] = {}
    for part in message.split(","):
        name, equals, value = part.partition("=")
        if equals:
            found.setdefault(name, value)
    return found


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _number(digits: str) -> int:
    """Parse a number, more strictly than `int`, which takes underscores, signs and digits of all scripts."""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise ValueError("not a count")
    return int(digits)


def _nonce() -> str:
    return _base64(secrets.token_bytes(18))


class ScramClient(ClientExchange):
    """One try of a client.

    Args:
        keys_of: returns the user's keys for a salt and a number of iterations.
        nonce: set only by tests.
        end_point: the certificate hash that the login is bound to; b"" for no binding.
    """

    def __init__(
        self,
        digest: str,
        user: str,
        keys_of: Callable[[bytes, int], ScramKeys],
        nonce: str | None = None,
        end_point: bytes = b"",
    ) -> None:
        self._digest = digest
        self._keys_of = keys_of
        self._nonce = nonce if nonce is not None else _nonce()
        self._header = f"{_BOUND if end_point else _UNBOUND},,"
        self._end_point = end_point
        self._first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._server_signature: bytes | None = None
        self._verified = False

    def initial(self) -> bytes:
        return (self._header + self._first).encode()

    def respond(self, challenge: bytes) -> bytes:
        # A server may send its final data as a challenge, and a refusal at once.
        if self._server_signature is not None or challenge.startswith(b"e="):
            self._verify(challenge)
            return b""
        if not challenge:  # a server that ignored the initial response
            return self.initial()
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
        without_proof = f"c={_base64(self._header.encode() + self._end_point)},r={nonce}"
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
            raise AuthenticationFailed(_ERRORS.get(fields["e"], "the server refused the SCRAM proof"), 1)
        try:
            signature = base64.b64decode(fields["v"], validate=True)
        except (KeyError, ValueError):
            signature = b""
        if self._server_signature is None or not hmac.compare_digest(signature, self._server_signature):
            raise AuthenticationFailed(
                "the server could not prove that it knows the user: it is not the server that it claims to be"
            )
        self._verified = True


@checked
class Scram(Mechanism):
    """Login by user and password; the password does not cross the wire.

    Raises:
        ValueError: the user is empty, or SASLprep prohibits a character (RFC 4013).
    """

    digest: ClassVar[str]

    def __init__(self, user: str, password: str) -> None:
        prepared = prepare(user)
        if not prepared:
            raise ValueError("the user name must not be empty")
        self.user = user
        self._prepared = prepared
        self._password = prepare(password)
        self._keys: list[ScramKeys] = []  # the last keys, shared with copies from `for_channel`
        self._end_point = b""

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        return ScramClient(self.digest, self._prepared, self._keys_of, end_point=self._end_point)

    def _keys_of(self, salt: bytes, iterations: int) -> ScramKeys:
        """Return the keys, cached for the next try, so that reconnecting costs no derivation: a user's salt stays."""
        for keys in self._keys:
            if keys.salt == salt and keys.iterations == iterations:
                return keys
        keys = derive_keys(self.digest, self._password, salt, iterations)
        self._keys[:] = [keys]
        return keys

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.user!r}, ...)"


class ScramSha1(Scram):
    """SCRAM-SHA-1 (RFC 5802)."""

    name = "SCRAM-SHA-1"
    strength = 20
    digest = "sha1"


class ScramSha256(Scram):
    """SCRAM-SHA-256 (RFC 7677)."""

    name = "SCRAM-SHA-256"
    strength = 30
    digest = "sha256"


class ScramSha512(Scram):
    """SCRAM-SHA-512."""

    name = "SCRAM-SHA-512"
    strength = 40
    digest = "sha512"


class ScramPlus(Scram):
    """Login bound to the server's TLS certificate (RFC 5929 §4), so that nobody in between can pass it on.

    Raises:
        ValueError: the user is empty, or SASLprep prohibits a character (RFC 4013).
    """

    def for_channel(self, end_point: bytes) -> Self:
        """Return the same login, bound to the server certificate of one connection."""
        one = copy(self)
        one._end_point = end_point
        return one

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        if not self._end_point:
            raise InsecureTransport(
                f"{self.name} binds the login to the server's TLS certificate, but there is no TLS, or its certificate "
                "has no hash for this (Ed25519); use amqps://, or a mechanism without -PLUS"
            )
        return super().exchange(hostname)


class ScramSha1Plus(ScramPlus):
    """SCRAM-SHA-1-PLUS (RFC 5802)."""

    name = "SCRAM-SHA-1-PLUS"
    strength = 42  # above the longest digest without binding: see `from_credentials`
    digest = "sha1"


class ScramSha256Plus(ScramPlus):
    """SCRAM-SHA-256-PLUS (RFC 7677)."""

    name = "SCRAM-SHA-256-PLUS"
    strength = 43
    digest = "sha256"


class ScramSha512Plus(ScramPlus):
    """SCRAM-SHA-512-PLUS."""

    name = "SCRAM-SHA-512-PLUS"
    strength = 44
    digest = "sha512"


SCRAM_MECHANISMS: Final = (ScramSha512Plus, ScramSha256Plus, ScramSha1Plus, ScramSha512, ScramSha256, ScramSha1)
"""All SCRAM mechanisms, strongest first."""

PLUS: Final = "-PLUS"
DIGESTS = {mechanism.name: mechanism.digest for mechanism in (ScramSha512, ScramSha256, ScramSha1)}


# Server side


class ScramServer(ServerExchange):
    """One try, from the server's side.

    Args:
        keys_of: returns the original name and keys for a prepared user name; None and made-up keys for an unknown user,
            so that a client cannot tell the two apart.
        nonce: set only by tests.
        plus: whether this is the -PLUS variant.
        end_point: the certificate hash to bind logins to; None if -PLUS is not offered.
    """

    def __init__(
        self,
        digest: str,
        keys_of: Callable[[str], tuple[str | None, ScramKeys]],
        nonce: str | None = None,
        *,
        plus: bool = False,
        end_point: bytes | None = None,
    ) -> None:
        self._plus = plus
        self._end_point = end_point
        self._digest = digest
        self._keys_of = keys_of
        self._nonce = nonce if nonce is not None else _nonce()
        self._identity: str | None = None
        self._keys: ScramKeys | None = None
        self._binding = b""
        self._messages = ""
        self._over = False

    def step(self, response: bytes | None) -> Step:
        if self._over:
            return Failure()
        if response is None:
            return Challenge(b"") if self._keys is None else Failure()
        try:
            text = response.decode()
            return self._first(text) if self._keys is None else self._final(text)
        except (KeyError, ValueError):
            return Failure()

    def _first(self, text: str) -> Step:
        flag, authzid, bare = text.split(",", 2)
        if bare.startswith("m="):
            return Failure()
        fields = _fields(bare)
        escaped = fields["n"]
        if "=" in escaped.replace("=2C", "").replace("=3D", ""):
            return Failure()
        self.claimed = escaped.replace("=2C", ",").replace("=3D", "=")
        user = prepare(self.claimed)
        if not user or authzid not in ("", f"a={escaped}") or not fields["r"]:
            return Failure()
        if (refused := self._judge(flag)) is not None:
            return refused
        self._binding = f"{flag},{authzid},".encode()
        if self._plus:
            assert self._end_point is not None
            self._binding += self._end_point
        self._nonce = fields["r"] + self._nonce
        self._identity, self._keys = self._keys_of(user)
        challenge = f"r={self._nonce},s={_base64(self._keys.salt)},i={self._keys.iterations}"
        self._messages = f"{bare},{challenge}"
        return Challenge(challenge.encode())

    def _judge(self, flag: str) -> Step | None:
        """Return a refusal if the client's channel-binding flag does not fit (RFC 5802 §6), else None."""
        if flag.startswith("p="):
            if not self._plus:
                return self._refuse(_NOT_HERE)
            return None if flag == _BOUND else self._refuse(_OTHER_TYPE)
        if self._plus or flag not in (_UNBOUND, _NOT_OFFERED):
            return Failure()
        if flag == _NOT_OFFERED and self._end_point is not None:
            return self._refuse(_STRIPPED)
        return None

    def _refuse(self, reason: str) -> Refusal:
        self._over = True
        return Refusal(f"e={reason}".encode(), reason)

    def _final(self, text: str) -> Step:
        keys, digest = self._keys, self._digest
        assert keys is not None
        self._over = True
        without_proof, _, proof64 = text.rpartition(",p=")
        fields = _fields(without_proof)
        if fields["r"] != self._nonce:
            return Failure()
        if base64.b64decode(fields["c"], validate=True) != self._binding:
            return self._refuse(_OTHER_CHANNEL)
        proof = base64.b64decode(proof64, validate=True)
        message = f"{self._messages},{without_proof}".encode()
        client_key = _xor(proof, hmac.digest(keys.stored_key, message, digest))
        right = hmac.compare_digest(hashlib.new(digest, client_key).digest(), keys.stored_key)
        if not right or self._identity is None:
            return Failure()
        signature = hmac.digest(keys.server_key, message, digest)
        return Success(self._identity, f"v={_base64(signature)}".encode())

"""The server's rules: who may log in, and by which mechanism."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from copy import copy
from typing import Final

from .._arguments import check_range, checked, without_secrets
from ._mechanism import Failure, Refusal, ServerExchange, Step
from ._oauth import OAuthBearerServer, TokenVerifier, XOAuth2Server
from ._plain import AnonymousServer, ExternalServer, PlainServer
from ._prepare import prepare
from ._scram import DIGESTS, MAX_ITERATIONS, MIN_ITERATIONS, PLUS, SERVER_ITERATIONS, ScramKeys, ScramServer
from ._stored import StoredKeys

_MAX_MECHANISM_LENGTH: Final = 20
"""The longest name of a mechanism, in characters (RFC 4422, 3.1)."""

LoginFailed = Callable[[str, str | None, str | None], None]
"""Called for each failed login with the mechanism, the claimed name, and the reason as far as the peer was told."""

TokenRenewal = Callable[[str], str | None]
"""Takes a token to replace that of the login; returns the reason of a refusal, or None."""


class Users:
    """Names with prepared passwords (RFC 4013), or with stored keys.

    A client cannot find out whether a user exists, neither by the answers nor by their timing. All keys are derived in
    advance; an unknown user gets made-up keys, with the same salt at each try. If PLAIN must derive keys, because only
    keys are stored, it does so for unknown users, too.

    Raises:
         ValueError: a name is empty, or a name or a password has characters that SASLprep prohibits.
    """

    def __init__(self, users: Mapping[str, str | StoredKeys], iterations: int = SERVER_ITERATIONS) -> None:
        self._secret = secrets.token_bytes(32)
        self._users: dict[str, tuple[str, bytes | None, StoredKeys]] = {}  # name, digest of the password if known, keys
        for name, password in users.items():
            try:
                prepared = prepare(name)
                if isinstance(password, StoredKeys):
                    digest, keys = None, password
                else:
                    digest = self._digest(f"password {prepare(password)}")
                    keys = StoredKeys.from_password(password, iterations=iterations)
            except ValueError as error:
                raise ValueError(f"user {name!r}: {error}") from None
            if not prepared:
                raise ValueError("the user name must not be empty")
            self._users[prepared] = name, digest, keys
        # Models for made-up keys, and whether these must stay the same after a restart.
        self._kinds = [(keys, digest is None) for _, digest, keys in self._users.values()]
        lasting = [keys.keys["SCRAM-SHA-256"].server_key for keys, lasts in self._kinds if lasts]
        self._lasting_secret = hmac.digest(b"strangers", b"".join(lasting), "sha256")
        self._stranger = secrets.token_bytes(32)
        self._derives = any(digest is None for _, digest, _ in self._users.values())

    def __bool__(self) -> bool:
        return bool(self._users)

    def check(self, user: str, password: str) -> str | None:
        """Return the user's original name if the password is right, else None."""
        try:
            user, password = prepare(user), prepare(password)
        except ValueError:
            return None
        name, right, keys = self._users.get(user, (None, self._stranger, self._like(user)[0]))
        fits = keys.fits(password) if self._derives else False
        # Digests have one length, so the time of comparing them reveals nothing of the password's length.
        same = hmac.compare_digest(self._digest(f"password {password}"), right if right is not None else self._stranger)
        return name if (same if right is not None else fits) else None

    def keys(self, mechanism: str, user: str) -> tuple[str | None, ScramKeys]:
        """Return name and keys of a user by the prepared name; None and made-up keys for an unknown user."""
        kind, lasts = self._like(user)
        like, secret = kind.keys[mechanism], self._lasting_secret if lasts else self._secret
        salt, stored, server = (
            hmac.digest(secret, f"{what} {mechanism} {user}".encode(), "sha256")
            for what in ("salt", "stored", "server")
        )
        name, _, keys = self._users.get(user, (None, None, None))
        if keys is not None:
            return name, keys.keys[mechanism]
        size = len(like.stored_key)
        salt = (salt * 8)[: len(like.salt)]
        return None, ScramKeys(salt, like.iterations, b"", (stored + server)[:size], (server + stored)[:size])

    def _like(self, user: str) -> tuple[StoredKeys, bool]:
        """Return the constant model for an unknown user's keys, and whether they must outlast this process."""
        picked = hmac.digest(self._lasting_secret, f"like {user}".encode(), "sha256")
        return self._kinds[int.from_bytes(picked[:8], "big") % len(self._kinds)]

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._secret, text.encode(), "sha256")


class _Watched(ServerExchange):
    """An exchange that reports its failure to a callback."""

    def __init__(self, exchange: ServerExchange, mechanism: str, failed: LoginFailed) -> None:
        self._exchange = exchange
        self._mechanism = mechanism
        self._failed = failed
        self._refused = False

    def step(self, response: bytes | None) -> Step:
        step = self._exchange.step(response)
        if isinstance(step, Refusal):  # reported at once, because the peer may leave without answering
            self._refused = True
            self._failed(self._mechanism, self._exchange.claimed, step.reason)
        elif isinstance(step, Failure) and not self._refused:
            self._failed(self._mechanism, self._exchange.claimed, None)
        return step


class Authenticator:
    """Decides who may log in. A server has one; `for_connection` adapts it to one connection.

    Args:
        users: passwords or stored keys by name, for PLAIN and SCRAM; copied now.
        anonymous: offer ANONYMOUS, and accept the AMQP header without SASL.
        external: accept clients by EXTERNAL whose certificate TLS has verified.
        tokens: verifies access tokens, for XOAUTH2 and OAUTHBEARER; None to offer neither.
        allow_insecure: offer PLAIN and tokens even on an insecure transport, where others could read them.
        cbs: offer ANONYMOUS also as MSSBCBS, which Azure's .NET SDKs require; the peer then identifies itself at
            `$cbs`.
        iterations: the number of iterations for keys derived from passwords here.

    Raises:
        ValueError: a name is empty, or a name or a password has characters that SASLprep prohibits.
    """

    @checked
    def __init__(
        self,
        users: Mapping[str, str | StoredKeys] | None = None,
        *,
        anonymous: bool = False,
        external: bool = False,
        tokens: TokenVerifier | None = None,
        allow_insecure: bool = False,
        cbs: bool = False,
        iterations: int = SERVER_ITERATIONS,
    ) -> None:
        check_range("iterations", iterations, MIN_ITERATIONS, MAX_ITERATIONS)
        self._users = Users(users or {}, iterations)
        self._anonymous = anonymous
        self._cbs = cbs
        self._external = external
        self._tokens = tokens
        self._plain_tokens = False
        self._keys: TokenVerifier | None = None
        self._allow_insecure = allow_insecure
        self._secure = False
        self._external_identity: str | None = None
        self._end_point: bytes | None = None
        self._failed: LoginFailed | None = None
        self._renew: TokenRenewal | None = None

    def __repr__(self) -> str:
        return f"<Authenticator of {', '.join(self.mechanisms())}>"

    def for_connection(
        self,
        *,
        secure: bool,
        external_identity: str | None = None,
        end_point: bytes | None = None,
        failed: LoginFailed | None = None,
        tokens: TokenVerifier | None = None,
        keys: TokenVerifier | None = None,
        renew: TokenRenewal | None = None,
    ) -> Authenticator:
        """Return the same rules for one connection.

        Args:
            secure: whether secrets may cross the transport in the clear: TLS, loopback or a Unix socket.
            external_identity: the user named by the client certificate that TLS has verified.
            end_point: the hash of the server's certificate, to which SCRAM-PLUS binds a login; None for no SCRAM-PLUS.
            failed: called for each failed login.
            tokens: verifies access tokens of this connection, including those that PLAIN sends as the password.
            keys: verifies names and keys that PLAIN sends for names that are not users.
            renew: takes a token after the login, to replace the login's.
        """
        bound = copy(self)
        bound._secure = secure
        bound._external_identity = external_identity
        bound._end_point = end_point
        bound._failed = failed
        if tokens is not None:
            bound._tokens, bound._plain_tokens = tokens, True
        bound._keys = keys
        bound._renew = renew
        return bound

    def renew(self, secret: bytes) -> str | None:
        """Take a client's new secret after the login; return the reason of a refusal, or None.

        Without tokens every secret is accepted, because the login counts as long as the transport lasts.
        """
        if self._renew is None:
            return None
        try:
            return self._renew(secret.decode())
        except UnicodeDecodeError:
            return "the secret is not UTF-8"

    def _check_password(self, user: str, password: str) -> str | None:
        """Return the identity of a user with this password, which may be an access token; None if it is wrong."""
        found = self._users.check(user, password) if self._users else None
        if found is None and self._plain_tokens and self._tokens is not None:
            found = self._tokens(user, password)
        if found is None and self._keys is not None:
            found = self._keys(user, password)
        return found

    @property
    def anonymous_allowed(self) -> bool:
        """Whether a peer may omit SASL."""
        return self._anonymous

    def mechanisms(self) -> list[str]:
        """Return the mechanisms to offer to this connection, strongest first; never empty (§5.3.3.1)."""
        names = []
        readable = self._secure or self._allow_insecure
        if self._external and self._external_identity is not None:
            names.append("EXTERNAL")
        if self._tokens is not None and readable:
            names += ["OAUTHBEARER", "XOAUTH2"]
        if self._users:
            if self._end_point is not None:
                names += [f"{name}{PLUS}" for name in DIGESTS]
            names += DIGESTS
        if readable and (self._users or self._plain_tokens or self._keys is not None):
            names.append("PLAIN")
        if self._anonymous:
            names += ["ANONYMOUS", "MSSBCBS"] if self._cbs else ["ANONYMOUS"]
        return names or ["EXTERNAL"]  # an offer that always fails, because no certificate was verified

    def exchange(self, name: str) -> ServerExchange:
        """Begin one try of an offered mechanism.

        Raises:
            ValueError: the mechanism was not offered.
        """
        if name not in self.mechanisms():
            self.refuse(name)
            raise ValueError(f"the mechanism {without_secrets(name)} is not offered")
        exchange = self._exchange(name)
        return exchange if self._failed is None else _Watched(exchange, name, self._failed)

    def refuse(self, name: str) -> None:
        """Report a try of a mechanism that was not offered as a failed login."""
        if self._failed is not None:
            self._failed(ascii(name[:_MAX_MECHANISM_LENGTH]), None, "that mechanism was not offered")

    def _exchange(self, name: str) -> ServerExchange:
        if name == "EXTERNAL":
            return ExternalServer(self._external_identity if self._external else None)
        if name == "PLAIN":
            return PlainServer(self._check_password)
        if name in ("ANONYMOUS", "MSSBCBS"):
            return AnonymousServer()
        scram = name.removesuffix(PLUS)
        if scram in DIGESTS:
            return ScramServer(
                DIGESTS[scram],
                lambda user: self._users.keys(scram, user),
                plus=name.endswith(PLUS),
                end_point=self._end_point,
            )
        assert self._tokens is not None
        return OAuthBearerServer(self._tokens) if name == "OAUTHBEARER" else XOAuth2Server(self._tokens)

"""The server's rules: who may come in, and by which mechanism."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from copy import copy

from ._mechanism import ServerExchange
from ._oauth import OAuthBearerServer, TokenVerifier, XOAuth2Server
from ._plain import AnonymousServer, ExternalServer, PlainServer
from ._prepare import prepare
from ._scram import DIGESTS, ScramKeys, ScramServer, derive_keys

# Keys of users that are not there, made up and kept like those of real ones; beyond that many all are forgotten.
MAX_STRANGERS = 1024


class Users:
    """Names and passwords in memory, prepared (RFC 4013). Keys for SCRAM are derived when first needed.

    Whether a user is there is not to be found out: a stranger has a password that nobody knows, the same salt at each
    try, and keys that take as long to derive the first time.

    Raises:
        ValueError: a name is empty, or a name or a password has characters that no login may have.
    """

    def __init__(self, users: Mapping[str, str]) -> None:
        self._secret = secrets.token_bytes(32)
        self._users: dict[str, tuple[str, str]] = {}
        for name, password in users.items():
            try:
                prepared = prepare(name), prepare(password)
            except ValueError as error:
                raise ValueError(f"user {name!r}: {error}") from None
            if not prepared[0]:
                raise ValueError("the user name is empty")
            self._users[prepared[0]] = name, prepared[1]
        self._keys: dict[tuple[str, str], ScramKeys] = {}
        self._strangers: dict[tuple[str, str], ScramKeys] = {}

    def __bool__(self) -> bool:
        return bool(self._users)

    def check(self, user: str, password: str) -> str | None:
        """The user's name as it was given here, if that is the password; else None."""
        try:
            user, password = prepare(user), prepare(password)
        except ValueError:
            return None
        name, right = self._users.get(user, (None, ""))
        # Digests are compared, all of one length, so that the time tells nothing of the password's.
        same = hmac.compare_digest(self._digest(password), self._digest(right))
        return name if same else None

    def keys(self, mechanism: str, user: str) -> tuple[str | None, ScramKeys]:
        """Name and keys of a user by its prepared name; None and keys that fit no password for a stranger."""
        name, password = self._users.get(user, (None, ""))
        if name is None:
            password = self._digest(f"password {user}").hex()
            kept = self._strangers
            if len(kept) >= MAX_STRANGERS:
                kept.clear()
        else:
            kept = self._keys
        keys = kept.get((mechanism, user))
        if keys is None:
            salt = self._digest(f"salt {mechanism} {user}")[:16]
            keys = kept[mechanism, user] = derive_keys(DIGESTS[mechanism], password, salt)
        return name, keys

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._secret, text.encode(), "sha256")


class Authenticator:
    """Who may come in. One for a server; `for_connection` binds it to what is known of one connection.

    Args:
        users: name -> password, for PLAIN and SCRAM; taken as they are now.
        anonymous: offer ANONYMOUS, and answer the bare AMQP header without SASL.
        external: let in by EXTERNAL whom TLS has verified.
        tokens: checks access tokens, for XOAUTH2 and OAUTHBEARER; None for neither.
        allow_insecure: offer PLAIN and tokens on a transport that shows them, too.

    Raises:
        ValueError: a name is empty, or a name or a password has characters that no login may have.
    """

    def __init__(
        self,
        users: Mapping[str, str] | None = None,
        *,
        anonymous: bool = False,
        external: bool = False,
        tokens: TokenVerifier | None = None,
        allow_insecure: bool = False,
    ) -> None:
        self._users = Users(users or {})
        self._anonymous = anonymous
        self._external = external
        self._tokens = tokens
        self._allow_insecure = allow_insecure
        self._secure = False
        self._external_identity: str | None = None

    def for_connection(self, *, secure: bool, external_identity: str | None = None) -> Authenticator:
        """The same rules, for one connection.

        Args:
            secure: secrets may cross the transport as they are: TLS, loopback or a Unix socket.
            external_identity: whose certificate TLS has verified.
        """
        bound = copy(self)
        bound._secure = secure
        bound._external_identity = external_identity
        return bound

    @property
    def anonymous_allowed(self) -> bool:
        """A peer may leave SASL out."""
        return self._anonymous

    def mechanisms(self) -> list[str]:
        """What is offered to this connection, strongest first.

        Never nothing, for an offer may not be empty (§5.3.3.1).
        """
        names = []
        readable = self._secure or self._allow_insecure
        if self._external and self._external_identity is not None:
            names.append("EXTERNAL")
        if self._tokens is not None and readable:
            names += ["OAUTHBEARER", "XOAUTH2"]
        if self._users:
            names += DIGESTS
            if readable:
                names.append("PLAIN")
        if self._anonymous:
            names.append("ANONYMOUS")
        return names or ["EXTERNAL"]  # which fails then, for nothing external says who it is

    def exchange(self, name: str) -> ServerExchange:
        """One try of a mechanism that was offered.

        Raises:
            ValueError: it was not.
        """
        if name not in self.mechanisms():
            raise ValueError(f"{name} is not offered")
        if name == "EXTERNAL":
            return ExternalServer(self._external_identity if self._external else None)
        if name == "PLAIN":
            return PlainServer(self._users.check)
        if name == "ANONYMOUS":
            return AnonymousServer()
        if name in DIGESTS:
            return ScramServer(DIGESTS[name], lambda user: self._users.keys(name, user))
        assert self._tokens is not None
        return OAuthBearerServer(self._tokens) if name == "OAUTHBEARER" else XOAuth2Server(self._tokens)

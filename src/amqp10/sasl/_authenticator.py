"""The server's rules: who may come in, and by which mechanism."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from ._mechanism import ServerExchange
from ._oauth import BearerServer, TokenVerifier
from ._plain import AnonymousServer, ExternalServer, PlainServer
from ._scram import DIGESTS, SERVER_ITERATIONS, ScramKeys, ScramServer, derive_keys


@dataclass(frozen=True)
class Authenticator:
    """Who may come in. One for a server; `for_connection` binds it to what is known of one connection.

    Attributes:
        users: name -> password, for PLAIN and SCRAM.
        anonymous: ANONYMOUS is offered, and the bare AMQP header without SASL is answered.
        external: who TLS has verified may come in by EXTERNAL.
        tokens: checks access tokens, for XOAUTH2 and OAUTHBEARER; None for neither.
        allow_insecure: offer PLAIN and tokens on a transport that shows them.
        secure: this connection: the transport is TLS, loopback or a Unix socket.
        external_identity: this connection: whose certificate TLS has verified.
    """

    users: Mapping[str, str] | None = field(default=None, repr=False)
    anonymous: bool = False
    external: bool = False
    tokens: TokenVerifier | None = None
    allow_insecure: bool = False
    secure: bool = True
    external_identity: str | None = None
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _keys: dict[tuple[str, str, str], ScramKeys] = field(default_factory=dict, repr=False)

    def for_connection(self, *, secure: bool, external_identity: str | None = None) -> Authenticator:
        """The same rules, for one connection."""
        return replace(self, secure=secure, external_identity=external_identity)

    @property
    def anonymous_allowed(self) -> bool:
        """A peer may leave SASL out."""
        return self.anonymous

    def mechanisms(self) -> list[str]:
        """What is offered to this connection, strongest first."""
        names = []
        readable = self.secure or self.allow_insecure
        if self.external and self.external_identity is not None:
            names.append("EXTERNAL")
        if self.tokens is not None and readable:
            names += ["OAUTHBEARER", "XOAUTH2"]
        if self.users:
            names += DIGESTS
            if readable:
                names.append("PLAIN")
        if self.anonymous:
            names.append("ANONYMOUS")
        return names

    def exchange(self, name: str) -> ServerExchange:
        """One try of a mechanism that was offered.

        Raises:
            ValueError: it was not.
        """
        if name not in self.mechanisms():
            raise ValueError(f"{name} is not offered")
        if name == "EXTERNAL":
            assert self.external_identity is not None
            return ExternalServer(self.external_identity)
        if name in ("OAUTHBEARER", "XOAUTH2"):
            assert self.tokens is not None
            return BearerServer(self.tokens)
        if name == "PLAIN":
            return PlainServer((self.users or {}).get)
        if name == "ANONYMOUS":
            return AnonymousServer()
        return ScramServer(DIGESTS[name], lambda user: self._keys_of(name, user))

    def _keys_of(self, name: str, user: str) -> tuple[ScramKeys, bool]:
        """A user's keys; for one who is not there keys of nobody, the same each time, as a real user's would be."""
        digest = DIGESTS[name]
        # The salt follows from the user's name and a secret of the process: nothing to store, nothing to tell apart.
        salt = hmac.digest(self._secret, f"{name} {user}".encode(), "sha256")[:16]
        password = (self.users or {}).get(user)
        if password is None:
            nobody = sha256(salt + self._secret).digest()
            return ScramKeys(salt, SERVER_ITERATIONS, nobody, nobody), False
        keys = self._keys.get((name, user, password))
        if keys is None:
            keys = self._keys[name, user, password] = derive_keys(digest, password, salt)
        return keys, True

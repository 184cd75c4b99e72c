"""Who may connect: users, anonymous peers, client certificates; and on which hosts the broker may listen for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ..._arguments import without_secrets
from ...net import is_loopback
from ...sasl import SERVER_ITERATIONS, Authenticator, StoredKeys
from .._tokens.rules import TokenRules
from .._users.users import Authorize, Rights, User, rights_of

_NO_HOST: Final = re.compile(r"[/@\s]|^[^:]*:[^:]*$")
"""Marks of a URL: a path, or a port after the only colon; IPv6 addresses have at least two colons."""


@dataclass(slots=True)
class Access:
    """The access rules of a broker, whose users may be replaced.

    Attributes:
        users: name -> password, its keys, or a `User`. None: peers have no names; an empty mapping: nobody can log in.
        anonymous: whether ANONYMOUS is offered, and the AMQP header answered without SASL. None: only on loopback, and
            only without users and client certificates.
        external: whether client certificates that TLS verified name their users (EXTERNAL).
        allow_insecure: whether PLAIN is offered even on a transport that shows the password.
        authorize: decides what peers may do; None: the permissions of users decide.
        iterations: those of SCRAM keys that are derived from passwords.
        tokens: the rules for tokens. With them peers without a name may connect, and may do what their tokens allow.
            None: no token is valid.
    """

    users: Mapping[str, str | StoredKeys | User] | None = field(default=None, repr=False)
    anonymous: bool | None = None
    external: bool = False
    allow_insecure: bool = False
    authorize: Authorize | None = None
    iterations: int = SERVER_ITERATIONS
    tokens: TokenRules | None = None

    def authenticator(self) -> Authenticator:
        """Return the server's side of SASL by these rules."""
        passwords = {
            name: user.password if isinstance(user, User) else user for name, user in (self.users or {}).items()
        }
        return Authenticator(
            {name: password for name, password in passwords.items() if password is not None},
            anonymous=self.anonymous_allowed,
            external=self.external,
            allow_insecure=self.allow_insecure,
            cbs=self.tokens is not None,
            iterations=self.iterations,
        )

    def rights_of(self, user: str | None, virtual_host: str) -> Rights:
        """Return what a peer may do in a virtual host; `user` is None for one without a name."""
        return rights_of(self.users or {}, self.authorize, user, virtual_host)

    @property
    def names(self) -> bool:
        """Whether peers connect with names."""
        return self.users is not None or self.external or self.tokens is not None

    @property
    def anonymous_allowed(self) -> bool:
        """Whether peers without a name may connect."""
        if self.anonymous is not None:
            return self.anonymous
        return self.tokens is not None or not self.names

    def check_host(self, host: str) -> None:
        """Check the host to listen on.

        Raises:
            ValueError: `host` is a URL or a path or has a port; or it is not loopback, and everybody could connect
                although nobody asked for that.
        """
        if _NO_HOST.search(host):
            raise ValueError(
                "Broker(host=...) must be a name or address of this machine to listen on, such as '127.0.0.1', not "
                f"{without_secrets(host)}: the port goes into port=, users into users=, and a Unix socket "
                "into path=; the URL for clients is then broker.url"
            )
        everyone = self.anonymous is None and self.anonymous_allowed and self.tokens is None
        if everyone and not is_loopback(host):
            raise ValueError(
                f"refusing to listen on {host!r} without users: give users=..., or anonymous=True to let everyone in"
            )

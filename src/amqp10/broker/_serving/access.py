"""Who may come in: users, anonymous, client certificates; and where the broker may listen for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ...net import is_loopback
from ...sasl import SERVER_ITERATIONS, Authenticator, StoredKeys
from .._tokens.rules import TokenRules
from .._users.users import Authorize, Rights, User, rights_of

_NO_HOST: Final = re.compile(r"[/@\s]|^[^:]*:[^:]*$")
"""What a URL has, a path, or a port behind a colon; addresses of IPv6 have two colons at least."""
_LOGIN: Final = re.compile(r"[^/]*@")


@dataclass(slots=True)
class Access:
    """The rules of one broker. Its users may be replaced.

    Attributes:
        users: name -> password, its keys, or a `User`; None: nobody has a name, and an empty mapping: nobody may come
            in.
        anonymous: ANONYMOUS is offered, and the bare AMQP header without SASL is answered. None: where there are
            neither users nor client certificates, and then on loopback only.
        external: client certificates that TLS has verified name their users (EXTERNAL).
        allow_insecure: PLAIN is offered on a transport that shows the password, too.
        authorize: decides what peers may do; None: the users' permissions do.
        iterations: of the SCRAM keys that are derived of passwords.
        tokens: which tokens count; peers without a name may come in then, and may do what theirs allow. None: none do.
    """

    users: Mapping[str, str | StoredKeys | User] | None = field(default=None, repr=False)
    anonymous: bool | None = None
    external: bool = False
    allow_insecure: bool = False
    authorize: Authorize | None = None
    iterations: int = SERVER_ITERATIONS
    tokens: TokenRules | None = None

    def authenticator(self) -> Authenticator:
        """Make the server side of SASL by these rules."""
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
        """Whether peers come in by names."""
        return self.users is not None or self.external or self.tokens is not None

    @property
    def anonymous_allowed(self) -> bool:
        """Whether peers without a name may come in."""
        if self.anonymous is not None:
            return self.anonymous
        return self.tokens is not None or not self.names

    def check_host(self, host: str) -> None:
        """Refuse to open a door to everyone that nobody asked for, and what is no host.

        Raises:
            ValueError: it is a URL, a path or has a port; or ANONYMOUS would be allowed beyond loopback only because
                nothing else was said.
        """
        if _NO_HOST.search(host):
            raise ValueError(
                "Broker(host=...) must be a name or address of this machine to listen on, such as '127.0.0.1', not "
                f"{_LOGIN.sub('***@', host)!r:.200}: the port goes into port=, users into users=, and a Unix socket "
                "into path=; the URL for clients is then broker.url"
            )
        everyone = self.anonymous is None and self.anonymous_allowed and self.tokens is None
        if everyone and not is_loopback(host):
            raise ValueError(
                f"refusing to listen on {host!r} without users: give users=..., or anonymous=True to let everyone in"
            )

"""Who may come in: users, anonymous, client certificates; and where the broker may listen for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..net import is_loopback
from ..sasl import SERVER_ITERATIONS, Authenticator, StoredKeys
from ._users import Authorize, Rights, User, rights_of


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one broker.

    Attributes:
        users: name -> password, its keys, or a `User`; None: nobody has a name, and an empty mapping: nobody may come
            in.
        anonymous: ANONYMOUS is offered, and the bare AMQP header without SASL is answered. None: where there are
            neither users nor client certificates, and then on loopback only.
        external: client certificates that TLS has verified name their users (EXTERNAL).
        allow_insecure: PLAIN is offered on a transport that shows the password, too.
        authorize: decides what peers may do; None: the users' permissions do.
        iterations: of the SCRAM keys that are derived of passwords.
    """

    users: Mapping[str, str | StoredKeys | User] | None = field(default=None, repr=False)
    anonymous: bool | None = None
    external: bool = False
    allow_insecure: bool = False
    authorize: Authorize | None = None
    iterations: int = SERVER_ITERATIONS

    def authenticator(self) -> Authenticator:
        """The server side of SASL by these rules."""
        passwords = {
            name: user.password if isinstance(user, User) else user for name, user in (self.users or {}).items()
        }
        return Authenticator(
            {name: password for name, password in passwords.items() if password is not None},
            anonymous=self.anonymous_allowed,
            external=self.external,
            allow_insecure=self.allow_insecure,
            iterations=self.iterations,
        )

    def rights_of(self, user: str | None, virtual_host: str) -> Rights:
        """Return what a peer may do in a virtual host; `user` is None for one without a name."""
        return rights_of(self.users or {}, self.authorize, user, virtual_host)

    @property
    def names(self) -> bool:
        """Whether peers come in by names."""
        return self.users is not None or self.external

    @property
    def anonymous_allowed(self) -> bool:
        """Whether peers without a name may come in."""
        return self.anonymous if self.anonymous is not None else not self.names

    def check_host(self, host: str) -> None:
        """Refuse to open a door to everyone that nobody asked for.

        Raises:
            ValueError: ANONYMOUS would be allowed beyond loopback only because nothing else was said.
        """
        if self.anonymous is None and self.anonymous_allowed and not is_loopback(host):
            raise ValueError(
                f"refusing to listen on {host!r} without users: give users=..., or anonymous=True to let everyone in"
            )

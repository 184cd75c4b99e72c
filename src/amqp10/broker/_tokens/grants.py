"""The tokens of one connection: the one it logged in with, and those that it put at `$cbs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from ...messaging import Error
from .._users.users import Rights
from .rules import RIGHT_FOR, TokenInvalid, parts

if TYPE_CHECKING:
    from .._users.users import Action
    from .rules import Grant, Scope, TokenRules

MAX_AUDIENCES: Final = 1000
"""The most tokens that one connection may put at `$cbs`."""
MAX_SCOPES: Final = 5000
"""The most scopes of all these tokens."""


class _Allowed:
    """What several grants allow together.

    It is found by the path of each scope, so that a check does not visit all tokens. Equal scopes count once: one token
    may have been put for a thousand hosts.
    """

    def __init__(self, grants: Iterable[Grant]) -> None:
        self._ends: dict[tuple[str, ...], dict[Scope, float]] = {}  # by path: when each scope expires
        for grant in grants:
            for scope in grant.scopes:
                ends = self._ends.setdefault(scope.path, {})
                ends[scope] = max(ends.get(scope, 0.0), grant.expires_on)
        self._lengths = {len(path) for path in self._ends}

    def allows(self, action: Action, name: str, virtual_host: str, now: float) -> bool:
        """Return whether an action with the node `name` is allowed at the time `now`."""
        path = parts(name)
        return any(
            end > now and scope.covers(action, name, virtual_host)
            for length in self._lengths
            if length <= len(path)
            for scope, end in self._ends.get(path[:length], {}).items()
        )


class PeerTokens:
    """The tokens of one connection.

    Attributes:
        changed: called after a token was added or replaced.
    """

    def __init__(self, rules: TokenRules) -> None:
        self._rules = rules
        self._login: Grant | None = None
        self._put: dict[str, Grant] = {}
        self._scopes = 0  # of all that were put
        self._allowed: _Allowed | None = None  # None: the tokens have changed since a right was checked
        self._bare_since = rules.clock()  # the time since when no token was valid
        self._virtual_host = ""  # no virtual host entered yet
        self.changed: Callable[[], None] = lambda: None

    @property
    def takes_logins(self) -> bool:
        """Whether peers may log in by tokens."""
        return bool(self._rules.jwt)

    @property
    def takes_keys(self) -> bool:
        """Whether peers may log in by the name and key of a SAS rule."""
        return bool(self._rules.sas)

    def log_in_by_key(self, user: str | None, key: str) -> str | None:
        """Return `user`, the name of a SAS rule, if `key` is its key; None otherwise."""
        try:
            self._login = self._rules.check_key(user, key)
        except TokenInvalid:
            return None
        return self._login.user

    def log_in(self, user: str | None, token: str) -> str | None:
        """Return the user of a token to log in with; None: the token is invalid."""
        try:
            self._login = self._rules.check(token)
        except TokenInvalid:
            return None
        return self._login.user

    def renew(self, token: str) -> str | None:
        """Replace the token of the login; return why that is refused, or None."""
        try:
            grant = self._rules.check(token)
        except TokenInvalid as error:
            return str(error)
        if self._login is None:
            return "the connection was not opened with a token"
        if grant.user != self._login.user:
            return "the token is another user's"
        self._login = grant
        self._note_change()
        return None

    def put(self, audience: str, token: str) -> None:
        """Add a token for an audience.

        Raises:
            TokenInvalid: the token is invalid, or there are too many.
        """
        grant = self._rules.check(token, audience)
        key = "/".join(parts(audience))
        before = self._put.get(key)
        if before is None and len(self._put) >= MAX_AUDIENCES:
            raise TokenInvalid(f"a connection can have tokens for at most {MAX_AUDIENCES} audiences")
        scopes = self._scopes + len(grant.scopes) - (len(before.scopes) if before is not None else 0)
        if scopes > MAX_SCOPES:
            raise TokenInvalid(f"the tokens of a connection can have at most {MAX_SCOPES} scopes together")
        self._put[key] = grant
        self._scopes = scopes
        self._note_change()

    def _note_change(self) -> None:
        self._allowed = None
        self.changed()

    def carried(self, token: str, name: str, actions: Iterable[Action]) -> bool:
        """Return whether a token in a request allows one of `actions` with an entity. The token is not kept."""
        try:
            grant = self._rules.check_carried(token, name)
        except TokenInvalid:
            return False
        return any(grant.allows(action, name, self._virtual_host) for action in actions)

    def end_all(self) -> None:
        """End all tokens that were put, as if they had expired."""
        if self._put:
            self._put.clear()
            self._scopes = 0
            self._bare_since = self._rules.clock()
            self._note_change()

    def wait_less(self, seconds: float) -> None:
        """Shorten the wait for the first token by `seconds`."""
        self._bare_since -= seconds
        if not self._put and self._login is None and self._rules.required:
            self.changed()

    def rights_in(self, virtual_host: str, user: str | None) -> Rights | None:
        """Return what the tokens allow; None: the peer logged in without a token."""
        self._virtual_host = virtual_host
        if self._login is None and user is not None:
            return None

        def allows(action: Action, name: str) -> bool:
            if self._allowed is None:
                self._allowed = _Allowed([self._login] if self._login is not None else self._put.values())
            return self._allowed.allows(action, name, virtual_host, self._rules.clock())

        advice: dict[Action, str] = {}
        if self._rules.sas:
            advice = {action: f": a token with the right {right} allows it" for action, right in RIGHT_FOR.items()}
        return Rights(user, virtual_host, allows, administrator=False, advice=advice)

    # Time

    @property
    def due(self) -> float | None:
        """When something expires next, on the rules' clock; None: never."""
        if self._login is not None:
            return self._login.expires_on
        if self._put:
            return min(grant.expires_on for grant in self._put.values())
        return self._bare_since + self._rules.grace if self._rules.required else None

    @property
    def seconds_left(self) -> float | None:
        """The seconds until `due`; None: never."""
        return None if self.due is None else self.due - self._rules.clock()

    def expire(self) -> Error | None:
        """Remove expired tokens; return the error to close the connection with, or None."""
        now = self._rules.clock()
        if self._login is not None:
            return _unauthorized("the token of the login has ended") if self._login.expires_on <= now else None
        had = bool(self._put)
        for key in [key for key, grant in self._put.items() if grant.expires_on <= now]:
            self._scopes -= len(self._put.pop(key).scopes)
            self._allowed = None
        if had and not self._put:
            self._bare_since = now
        if not self._put and self._rules.required and now >= self._bare_since + self._rules.grace:
            return _unauthorized(f"no valid token was put for {self._rules.grace:g} s")
        return None


def _unauthorized(description: str) -> Error:
    return Error("amqp:unauthorized-access", description)

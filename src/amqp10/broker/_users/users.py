"""Users of a broker and what each may do: permissions as in RabbitMQ, or a callback that decides."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

from ..._arguments import checked, file_of
from ..._json import parse_json
from ...sasl import StoredKeys
from .._errors import Refused
from .name_pattern import name_pattern

Action = Literal["configure", "write", "read"]
"""Configure: declare, delete. Write: send to, bind as destination. Read: receive from, purge, bind as source."""

Authorize = Callable[[str | None, Action, str, str], bool]
"""Returns whether a user (None: a peer without a name) may take an action with a queue or exchange in a virtual host.
It is called with these four in this order, once for each link and for each request.
"""

DEFAULT_EXCHANGE: Final = "amq.default"
"""The name that permissions use for the default exchange."""


@checked
@dataclass(frozen=True, slots=True)
class Permissions:
    """What a user may do in one virtual host: for each action a regular expression of names.

    It is searched for in the name of a queue, topic or exchange; anchor it with `^` and `$`. An empty one allows
    nothing. Lookarounds, backreferences, flags and possessive repeats (`a++`) are not supported, so that every name is
    matched fast; if you need them, use `Broker(authorize=...)`.

    Attributes:
        configure: names that it may declare and delete; also names that it may create by attaching to them.
        write: names that it may send to.
        read: names that it may receive from.

    Raises:
        ValueError: an attribute is not a regular expression, or uses what is not supported.
    """

    configure: str = ""
    write: str = ""
    read: str = ""

    def __post_init__(self) -> None:
        for each in fields(self):
            pattern = getattr(self, each.name)
            try:
                name_pattern(pattern)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{each.name} must be a regular expression, not {pattern!r:.80}: {error}") from None

    def allows(self, action: Action, name: str) -> bool:
        """Return whether the action is allowed with that name."""
        pattern: str = getattr(self, action)
        # `$` also matches before a line feed at the end, but no pattern is meant to allow such names.
        return bool(pattern) and not name.endswith("\n") and name_pattern(pattern).matches(name)


@checked
@dataclass(frozen=True, slots=True)
class User:
    """A user of a broker, by the name that `Broker(users=...)` gives it.

    Attributes:
        password: for PLAIN and SCRAM, as text or keys; None: the user logs in by certificate only.
        permissions: by virtual host, "/" for the usual one; None: everything in all of them.
        administrator: whether it may manage what belongs to the broker, such as its quarantine.
        impersonator: whether it may send messages with another `user_id`, as bridges do.
    """

    password: str | StoredKeys | None = field(default=None, repr=False)
    permissions: Mapping[str, Permissions] | None = None
    administrator: bool = False
    impersonator: bool = False


class Rights:
    """What a peer may do in a virtual host.

    Args:
        user: its name; None: a peer without one.
        virtual_host: the name of the virtual host.
        allows: returns whether an action is allowed with a name; None: everything is.
        advice: by action, what to add to the text of a refusal.

    Attributes:
        limited: whether anything may be refused.
        administrator, impersonator: see `User`.
        enters: whether it may open a connection to the virtual host.
    """

    def __init__(
        self,
        user: str | None = None,
        virtual_host: str = "/",
        allows: Callable[[Action, str], bool] | None = None,
        *,
        administrator: bool = True,
        impersonator: bool = False,
        enters: bool = True,
        advice: Mapping[Action, str] | None = None,
    ) -> None:
        self.limited: bool = allows is not None
        self.enters = enters
        self.administrator = administrator
        self.impersonator = impersonator
        self._user = user
        self._virtual_host = virtual_host
        self._allows = allows
        self._advice = advice or {}

    def check(self, action: Action, name: str) -> None:
        """Check that an action is allowed.

        Raises:
            Refused: the peer may not take this action with that name.
        """
        if self._allows is not None and not self._allows(action, name):
            reason = f"{action} access to {name!r:.200} in {self._place} refused for {self._who}"
            raise Refused("amqp:unauthorized-access", reason + self._advice.get(action, ""))

    def check_enters(self) -> None:
        """Check that the peer may enter the virtual host.

        Raises:
            Refused: the peer has no permissions there.
        """
        if not self.enters:
            reason = f"access to {self._place} refused for {self._who}: no permissions are given for it"
            raise Refused("amqp:unauthorized-access", reason, reply_code=530)

    def check_administrator(self, what: str) -> None:
        """Check that the peer is an administrator.

        Raises:
            Refused: it is not an administrator.
        """
        if not self.administrator:
            raise Refused("amqp:unauthorized-access", f"{what} is for administrators; {self._who} is not one")

    @property
    def _who(self) -> str:
        return "peers without a name" if self._user is None else f"user {self._user!r:.80}"

    @property
    def _place(self) -> str:
        return f"virtual host {self._virtual_host!r:.80}"


EVERYTHING: Final = Rights()


def rights_of(
    users: Mapping[str, str | StoredKeys | User], authorize: Authorize | None, user: str | None, virtual_host: str
) -> Rights:
    """Return what a peer may do in a virtual host.

    If no user has permissions, everybody may do everything. Otherwise a peer without permissions may do nothing, except
    for users with only a password, who may do everything. If there is a callback, it decides for all.
    """
    known = users.get(user) if user is not None else None
    there = known if isinstance(known, User) else User()
    if authorize is not None:
        decide = authorize

        def allowed(action: Action, name: str) -> bool:
            return decide(user, action, name, virtual_host)

        administrator = there.administrator
        return Rights(user, virtual_host, allowed, administrator=administrator, impersonator=there.impersonator)
    if not any(isinstance(each, User) for each in users.values()) or isinstance(known, str | StoredKeys):
        return EVERYTHING
    if isinstance(known, User) and known.permissions is None:
        return Rights(user, virtual_host, administrator=known.administrator, impersonator=known.impersonator)
    permissions = (there.permissions or {}).get(virtual_host)
    return Rights(
        user,
        virtual_host,
        (permissions or Permissions()).allows,
        administrator=there.administrator,
        impersonator=there.impersonator,
        enters=permissions is not None,
    )


def may_the_same(
    before: Mapping[str, str | StoredKeys | User], now: Mapping[str, str | StoredKeys | User], user: str | None
) -> bool:
    """Return whether a user has the same permissions in both mappings, whatever its password."""

    def allowed(users: Mapping[str, str | StoredKeys | User]) -> object:
        known = users.get(user) if user is not None else None
        if isinstance(known, User):
            return replace(known, password=None)
        return known is None, known is None and any(isinstance(each, User) for each in users.values())

    return allowed(before) == allowed(now)


# Users in a file


@checked
def read_users(path: str | PathLike[str]) -> dict[str, User]:
    """Return the users in a JSON file: an object with "users", which maps each name to an object.

    That object has "password" or "keys" (as `amqp10 hash-password` prints them), and may have "permissions" (by virtual
    host: "configure", "write" and "read"), "administrator" and "impersonator".

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is malformed; the message says where, and contains no password.
    """
    with file_of("users_file"):
        octets = Path(path).read_bytes()
    try:
        found = parse_json(octets)
    except json.JSONDecodeError as error:  # The message names the line, and quotes at most one character of it.
        raise ValueError(f"{path}: not a JSON file: {error}") from None
    except ValueError:
        raise ValueError(f"{path}: not a JSON file") from None
    users = found.get("users") if isinstance(found, dict) else None
    if not isinstance(users, dict) or len(found) != 1:
        raise ValueError(f'{path}: a file of users must have the form {{"users": {{NAME: {{...}}, ...}}}}')
    return {name: read_user(settings, f"{path}: user {name!r:.80}") for name, settings in users.items()}


def all_users(
    users: Mapping[str, str | StoredKeys | User] | None, path: str | PathLike[str] | None
) -> Mapping[str, str | StoredKeys | User] | None:
    """Return the users of the arguments `users` and `users_file`; None: neither is given.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is malformed, or both have a user of the same name.
    """
    if path is None:
        return users
    in_file = read_users(path)
    if twice := in_file.keys() & (users or {}).keys():
        raise ValueError(f"{path} and users must not both have the user {min(twice)!r}")
    return {**in_file, **(users or {})}


_KINDS: Final[dict[str, type]] = {
    "password": str,
    "keys": str,
    "permissions": dict,
    "administrator": bool,
    "impersonator": bool,
}


def read_user(settings: Any, where: str, *, also: Sequence[str] = ()) -> User:
    """Return the user that an object of a file describes.

    Args:
        where: the place of the object, for errors.
        also: names of fields that the caller has read.

    Raises:
        ValueError: the object is malformed; see `read_users`.
    """
    _check_fields(settings, _KINDS, where, also)
    if "password" in settings and "keys" in settings:
        raise ValueError(f'{where}: must have "password" or "keys", not both')
    permissions: dict[str, Permissions] | None = None
    if "permissions" in settings:
        permissions = {}
        for host, patterns in settings["permissions"].items():
            _check_fields(patterns, {each.name: str for each in fields(Permissions)}, f"{where}, {host!r:.80}")
            try:
                permissions[host] = Permissions(**patterns)
            except ValueError as error:
                raise ValueError(f"{where}, {host!r:.80}: {error}") from None
    password: str | StoredKeys | None = settings.get("password")
    if "keys" in settings:
        try:
            password = StoredKeys.parse(settings["keys"])
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    return User(password, permissions, settings.get("administrator", False), settings.get("impersonator", False))


def _check_fields(settings: Any, kinds: Mapping[str, type], where: str, also: Sequence[str] = ()) -> None:
    if not isinstance(settings, dict):
        raise ValueError(f"{where}: must be an object, not a {type(settings).__name__}")
    for name, value in settings.items():
        if name not in kinds:
            raise ValueError(f"{where}: there is no such key as {name!r:.80}; there are {', '.join((*kinds, *also))}")
        if not isinstance(value, kinds[name]):
            raise ValueError(f"{where}: {name} must be a {kinds[name].__name__}, not a {type(value).__name__}")

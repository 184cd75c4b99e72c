"""The rules for tokens: a valid token is signed with a key that the broker was given."""

from __future__ import annotations

import base64
import hmac
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args
from urllib.parse import quote, unquote, unquote_plus, urlsplit

from ..._arguments import checked, without_secrets
from ..._json import parse_json
from ...tokens import SAS_PREFIX, sas_signature
from .._users.users import Action

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

SasRight = Literal["Send", "Listen", "Manage"]
JwtAlgorithm = Literal["HS256", "RS256", "ES256"]

_ACTIONS: Final[dict[str, frozenset[Action]]] = {
    "Send": frozenset({"write"}),
    "Listen": frozenset({"read"}),
    "Manage": frozenset({"configure", "write", "read"}),
}
RIGHT_FOR: Final[dict[Action, SasRight]] = {"write": "Send", "read": "Listen", "configure": "Manage"}
"""The least right that allows an action."""
_SCOPE: Final = re.compile(r"(?:[\w.-]+\.)?(configure|write|read):([^/\s]+)/([^/\s]+)(?:/\S*)?", re.ASCII)
_MAX_TOKEN_LENGTH: Final = 65_536
"""The most characters of a token."""
_MAX_AUDIENCE_LENGTH: Final = 2048
"""The most characters of an audience, which is kept as long as its token."""
_MAX_SCOPES: Final = 500


class TokenInvalid(Exception):
    """A token is invalid; the message says why, and quotes nothing of the token."""


@checked
@dataclass(frozen=True, slots=True)
class SasRule:
    """An authorization rule as in Azure Service Bus: whoever knows its key may sign tokens with its rights.

    Attributes:
        name: the name of the rule, which tokens contain.
        key: the key, as clients have it.
        rights: "Send", "Listen", and "Manage", which includes both and allows declaring and deleting.
        entity: the queue or topic that the rule is for; "": all of them.

    Raises:
        ValueError: a right is unknown, or the name or the key is empty.
    """

    name: str
    key: str = field(repr=False)
    rights: Iterable[SasRight] = get_args(SasRight)
    entity: str = ""

    def __post_init__(self) -> None:
        known = get_args(SasRight)
        rights = self.rights if isinstance(self.rights, str) else tuple(self.rights)
        if isinstance(rights, str) or not set(rights) <= set(known):
            raise ValueError(f"rights must be some of {', '.join(known)}, not {without_secrets(rights)}")
        object.__setattr__(self, "rights", rights)
        if not self.name or not self.key:
            raise ValueError("a SAS rule needs a name and a key, and one of them is empty")


@checked
@dataclass(frozen=True, slots=True)
class JwtKey:
    """A key to verify JSON Web Tokens with.

    The claim `scope` says what a token allows, as in RabbitMQ: words like "read:HOST/NAME", "write:*/orders" or
    "configure:*/*", with any prefix that ends in a dot; "*" stands for any text.

    Attributes:
        key: the secret for HS256; the public key as PEM for RS256 and ES256.
        algorithm: "HS256", "RS256" or "ES256".
        issuer, audience: what the claims `iss` and `aud` must be; None: anything.
        user_claim: the claim with the user's name.

    Raises:
        ValueError: the key does not fit the algorithm.
    """

    key: str | bytes = field(repr=False)
    algorithm: JwtAlgorithm = "HS256"
    _: KW_ONLY
    issuer: str | None = None
    audience: str | None = None
    user_claim: str = "sub"

    def __post_init__(self) -> None:
        if not self.key:
            raise ValueError("the key of a JwtKey must not be empty")
        if self.algorithm != "HS256":
            public_key(self)
        elif b"-----BEGIN" in self.octets:  # otherwise everybody who has the public key could sign with it
            raise ValueError(
                'the key for HS256 must be a secret, and this is PEM: use JwtKey(key, "RS256"), or "ES256"'
            )

    @property
    def octets(self) -> bytes:
        """The key as octets."""
        return self.key.encode() if isinstance(self.key, str) else self.key

    def verifies(self, signed: bytes, signature: bytes) -> bool:
        """Return whether `signature` signs these octets with the key."""
        if self.algorithm == "HS256":
            return hmac.compare_digest(hmac.digest(self.octets, signed, "sha256"), signature)
        # Imported here, so that a broker without such keys starts without this library.
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256

        key = public_key(self)
        try:
            if isinstance(key, rsa.RSAPublicKey):
                key.verify(signature, signed, padding.PKCS1v15(), SHA256())
            else:
                if len(signature) != 64:
                    return False
                r, s = (int.from_bytes(part) for part in (signature[:32], signature[32:]))
                key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True


def public_key(key: JwtKey) -> rsa.RSAPublicKey | ec.EllipticCurvePublicKey:
    """Return the public key of an asymmetric algorithm.

    Raises:
        ValueError: the key is not a public key for that algorithm.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        found = load_pem_public_key(key.octets)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError(f"the key for {key.algorithm} is not a public key in PEM") from None
    if key.algorithm == "RS256" and isinstance(found, rsa.RSAPublicKey):
        return found
    if (
        key.algorithm == "ES256"
        and isinstance(found, ec.EllipticCurvePublicKey)
        and isinstance(found.curve, ec.SECP256R1)
    ):
        return found
    wanted = "an RSA key" if key.algorithm == "RS256" else "a key of the curve P-256"
    raise ValueError(f"the key for {key.algorithm} is not {wanted}")


@dataclass(frozen=True, slots=True)
class Scope:
    """What a token allows with which nodes.

    Attributes:
        actions: the allowed actions.
        host: a pattern of virtual hosts, in which "*" stands for any text.
        path: the first parts of a name: it includes all names beneath; () includes all names.
        name: a pattern of names, like that of hosts.
    """

    actions: frozenset[Action]
    host: str = "*"
    path: tuple[str, ...] = ()
    name: str = "*"

    def allows(self, action: Action, name: str, host: str) -> bool:
        """Return whether the scope allows an action with the node `name` in a virtual host."""
        return self.covers(action, name, host) and parts(name)[: len(self.path)] == self.path

    def covers(self, action: Action, name: str, host: str) -> bool:
        """Return the same for a name that is known to be beneath the path."""
        return action in self.actions and _matches(self.host, host) and _matches(self.name, name)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a valid token allows.

    Attributes:
        user: the user of the token; None: it names none.
        expires_on: seconds since 1970.
    """

    user: str | None
    expires_on: float
    scopes: tuple[Scope, ...]

    def allows(self, action: Action, name: str, host: str) -> bool:
        """Return whether the token allows an action with the node `name` in a virtual host."""
        return any(scope.allows(action, name, host) for scope in self.scopes)


@checked
@dataclass(frozen=True, slots=True)
class TokenRules:
    """The tokens that a broker accepts: `Broker(tokens=TokenRules(sas=[SasRule("policy", key)]))`.

    Peers without a name may then connect, and may do what the tokens allow that they put at `$cbs`. With the name and
    key of a SAS rule peers may log in by PLAIN, and do what the rule allows. With a JSON Web Token that has a user's
    name they may log in by OAUTHBEARER, XOAUTH2, or PLAIN with the token as password. When a token expires without a
    successor, its links are detached; if it was that of the login, the connection is closed.

    Attributes:
        sas: rules for SAS tokens.
        jwt: keys for JSON Web Tokens.
        required: close the connection of a peer without a name that has had no token for `grace` seconds.
        grace: the seconds for `required`.
        clock: the time in seconds since 1970.

    Raises:
        ValueError: there is neither a rule nor a key, or two rules have one name.
    """

    sas: Iterable[SasRule] = ()
    jwt: Iterable[JwtKey] = ()
    _: KW_ONLY
    required: bool = False
    grace: float = 20.0
    clock: Callable[[], float] = field(default=time.time, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sas", tuple(self.sas))
        object.__setattr__(self, "jwt", tuple(self.jwt))
        names = [rule.name for rule in self.sas]
        if not names and not self.jwt:
            raise ValueError("TokenRules need at least one SasRule or JwtKey")
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two SAS rules have the name {min(twice)!r}")
        if not self.grace > 0:
            raise ValueError(f"grace must be more than 0 seconds, not {self.grace}")

    def check(self, token: str, audience: str | None = None) -> Grant:
        """Return what a token allows.

        Args:
            audience: the URI that it was put for; None: it is the token of a login.

        Raises:
            TokenInvalid: it is not signed with a known key, has expired, or is for another resource.
        """
        if len(token) > _MAX_TOKEN_LENGTH:
            raise TokenInvalid(f"a token must have at most {_MAX_TOKEN_LENGTH} characters")
        if audience is not None and len(audience) > _MAX_AUDIENCE_LENGTH:
            raise TokenInvalid(f"an audience must have at most {_MAX_AUDIENCE_LENGTH} characters")
        if not _is_unicode(token):
            raise TokenInvalid("a token must not have lone surrogates")
        if token.startswith(SAS_PREFIX):
            if audience is None:
                raise TokenInvalid("a SAS token cannot be used to log in: put it at $cbs")
            return self._check_sas(token.removeprefix(SAS_PREFIX), audience)
        return self._check_jwt(token, audience)

    def check_carried(self, token: str, name: str) -> Grant:
        """Return what a token in a request about an entity allows.

        The request names no audience, so a SAS token is checked for the one that it is signed for.

        Raises:
            TokenInvalid: see `check`.
        """
        signed = next((part[3:] for part in token.removeprefix(SAS_PREFIX).split("&") if part.startswith("sr=")), None)
        if token.startswith(SAS_PREFIX) and signed is not None:
            return self.check(token, unquote_plus(signed))
        return self.check(token, f"sb://any/{quote(name)}")

    def check_key(self, name: str | None, key: str) -> Grant:
        """Return what the name and key of a SAS rule allow, as long as the connection lasts.

        Raises:
            TokenInvalid: no rule has this name and key.
        """
        rule = next((rule for rule in self.sas if rule.name == name), None)
        right = rule.key if rule is not None else "nobody's"
        if not hmac.compare_digest(right.encode(), key.encode()) or rule is None:
            raise TokenInvalid("no SAS rule has that name and that key")
        return Grant(name, math.inf, (Scope(_actions_of(rule), path=parts(rule.entity)),))

    def _check_sas(self, token: str, audience: str) -> Grant:
        fields = {name: value for name, _, value in (part.partition("=") for part in token.split("&"))}
        if not fields.keys() >= {"sr", "sig", "se", "skn"} or not re.fullmatch(r"\d{1,12}", fields["se"], re.ASCII):
            raise TokenInvalid("a SAS token must have sr, sig, se and skn")
        rule = next((rule for rule in self.sas if rule.name == unquote_plus(fields["skn"])), None)
        right = sas_signature(rule.key if rule is not None else "nobody's", fields["sr"], fields["se"])
        if not hmac.compare_digest(right.encode(), unquote_plus(fields["sig"]).encode()) or rule is None:
            raise TokenInvalid("the SAS token is not signed with the key of a known rule")
        self._check_end(float(fields["se"]))
        resource, wanted = _resource(unquote_plus(fields["sr"])), _resource(audience)
        if wanted[: len(resource)] != resource:
            raise TokenInvalid("the SAS token is for another resource than it was put for")
        entity = parts(rule.entity)
        if resource[1 : 1 + len(entity)] != entity:
            raise TokenInvalid("the rule of the SAS token is for another entity")
        return Grant(None, float(fields["se"]), (Scope(_actions_of(rule), path=wanted[1:]),))

    def _check_jwt(self, token: str, audience: str | None) -> Grant:
        try:
            signed, _, signature64 = token.rpartition(".")
            header64, claims64 = signed.split(".")
            header, claims, signature = _json(header64), _json(claims64), _octets(signature64)
        except ValueError:
            raise TokenInvalid("this is neither a SAS token nor a JSON Web Token") from None
        fits = [each for each in self.jwt if header.get("alg") == each.algorithm]
        key = next((each for each in fits if each.verifies(signed.encode(), signature)), None)
        if key is None:
            raise TokenInvalid("the JSON Web Token is not signed with a known key")
        if "crit" in header:  # critical headers must be understood (RFC 7515, 4.1.11)
            raise TokenInvalid("the JSON Web Token has a critical header, which is not supported")
        end, begin = _moment(claims.get("exp")), _moment(claims.get("nbf", 0))
        if end is None or begin is None:
            raise TokenInvalid("the JSON Web Token has no expiration time")
        self._check_end(end)
        if begin > self.clock():
            raise TokenInvalid("the JSON Web Token is not valid yet")
        meant = claims.get("aud")
        if key.issuer is not None and claims.get("iss") != key.issuer:
            raise TokenInvalid("the JSON Web Token has another issuer")
        if key.audience is not None and key.audience not in (meant if isinstance(meant, list) else [meant]):
            raise TokenInvalid("the JSON Web Token is for another audience")
        user = claims.get(key.user_claim)
        if isinstance(user, str) and not _is_unicode(user):
            raise TokenInvalid(f"the claim {key.user_claim!r} of the JSON Web Token has lone surrogates")
        if audience is None and (not isinstance(user, str) or not user):
            raise TokenInvalid(f"the JSON Web Token has no claim {key.user_claim!r} with a user's name")
        words = claims.get("scope", "")
        found = [_scope(word) for word in (words if isinstance(words, list) else str(words).split())]
        scopes = tuple(dict.fromkeys(scope for scope in found if scope is not None))
        if len(scopes) > _MAX_SCOPES:  # each link and request searches all of them
            raise TokenInvalid(f"a JSON Web Token must have at most {_MAX_SCOPES} scopes")
        if audience is not None:  # a token put for an audience counts only for that
            path = _resource(audience)[1:]
            scopes = tuple(replace(scope, path=path) for scope in scopes)
        return Grant(user if isinstance(user, str) else None, end, scopes)

    def _check_end(self, end: float) -> None:
        if end <= self.clock():
            raise TokenInvalid("the token has expired")


def _actions_of(rule: SasRule) -> frozenset[Action]:
    return frozenset(action for each in rule.rights for action in _ACTIONS[each])


def parts(name: str) -> tuple[str, ...]:
    """Return the parts of an entity's path, casefolded because paths ignore case."""
    return tuple(part.casefold() for part in name.split("/") if part)


def path_in(audience: str) -> str:
    """Return the path of what a token is for, in lower case; "" is all that the host has.

    Raises:
        TokenInvalid: the audience is no URI with a host.
    """
    return "/".join(_resource(audience)[1:])


def _resource(uri: str) -> tuple[str, ...]:
    """Return the host and path of an audience; its scheme is ignored.

    Raises:
        TokenInvalid: it is not a URI with a host.
    """
    try:
        split = urlsplit(uri)
        host = split.hostname
    except ValueError:
        host = None
    if host is None:
        raise TokenInvalid("an audience must be a URI with a host, such as amqps://host/queue")
    path = parts(unquote(split.path))
    for prefix in ("queues", "topics"):  # addresses may begin with the kind of the node
        if len(path) > 1 and path[0] == prefix:
            path = path[1:]
    if path[-1:] == ("$management",):  # azure-service-bus for JavaScript puts its token for this node only
        path = path[:-1]
    return (host, *path)


def _scope(word: object) -> Scope | None:
    read = _SCOPE.fullmatch(word) if isinstance(word, str) else None
    if read is None:
        return None
    action: Any = read[1]
    host, name = map(unquote, read.group(2, 3))
    return Scope(frozenset({action}), host, name=name)


def _matches(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern; as in RabbitMQ, only "*" is special."""
    first, *others = pattern.split("*")
    if not others:
        return text == first
    last = others.pop()
    place, end = len(first), len(text) - len(last)
    if place > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in others:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True


def _octets(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _moment(value: object) -> float | None:
    """Return a number of seconds since 1970; None: `value` is not such a number."""
    try:
        moment = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return None
    return moment if math.isfinite(moment) else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json(text: str) -> Mapping[str, Any]:
    found = parse_json(_octets(text))
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found

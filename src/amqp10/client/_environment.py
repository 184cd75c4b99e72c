"""Settings of a connection as text, by the same names: parameters of a URL, and variables of the environment."""

from __future__ import annotations

import math
import os
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from .._arguments import checked, instead
from .._files import first_line
from ..net import TLS, parse_url
from ..tokens import Token
from ._settings import Address, ConnectionSettings, LoginTokens, Reconnect

PREFIX: Final = "AMQP10_"
"""How the names of the variables begin."""


def seconds(text: str) -> float:
    """Read seconds.

    Raises:
        ValueError: it is no number, or less than 0, or no end of time.
    """
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError("less than 0, or without end")
    return value


def _on_or_off(text: str) -> bool:
    return {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}[text.lower()]


Kind = tuple[Callable[[str], Any], str]
"""What reads a text, and what it should be, in words."""

TEXT: Final[Kind] = (str, "a text")
COUNT: Final[Kind] = (int, "a whole number")
SECONDS: Final[Kind] = (seconds, "a number of seconds, 0 or more")
_SWITCH: Final[Kind] = (_on_or_off, "true or false")

_KINDS: Final[dict[str, Kind]] = {
    "tls_ca": TEXT,
    "tls_certificate": TEXT,
    "tls_key": TEXT,
    "tls_upgrade": _SWITCH,
    "proxy": TEXT,
    "container_id": TEXT,
    "hostname": TEXT,
    "dialect": TEXT,
    "profile": TEXT,
    "idle_timeout": SECONDS,
    "connect_timeout": SECONDS,
    "close_timeout": SECONDS,
    "max_frame_size": COUNT,
    "channel_max": COUNT,
    "reconnect": _SWITCH,
}
"""The settings that a text can say, without those that would make a connection less secure."""


def read(name: str, text: str, kind: Kind) -> Any:
    """Read the text of a setting.

    Args:
        name: of the variable or parameter, for the error.

    Raises:
        ValueError: it is not of that kind.
    """
    function, words = kind
    try:
        return function(text)
    except (ValueError, KeyError):
        raise ValueError(f"{name} must be {words}, not {text!r:.80}") from None


def _settings(values: Mapping[str, Any]) -> ConnectionSettings:
    """Return the arguments of `Connection` that these values mean.

    Raises:
        ValueError: a key without a certificate.
    """
    settings: dict[str, Any] = {name: value for name, value in values.items() if not name.startswith("tls_c")}
    key = settings.pop("tls_key", None)
    if "tls_ca" in values or "tls_certificate" in values or key is not None:
        settings["tls"] = TLS(ca=values.get("tls_ca"), certificate=values.get("tls_certificate"), key=key)
    if "reconnect" in values:
        settings["reconnect"] = Reconnect() if values["reconnect"] else None
    return settings  # type: ignore[return-value]


def url_settings(address: Address) -> tuple[Address, ConnectionSettings]:
    """Take the parameters out of URLs; return the rest, and what the parameters say.

    WebSockets have none: their query is the HTTP server's. Callables are left as they are.

    Raises:
        ValueError: there is no such parameter, one comes twice, or is not what it should be; or the URLs of one
            connection differ in them. The message never has the password.
    """
    if isinstance(address, str):
        url, in_url = _one_url(address)
        return url, _settings(in_url)
    if isinstance(address, bytes) or not isinstance(address, Iterable):
        return address, {}
    each = [_one_url(url) if isinstance(url, str) else (url, {}) for url in address]
    if any(in_url != each[0][1] for _, in_url in each):
        raise ValueError("all URLs of a connection must have the same parameters")
    return [url for url, _ in each], _settings(each[0][1]) if each else {}


def _one_url(url: str) -> tuple[str, dict[str, Any]]:
    bare, mark, query = url.partition("?")
    if not mark or bare.startswith(("ws:", "wss:")) or "@" in query or "#" in query:
        return url, {}  # what is wrong with it is said where it is taken apart
    values: dict[str, Any] = {}
    for name, text in urllib.parse.parse_qsl(query, keep_blank_values=True):
        if name not in _KINDS:
            raise ValueError(f"unknown parameter {name!r:.80} in the URL: {instead(name, list(_KINDS))}")
        if name in values:
            raise ValueError(f"the URL has the parameter {name} twice")
        values[name] = read(f"the URL's parameter {name}", text, _KINDS[name])
    return bare, values


def secret(name: str, environ: Mapping[str, str]) -> str | None:
    """Return what a variable says, or the first line of the file that `NAME_FILE` names; None without either.

    Raises:
        ValueError: both are there, or the file cannot be read or is empty.
    """
    value, file = environ.get(name) or None, environ.get(f"{name}_FILE") or None
    if file is None:
        return value
    if value is not None:
        raise ValueError(f"{name} and {name}_FILE are both set: unset one of them")
    return secret_in(file, f"{name}_FILE")


def secret_in(file: str | os.PathLike[str], what: str = "") -> str:
    """Return the first line of a file, which is a secret.

    Args:
        what: names the file, for the error.

    Raises:
        ValueError: it cannot be read, or is empty.
    """
    named = f"{what}: {file}" if what else f"{file}"
    try:
        line = first_line(file)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{named} cannot be read as text: {error}") from None
    if not line:
        raise ValueError(f"{named}: the first line must have the secret, but is empty")
    return line


def with_password(url: str, password: str | None) -> str:
    """Return a URL with a password, where it has a user and none of its own.

    Raises:
        ValueError: the URL is malformed.
    """
    endpoint = parse_url(url_settings(url)[0])  # type: ignore[arg-type]
    if not password or endpoint.user is None or endpoint.password is not None:
        return url
    parts = urllib.parse.urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    quoted = urllib.parse.quote(password, safe="")
    return parts._replace(netloc=f"{user.removesuffix(':')}:{quoted}@{host}").geturl()


def environment_settings(environ: Mapping[str, str]) -> ConnectionSettings:
    """Return what variables say of connections, but for the URL and secrets.

    Raises:
        ValueError: one of them is not what it should be.
    """
    found = {name: environ.get(f"{PREFIX}{name.upper()}") for name in _KINDS}
    return _settings(
        {name: read(f"{PREFIX}{name.upper()}", text, _KINDS[name]) for name, text in found.items() if text}
    )


def login_tokens(environ: Mapping[str, str], *, allow_insecure: bool = False) -> LoginTokens | None:
    """Return the tokens of the file that a variable names; None where it names none.

    Raises:
        ValueError: the file cannot be read, or is empty.
    """
    file = environ.get(f"{PREFIX}TOKEN_FILE")
    if not file:
        return None
    secret_in(file, f"{PREFIX}TOKEN_FILE")  # so that a wrong name is said now
    return LoginTokens(lambda scope: Token.read(secret_in(file)), allow_insecure=allow_insecure)


@checked
def from_environment(environ: Mapping[str, str] | None = None) -> tuple[list[str], ConnectionSettings]:
    """Return the URLs and the settings of a connection that the environment describes.

        urls, settings = from_environment()
        async with Connection(urls, **settings) as connection: ...

    `AMQP10_URL`, or the file that `AMQP10_URL_FILE` names, has one URL, or several with blanks between them;
    `AMQP10_PASSWORD` or `AMQP10_PASSWORD_FILE` the password of a user that they name. `AMQP10_TOKEN_FILE` names a file
    with a token to log in with, which is read anew for each one. The page "Configuration" has all variables.

    Args:
        environ: the variables; None: those of the process.

    Raises:
        ValueError: there is no URL, a file cannot be read, or a variable is not what it should be.
    """
    environ = os.environ if environ is None else environ
    urls = secret(f"{PREFIX}URL", environ)
    if not (urls or "").strip():
        raise ValueError(f"no broker is given: set {PREFIX}URL, or {PREFIX}URL_FILE to a file that has the URL")
    password = secret(f"{PREFIX}PASSWORD", environ)
    settings = environment_settings(environ)
    if (tokens := login_tokens(environ)) is not None:
        settings["tokens"] = tokens
    return [with_password(url, password) for url in (urls or "").split()], settings

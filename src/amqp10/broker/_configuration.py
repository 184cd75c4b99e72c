"""The settings of a broker in a TOML or JSON file: the arguments of `Broker` by their names."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any, Final

from .._arguments import checked, file_of
from .._files import first_line
from .._json import parse_json
from ..net import TLS
from ._limits import BrokerLimits
from ._users.users import read_user

NUMBER: Final = (int, float)
_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "host": str,
    "port": int,
    "path": str,
    "users": dict,
    "users_file": str,
    "anonymous": bool,
    "allow_insecure": bool,
    "scram_iterations": int,
    "tls": dict,
    "certificate_name": str,
    "virtual_hosts": list,
    "websocket": bool,
    "websocket_origins": list,
    "store": str,
    "queues": (list, dict),
    "topics": list,
    "exchanges": dict,
    "bindings": list,
    "dialects": list,
    "auto_create": bool,
    "dead_letter": str,
    "dead_letter_expired": bool,
    "max_delivery_count": int,
    "max_queue_messages": int,
    "max_queue_bytes": int,
    "max_subscription_timeout": int,
    "transaction_timeout": NUMBER,
    "duplicate_ids": int,
    "check_user_id": bool,
    "max_message_size": int,
    "max_connections": int,
    "limits": dict,
    "credit": int,
    "idle_timeout": NUMBER,
    "handshake_timeout": NUMBER,
    "close_timeout": NUMBER,
    "container_id": str,
}
_PATHS: Final = ("path", "users_file", "store")
_TLS_FILES: Final = ("ca", "certificate", "key", "pkcs12", "password_file")
_WORDS: Final[Mapping[type, str]] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table",
    list: "a list",
}


@checked
def read_config(path: str | PathLike[str]) -> dict[str, Any]:
    """Return the arguments of `Broker` in a file: `Broker(**read_config("broker.toml"))`.

    The file is TOML, or JSON if its name ends in ".json". Its keys are the names of the arguments. These are tables:
    `users`, by name, with "password", "password_file" or "keys", "permissions" by virtual host, "administrator" and
    "impersonator"; `tls` with "certificate", "key", "ca", or "pkcs12", and "password_file"; `queues`, by name, with
    their arguments; `exchanges`, from name to type; `limits`, like `BrokerLimits`. `bindings` is a list of tables with
    "exchange", "key" and "queue". Paths are relative to the folder of the file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is malformed; the message names the line or the key, and contains no secret.
    """
    return _File(Path(path)).arguments()


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path

    def arguments(self) -> dict[str, Any]:
        settings = self._parsed()
        self._check(settings, _KINDS, "")
        found: dict[str, Any] = dict(settings)
        for name in _PATHS:
            if name in settings:
                found[name] = self._file(settings[name])
        for name in ("virtual_hosts", "websocket_origins", "topics", "dialects"):
            self._check_texts(settings.get(name, ()), name)
        if isinstance(settings.get("queues"), list):
            self._check_texts(settings["queues"], "queues")
        elif "queues" in settings:
            self._check(settings["queues"], dict.fromkeys(settings["queues"], dict), "queues")
        if "exchanges" in settings:
            self._check(settings["exchanges"], dict.fromkeys(settings["exchanges"], str), "exchanges")
        if "bindings" in settings:
            found["bindings"] = [self._binding(each, f"bindings[{n}]") for n, each in enumerate(settings["bindings"])]
        if "users" in settings:
            found["users"] = {name: self._user(each, f"users.{name!r:.80}") for name, each in settings["users"].items()}
        if "tls" in settings:
            found["tls"] = self._tls(settings["tls"])
        if "limits" in settings:
            kinds = {each.name: NUMBER if each.name == "idle_timeout" else int for each in fields(BrokerLimits)}
            self._check(settings["limits"], kinds, "limits")
            found["limits"] = self._made(lambda: BrokerLimits(**settings["limits"]), "limits")
        return found

    def _parsed(self) -> dict[str, Any]:
        with file_of("path"):
            octets = self._path.read_bytes().removeprefix(BOM_UTF8)
        try:
            text = octets.decode()
            if self._path.suffix == ".json":
                settings = parse_json(text)
            else:
                import tomllib  # here, because few processes read such a file

                settings = tomllib.loads(text)
        except UnicodeDecodeError as error:
            line = octets[: error.start].count(b"\n") + 1
            raise ValueError(f"{self._path}: line {line}: not UTF-8") from None
        except ValueError as error:  # The message names the line, and quotes at most one character of it.
            raise ValueError(f"{self._path}: {error}") from None
        except RecursionError:
            raise ValueError(f"{self._path}: nested too deeply") from None
        if not isinstance(settings, dict):
            raise ValueError(f"{self._path}: a configuration must be an object of names and values")
        return settings

    def _wrong(self, where: str, rule: str) -> ValueError:
        return ValueError(f"{self._path}: {where}: {rule}")

    def _check(self, settings: Any, kinds: Mapping[str, type | tuple[type, ...]], where: str) -> None:
        """Check that a table has only the keys in `kinds`, with values of those types."""
        if not isinstance(settings, dict):
            raise self._wrong(where, f"must be a table, not {type(settings).__name__}")
        for name, value in settings.items():
            key = f"{where}.{name}" if where else name
            if name not in kinds:
                raise self._wrong(f"{key:.160}", f"unknown key; the known keys are {', '.join(kinds)}")
            kind = kinds[name]
            allowed = kind if isinstance(kind, tuple) else (kind,)
            # In Python a bool is an int.
            if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
                words = " or ".join(_WORDS[each] for each in allowed)
                raise self._wrong(key, f"must be {words}, not {type(value).__name__}")

    def _check_texts(self, settings: Any, where: str) -> None:
        for number, each in enumerate(settings):
            if not isinstance(each, str):
                raise self._wrong(f"{where}[{number}]", f"must be text, not {type(each).__name__}")

    def _file(self, name: str) -> str:
        return str(self._path.parent / name)

    def _made(self, make: Callable[[], Any], where: str) -> Any:
        try:
            return make()
        except ValueError as error:
            raise self._wrong(where, str(error)) from None

    def _secret(self, settings: dict[str, Any], where: str) -> str:
        """Return the first line of the file that "password_file" names."""
        file = Path(self._file(settings.pop("password_file")))
        where = f"{where}.password_file"
        try:
            secret = first_line(file)
        except UnicodeDecodeError:
            raise self._wrong(where, f"{file} is not UTF-8 text") from None
        except OSError as error:
            raise self._wrong(where, f"cannot be read: {error}") from None
        if not secret:
            raise self._wrong(where, f"the first line of {file}, which is the password, is empty")
        return secret

    def _user(self, settings: Any, where: str) -> Any:
        if isinstance(settings, dict) and isinstance(settings.get("password_file"), str):
            settings = dict(settings)
            if "password" in settings:
                raise self._wrong(where, "must have password or password_file, not both")
            settings["password"] = self._secret(settings, where)
        return read_user(settings, f"{self._path}: {where}", also=("password_file",))

    def _tls(self, settings: dict[str, Any]) -> TLS:
        self._check(settings, dict.fromkeys(_TLS_FILES, str), "tls")
        if "certificate" not in settings and "pkcs12" not in settings:
            raise self._wrong("tls", 'a server needs a certificate: give "certificate" and "key", or "pkcs12"')
        settings = dict(settings)
        password = self._secret(settings, "tls") if "password_file" in settings else None
        files: dict[str, Any] = {name: self._file(each) for name, each in settings.items()}
        return self._made(lambda: TLS(**files, password=password), "tls")  # type: ignore[no-any-return]

    def _binding(self, settings: Any, where: str) -> tuple[str, str, str]:
        self._check(settings, {"exchange": str, "key": str, "queue": str}, where)
        for name in ("exchange", "queue"):
            if name not in settings:
                raise self._wrong(where, f"has no {name!r}")
        return settings["exchange"], settings.get("key", ""), settings["queue"]

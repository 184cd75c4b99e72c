"""Options that several commands share, and the connection they describe."""

from __future__ import annotations

import functools
import os
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

import click

from .._arguments import without_secrets
from ..client import Connection, ConnectionSettings, from_environment
from ..client.internals import environment_settings, login_tokens, secret, secret_in, url_settings
from ..client.internals import with_password as password_added
from ..engine import dialect_names
from ..net import TLS, Proxy, TransportOptions, parse_url
from ..sasl import SCRAM_MECHANISMS, Anonymous, External, Mechanism, Plain, from_credentials

if TYPE_CHECKING:
    from ..azure import ServiceBus

MAX_SECONDS = 4_294_967
"""The longest time-to-live (§3.2.1): 2^32 ms, about 49 days."""


FROM_ENVIRONMENT = "-"
"""In place of a URL: the URL in AMQP10_URL."""


MECHANISMS = tuple(each.name for each in (*SCRAM_MECHANISMS, Plain, External, Anonymous))
"""The mechanisms that `--sasl` accepts."""


def mechanism_names(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Parse an option that names SASL mechanisms."""
    if value is None:
        return None
    names = tuple(name.strip().upper() for name in value.split(","))
    unknown = [name for name in names if name not in MECHANISMS]
    if unknown:
        raise click.BadParameter(f"{without_secrets(unknown[0])} is not one of {', '.join(MECHANISMS)}")
    return names


class _Seconds(click.types.FloatParamType):
    """A duration in seconds; NaN and infinity are refused.

    Args:
        zero: whether it may be 0.
    """

    name = "seconds"

    def __init__(self, *, zero: bool = True) -> None:
        self._zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not 0 <= number <= MAX_SECONDS or not (number or self._zero):
            least = "from 0" if self._zero else "more than 0, up"
            self.fail(f"seconds must be a number {least} to {MAX_SECONDS}", param, ctx)
        return number


SECONDS = _Seconds()
"""The type of an option for a duration."""

MORE_THAN_NO_SECONDS = _Seconds(zero=False)
"""The type of an option for a duration that must not be 0."""


def with_password(url: str, file: str | None, variable: str) -> str:
    """Return the URL with a password that the command line does not show: from a file, or else from the environment.

    If the URL has no user, or a password of its own, the environment is ignored.

    Raises:
        ValueError: the URL is malformed, a file is given and the URL has no user or has a password, or the file
            cannot be read or is empty.
    """
    bare, _ = url_settings(url)
    endpoint = parse_url(str(bare))
    if file is not None:
        if endpoint.user is None or endpoint.password is not None:
            raise ValueError("a password file needs a URL that has a user and no password, amqp://user@host")
        return password_added(url, secret_in(file))
    if endpoint.user is None or endpoint.password is not None:
        return url
    return password_added(url, secret(variable, os.environ))


@dataclass(frozen=True)
class Peer:
    """The server and connection settings from the shared options."""

    url: str
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    verify: bool = True
    server_hostname: str | None = None
    allow_insecure: bool = False
    container_id: str | None = None
    tls_upgrade: bool = False
    proxy: str | None = None
    dialect: str | None = None
    mechanisms: tuple[str, ...] | None = None
    settings: ConnectionSettings = field(default_factory=ConnectionSettings, repr=False)  # options override it

    @property
    def shown(self) -> str:
        """The URL for people: without the password, and without a WebSocket's query, which may have a token."""
        parts = urllib.parse.urlsplit(self.url)._replace(query="")
        user, _, host = parts.netloc.rpartition("@")
        name, colon, _ = user.partition(":")
        return parts._replace(netloc=f"{name}:***@{host}").geturl() if colon else parts.geturl()

    def tls(self) -> TLS | None:
        if self.ca is None and self.certificate is None and self.verify and self.server_hostname is None:
            tls = self.settings.get("tls")
            return tls if isinstance(tls, TLS) else None
        return TLS(
            ca=self.ca,
            certificate=self.certificate,
            key=self.key,
            verify=self.verify,
            server_hostname=self.server_hostname,
        )

    def sasl(self) -> tuple[Mechanism, ...] | None:
        """Return the login mechanisms to use; None for those of the URL.

        Raises:
            ValueError: a named mechanism needs a user in the URL.
        """
        endpoint = parse_url(self.url)
        if self.mechanisms is not None:
            logins = from_credentials(endpoint.user, endpoint.password, allow_insecure=self.allow_insecure)
            here = {each.name: each for each in (*logins, External(), Anonymous())}
            for name in self.mechanisms:
                if name not in here:
                    raise ValueError(f"a login by {name} needs a user in the URL, amqp://user@host")
            return tuple(here[name] for name in self.mechanisms)
        if self.allow_insecure and endpoint.user is not None:
            return from_credentials(endpoint.user, endpoint.password, allow_insecure=True)
        if endpoint.user is None and (tls := self.tls()) is not None and tls.certificate is not None:
            # The certificate may be the login, or only for TLS.
            return External(), Anonymous()
        return None

    def route(self) -> TransportOptions:
        proxy = self.proxy or self.settings.get("proxy")
        upgrade = self.tls_upgrade or self.settings.get("tls_upgrade", False)
        return TransportOptions(Proxy(proxy) if isinstance(proxy, str) else proxy, upgrade)

    def connect(self, usual_dialect: str = "1.0", **settings: Unpack[ConnectionSettings]) -> Connection:
        """Return a connection, not yet opened, from the options and `settings`."""
        chosen: ConnectionSettings = {"dialect": usual_dialect}
        chosen.update(self._connection_settings())
        if "tokens" not in chosen:
            chosen["sasl"] = self.sasl()
        chosen.update(settings)
        return Connection(self.url, **chosen)

    def service_bus(self, **settings: Unpack[ConnectionSettings]) -> ServiceBus:
        """Return a client of Azure Service Bus, not yet opened; the URL's user and password are a rule and its key.

        Raises:
            ValueError: the URL has no user or no password, or an option does not apply to Service Bus.
        """
        from ..azure import ServiceBus

        endpoint = parse_url(self.url)
        if endpoint.user is None or endpoint.password is None:
            raise ValueError(
                "Service Bus needs a rule and its key: amqps://RULE@NAMESPACE.servicebus.windows.net, and the key by "
                "--password-file or AMQP10_PASSWORD"
            )
        if self.mechanisms is not None or "tokens" in self.settings:
            raise ValueError("a rule's key is the login: leave out --sasl, and AMQP10_TOKEN_FILE")
        where = self.url
        if self.allow_insecure and urllib.parse.urlsplit(where).scheme == "amqp":
            parts = urllib.parse.urlsplit(where)
            where = f"Endpoint=amqp://{parts.netloc.rpartition('@')[2]};UseDevelopmentEmulator=true"
            where += f";SharedAccessKeyName={endpoint.user};SharedAccessKey={endpoint.password}"
        chosen = self._connection_settings()
        chosen.update(settings)
        return ServiceBus(where, **chosen)

    def _connection_settings(self) -> ConnectionSettings:
        """Return the connection settings from options, URL and environment, except the login."""
        settings: ConnectionSettings = {}
        settings.update(self.settings)
        route = self.route()
        settings.update({"tls": self.tls(), "tls_upgrade": route.tls_upgrade, "proxy": route.proxy})
        if self.container_id is not None:
            settings["container_id"] = self.container_id
        if self.dialect is not None:
            settings["dialect"] = self.dialect
        return settings


Option = Callable[[Callable[..., Any]], Callable[..., Any]]
"""A decorator of a command's function."""

PEER_OPTIONS = (
    *("password_file", "tls_ca", "tls_certificate", "tls_key", "tls_no_verify", "tls_server_hostname"),
    *("tls_upgrade", "proxy", "allow_insecure", "dialect", "sasl"),
)
"""The names of what `peer_options` give."""


def peer_options(
    end: str = "", usual_dialect: str | None = None
) -> list[Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """Return the options that say how to connect; `end` begins the name of each, for a command with several ends."""
    file = click.Path(exists=True, dir_okay=False)
    prefix = f"{end}-" if end else ""
    return [
        click.option(
            f"--{prefix}password-file",
            type=file,
            help=f"file with the password of the URL's user in its first line; or set {_variable(end)}",
        ),
        click.option(f"--{prefix}tls-ca", type=file, help="authorities (PEM) that sign the server's certificate"),
        click.option(
            f"--{prefix}tls-certificate",
            type=file,
            help="our own certificate (PEM); also the login, if the URL has no user",
        ),
        click.option(f"--{prefix}tls-key", type=file, help="its key (PEM)"),
        click.option(f"--{prefix}tls-no-verify", is_flag=True, help="do not check the server's certificate"),
        click.option(
            f"--{prefix}tls-server-hostname",
            metavar="NAME",
            help="the name in the server's certificate, if it is not the URL's host",
        ),
        click.option(
            f"--{prefix}tls-upgrade", is_flag=True, help="begin without TLS, and ask for it by AMQP's own header"
        ),
        click.option(
            f"--{prefix}proxy", metavar="URL", help="connect through this HTTP proxy, http://user:password@host:port"
        ),
        click.option(
            f"--{prefix}allow-insecure",
            is_flag=True,
            help=f"allow sending the password to another machine without TLS, or with --{prefix}tls-no-verify",
        ),
        click.option(
            f"--{prefix}dialect",
            type=click.Choice([*dialect_names(), "auto"]),
            default=usual_dialect,
            help="the protocol; auto picks the highest that the server speaks",
        ),
        click.option(
            f"--{prefix}sasl",
            metavar="NAMES",
            callback=mechanism_names,
            help="use only these login mechanisms, such as SCRAM-SHA-256-PLUS,SCRAM-SHA-512-PLUS",
        ),
    ]


def take_peer_options(options: dict[str, Any], end: str = "") -> dict[str, Any]:
    """Remove what `peer_options` say from a command's options, and return it."""
    prefix = f"{end}_" if end else ""
    return {name: options.pop(prefix + name) for name in PEER_OPTIONS}


def peer_of(url: str, options: dict[str, Any], end: str = "") -> Peer:
    """Make the connection that `peer_options` describe.

    With an `end` the environment says only the password: all else in it is for commands with one connection.

    Raises:
        click.BadParameter: the URL, the environment or the options make no sense.
    """
    settings: ConnectionSettings = {}
    try:
        if not end:
            settings = environment_settings(os.environ)
            if url == FROM_ENVIRONMENT:
                [url, *more], settings = from_environment()
                if more:
                    raise ValueError("AMQP10_URL has several URLs, but the command takes one")
        bare, more_settings = url_settings(with_password(url, options["password_file"], _variable(end)))
        settings.update(more_settings)
        endpoint = parse_url(str(bare))
        if not end and endpoint.user is None and options["sasl"] is None:
            tokens = login_tokens(os.environ, allow_insecure=options["allow_insecure"])
            settings |= {"tokens": tokens} if tokens is not None else {}
        if options["tls_key"] and not options["tls_certificate"]:
            prefix = f"{end}-" if end else ""
            raise ValueError(f"--{prefix}tls-key needs --{prefix}tls-certificate")
        peer = Peer(
            str(bare),
            ca=options["tls_ca"],
            certificate=options["tls_certificate"],
            key=options["tls_key"],
            verify=not options["tls_no_verify"],
            server_hostname=options["tls_server_hostname"],
            allow_insecure=options["allow_insecure"],
            tls_upgrade=options["tls_upgrade"],
            proxy=options["proxy"],
            dialect=options["dialect"],
            mechanisms=options["sasl"],
            settings=settings,
        )
        peer.route().check(endpoint, peer.tls())
        peer.sasl()
        from_credentials(endpoint.user, endpoint.password)  # checks both
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=f"--{end}" if end else "URL") from None
    return peer


def _variable(end: str) -> str:
    """Return the variable of the environment that has the password."""
    return f"AMQP10_{end.upper()}_PASSWORD" if end else "AMQP10_PASSWORD"


def with_peer(argument: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the shared options to a command, which gets them as one `peer` (None without a URL)."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(url: str | None, container_id: str | None, **options: Any) -> Any:
            chosen = take_peer_options(options)
            peer = replace(peer_of(url, chosen), container_id=container_id) if url is not None else None
            return function(peer=peer, **options)

        decorated: Callable[..., Any] = wrapper
        options: list[Option] = [
            click.argument("url") if argument else click.option("--url", help="the broker, amqp://user:password@host"),
            *peer_options(),
            click.option("--container-id", help="our container-id; random by default"),
        ]
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate

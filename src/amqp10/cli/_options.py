"""Options that several commands share, and the connection they describe."""

from __future__ import annotations

import functools
import os
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import click

from ..client import Connection, ConnectionSettings
from ..engine import dialect_names
from ..net import TLS, Proxy, Route, parse_url
from ..sasl import Anonymous, External, Mechanism, from_credentials

MOST_SECONDS = 4_294_967
"""What a time-to-live can say (§3.2.1): 2^32 ms, some 49 days."""


def seconds(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Parse an option's span of time; NaN and infinity are refused."""
    if value is not None and not 0 <= value <= MOST_SECONDS:
        raise click.BadParameter(f"seconds are a number from 0 to {MOST_SECONDS}")
    return value


def with_password(url: str, file: str | None, variable: str) -> str:
    """Return the URL with a password that the command line does not show: from a file, else from the environment.

    Where the URL has no user, or a password of its own, the environment is not looked at.

    Raises:
        ValueError: the URL is malformed, a file is given and the URL has no user or has a password, or the file
            cannot be read or is empty.
    """
    endpoint = parse_url(url)
    if file is not None:
        if endpoint.user is None or endpoint.password is not None:
            raise ValueError("a password file goes with a URL that has a user and no password, amqp://user@host")
        try:
            password = Path(file).read_text().partition("\n")[0].rstrip("\r")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{file} cannot be read as text: {error}") from None
        if not password:
            raise ValueError(f"{file}: the first line, which is the password, is empty")
    else:
        password = os.environ.get(variable, "")
    if not password or endpoint.user is None or endpoint.password is not None:
        return url
    parts = urllib.parse.urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    quoted = urllib.parse.quote(password, safe="")
    return parts._replace(netloc=f"{user.removesuffix(':')}:{quoted}@{host}").geturl()


@dataclass(frozen=True)
class Peer:
    """Where to connect, and how: what the shared options say."""

    url: str
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    verify: bool = True
    allow_insecure: bool = False
    container_id: str | None = None
    tls_upgrade: bool = False
    proxy: str | None = None
    dialect: str | None = None

    @property
    def shown(self) -> str:
        """The URL, for people: without the password, and what a WebSocket's query has, a token perhaps."""
        parts = urllib.parse.urlsplit(self.url)._replace(query="")
        user, _, host = parts.netloc.rpartition("@")
        name, colon, _ = user.partition(":")
        return parts._replace(netloc=f"{name}:***@{host}").geturl() if colon else parts.geturl()

    def tls(self) -> TLS | None:
        if self.ca is None and self.certificate is None and self.verify:
            return None
        return TLS(ca=self.ca, certificate=self.certificate, key=self.key, verify=self.verify)

    def sasl(self) -> tuple[Mechanism, ...] | None:
        endpoint = parse_url(self.url)
        if self.allow_insecure and endpoint.user is not None:
            return from_credentials(endpoint.user, endpoint.password, allow_insecure=True)
        if self.certificate is not None and endpoint.user is None:
            # The certificate may be the login, or only what the transport asks for.
            return External(), Anonymous()
        return None

    def route(self) -> Route:
        return Route(Proxy(self.proxy) if self.proxy is not None else None, self.tls_upgrade)

    def connect(self, usual_dialect: str = "1.0", **settings: Unpack[ConnectionSettings]) -> Connection:
        """Make the connection, not opened yet, from the options and `settings`."""
        said: ConnectionSettings = {
            "tls": self.tls(),
            "tls_upgrade": self.tls_upgrade,
            "proxy": self.proxy,
            "sasl": self.sasl(),
            "container_id": self.container_id,
            "dialect": self.dialect or usual_dialect,
        }
        said.update(settings)
        return Connection(self.url, **said)


def with_peer(argument: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the shared options to a command; it gets them as one `peer` (None when there is no URL)."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(
            url: str | None,
            password_file: str | None,
            tls_ca: str | None,
            tls_certificate: str | None,
            tls_key: str | None,
            tls_no_verify: bool,
            tls_upgrade: bool,
            proxy: str | None,
            allow_insecure: bool,
            container_id: str | None,
            dialect: str | None,
            **rest: Any,
        ) -> Any:
            peer = None
            if url is not None:
                try:
                    url = with_password(url, password_file, "AMQP10_PASSWORD")
                    endpoint = parse_url(url)
                except ValueError as error:
                    raise click.BadParameter(str(error), param_hint="URL") from None
                if tls_key and not tls_certificate:
                    raise click.UsageError("--tls-key goes with --tls-certificate")
                peer = Peer(
                    url,
                    tls_ca,
                    tls_certificate,
                    tls_key,
                    not tls_no_verify,
                    allow_insecure,
                    container_id,
                    tls_upgrade,
                    proxy,
                    dialect,
                )
                try:
                    peer.route().check(endpoint, peer.tls())
                except ValueError as error:
                    raise click.UsageError(str(error)) from None
            return function(peer=peer, **rest)

        file = click.Path(exists=True, dir_okay=False)
        options = [
            click.argument("url") if argument else click.option("--url", help="the broker, amqp://user:password@host"),
            click.option(
                "--password-file",
                type=file,
                help="its first line is the password of the URL's user; or AMQP10_PASSWORD in the environment",
            ),
            click.option("--tls-ca", type=file, help="certificates (PEM) that sign the server's"),
            click.option(
                "--tls-certificate", type=file, help="our own certificate (PEM); the login, too, if the URL has no user"
            ),
            click.option("--tls-key", type=file, help="its key (PEM)"),
            click.option("--tls-no-verify", is_flag=True, help="do not check the server's certificate"),
            click.option("--tls-upgrade", is_flag=True, help="begin in the clear and ask for TLS by AMQP's own header"),
            click.option("--proxy", metavar="URL", help="an HTTP proxy to go through, http://user:password@host:port"),
            click.option(
                "--allow-insecure",
                is_flag=True,
                help="send the password without TLS, or with --tls-no-verify, beyond loopback",
            ),
            click.option("--container-id", help="our container-id; made up when not given"),
            click.option(
                "--dialect",
                type=click.Choice([*dialect_names(), "auto"]),
                help="the protocol; auto asks the server for its highest",
            ),
        ]
        decorated: Callable[..., Any] = wrapper
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate

"""The connection that the options describe, and what to do when it is lost."""

from __future__ import annotations

import importlib
import logging
import math
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

import anyio

from ..._calls import only
from ...client import CbsTokens, Connection, Reconnect
from ...errors import ConnectionLost
from ...messaging import Selector, Source, Target
from ...net import TLS, parse_url
from ...sasl import (
    SCRAM_MECHANISMS,
    Anonymous,
    External,
    Mechanism,
    OAuthBearer,
    Plain,
    XOAuth2,
    from_credentials,
)
from ...tokens import SasKey, Token, TokenSource
from ...types import Described, Symbol
from .._options import Options

_log = logging.getLogger("amqp10.spark")
T = TypeVar("T")

RETRY_SECONDS = 1.0
"""Seconds between two attempts to connect."""

_SCRAM: Mapping[str, Callable[[str, str], Mechanism]] = {each.name.lower(): each for each in SCRAM_MECHANISMS}


def connection(options: Options, *, reconnect: bool = False) -> Connection:
    """Make a connection from the options, to be opened by `async with`.

    Args:
        reconnect: restore the connection and its links after a loss, trying for `connectTimeout` seconds; messages
            without an outcome are sent again.

    Raises:
        ValueError: the credentials do not fit the mechanism, a TLS file cannot be read, or there is no function
            `setup`.
        Exception: what the function `setup` raises.
    """
    if options.setup is not None:
        _set_up(options.setup)
    for name, path in (
        ("tls.ca", options.tls_ca),
        ("tls.certificate", options.tls_certificate),
        ("tls.key", options.tls_key),
    ):
        if path is not None and not os.access(path, os.R_OK):
            raise ValueError(f"amqp: option {name!r}: on {socket.gethostname()} there is no readable file {path!r}")
    tls = None
    if options.tls_ca or options.tls_certificate or not options.tls_verify:
        tls = TLS(
            ca=options.tls_ca, certificate=options.tls_certificate, key=options.tls_key, verify=options.tls_verify
        )
    policy = None
    if reconnect:
        policy = Reconnect(
            max_time=options.connect_timeout,
            first_attempts=math.inf,
            first_max_time=options.connect_timeout,
            max_delay=RETRY_SECONDS,
        )
    return Connection(
        options.url,
        reconnect=policy,
        tls=tls,
        sasl=_mechanisms(options),
        tokens=tokens(options),
        idle_timeout=options.idle_timeout,
        incoming_window=WINDOW,
        dialect=options.dialect,
    )


@cache
def _set_up(name: str) -> None:
    """Call the function that the option `setup` names, once in a process.

    Raises:
        ValueError: no function has this name.
    """
    module, _, path = name.partition(":")
    try:
        function = attrgetter(path)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"amqp: option 'setup': {name!r} is not on {socket.gethostname()}: {error}") from error
    function()


WINDOW = 4096
"""Transfer frames that the peer may send before earlier ones are read."""


def _mechanisms(options: Options) -> tuple[Mechanism, ...] | None:
    """Return the SASL mechanisms to choose from; None for those that the credentials of the URL allow."""
    if tokens(options) is not None:
        return (Anonymous(),)  # the tokens say who it is
    user, password = _credentials(options)
    insecure = options.allow_insecure
    kind = options.sasl
    if kind == "auto":
        if options.token is not None:
            return (OAuthBearer(options.token, user=user, allow_insecure=insecure),)
        if options.tls_certificate is not None and user is None:
            return External(), Anonymous()
        if options.username is None and options.password is None and not insecure:
            return None
        return from_credentials(user, password, allow_insecure=insecure)
    if kind == "anonymous":
        return (Anonymous(),)
    if kind == "external":
        return (External(),)
    if kind == "oauthbearer":
        return (OAuthBearer(_required(options.token, kind, "token"), user=user, allow_insecure=insecure),)
    if kind == "xoauth2":
        token = _required(options.token, kind, "token")
        return (XOAuth2(_required(user, kind, "username"), token, allow_insecure=insecure),)
    user, password = _required(user, kind, "username"), _required(password, kind, "password")
    if kind == "plain":
        return (Plain(user, password, allow_insecure=insecure),)
    return (_SCRAM[kind](user, password),)


def tokens(options: Options) -> CbsTokens | None:
    """Return the tokens to put at `$cbs`; None where a login says who it is.

    Raises:
        ValueError: `sasl` is cbs, and there is neither a token nor a shared access key.
    """
    user, password = _credentials(options)
    source: TokenSource
    known = options.token is not None or (user is not None and password is not None)
    if options.sasl != "cbs" and not (options.sasl == "auto" and options.mode == "eventhubs" and known):
        return None
    if options.token is not None:
        source = _given(options.token)
    else:
        source = SasKey(_required(user, "cbs", "username"), _required(password, "cbs", "password"))
    # One token is enough for all that is beneath an entity, as for the node that manages it.
    audience = hub_audience(options) if options.mode == "eventhubs" else _entity_audience(options)
    return CbsTokens(source, audience=audience, allow_insecure=options.allow_insecure)


def _given(text: str) -> TokenSource:
    async def token(_: str) -> Token:
        return Token.read(text)

    return token


def hub_audience(options: Options) -> str:
    """Return what a token for the event hub is for."""
    return f"sb://{parse_url(options.url[0]).host}/{options.require_address()}"


def _entity_audience(options: Options) -> Callable[[str], str]:
    from ...azure.internals import entity_of  # only here: others need not load it

    host = parse_url(options.url[0]).host
    return lambda address: f"sb://{host}/{entity_of(address)}"


def _credentials(options: Options) -> tuple[str | None, str | None]:
    """Return user and password, of the options or of the URL."""
    endpoint = parse_url(options.url[0])
    password = options.password if options.password is not None else endpoint.password
    return options.username or endpoint.user, password


def _required(value: str | None, kind: str, name: str) -> str:
    if value is None:
        raise ValueError(f"amqp: option 'sasl' is {kind!r}, which needs option {name!r}")
    return value


def source(opened: Connection, options: Options, address: str | None = None) -> Source:
    """Return the source to read from, its address spelled as the broker wants it, with the filters of the options."""
    name = address if address is not None else options.require_address()
    fields: dict[str, Any] = {
        "filters": [] if options.selector is None else [Selector(options.selector)],
        "filter": {Symbol(each): _filter(each, value) for each, value in (options.amqp_filters or {}).items()} or None,
        "capabilities": tuple(map(Symbol, options.amqp_source_capabilities)),
    }
    if is_raw_address(name, options):
        return Source(name, **fields)
    return opened.profile.source(name, "topic" if options.address_type == "topic" else "queue", **fields)


def _filter(name: str, value: Any) -> Described:
    if isinstance(value, dict) and value.keys() == {"descriptor", "value"}:
        return Described(Symbol(value["descriptor"]), value["value"])
    return Described(Symbol(name), value)


def link_properties(options: Options) -> dict[Symbol, Any] | None:
    """Return the link properties that the options ask for."""
    given = options.amqp_link_properties
    return None if given is None else {Symbol(name): value for name, value in given.items()}


def target(opened: Connection, options: Options) -> Target:
    """Return the target to write to, its address spelled as the broker wants it."""
    assert options.address is not None
    if is_raw_address(options.address, options):
        return Target(options.address)
    return opened.profile.target(options.address, "topic" if options.address_type == "topic" else "queue")


def is_raw_address(name: str, options: Options) -> bool:
    """Return whether to use the address unchanged: `addressType` is raw, or it is a RabbitMQ v2 address."""
    return options.address_type == "raw" or name.startswith(("/queues/", "/exchanges/"))


def run_with_retries(options: Options, function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Run a coroutine to its end in this thread, on trio; run it again whenever the connection fails or is lost.

    Raises:
        ConnectionLost: attempts still fail `connectTimeout` seconds after the first loss.
        Exception: whatever the function raises; a group of one exception is raised as that exception.
    """
    lost_at: float | None = None
    while True:
        try:
            return anyio.run(function, *args, backend="trio")
        except (ConnectionLost, BaseExceptionGroup) as raised:
            error = only(raised)
        if not isinstance(error, ConnectionLost):
            raise error
        now = time.monotonic()
        lost_at = now if lost_at is None else lost_at
        if now - lost_at >= options.connect_timeout:
            raise error
        _log.warning("no connection, trying again: %s", error)
        time.sleep(RETRY_SECONDS)

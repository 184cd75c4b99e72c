"""Finds out which dialect a server speaks, by sending the header of each on a separate connection (§2.2)."""

from __future__ import annotations

from typing import Final

import anyio
from anyio.abc import ByteStream

from ...engine import Dialect, foreign_header
from ...errors import ConnectionLost, InsecureTransport, Unsupported
from .._streams.base import STREAM_ERRORS, StreamFacts, TLSSettings
from .._url import Endpoint
from .connect import connect
from .options import TransportOptions

ANSWER_WAIT: Final = 5.0
"""Seconds to wait for the answer to a header."""

ATTEMPTS: Final = 3
"""The number of tries of a header, if it matters that nobody suppresses the answer."""


async def ask(stream: ByteStream, dialect: Dialect, wait: float = ANSWER_WAIT) -> tuple[bool | None, bytes]:
    """Send a dialect's header; return whether the server speaks the dialect (None without an answer), and the answer.

    The stream is of no further use. Cancelling: the same.
    """
    answer = b""
    try:
        with anyio.move_on_after(wait):
            await stream.send(dialect.headers[0])
            while (spoken := dialect.spoken(answer)) is None:
                answer += await stream.receive()
            return spoken, answer
    except STREAM_ERRORS:
        pass  # hanging up is an answer, too
    return (False if answer else None), answer


async def choose_dialect(
    candidates: list[Dialect], endpoint: Endpoint, tls: TLSSettings | None, route: TransportOptions, *, secret: bool
) -> Dialect:
    """Return the first of the candidates that the server speaks.

    Args:
        candidates: the best one first.
        secret: whether credentials are given or a mechanism is named, so that the answers must be protected.

    Raises:
        InsecureTransport: there is a secret, and a server over an insecure transport denies the best candidate. An
            attacker in between could do so to get the secret by a weaker login.
        Unsupported: the server speaks another protocol than the candidates.
        ConnectionLost: the server answers no candidate; or, over TLS or with a secret, it answers one but not a better
            one, whose answer an attacker could suppress. For other errors, see `connect`.

    Cancelling: nothing is left open.
    """
    best, silent, heard = candidates[0], list[Dialect](), b""
    for dialect in candidates:
        spoken, answer, facts = await _probe(dialect, endpoint, tls, route, secret=secret)
        heard = heard or answer
        if spoken is None:
            silent.append(dialect)
        elif spoken:
            right = f"name the dialect ({dialect.name!r}) if that is right"
            if dialect is not best and secret and not facts.secure:
                raise InsecureTransport(
                    f"{endpoint} speaks {dialect.name} and not {best.name}, but that is not authenticated: there "
                    f"is no TLS, or TLS with verify=False. Use TLS that checks the server, or {right}"
                )
            if silent and (secret or facts.tls):
                raise ConnectionLost(
                    f"{endpoint} speaks {dialect.name}, and does not answer the header of {silent[0].name}: {right}"
                )
            return dialect
    if len(silent) == len(candidates):
        begin_tls = (
            ""
            if facts.tls or endpoint.unix
            else "if that port speaks TLS, its URL begins with amqps:// (or wss://); else "
        )
        raise ConnectionLost(f"{endpoint} does not answer any AMQP header: {begin_tls}it may speak no AMQP at all")
    names = ", ".join(dialect.name for dialect in candidates)
    raise Unsupported(f"{endpoint} speaks none of the dialects {names}: {foreign_header(heard)}")


async def _probe(
    dialect: Dialect, endpoint: Endpoint, tls: TLSSettings | None, route: TransportOptions, *, secret: bool
) -> tuple[bool | None, bytes, StreamFacts]:
    """Return whether the server speaks a dialect, its answer, and the facts of the stream; retry without an answer."""
    for _ in range(ATTEMPTS):
        stream, facts = await connect(endpoint, tls, route)
        try:
            spoken, answer = await ask(stream, dialect)
        finally:
            await anyio.aclose_forcefully(stream)
        if spoken is not None or not (secret or facts.tls):
            break
    return spoken, answer, facts


def automatic(dialects: list[Dialect], route: TransportOptions) -> list[Dialect]:
    """Return the dialects that `dialect="auto"` chooses from, the best one first."""
    return [each for each in dialects if each.automatic and (each.tls_header or not route.tls_upgrade)]

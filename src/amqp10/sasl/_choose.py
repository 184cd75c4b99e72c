"""Chooses the mechanism: the strongest that the server offers, the credentials allow and the transport may carry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import AuthenticationFailed, InsecureTransport
from ._mechanism import Mechanism
from ._plain import Anonymous, Plain
from ._scram import SCRAM_MECHANISMS, ScramPlus


def from_credentials(user: str | None, password: str | None, *, allow_insecure: bool = False) -> tuple[Mechanism, ...]:
    """Return the mechanisms for a URL's user and password, strongest first; ANONYMOUS only without a user.

    Args:
        allow_insecure: let PLAIN send the password over any transport, if the server offers nothing better.

    Raises:
        ValueError: the user is empty, a password has no user, or SASLprep prohibits a character.
    """
    if user is None and password is None:
        return (Anonymous(),)
    if not user:
        raise ValueError("the user name must not be empty")
    secret = password if password is not None else ""
    return (
        *(mechanism(user, secret) for mechanism in SCRAM_MECHANISMS),
        Plain(user, secret, allow_insecure=allow_insecure),
    )


def bind_channel(mechanisms: Sequence[Mechanism], end_point: bytes | None) -> tuple[Mechanism, ...]:
    """Return the mechanisms for one connection, with SCRAM-PLUS bound to its TLS, or omitted if that is impossible.

    Args:
        end_point: the hash of the server's certificate; None without TLS or a certificate.
    """
    if end_point is None:
        return tuple(one for one in mechanisms if not isinstance(one, ScramPlus)) or tuple(mechanisms)
    return tuple(one.for_channel(end_point) if isinstance(one, ScramPlus) else one for one in mechanisms)


def choose(offered: Iterable[str], mechanisms: Sequence[Mechanism], *, secure: bool) -> Mechanism:
    """Return the strongest of `mechanisms` that is offered.

    Args:
        offered: the names that the server offers.
        mechanisms: the mechanisms that the credentials allow.
        secure: whether secrets may cross the transport in the clear: TLS with a verified server, loopback or a Unix
            socket.

    Raises:
        AuthenticationFailed: none of `mechanisms` is offered; the message has both lists.
        InsecureTransport: the only mechanisms in common that prove an identity would expose the secret.
    """
    names = set(offered)
    fitting = sorted((one for one in mechanisms if one.name in names), key=lambda one: -one.strength)
    if not fitting:
        ours = ", ".join(one.name for one in mechanisms) or "nothing"
        hint = ""
        if ours == "ANONYMOUS":
            hint = ": no user is given, by the URL (amqp://USER:PASSWORD@...) or by sasl="
            if "EXTERNAL" in names:
                hint += "; sasl=External() logs in by the certificate of tls="
        elif names == {"ANONYMOUS"}:
            hint = ": to log in as nobody, leave the user out of the URL, or say sasl=Anonymous()"
        elif mechanisms and all(isinstance(one, ScramPlus) for one in mechanisms):
            hint = (
                ": the server does not bind logins to TLS, or somebody in between took that out of its offer; if you "
                "know that it does not, name a mechanism without -PLUS"
            )
        offer = ", ".join(sorted(names)) or "nothing"
        raise AuthenticationFailed(
            f"no common mechanism: the server offers {offer}, and this side can use {ours}{hint}"
        )
    refused = None
    for one in fitting:
        if one.needs_tls and not secure:
            refused = refused or one
        elif refused is None or one.strength > 0:  # credentials are never dropped in favor of ANONYMOUS
            return one
    assert refused is not None
    raise InsecureTransport(
        f"{refused.name} would send a secret that others can read, for there is no TLS, or TLS with verify=False, "
        "which lets anybody be the server: use amqps:// and have the server checked, or set allow_insecure=True"
    )

"""Virtual hosts: which one a client asks for. Each has queues, topics and exchanges of its own."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from ..messaging import Error
from ..types import Symbol

USUAL: Final = "/"
"""The one that is there where nobody says anything else, and that clients get who name none."""

_PREFIX: Final = "vhost:"


def virtual_host_of(hostname: str | None, known: Container[str], *, names_hosts: bool) -> str | None:
    """Return the virtual host that a client gets; None for one that is not there.

    Args:
        hostname: what its open says.
        known: the virtual hosts that are there.
        names_hosts: the open may have the server's own name, such as "localhost", as in AMQP 1.0 (§2.7.1), which means
            the usual one. In dialects without that every name is that of a virtual host.
    """
    if not hostname:
        return USUAL
    name = hostname.removeprefix(_PREFIX)
    if name in known:
        return name
    return USUAL if names_hosts and not hostname.startswith(_PREFIX) else None


def not_there(hostname: str | None, *, names_hosts: bool) -> Error:
    """Return what to tell a client that asks for a virtual host that is not there."""
    condition = "amqp:not-found" if names_hosts else "amqp:not-allowed"  # 530 in 0-9-1
    return Error(Symbol(condition), f"there is no virtual host {(hostname or '').removeprefix(_PREFIX)!r:.200}")

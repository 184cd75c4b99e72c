"""Closes the sockets in a forked child, unnoticed by peers and parent.

A child that kept them would hold connections open after its parent died, and one that wrote to them would write into
the parent's frames.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from anyio import TypedAttributeProvider
from anyio.abc import SocketAttribute

if TYPE_CHECKING:
    from socket import socket

Owner = TypeVar("Owner")

_watched: WeakKeyDictionary[object, tuple[socket, Callable[[Any], None] | None]] = WeakKeyDictionary()


def keep_from_children(
    owner: Owner, provider: TypedAttributeProvider, on_fork: Callable[[Owner], None] | None = None
) -> None:
    """Close the socket of a stream or listener in each child that this process forks while `owner` lives.

    Args:
        on_fork: called with the owner in the child afterwards, to inform its users there.
    """
    raw = provider.extra(SocketAttribute.raw_socket, None)
    if raw is not None:
        _watched[owner] = raw, on_fork


def _in_child() -> None:
    owners = list(_watched.items())
    _watched.clear()
    nothing = os.open(os.devnull, os.O_RDWR)
    for owner, (raw, on_fork) in owners:
        # The descriptor stays in use, so that a later close does not close another file.
        with suppress(OSError):
            if (number := raw.fileno()) >= 0:
                os.dup2(nothing, number)
        if on_fork is not None:
            on_fork(owner)
    os.close(nothing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

"""What a forked child inherits: nothing. Its copies of our sockets are let go, and the peers never hear of it.

A child that kept them would hold a connection open after its parent died, and one that wrote on them would write
into the middle of the parent's frames. The parent goes on as if nothing had happened.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from anyio import TypedAttributeProvider
from anyio.abc import SocketAttribute

_watched: WeakKeyDictionary[Any, tuple[Any, Callable[[Any], None] | None]] = WeakKeyDictionary()


def keep_from_children(
    owner: Any, provider: TypedAttributeProvider, on_fork: Callable[[Any], None] | None = None
) -> None:
    """Let go of the socket of a stream or listener in every child that this process forks, while `owner` lives.

    Args:
        on_fork: called with the owner in the child, after that: to say so to whoever uses it there.
    """
    raw = provider.extra(SocketAttribute.raw_socket, None)
    if raw is not None:
        _watched[owner] = raw, on_fork


def _in_child() -> None:
    owners = list(_watched.items())
    _watched.clear()
    nothing = os.open(os.devnull, os.O_RDWR)
    for owner, (raw, on_fork) in owners:
        # The number stays taken, by nothing, so that whoever closes it later closes no other file.
        with suppress(OSError):
            if (number := raw.fileno()) >= 0:
                os.dup2(nothing, number)
        if on_fork is not None:
            on_fork(owner)
    os.close(nothing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

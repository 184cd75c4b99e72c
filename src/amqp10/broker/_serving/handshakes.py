"""Connections that have not opened yet: a stranger who makes many of them keeps nobody out.

Whoever comes is taken, and somebody else cut off for it where there are too many: the oldest of the address that has
the most. Waiting for room would let a stranger hold all places for as long as a handshake may take; refusing at random
would hit peers that come once as hard as those that come always.
"""

from __future__ import annotations

import logging
from typing import Final

import anyio

_log = logging.getLogger("amqp10.broker")

LOCAL: Final = "a local socket"


class Handshakes:
    """Those of one broker.

    Args:
        most: how many there may be.
        most_by_address: how many of them may be of one address.
    """

    def __init__(self, most: int, most_by_address: int) -> None:
        self._most = most
        self._most_by_address = most_by_address
        self._by_address: dict[str, dict[anyio.CancelScope, None]] = {}  # each in order of coming
        self._addresses: dict[anyio.CancelScope, str] = {}
        self._warned = False

    def __len__(self) -> int:
        return len(self._addresses)

    def begin(self, scope: anyio.CancelScope, address: str) -> None:
        """Count a connection that was accepted, and cut another off if there are too many.

        Args:
            scope: cancelling it cuts the connection off.
        """
        if len(self._by_address.get(address, ())) >= self._most_by_address:
            self._cut_off(address)
        elif len(self) >= self._most:
            self._cut_off(self._busiest())
        self._by_address.setdefault(address, {})[scope] = None
        self._addresses[scope] = address

    def end(self, scope: anyio.CancelScope) -> None:
        """Count a connection no more: it has opened, or is over. Does nothing for one that is not counted."""
        address = self._addresses.pop(scope, None)
        if address is None:
            return
        waiting = self._by_address[address]
        del waiting[scope]
        if not waiting:
            del self._by_address[address]
        if len(self) < self._most // 2:
            self._warned = False

    def cut_some_off(self) -> None:
        """Cut a quarter of them off, for the file descriptors that they have are wanted."""
        for _ in range((len(self) + 3) // 4):
            self._cut_off(self._busiest())

    def _busiest(self) -> str:
        return max(self._by_address, key=lambda address: len(self._by_address[address]))

    def _cut_off(self, address: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "%d connections have not opened yet, %d of them of %s: the oldest of those are cut off",
                len(self),
                len(self._by_address[address]),
                address,
            )
        scope = next(iter(self._by_address[address]))
        self.end(scope)
        scope.cancel()


def most_handshakes(asked: int) -> int:
    """Return as many as asked for, but half of the file descriptors that the process may have at most."""
    descriptors = _descriptors()
    return asked if descriptors is None else max(1, min(asked, descriptors // 2))


def most_sockets() -> int | None:
    """Return how many connections may be open, so that a tenth of the process's file descriptors is left.

    That tenth is for files, for what else the process does, and for those who have not opened yet. None: on this
    system a process may have any number.
    """
    descriptors = _descriptors()
    return None if descriptors is None else max(1, descriptors - (descriptors + 9) // 10)


def _descriptors() -> int | None:
    """Return how many file descriptors this process may have; None for any number."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return None
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if limit == resource.RLIM_INFINITY else limit

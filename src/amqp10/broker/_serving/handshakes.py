"""Connections that have not opened yet: a stranger who makes many of them cannot keep others out.

A new connection is always taken. If there are too many, the oldest of the address with the most is cut off for it.
Otherwise a stranger could hold all places as long as a handshake may take. Refusing at random would hit a peer that
connects once as hard as one that connects all the time.
"""

from __future__ import annotations

import logging
from typing import Final

import anyio

_log = logging.getLogger("amqp10.broker")

LOCAL: Final = "a local socket"


class Handshakes:
    """All connections of a broker that have not opened yet.

    Args:
        most: the most connections in all.
        most_by_address: the most connections from one address.
    """

    def __init__(self, most: int, most_by_address: int) -> None:
        self._most = most
        self._most_by_address = most_by_address
        self._by_address: dict[str, dict[anyio.CancelScope, None]] = {}  # each oldest first
        self._addresses: dict[anyio.CancelScope, str] = {}
        self._warned = False

    def __len__(self) -> int:
        return len(self._addresses)

    def begin(self, scope: anyio.CancelScope, address: str) -> None:
        """Count an accepted connection; cut another one off if there are too many.

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
        """Stop counting a connection that has opened or ended; ignore one that is not counted."""
        address = self._addresses.pop(scope, None)
        if address is None:
            return
        waiting = self._by_address[address]
        del waiting[scope]
        if not waiting:
            del self._by_address[address]
        if len(self) < min(self._most, self._most_by_address) // 2:  # never because one was cut off
            self._warned = False

    def cut_some_off(self) -> None:
        """Cut a quarter of the connections off, because their file descriptors are needed."""
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


def most_handshakes(configured: int) -> int:
    """Return `configured`, but at most half of the file descriptors that the process may have."""
    descriptors = _descriptors()
    return configured if descriptors is None else max(1, min(configured, descriptors // 2))


def most_sockets() -> int | None:
    """Return the most open connections that leave a tenth of the process's file descriptors free; None: no limit.

    That tenth is for files, for the rest of the program, and for connections that have not opened yet.
    """
    descriptors = _descriptors()
    return None if descriptors is None else max(1, descriptors - (descriptors + 9) // 10)


def _descriptors() -> int | None:
    """Return how many file descriptors this process may have; None: no limit."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return None
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if limit == resource.RLIM_INFINITY else limit

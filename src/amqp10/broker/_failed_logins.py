"""Logins that failed: who tries again and again is made to wait, by address, and nobody else is."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Final

FREE: Final = 5
"""Failures after which an address has to wait before it is served."""

SHORTEST: Final = 0.1
"""Seconds that it waits after the next failure; doubled with each further one."""

LONGEST: Final = 5.0
"""Seconds that it waits at most."""

FORGOTTEN: Final = 300.0
"""Seconds without a failure after which nothing is known of an address any more."""

MOST: Final = 10_000
"""Addresses that are remembered; beyond that the one whose last failure is the longest ago is forgotten."""


class FailedLogins:
    """The failures of all addresses. Those of one IPv6 network (/64) count as one: a peer has all of them.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: dict[str, tuple[int, float]] = {}  # by address: how many, and when the last was; oldest first

    def __len__(self) -> int:
        return len(self._failures)

    def failed(self, peer: str) -> None:
        """Record that a login from there failed; `peer` is "HOST:PORT", or no address at all."""
        address = _address(peer)
        if address is None:
            return
        count = self._count(address)
        self._failures.pop(address, None)
        if len(self._failures) >= MOST:
            del self._failures[next(iter(self._failures))]
        self._failures[address] = count + 1, self._clock()

    def wait(self, peer: str) -> float:
        """Return how many seconds a new connection from there waits before it is served."""
        address = _address(peer)
        count = self._count(address) - FREE if address is not None else 0
        return min(LONGEST, SHORTEST * 2.0 ** min(count - 1, 16)) if count > 0 else 0.0

    def _count(self, address: str) -> int:
        count, last = self._failures.get(address, (0, 0.0))
        return 0 if self._clock() - last > FORGOTTEN else count


def _address(peer: str) -> str | None:
    """Return what counts as one address; None for what is none, such as a Unix socket."""
    host = peer.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else address.packed[:8].hex()
    return str(address)

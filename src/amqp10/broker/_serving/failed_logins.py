"""Logins that failed: whoever guesses passwords has to wait, and hardly anybody else does.

Failures count by address and claimed name together: others behind the same address log in as
ever. A right guess is answered as late as a wrong one, and so is a stranger's, so that the time tells nothing. Who
tries one name after the other is slowed down by address, when many have failed there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from ipaddress import IPv6Address, ip_address
from typing import Final

import anyio

from ...sasl import prepare

FREE: Final = 5
"""Failures of one name from one address after which its logins from there are answered later."""

FREE_OF_ADDRESS: Final = 100
"""Failures of whatever names after which all of an address wait before they are served."""

SHORTEST: Final = 0.1
"""Seconds that are waited after the next failure; doubled with each further one."""

LONGEST: Final = 4.0
"""Seconds that are waited at most: less than what a connection that is over has for its last words."""

FORGOTTEN: Final = 300.0
"""Seconds without a failure after which it is forgotten."""

MOST: Final = 10_000
"""Addresses that are remembered, and names with theirs; beyond that the one that failed the longest ago goes."""

MOST_NAME: Final = 256
"""Characters of a claimed name that are remembered."""


class Failures:
    """Failures by some key.

    Args:
        clock: seconds.
        free: how many there may be before the waiting begins.
    """

    def __init__(self, clock: Callable[[], float], free: int) -> None:
        self._clock = clock
        self._free = free
        self._last: dict[Hashable, tuple[int, float]] = {}  # how many, and when the last was; oldest first

    def __len__(self) -> int:
        return len(self._last)

    def add(self, key: Hashable) -> None:
        """Count one more."""
        count = self._count(key)
        self._last.pop(key, None)
        if len(self._last) >= MOST:
            del self._last[next(iter(self._last))]
        self._last[key] = count + 1, self._clock()

    def wait(self, key: Hashable) -> float:
        """Return how many seconds are to be waited."""
        count = self._count(key) - self._free
        return min(LONGEST, SHORTEST * 2.0 ** min(count - 1, 16)) if count > 0 else 0.0

    def _count(self, key: Hashable) -> int:
        count, last = self._last.get(key, (0, 0.0))
        return 0 if self._clock() - last > FORGOTTEN else count


class FailedLogins:
    """All that failed, by address and by name. The addresses of one IPv6 network (/64) count as one: a peer has all.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.by_address = Failures(clock, FREE_OF_ADDRESS)
        self.by_name = Failures(clock, FREE)

    def failed(self, peer: str, name: str | None) -> None:
        """Record that a login from there failed.

        Args:
            peer: "HOST:PORT", or no address at all.
            name: who it claimed to be; None: nobody.
        """
        address = _address(peer)
        if address is not None:
            self.by_address.add(address)
            if name is not None:
                self.by_name.add((address, _form(name)))

    def wait(self, peer: str) -> float:
        """Return how many seconds a new connection from there waits before it is served."""
        address = _address(peer)
        return 0.0 if address is None else self.by_address.wait(address)

    def wait_as(self, peer: str, name: str | None) -> float:
        """Return how many seconds later a login from there by that name is answered, however it ends."""
        address = _address(peer)
        return 0.0 if address is None or name is None else self.by_name.wait((address, _form(name)))


class Login:
    """The login of one connection: when its outcome may be told.

    Args:
        peer: see `FailedLogins.failed`.
    """

    def __init__(self, logins: FailedLogins, peer: str) -> None:
        self._logins = logins
        self._peer = peer
        self._wait = 0.0

    def failed(self, name: str | None) -> None:
        """Count a failed login."""
        self._wait = self._logins.wait_as(self._peer, name)
        self._logins.failed(self._peer, name)

    def succeeded(self, name: str | None) -> None:
        """Note a login that succeeded, which is answered as late as a failed one."""
        self._wait = self._logins.wait_as(self._peer, name)

    async def answer(self, scope: anyio.CancelScope) -> None:
        """Wait until it may be told how it ended; the deadline of the scope is later by that.

        Cancelling: the waiting ends.
        """
        if self._wait:
            wait, self._wait = self._wait, 0.0
            scope.deadline += wait
            await anyio.sleep(wait)


def _form(name: str) -> str:
    """Return what all spellings of one user's name have in common."""
    try:
        name = prepare(name)
    except ValueError:
        pass  # nobody's name
    return name[:MOST_NAME]


def _address(peer: str) -> str | None:
    """Return what counts as one address; None for other ends, such as a Unix socket."""
    host = peer.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else address.packed[:8].hex()
    return str(address)

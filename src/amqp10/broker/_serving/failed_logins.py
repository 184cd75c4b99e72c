"""Failed logins: a peer that guesses passwords has to wait, while hardly anybody else does.

Failures count by address and claimed name together, so that others behind the same address are not delayed. A right
guess is answered as late as a wrong one, and so is an unknown name, so that the time reveals nothing. A peer that tries
many names is slowed down by its address.
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
"""Failures of any names after which new connections from an address wait."""

MIN_WAIT: Final = 0.1
"""Seconds to wait after the first failure beyond these; doubled with each further one."""

MAX_WAIT: Final = 4.0
"""The most seconds to wait: less than a closing connection has for its last frames."""

FORGOTTEN: Final = 300.0
"""Seconds without a failure after which earlier ones are forgotten."""

MAX_KEYS: Final = 10_000
"""The most keys that are remembered; beyond that the one with the oldest failure is dropped."""

MAX_NAME: Final = 256
"""The most characters of a claimed name that are remembered."""


class Failures:
    """Counts failures by a key.

    Args:
        clock: returns the time in seconds.
        free: failures before waiting begins.
    """

    def __init__(self, clock: Callable[[], float], free: int) -> None:
        self._clock = clock
        self._free = free
        self._last: dict[Hashable, tuple[int, float]] = {}  # how many, and when the last one was; oldest first

    def __len__(self) -> int:
        return len(self._last)

    def add(self, key: Hashable) -> None:
        """Count one more failure."""
        count = self._count(key)
        self._last.pop(key, None)
        if len(self._last) >= MAX_KEYS:
            del self._last[next(iter(self._last))]
        self._last[key] = count + 1, self._clock()

    def wait(self, key: Hashable) -> float:
        """Return the seconds to wait."""
        count = self._count(key) - self._free
        return min(MAX_WAIT, MIN_WAIT * 2.0 ** min(count - 1, 16)) if count > 0 else 0.0

    def _count(self, key: Hashable) -> int:
        count, last = self._last.get(key, (0, 0.0))
        return 0 if self._clock() - last > FORGOTTEN else count


class FailedLogins:
    """All failed logins, by address and by name. An IPv6 network (/64) counts as one address, as a peer has it all.

    Args:
        clock: returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.by_address = Failures(clock, FREE_OF_ADDRESS)
        self.by_name = Failures(clock, FREE)

    def failed(self, peer: str, name: str | None) -> None:
        """Record a failed login.

        Args:
            peer: "HOST:PORT", or any other text for a peer without an address.
            name: the name that it claimed; None: it claimed none.
        """
        address = _address(peer)
        if address is not None:
            self.by_address.add(address)
            if name is not None:
                self.by_name.add((address, _form(name)))

    def wait(self, peer: str) -> float:
        """Return the seconds that a new connection from `peer` waits before it is served."""
        address = _address(peer)
        return 0.0 if address is None else self.by_address.wait(address)

    def wait_as(self, peer: str, name: str | None) -> float:
        """Return the seconds by which a login from `peer` as `name` is answered later, whatever its outcome."""
        address = _address(peer)
        return 0.0 if address is None or name is None else self.by_name.wait((address, _form(name)))


class Login:
    """The login of one connection, and when its outcome may be told.

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
        """Record a successful login, which is answered as late as a failed one."""
        self._wait = self._logins.wait_as(self._peer, name)

    async def answer(self, scope: anyio.CancelScope) -> None:
        """Wait until the outcome may be told; the deadline of `scope` moves by the same time.

        Cancelling: the waiting ends.
        """
        if self._wait:
            wait, self._wait = self._wait, 0.0
            scope.deadline += wait
            await anyio.sleep(wait)


def _form(name: str) -> str:
    """Return the form that all spellings of one user's name share."""
    try:
        name = prepare(name)
    except ValueError:
        pass  # no user has such a name
    return name[:MAX_NAME]


def _address(peer: str) -> str | None:
    """Return the part of an address that failures count by; None: the peer has no address, as on a Unix socket."""
    host = peer.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else address.packed[:8].hex()
    return str(address)

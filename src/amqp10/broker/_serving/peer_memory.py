"""What has arrived on one connection and no link has yet: messages in part, and messages that wait for credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...engine import MemoryKeeper

if TYPE_CHECKING:
    from .._admission import Admission
    from .._users.accounts import Account


class PeerMemory(MemoryKeeper):
    """Counts these octets for the virtual host, and for the user of the connection.

    Args:
        admission: counts those of all connections to the virtual host.
        account: counts those of all connections of the user; None: the peer has no name.
    """

    __slots__ = ("_account", "_admission", "_partial", "_waiting")  # many connections have one

    def __init__(self, admission: Admission, account: Account | None) -> None:
        self._admission = admission
        self._account = account
        self._partial = self._waiting = 0

    @property
    def crowded(self) -> bool:
        """Whether this connection may add only little, because much waits for credit on all connections together."""
        return self._admission.memory.crowded or (self._account is not None and self._account.memory.crowded)

    def count_partial(self, change: int) -> bool:
        """Count `change` more octets of messages in part; return whether there is memory for them.

        What the only such connection has may exceed a limit that is smaller than a message.
        """
        memory, account = self._admission.memory, self._account
        self._partial += change
        memory.partial_octets += change
        if account is not None:
            account.memory.partial_octets += change
        if change <= 0 or memory.all_octets <= self._partial + self._waiting:
            return True
        return not (memory.full or (account is not None and account.memory.full))

    def count_waiting(self, change: int) -> None:
        self._waiting += change
        self._admission.count_waiting(change)
        if self._account is not None:
            self._account.count_waiting(change)

    def end(self) -> None:
        """Take back what it counted, because the connection is over."""
        self.count_partial(-self._partial)
        self.count_waiting(-self._waiting)

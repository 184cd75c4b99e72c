"""Links that the peer redirects (§2.8.18): another address here, or another host, and the connections there.

A connection to another host is made when the first link is sent there, serves all that are, and is closed with the
connection that they were meant for.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ...engine import LinkTerms
from ...errors import AmqpError, LinkDetached
from .._connecting.policy import redirect
from .._errors import fresh

if TYPE_CHECKING:
    from ...net import Endpoint
    from .._core.connection import ConnectionCore

MAX_HOPS = 10
"""Redirects in a row that a link follows."""


class LinkRedirects:
    """The connections of one connection to other hosts.

    Args:
        make: makes one, with the same settings.
    """

    def __init__(self, connection: ConnectionCore, make: Callable[[Endpoint], ConnectionCore]) -> None:
        self._connection = connection
        self._make = make
        self._all: dict[str, ConnectionCore] = {}

    async def follow(self, cause: AmqpError | None, terms: LinkTerms, sender: bool) -> tuple[ConnectionCore, LinkTerms]:
        """Return the connection on which a redirected link is to be attached, and with which terms.

        Raises:
            AmqpError: `cause`, if that is no redirect that is followed; `RedirectRefused` for a host where the login
                may not go; or why the other host cannot be reached.

        Cancelling: nothing changes, but that a connection to the other host may be there.
        """
        lifeline, recovery = self._connection.supervisor, self._connection.recovery
        here = lifeline.endpoint
        redirected = isinstance(cause, LinkDetached) and cause.condition == "amqp:link:redirect"
        if not redirected or here is None or recovery is None or not recovery.settings.follow_alternatives:
            raise self._connection.lost() if cause is None else fresh(cause)
        assert isinstance(cause, LinkDetached)
        there = redirect(cause, here, lifeline.check_destination)
        address = cause.info.get("address")
        if there is None and (address is None or "network-host" in cause.info or "hostname" in cause.info):
            raise fresh(cause)  # it leads nowhere
        if isinstance(address, str):
            name = "target" if sender else "source"
            terminus = getattr(terms, name)
            moved = copy.copy(terminus)
            moved.address = address
            terms = replace(terms, **{name: moved})
        if there is None or str(there) == str(here):
            return self._connection, terms
        return await self._reach(there), terms

    async def _reach(self, endpoint: Endpoint) -> ConnectionCore:
        key = str(endpoint)
        other = self._all.get(key)
        if other is None or other.over:
            other = self._all[key] = self._make(endpoint)
            self._connection.start(self._keep_open, other)
        await other.until(lambda: other.open or other.over)
        if not other.open:
            raise other.failure or other.lost()
        return other

    async def _keep_open(self, other: ConnectionCore) -> None:
        try:
            async with other:
                await other.until(lambda: other.over)
        except (AmqpError, OSError, ValueError):
            pass  # whoever waits for it raises it

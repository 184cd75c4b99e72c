"""Controls of the emulator for tests: moving the clock, and causing faults."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from ..._http import HTTPAnswer, HTTPRequest, serving
from ...messaging import Error
from ...net import TLS, is_loopback
from ._administration.administration import Administration
from ._conditions import SERVER_BUSY
from ._event_hubs.hub import Partition

if TYPE_CHECKING:
    from ...net import TLSSettings
    from .._tokens.rules import TokenRules
    from ._event_hubs.hub import Hub
    from ._namespace import Namespace
    from ._service_bus.entity import Entity

_MAX_REQUESTS: Final = 50
_TIMEOUT: Final = 10.0
"""The most administration requests at a time, and the seconds for each."""


class AzureControls:
    """Controls of the emulator for tests: `broker.azure`. Call them in the broker's event loop.

    Addresses are those of entities ("orders", "events/Subscriptions/all", "orders/$DeadLetterQueue"), or of event hubs
    and their partitions ("telemetry", "telemetry/Partitions/0").
    """

    def __init__(self, namespace: Namespace, tokens: TokenRules | None) -> None:
        self._namespace = namespace
        self._tokens = tokens

    def __repr__(self) -> str:
        return f"<AzureControls, the clock at {self.clock():.0f} s>"

    def clock(self) -> float:
        """Return the emulator's time, in seconds since 1970."""
        return self._namespace.clock()

    def advance(self, seconds: float) -> None:
        """Move the clock forward by `seconds`, at once.

        Locks expire, messages expire or become available, old events are dropped, idle links are detached, and
        connections that put no token for 20 seconds are closed. Tokens expire by the time of day, by which SDKs make
        new ones; `expire_tokens` ends them all.

        Raises:
            ValueError: `seconds` is negative or infinite.
        """
        if not 0 <= seconds < math.inf:
            raise ValueError(f"seconds must be finite and 0 or more, not {seconds}")
        self._namespace.advance(seconds)

    def lose_locks(self, address: str) -> int:
        """Expire all locks of an entity, including those of sessions; return how many there were.

        Raises:
            KeyError: there is no such entity, or it is an event hub, which has no locks.
        """
        entity = self._namespace.find(address)
        if entity is None and self._namespace.hubs.node(address) is not None:
            raise KeyError(f"{address!r} is in an event hub, where nothing is locked: name a queue or a subscription")
        if entity is None:
            raise self._unknown(address)
        lost = entity.lose_locks()
        self._namespace.flush()
        return lost

    def detach_links(self, address: str | None = None, condition: str = "amqp:link:detach-forced") -> int:
        """Detach all links to an entity, or with None all links; return how many there were.

        Args:
            condition: the condition that clients see, such as "amqp:link:stolen", as if another link had taken the
                name.

        Raises:
            KeyError: there is no such entity.
        """
        entity = None if address is None else self._find(address)
        error = Error(condition, "the link was detached on demand")
        found = [(links, link) for links in list(self._namespace.links) for link in links.of(entity)]
        for links, link in found:
            links.detach(link, error)
        self._namespace.flush()
        return len(found)

    def expire_tokens(self) -> None:
        """Expire all tokens that clients have put; the links that they allowed are detached."""
        for links in list(self._namespace.links):
            links.end_tokens()

    def refuse_next(self, address: str, count: int = 1, condition: str = SERVER_BUSY) -> None:
        """Refuse the next `count` messages, links and requests for an entity.

        Args:
            condition: the condition that clients see, such as "com.microsoft:operation-cancelled".

        Raises:
            KeyError: there is no such entity.
            ValueError: `count` is negative.
        """
        if count < 0:
            raise ValueError(f"count must be 0 or more, not {count}")
        found = self._find(address)
        node = found.hub if isinstance(found, Partition) else found
        node.busy, node.refusal = count, condition

    @asynccontextmanager
    async def administration(
        self, host: str = "127.0.0.1", port: int = 5300, *, tls: TLSSettings | None = None
    ) -> AsyncIterator[str]:
        """Serve the SDKs' administration clients by HTTP while the block runs; it yields the URL.

        They declare, change, list and delete queues, topics, subscriptions and rules. If the broker takes tokens, each
        request needs a token with the right Manage.

            async with broker.azure.administration(port=0) as url: ...

        Args:
            port: the port, or 0 for any free one.
            tls: the settings for HTTPS; None: HTTP.

        Raises:
            OSError: the port cannot be listened on.
            ValueError: the broker takes no tokens, and the host is not loopback.

        Cancelling: requests are cut.
        """
        if self._tokens is None and not is_loopback(host):
            raise ValueError(
                f"without tokens the administration can listen on loopback only, not on {host!r}: give "
                "Broker(tokens=...)"
            )
        administration = Administration(self._namespace, self._tokens)

        async def answer(request: HTTPRequest) -> HTTPAnswer:
            found = administration.answer(request)
            await self._namespace.wait_durable()
            return found

        context = tls.server_context() if isinstance(tls, TLS) else tls
        async with serving(answer, host, port, most=_MAX_REQUESTS, patience=_TIMEOUT, context=context) as found:
            shown = f"[{host}]" if ":" in host else host
            yield f"{'http' if context is None else 'https'}://{shown}:{found}"

    def _find(self, address: str) -> Entity | Hub | Partition:
        entity = self._namespace.find(address) or self._namespace.hubs.node(address)
        if entity is None:
            raise self._unknown(address)
        return entity

    def _unknown(self, address: str) -> KeyError:
        names = [each.name for each in self._namespace.entities if "$" not in each.name]
        known = ", ".join([*names, *(hub.name for hub in self._namespace.hubs.all)])
        return KeyError(f"there is no entity {address!r}; the entities are {known}")

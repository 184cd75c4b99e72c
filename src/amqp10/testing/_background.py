"""A broker for programs and tests that are no coroutines of anyio's: it runs in a thread of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal

from ..broker import Broker

if TYPE_CHECKING:
    from ..broker import ExchangeFacts, QueueFacts, TopicFacts


class BackgroundBroker(AbstractContextManager["BackgroundBroker"]):
    """A `Broker` in a thread of its own, with an event loop of its own; begun and ended by `with`.

        with BackgroundBroker(queues=["orders"]) as broker:
            ...  # any client, in whatever event loop or in none: broker.url
            assert broker.queue("orders").depth == 1

    It is reached by its URL only: `Broker.connect` and `Broker.open_stream` are for the broker's own event loop.

    Args:
        settings: as for `Broker`.

    Raises:
        ValueError, Unsupported: as for `Broker`.
    """

    _portal: BlockingPortal

    def __init__(self, **settings: Any) -> None:
        self._broker = Broker(**settings)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Begin to listen.

        Raises:
            OSError, StoreError: as for `Broker`.
        """
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(self._portal.wrap_async_context_manager(self._broker))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all connections, and end; takes the broker's `close_timeout` seconds at most."""
        self._stack.close()

    @property
    def url(self) -> str:
        """Return where to connect to: see `Broker.url`."""
        return self._broker.url

    @property
    def urls(self) -> tuple[str, ...]:
        """Return all URLs that the broker listens at."""
        return self._broker.urls

    @property
    def websocket_url(self) -> str:
        """Return where WebSockets connect to: see `Broker.websocket_url`."""
        return self._broker.websocket_url

    @property
    def connections(self) -> int:
        """Return how many peers have opened and are still there."""
        return self._portal.call(lambda: self._broker.connections)

    @property
    def queues(self) -> tuple[QueueFacts, ...]:
        """Return all queues as they are now."""
        return self._portal.call(lambda: self._broker.queues)

    @property
    def topics(self) -> tuple[TopicFacts, ...]:
        """Return all topics as they are now."""
        return self._portal.call(lambda: self._broker.topics)

    @property
    def exchanges(self) -> tuple[ExchangeFacts, ...]:
        """Return all exchanges as they are now."""
        return self._portal.call(lambda: self._broker.exchanges)

    def queue(self, name: str) -> QueueFacts:
        """Return the queue of that name as it is now.

        Raises:
            KeyError: there is no such queue.
        """
        return self._portal.call(self._broker.queue, name)

    def topic(self, name: str) -> TopicFacts:
        """Return the topic of that name as it is now.

        Raises:
            KeyError: there is no such topic.
        """
        return self._portal.call(self._broker.topic, name)

    def exchange(self, name: str) -> ExchangeFacts:
        """Return the exchange of that name as it is now.

        Raises:
            KeyError: there is no such exchange.
        """
        return self._portal.call(self._broker.exchange, name)

    def block(self, reason: str = "blocked") -> None:
        """Take no messages from now on: see `Broker.block`."""
        self._portal.call(self._broker.block, reason)

    def unblock(self) -> None:
        """Take messages again."""
        self._portal.call(self._broker.unblock)

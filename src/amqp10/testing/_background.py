"""A broker for programs and tests that are no coroutines of anyio's: it runs in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal

from ..broker import Broker, TokenRules
from ..broker.azure import EMULATOR_RULE, connection_string

if TYPE_CHECKING:
    from ..broker import ExchangeFacts, QueueFacts, TopicFacts
    from ..broker.azure import AzureConfig
    from ..net import TLSSettings


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


class BackgroundAzure(BackgroundBroker):
    """The emulator of Azure in a thread of its own, for Microsoft's SDKs.

    Args:
        config: its entities.
        settings: as for `Broker`; without `tokens` it takes those by the key of Microsoft's emulator.

    Raises:
        ValueError, Unsupported: as for `Broker`.
    """

    def __init__(self, config: AzureConfig, **settings: Any) -> None:
        super().__init__(azure=config, **{"tokens": TokenRules([EMULATOR_RULE]), **settings})

    @property
    def connection_string(self) -> str:
        """Return what SDKs connect by."""
        return connection_string(self.url)

    @contextmanager
    def administration(self, port: int = 0, *, tls: TLSSettings | None = None) -> Iterator[str]:
        """Answer the administration clients of SDKs while the block lasts; see `ServiceBus.administration`.

        Raises:
            OSError: the port cannot be listened on.
        """
        made = self._broker.azure.administration(port=port, tls=tls)
        with self._portal.wrap_async_context_manager(made) as url:
            yield url

    def clock(self) -> float:
        """Return the emulator's time, in seconds since 1970."""
        return self._portal.call(self._broker.azure.clock)

    def advance(self, seconds: float) -> None:
        """Move the clock by this time, at once; see `AzureControls.advance`.

        Raises:
            ValueError: time does not go back.
        """
        self._portal.call(self._broker.azure.advance, seconds)

    def detach_links(self, address: str | None = None, condition: str = "amqp:link:detach-forced") -> int:
        """Detach all links to an entity, or to any; return how many there were. See `AzureControls.detach_links`.

        Raises:
            KeyError: there is no such entity.
        """
        return self._portal.call(self._broker.azure.detach_links, address, condition)

    def expire_tokens(self) -> None:
        """Let all tokens end that clients have put; links that they allowed are detached."""
        self._portal.call(self._broker.azure.expire_tokens)

    def refuse_next(self, address: str, count: int = 1) -> None:
        """Refuse the next `count` messages, links and requests for an entity: `com.microsoft:server-busy`.

        Raises:
            KeyError: there is no such entity.
            ValueError: the count is less than 0.
        """
        self._portal.call(self._broker.azure.refuse_next, address, count)


class BackgroundServiceBus(BackgroundAzure):
    """The emulator of Azure Service Bus in a thread of its own, for Microsoft's SDKs: the fixture `service_bus`.

        with BackgroundServiceBus(AzureConfig(["orders"])) as service_bus:
            client = ServiceBusClient.from_connection_string(service_bus.connection_string)

    Arguments and errors as for `BackgroundAzure`.
    """

    def lose_locks(self, address: str) -> int:
        """Let all locks of an entity end now, those of sessions too; return how many there were.

        Raises:
            KeyError: there is no such entity.
        """
        return self._portal.call(self._broker.azure.lose_locks, address)


class BackgroundEventHubs(BackgroundAzure):
    """The emulator of Azure Event Hubs in a thread of its own, for Microsoft's SDKs: the fixture `event_hubs`.

        with BackgroundEventHubs(AzureConfig(event_hubs=["telemetry"])) as event_hubs:
            client = EventHubProducerClient.from_connection_string(event_hubs.of("telemetry"))

    Arguments and errors as for `BackgroundAzure`.
    """

    def of(self, hub: str) -> str:
        """Return what SDKs connect by to one event hub: the connection string with its name."""
        return connection_string(self.url, entity=hub)

"""A broker in its own thread, for programs and tests that do not use anyio."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal

from .._arguments import checked
from ..broker import Broker, TokenRules
from ..broker.azure import EMULATOR_RULE, AzureConfig, connection_string

if TYPE_CHECKING:
    from ..broker import ExchangeSnapshot, QueueSnapshot, TopicSnapshot
    from ..net import TLSSettings


@checked
class BackgroundBroker(AbstractContextManager["BackgroundBroker"]):
    """A `Broker` in its own thread and event loop, started and stopped by `with`.

        with BackgroundBroker(queues=["orders"]) as broker:
            ...  # any client, with or without an event loop: broker.url
            assert broker.queue("orders").depth == 1

    Connect by its URL: `Broker.connect` and `Broker.open_stream` work only in the broker's own event loop.

    Args:
        settings: as for `Broker`. Raises:
        ValueError, Unsupported: as for `Broker`.
    """

    _portal: BlockingPortal

    def __init__(self, **settings: Any) -> None:
        self._broker = Broker(**settings)
        self._stack = ExitStack()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._broker!r}>"

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
        """Close all connections and stop, within the broker's `close_timeout` seconds."""
        self._stack.close()

    @property
    def url(self) -> str:
        """Return the URL to connect to: see `Broker.url`."""
        return self._broker.url

    @property
    def urls(self) -> tuple[str, ...]:
        """Return all URLs that the broker listens at."""
        return self._broker.urls

    @property
    def websocket_url(self) -> str:
        """Return the URL for WebSockets: see `Broker.websocket_url`."""
        return self._broker.websocket_url

    @property
    def connections(self) -> int:
        """Return the number of open connections."""
        return self._portal.call(lambda: self._broker.connections)

    @property
    def queues(self) -> tuple[QueueSnapshot, ...]:
        """Return the current state of all queues."""
        return self._portal.call(lambda: self._broker.queues)

    @property
    def topics(self) -> tuple[TopicSnapshot, ...]:
        """Return the current state of all topics."""
        return self._portal.call(lambda: self._broker.topics)

    @property
    def exchanges(self) -> tuple[ExchangeSnapshot, ...]:
        """Return the current state of all exchanges."""
        return self._portal.call(lambda: self._broker.exchanges)

    def queue(self, name: str) -> QueueSnapshot:
        """Return the current state of the queue `name`.

        Raises:
            KeyError: there is no such queue.
        """
        return self._portal.call(self._broker.queue, name)

    def topic(self, name: str) -> TopicSnapshot:
        """Return the current state of the topic `name`.

        Raises:
            KeyError: there is no such topic.
        """
        return self._portal.call(self._broker.topic, name)

    def exchange(self, name: str) -> ExchangeSnapshot:
        """Return the current state of the exchange `name`.

        Raises:
            KeyError: there is no such exchange.
        """
        return self._portal.call(self._broker.exchange, name)

    def block(self, reason: str = "blocked") -> None:
        """Stop taking messages: see `Broker.block`."""
        self._portal.call(self._broker.block, reason)

    def unblock(self) -> None:
        """Take messages again."""
        self._portal.call(self._broker.unblock)


@checked
class BackgroundAzure(BackgroundBroker):
    """The emulator of Azure in its own thread, for Microsoft's SDKs.

    Args:
        config: the entities.
        settings: as for `Broker`. By default, `tokens` accepts tokens signed with the key of Microsoft's emulator.

    Raises:
        ValueError, Unsupported: as for `Broker`.
    """

    def __init__(self, config: AzureConfig, **settings: Any) -> None:
        super().__init__(azure=config, **{"tokens": TokenRules([EMULATOR_RULE]), **settings})

    @property
    def connection_string(self) -> str:
        """Return the connection string for SDKs."""
        return connection_string(self.url)

    @contextmanager
    def administration(self, port: int = 0, *, tls: TLSSettings | None = None) -> Iterator[str]:
        """Serve the administration clients of SDKs within the block; see `ServiceBus.administration`.

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
        """Move the clock forward at once; see `AzureControls.advance`.

        Raises:
            ValueError: `seconds` is negative.
        """
        self._portal.call(self._broker.azure.advance, seconds)

    def detach_links(self, address: str | None = None, condition: str = "amqp:link:detach-forced") -> int:
        """Detach all links to an entity, or to all entities; return their number. See `AzureControls.detach_links`.

        Raises:
            KeyError: there is no such entity.
        """
        return self._portal.call(self._broker.azure.detach_links, address, condition)

    def expire_tokens(self) -> None:
        """Expire all tokens that clients have put, and detach the links that they allowed."""
        self._portal.call(self._broker.azure.expire_tokens)

    def refuse_next(self, address: str, count: int = 1, condition: str = "com.microsoft:server-busy") -> None:
        """Refuse the next `count` messages, links and requests for an entity; see `AzureControls.refuse_next`.

        Raises:
            KeyError: there is no such entity.
            ValueError: `count` is negative.
        """
        self._portal.call(self._broker.azure.refuse_next, address, count, condition)


class BackgroundServiceBus(BackgroundAzure):
    """The emulator of Azure Service Bus in its own thread, for Microsoft's SDKs: the fixture `service_bus`.

        with BackgroundServiceBus(AzureConfig(["orders"])) as service_bus:
            client = ServiceBusClient.from_connection_string(service_bus.connection_string)

    Arguments and errors as for `BackgroundAzure`.
    """

    def lose_locks(self, address: str) -> int:
        """Expire all locks of an entity, including session locks; return their number.

        Raises:
            KeyError: there is no such entity.
        """
        return self._portal.call(self._broker.azure.lose_locks, address)


class BackgroundEventHubs(BackgroundAzure):
    """The emulator of Azure Event Hubs in its own thread, for Microsoft's SDKs: the fixture `event_hubs`.

        with BackgroundEventHubs(AzureConfig(event_hubs=["telemetry"])) as event_hubs:
            client = EventHubProducerClient.from_connection_string(event_hubs.of("telemetry"))

    Arguments and errors as for `BackgroundAzure`.
    """

    def of(self, hub: str) -> str:
        """Return the connection string of one event hub, for SDKs."""
        return connection_string(self.url, entity=hub)

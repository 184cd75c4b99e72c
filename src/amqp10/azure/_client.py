"""What the clients of both services share: a connection to a namespace, and senders on it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, ClassVar, Self

from .._arguments import HintedClass, advise, check_range
from ..client import Connection, ConnectionSettings, Reconnect, Sender, Transaction
from ..types import Symbol
from ._batch import BATCH_FORMAT, MessageBatch
from ._namespace import Namespace


class NamespaceClient(metaclass=HintedClass):
    """A connection to a namespace; `async with` opens it, and closes it with all its links.

    Attributes:
        connection: the AMQP connection, with its events and its health.
        _each_message: classes whose methods are called for each message.
    """

    _each_message: ClassVar[tuple[type, ...]]

    def __init__(
        self, namespace: Namespace, profile: str, request_timeout: float, settings: ConnectionSettings
    ) -> None:
        if "tokens" in settings or "sasl" in settings:
            raise ValueError("the credential determines tokens and sasl: leave both out")
        if not request_timeout > 0:
            raise ValueError(f"request_timeout must be more than 0 seconds, not {request_timeout}")
        all_settings: dict[str, Any] = {"reconnect": Reconnect(), "profile": profile, **settings}
        self.connection: Connection = Connection(namespace.url, tokens=namespace.tokens, **all_settings)

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            ConnectionLost, AuthenticationFailed, InsecureTransport, ConnectionClosed, RemoteProtocolError: see
                `Connection`. A wrong key shows only when the first link is attached.

        Cancelling: the transport is closed.
        """
        await self.connection.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all links and the connection.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        advise(exc, self._each_message)
        await self.connection.__aexit__(exc_type, exc, traceback)


class NamespaceSender:
    """Sends messages and batches on a link.

    Attributes:
        sender: the link that carries the messages.
    """

    def __init__(self, sender: Sender) -> None:
        self.sender = sender

    async def _send(self, message: object, transaction: Transaction | None = None) -> None:
        if isinstance(message, MessageBatch):
            await self.sender.send_encoded(message.encode(), message_format=BATCH_FORMAT, transaction=transaction)
        else:
            await self.sender.send(message, transaction=transaction)

    def _batch_limit(self, max_size: int | None, limit_name: Symbol | None = None) -> int | None:
        """Return the most octets that a batch may have; None: no limit.

        Args:
            max_size: what the caller asks for; None: as many as the service takes.
            limit_name: the link property by which the service says another limit, besides its max-message-size.

        Raises:
            ValueError: `max_size` is not positive, or the service takes fewer octets.
            LocalProtocolError: the sender is not attached yet.
        """
        check_range("max_size", max_size if max_size is not None else 1, 1)
        remote = self.sender.remote
        limits = (remote.max_message_size, remote.properties.get(limit_name))
        largest = min((each for each in limits if isinstance(each, int) and each), default=None)
        if max_size is not None and largest is not None and max_size > largest:
            raise ValueError(f"max_size must be {largest} or less, the service's limit for a batch, not {max_size}")
        return max_size if max_size is not None else largest

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for the outcomes of messages in flight, and detach.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, DeliveryUncertain, TimeoutError: see `Sender`.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        await self.sender.__aexit__(exc_type, exc, traceback)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.sender.address!r}>"

"""The client of a Service Bus namespace."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Unpack

from ..._arguments import checked, hinted, without_secrets
from ...client import ConnectionSettings, Transaction
from ...types import Int, Symbol
from .._arguments import check_time
from .._client import NamespaceClient
from .._namespace import Namespace
from ._management import EntityManagement, listed
from ._received import ServiceBusDelivery
from ._receiver import Mode, ServiceBusReceiver, ServiceBusSession, link_on, session_on
from ._rules import SubscriptionRules
from ._sender import ServiceBusSender

_SCOPE: Final = "https://servicebus.azure.net/.default"
_DESTINATION: Final = Symbol("com.microsoft:transfer-destination-address")
_BENEATH: Final = re.compile(r"(/\$[^/]+)+$")
_MAX_SESSION_ID_LENGTH: Final = 128
_PAGE: Final = 100
_ANY_TIME: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@hinted
@checked
class ServiceBus(NamespaceClient):
    """A namespace of Azure Service Bus; `async with` opens the connection, and closes it with all its links.

        async with ServiceBus(connection_string) as bus:
            async with bus.sender("orders") as sender:
                await sender.send(Message(b"two teas"))
            async with bus.receiver("orders") as receiver:
                async for delivery in receiver:
                    async with delivery as message: ...

    A lost connection, sender or receiver comes back by itself (`reconnect`). A session does not, because its lock is
    lost with its link. All tasks of a program may share the namespace.

    Args:
        where: a connection string, or `NAMESPACE.servicebus.windows.net`, alone or in a URL (`wss://...` for
            WebSockets).
        credential: a credential of azure-identity, azure-core's AzureNamedKeyCredential or AzureSasCredential, a
            `SasKey`, or any other source of tokens; None: the connection string has the key.
        request_timeout: seconds that the service may take to answer a request.
        clock: the time in seconds since 1970.
        settings: those of `Connection` except tokens and sasl. `reconnect` is on unless you pass None.

    Raises:
        ValueError, TypeError, LookupError: where, credential or a setting is invalid. The error contains no secret.

    Attributes:
        connection: the AMQP connection, with its events and its health.
    """

    _each_message = (ServiceBusSender, ServiceBusReceiver, ServiceBusDelivery)

    def __init__(
        self,
        where: str,
        credential: Any = None,
        *,
        request_timeout: float = 60.0,
        clock: Callable[[], float] = time.time,
        **settings: Unpack[ConnectionSettings],
    ) -> None:
        namespace = Namespace.read(where, credential, scope=_SCOPE, entity_of=entity_of, clock=clock)
        super().__init__(namespace, "service-bus", request_timeout, settings)
        self._restores = settings.get("reconnect", True) is not None
        self._entity = namespace.entity
        self._timeout = request_timeout
        self._clock = clock
        self._nodes: dict[str, EntityManagement] = {}

    @checked
    def sender(self, entity: str | None = None, *, via: str | None = None) -> ServiceBusSender:
        """Make a sender to a queue or topic, to be attached by `async with`.

        Args:
            entity: its name; None: the EntityPath of the connection string.
            via: the entity that a transaction receives from: messages then go through it to `entity`.

        Raises:
            ValueError: no name is given, or the name differs from the EntityPath of the connection string.
        """
        address = self._address(entity)
        if via is None:
            return ServiceBusSender(self.connection.sender(address), self._node(address))
        sender = self.connection.sender(self._address(via), properties={_DESTINATION: address})
        return ServiceBusSender(sender, self._node(address), via=True)

    def transaction(self) -> Transaction:
        """Make a transaction. `async with bus.transaction() as work:` commits it at the end; an exception rolls back.

        `sender.send(message, transaction=work)`, `sender.schedule(message, at, transaction=work)` and
        `delivery.complete(transaction=work)` are parts of it. A transaction of the service has one entity; it reaches
        others through `bus.sender(entity, via=...)`.
        """
        return self.connection.transaction()

    @checked
    def receiver(
        self,
        entity: str | None = None,
        *,
        subscription: str | None = None,
        dead_letters: bool = False,
        mode: Mode = "peek-lock",
        prefetch: int = 0,
    ) -> ServiceBusReceiver:
        """Make a receiver, to be attached by `async with`.

        Args:
            entity: the queue, or the topic of the `subscription`; None: the EntityPath of the connection string.
            subscription: the subscription of the topic.
            dead_letters: receive its dead letters instead.
            mode: "peek-lock": a message is locked until it is settled; "receive-and-delete": it is deleted when sent.
            prefetch: the most messages that may wait here, locked; 0: each message is requested when you ask for one.

        Raises:
            ValueError: no name is given, or the mode or prefetch is invalid.
        """
        address = self._address(entity, subscription) + ("/$DeadLetterQueue" if dead_letters else "")
        return ServiceBusReceiver(
            link_on(self.connection, address, mode, prefetch), self._node(address), mode, prefetch, self._clock
        )

    @checked
    def session(
        self,
        entity: str,
        session_id: str,
        *,
        subscription: str | None = None,
        mode: Mode = "peek-lock",
        prefetch: int = 0,
    ) -> ServiceBusSession:
        """Make a receiver of one session, which `async with` locks.

        Args:
            entity, subscription, mode, prefetch: as for `receiver`.
            session_id: the `group_id` of the session's messages, at most 128 characters.

        Raises:
            TypeError: the session id is not a str; `next_session` takes any session.
            ValueError: no name is given, or the session id, the mode or prefetch is invalid.
        """
        if len(session_id) > _MAX_SESSION_ID_LENGTH:
            raise ValueError(f"session_id must have at most {_MAX_SESSION_ID_LENGTH} characters, not {len(session_id)}")
        return self._session(self._address(entity, subscription), session_id, mode, prefetch, None)

    @checked
    def next_session(
        self,
        entity: str | None = None,
        *,
        subscription: str | None = None,
        max_wait: float = 60.0,
        mode: Mode = "peek-lock",
        prefetch: int = 0,
    ) -> ServiceBusSession:
        """Make a receiver of any free session that has messages, which `async with` locks.

        Args:
            entity, subscription, mode, prefetch: as for `receiver`.
            max_wait: seconds that the service looks for a session; after that, entering raises `NoSession`.

        Raises:
            ValueError: no name is given, or the mode, prefetch or time is invalid.
            TypeError: `max_wait` is not a number.
        """
        if not 0 < max_wait < 4_294_967:
            raise ValueError(f"max_wait must be more than 0 seconds and less than 50 days, not {max_wait}")
        return self._session(self._address(entity, subscription), None, mode, prefetch, max_wait)

    @checked
    def rules(self, topic: str, subscription: str) -> SubscriptionRules:
        """Return the rules of a subscription, to list and to change.

        Raises:
            ValueError: no name is given, or the name differs from the EntityPath of the connection string.
            TypeError: the subscription is not a str.
        """
        return SubscriptionRules(self._node(self._address(topic, subscription)))

    @checked
    async def list_sessions(
        self, entity: str | None = None, *, subscription: str | None = None, updated_after: datetime | None = None
    ) -> list[str]:
        """Return the ids of the sessions that have messages or a state.

        Args:
            entity, subscription: as for `receiver`.
            updated_after: return instead the sessions whose state was set after this time.

        Raises:
            TypeError: `updated_after` is not a datetime.
            ValueError: no name is given, or the time has no time zone.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.

        Cancelling: nothing has changed.
        """
        if updated_after is not None:
            check_time("updated_after", updated_after)
        node = self._node(self._address(entity, subscription))
        found: list[str] = []
        while True:
            request = {"last-updated-time": updated_after or _ANY_TIME, "skip": Int(len(found)), "top": Int(_PAGE)}
            answer = await node.ask("get-message-sessions", request, repeat=True)
            page = [str(each) for each in listed(answer, "sessions-ids")]
            found += page
            if len(page) < _PAGE:
                return found

    def _session(
        self, address: str, session_id: str | None, mode: Mode, prefetch: int, max_wait: float | None
    ) -> ServiceBusSession:
        node = self._node(address)
        return session_on(self.connection, node, session_id, mode, prefetch, max_wait, self._clock)

    def _address(self, entity: str | None, subscription: str | None = None) -> str:
        name = entity if entity is not None else self._entity
        if not name or subscription == "":
            raise ValueError("name the queue or topic: the connection string has no EntityPath, or the name is empty")
        if self._entity is not None and not f"{name}/".casefold().startswith(f"{self._entity}/".casefold()):
            raise ValueError(
                f"the connection string is for {self._entity!r} alone (EntityPath), and "
                f"{without_secrets(name)} is asked for: take a "
                "connection string of the namespace"
            )
        return name if subscription is None else f"{name}/Subscriptions/{subscription}"

    def _node(self, address: str) -> EntityManagement:
        node = self._nodes.get(address.casefold())
        if node is None:
            node = EntityManagement(self.connection, address, self._timeout, restores=self._restores)
            self._nodes[address.casefold()] = node
        return node

    def __repr__(self) -> str:
        return f"<ServiceBus {self.connection!r}>"


def entity_of(address: str) -> str:
    """Return the entity of an address, which tokens are for: without /$management, /$DeadLetterQueue and the like."""
    return _BENEATH.sub("", address).lstrip("/")

"""A namespace of Service Bus, as a program holds it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Unpack

from ...client import ConnectionSettings, Transaction
from ...types import Int, Symbol
from .._arguments import check_seconds, check_time
from .._client import NamespaceClient
from .._namespace import Namespace
from ._management import EntityManagement, listed
from ._receiver import Mode, ServiceBusReceiver, ServiceBusSession, link_on, session_on
from ._rules import SubscriptionRules
from ._sender import ServiceBusSender

_SCOPE: Final = "https://servicebus.azure.net/.default"
_DESTINATION: Final = Symbol("com.microsoft:transfer-destination-address")
_BENEATH: Final = re.compile(r"(/\$[^/]+)+$")
_LONGEST_SESSION: Final = 128
_PAGE: Final = 100
_ANY_TIME: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


class ServiceBus(NamespaceClient):
    """A namespace of Azure Service Bus; `async with` opens the connection, and closes it with all that is on it.

        async with ServiceBus(connection_string) as bus:
            async with bus.sender("orders") as sender:
                await sender.send(Message(b"two teas"))
            async with bus.receiver("orders") as receiver:
                async for delivery in receiver:
                    async with delivery as message: ...

    A connection, a sender or a receiver that is lost comes back by itself (`reconnect`); a session does not, for
    its lock is lost with it. All tasks of a program may share it.

    Args:
        where: a connection string; or `NAMESPACE.servicebus.windows.net`, also as a URL, `wss://...` for WebSockets.
        credential: the login: a credential of azure-identity, azure-core's AzureNamedKeyCredential or
            AzureSasCredential, a `SasKey`, or what else gives tokens; None where the connection string says it.
        request_timeout: seconds that the service may take to answer a request.
        clock: the time in seconds since 1970.
        settings: as for `Connection`, but for tokens and sasl; `reconnect` is on unless you say None.

    Raises:
        ValueError, TypeError, LookupError: where, credential or settings make no sense. No secret is in the error.

    Attributes:
        connection: what it stands on: its events, its health.
    """

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

    def sender(self, entity: str | None = None, *, via: str | None = None) -> ServiceBusSender:
        """Make a sender to a queue or topic, to be attached by `async with`.

        Args:
            entity: its name; None for the EntityPath of the connection string.
            via: send via this entity, the one that a transaction receives from: it goes over both then.

        Raises:
            ValueError: no name is given, or another one than the EntityPath of the connection string.
        """
        address = self._address(entity)
        if via is None:
            return ServiceBusSender(self.connection.sender(address), self._node(address))
        sender = self.connection.sender(self._address(via), properties={_DESTINATION: address})
        return ServiceBusSender(sender, self._node(address), via=True)

    def transaction(self) -> Transaction:
        """Make a transaction: `async with bus.transaction() as work:`, whose end commits, and an exception rolls back.

        `sender.send(message, transaction=work)`, `sender.schedule(message, at, transaction=work)` and
        `delivery.complete(transaction=work)` are parts of it. The service has one entity in a transaction; others by
        `bus.sender(entity, via=...)`.
        """
        return self.connection.transaction()

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
            entity: the queue, or the topic of the `subscription`; None for the EntityPath of the connection string.
            subscription: which one of the topic.
            dead_letters: receive its dead letters.
            mode: "peek-lock": messages are locked until settled; "receive-and-delete": they are gone when sent.
            prefetch: messages that may wait here, locked; 0: each is asked for when you ask.

        Raises:
            ValueError: no name is given, or the mode or prefetch makes no sense.
        """
        address = self._address(entity, subscription) + ("/$DeadLetterQueue" if dead_letters else "")
        return ServiceBusReceiver(
            link_on(self.connection, address, mode, prefetch), self._node(address), mode, prefetch, self._clock
        )

    def session(
        self,
        entity: str,
        session_id: str,
        *,
        subscription: str | None = None,
        mode: Mode = "peek-lock",
        prefetch: int = 0,
    ) -> ServiceBusSession:
        """Make a receiver of one session, to be locked by `async with`.

        Args:
            entity, subscription, mode, prefetch: as for `receiver`.
            session_id: what its messages have as `group_id`; 128 characters at most.

        Raises:
            TypeError: the session id is no str; `next_session` is for any session.
            ValueError: no name is given, or the session id, the mode or prefetch makes no sense.
        """
        if not isinstance(session_id, str):
            raise TypeError(f"session_id must be a str, not {session_id!r}: give a session id, or use next_session()")
        if len(session_id) > _LONGEST_SESSION:
            raise ValueError(f"session_id must have at most {_LONGEST_SESSION} characters, not {len(session_id)}")
        return self._session(self._address(entity, subscription), session_id, mode, prefetch, None)

    def next_session(
        self,
        entity: str | None = None,
        *,
        subscription: str | None = None,
        max_wait: float = 60.0,
        mode: Mode = "peek-lock",
        prefetch: int = 0,
    ) -> ServiceBusSession:
        """Make a receiver of a session that nobody has and that has messages, to be locked by `async with`.

        Args:
            entity, subscription, mode, prefetch: as for `receiver`.
            max_wait: seconds that the service looks for one; then entering raises `NoSession`.

        Raises:
            ValueError: no name is given, or the mode, prefetch or time makes no sense.
            TypeError: `max_wait` is no number.
        """
        check_seconds("max_wait", max_wait)
        if not 0 < max_wait < 4_294_967:
            raise ValueError(f"max_wait must be more than 0 seconds and less than 50 days, not {max_wait}")
        return self._session(self._address(entity, subscription), None, mode, prefetch, max_wait)

    def rules(self, topic: str, subscription: str) -> SubscriptionRules:
        """Return the rules of a subscription, to look at and to change.

        Raises:
            ValueError: no name is given, or another one than the EntityPath of the connection string.
            TypeError: the subscription is no str.
        """
        if not isinstance(subscription, str):
            raise TypeError(f"subscription must be the name of a subscription of the topic, not {subscription!r}")
        return SubscriptionRules(self._node(self._address(topic, subscription)))

    async def list_sessions(
        self, entity: str | None = None, *, subscription: str | None = None, updated_after: datetime | None = None
    ) -> list[str]:
        """Return the ids of sessions that have messages or a state.

        Args:
            entity, subscription: as for `receiver`.
            updated_after: those whose state was set after this time, in place of them.

        Raises:
            TypeError: `updated_after` is no datetime.
            ValueError: no name is given, or the time has no time zone.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.

        Cancelling: nothing has happened.
        """
        if updated_after is not None:
            check_time("updated_after", updated_after)
        node = self._node(self._address(entity, subscription))
        found: list[str] = []
        while True:
            asked = {"last-updated-time": updated_after or _ANY_TIME, "skip": Int(len(found)), "top": Int(_PAGE)}
            answer = await node.ask("get-message-sessions", asked, repeat=True)
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
                f"the connection string is for {self._entity!r} alone (EntityPath), and {name!r} is asked for: take a "
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
    """Return the entity that an address is of, which tokens are for: without $management, $DeadLetterQueue, ..."""
    return _BENEATH.sub("", address).lstrip("/")

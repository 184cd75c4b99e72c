"""Subscriptions, and looking at queues: what a link says so that a broker keeps messages for its name (§2.6.3, §3.5.6).

AMQP 1.0 has no word for "subscription": it is a link whose source outlives it, found again by the container's id and
the link's name. What is shared between links, and how such links are named, is the JMS mapping's convention, which
Artemis, Broker-J and the embedded broker follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from ..engine import LinkTerms
from ..errors import LocalProtocolError
from ..messaging import Source, Target
from ..types import Int, Symbol
from ._receiver import EXCLUSIVE, Receiver

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..messaging import Filter
    from ._connection import Connection
    from ._delivery import Delivery
    from ._session import Session

TOPIC: Final = Symbol("topic")
SHARED: Final = Symbol("shared")
GLOBAL: Final = Symbol("global")
# What Artemis, Broker-J and the embedded broker read, and what RabbitMQ does.
PRIORITY: Final = (Symbol("priority"), Symbol("rabbitmq:priority"))

# How many links of each shared subscription a connection has made so far.
_numbers: WeakKeyDictionary[Connection, Counter[str]] = WeakKeyDictionary()


def subscription_source(
    address: str, *, durable: bool, shared: bool, global_: bool, filters: Iterable[Filter], timeout: int | None
) -> Source:
    """The source that asks for a subscription.

    Raises:
        ValueError: global and not shared, or filters of one name.
    """
    capabilities = sharing(shared, global_)
    never = durable and timeout is None
    return Source(
        address,
        durable="unsettled-state" if durable else "none",
        expiry_policy="never" if never else "link-detach",
        timeout=timeout or 0,
        # Every subscriber gets a copy; brokers tell a topic from a queue by this, too.
        distribution_mode="copy",
        filters=filters,
        capabilities=(TOPIC, *capabilities),
    )


def sharing(shared: bool, global_: bool) -> tuple[Symbol, ...]:
    """The capabilities that say who shares a subscription.

    Raises:
        ValueError: global and not shared.
    """
    if global_ and not shared:
        raise ValueError("a subscription is global if containers share it: shared=True, global_=True")
    return (SHARED,) * shared + (GLOBAL,) * global_


def subscription_link(connection: Connection, name: str, *, durable: bool, shared: bool, global_: bool) -> str:
    """The name of a link of the subscription.

    That of a shared one goes on after a "|". The first link of a durable one has no number: by its name the JMS mapping
    unsubscribes.

    Raises:
        ValueError: the name is empty or has a "|".
    """
    if not name or "|" in name:
        raise ValueError(f"a subscription's name is not empty and has no '|': {name!r}")
    if not shared:
        return name
    words = "-".join(["global"] * global_ + ["volatile"] * (not durable))
    made = _numbers.setdefault(connection, Counter())
    key = f"{name}|{words}"
    made[key] += 1
    if durable and made[key] == 1:
        return key.removesuffix("|")
    return f"{key}{made[key]}"


def consumer_properties(priority: int | None, exclusive: bool, others: Mapping[Any, Any] | None) -> dict[Any, Any]:
    """The link properties of a receiver."""
    properties: dict[Any, Any] = {}
    if priority is not None:
        properties.update(dict.fromkeys(PRIORITY, Int(priority)))
    if exclusive:
        properties[EXCLUSIVE] = True
    return properties | dict(others or {})


class Browser(Receiver):
    """A receiver that looks at a queue and leaves it as it is; made by `connection.browser()`.

    `async for delivery in browser` ends when all that waits has been seen. Deliveries need no outcome, and should have
    none: some brokers take a look for a delivery like any other, and have the messages back when the block is left.
    """

    def __init__(self, connection: Connection, session: Session | None, terms: LinkTerms, credit: int) -> None:
        super().__init__(connection, session, terms, credit, require_filters=True)

    async def _next(self) -> Delivery:
        """The next message, while there is one (§2.6.7 "drain").

        Raises:
            StopAsyncIteration: all was seen.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, Unsupported: as `receive` and `drain`.

        Cancelling: no delivery is lost: one that came stays for the next call.
        """
        if not self._incoming:
            if self.credit <= 0:
                self._refill()
            await self.drain()
            if not self._incoming:
                raise StopAsyncIteration
        return await self.receive()

    # `Receiver` has it as another name of `receive`.
    __anext__: Callable[[], Any] = _next  # type: ignore[assignment]


async def end_subscription(connection: Connection, session: Session, terms: LinkTerms) -> None:
    """Attach to what the peer keeps under this link name, by a null source, and close it (§2.6.3, §2.6.6).

    Raises:
        LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: as `Receiver`.

    Cancelling: the subscription may be there still, or not.
    """
    link = Receiver(connection, session, terms, 0, require_filters=False)
    async with link:
        source = link.remote.source
        if source is None:
            raise LocalProtocolError(f"the peer has no subscription {terms.name!r}")
        await link.close()


def unsubscribing_terms(name: str, *, shared: bool, global_: bool) -> LinkTerms:
    """The link that finds a durable subscription again; it takes nothing from it.

    Raises:
        ValueError: global and not shared, or a name that is none.
    """
    desired = sharing(shared, global_)
    if not name:
        raise ValueError("a subscription's name is not empty")
    return LinkTerms(
        name=f"{name}|global" if global_ else name,
        source=None,
        target=Target(),
        settle_mode="unsettled",
        desired_capabilities=desired,
    )

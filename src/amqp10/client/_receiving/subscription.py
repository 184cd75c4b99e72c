"""Subscriptions: what a link says so that a broker keeps messages for its name (§2.6.3, §3.5.6).

AMQP 1.0 has no word for "subscription": it is a link whose source outlives it, found again by the container's id and
the link's name. What is shared between links, and how such links are named, is the JMS mapping's convention, which
Artemis, Broker-J and the embedded broker follow.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ...engine import LinkTerms, ReceiverLink
from ...errors import AmqpError, LinkDetached, LocalProtocolError, Unsupported
from ...messaging import Source, Target
from ...types import Symbol
from .core import ReceiverCore
from .receiver import Receiver

if TYPE_CHECKING:
    from ...messaging import Filter
    from .._core.connection import ConnectionCore, SessionCore

TOPIC: Final = Symbol("topic")
SHARED: Final = Symbol("shared")
GLOBAL: Final = Symbol("global")
SHARED_SUBS: Final = Symbol("SHARED-SUBS")


@dataclass(frozen=True, slots=True)
class Subscribing:
    """What names a subscription, and how its links are named.

    Raises:
        ValueError: the name is empty or has a "|", or the subscription is global and not shared.
    """

    name: str
    durable: bool = True
    shared: bool = False
    global_: bool = False

    def __post_init__(self) -> None:
        if not self.name or "|" in self.name:
            raise ValueError(f"the name of a subscription must not be empty or contain '|': {self.name!r}")
        if self.global_ and not self.shared:
            raise ValueError("a global subscription is shared between containers: give shared=True with global_=True")

    @property
    def capabilities(self) -> tuple[Symbol, ...]:
        """What says who shares it."""
        return (SHARED,) * self.shared + (GLOBAL,) * self.global_

    @property
    def link_name(self) -> str:
        """The name of its first link; by that of a durable one it is unsubscribed."""
        return next(self.link_names())

    def link_names(self) -> Iterator[str]:
        """Yield a name for each link of it: the first one of a durable subscription has no number."""
        if not self.shared:
            yield self.name
            return
        words = "-".join(["global"] * self.global_ + ["volatile"] * (not self.durable))
        stem = f"{self.name}|{words}"
        if self.durable:
            yield stem.removesuffix("|")
        for number in itertools.count(2 if self.durable else 1):
            yield f"{stem}{number}"


class SubscriptionCore(ReceiverCore):
    """The core of a receiver of a subscription: it holds the peer to what was asked for."""

    def __init__(
        self,
        connection: ConnectionCore,
        session: SessionCore | None,
        terms: LinkTerms,
        credit: int,
        *,
        require_filters: bool,
        subscribing: Subscribing,
    ) -> None:
        super().__init__(connection, session, terms, credit, require_filters=require_filters)
        self._subscribing = subscribing

    def attach_to(self, session: SessionCore) -> ReceiverLink:
        here = self.connection.subscriptions
        if self._subscribing.shared:
            # The lowest that is free: brokers keep what they know of a durable one for each name.
            taken = {name for core, (name, _) in here.items() if core is not self}
            name = next(name for name in self._subscribing.link_names() if name not in taken)
            self.terms = replace(self.terms, name=name)
        link = super().attach_to(session)
        here[self] = self.name, self._subscribing.link_name
        return link

    def examine(self) -> AmqpError | None:
        requested, answered = self.terms.source, self.remote.source
        offered = (*self.connection.remote.offered_capabilities, *self.remote.offered_capabilities)
        if self._subscribing.shared and SHARED_SUBS not in offered:
            return Unsupported("the peer does not support shared subscriptions: it does not offer SHARED-SUBS")
        if (
            self._subscribing.durable
            and requested is not None
            and answered is not None
            and not self._kept(answered, requested)
        ):
            lifetime = f"expiry policy {answered.expiry_policy!r}, timeout {answered.timeout} s"
            return Unsupported(f"the peer does not keep the subscription for the requested time: {lifetime}")
        return super().examine()

    def _kept(self, answered: Source, requested: Source) -> bool:
        """Return whether the source lives on without its link for as long as it was asked to."""
        if answered.expiry_policy == "never":
            return True
        in_time = self.connection.profile.timeouts and answered.timeout >= requested.timeout
        return requested.expiry_policy != "never" and in_time

    def end_for_good(self, error: AmqpError | None) -> None:
        self.connection.subscriptions.pop(self, None)
        super().end_for_good(error)


def subscription_terms(
    subscribing: Subscribing,
    address: str | Source,
    *,
    filters: Iterable[Filter],
    timeout: int | None,
    outcomes: tuple[str, ...],
    properties: dict[Any, Any],
) -> LinkTerms:
    """Return the terms of the link that asks for a subscription.

    Raises:
        ValueError: two filters of one name, or a timeout that is not valid, or has no use here.
    """
    if timeout is not None and (timeout < 1 or not subscribing.durable):
        raise ValueError(
            "timeout must be at least 1 second, and needs durable=True, "
            f"not timeout={timeout} with durable={subscribing.durable}"
        )
    base = address if isinstance(address, Source) else Source(address)
    words = (TOPIC, *subscribing.capabilities)
    source = Source(
        base.address,
        durable="unsettled-state" if subscribing.durable else "none",
        expiry_policy="never" if subscribing.durable and timeout is None else "link-detach",
        timeout=timeout or 0,
        # Every subscriber gets a copy; brokers tell a topic from a queue by this, too.
        distribution_mode="copy",
        filter=base.filter,
        filters=filters,
        default_outcome=base.default_outcome,
        outcomes=base.outcomes or outcomes,
        capabilities=(*words, *(word for word in base.capabilities if word not in words)),
    )
    return LinkTerms(
        name=subscribing.link_name,
        source=source,
        target=Target(),
        settle_mode="unsettled",
        desired_capabilities=(SHARED_SUBS,) * subscribing.shared,
        properties=properties,
    )


async def end_subscription(connection: ConnectionCore, session: SessionCore, subscribing: Subscribing) -> None:
    """Attach to what the peer keeps under this name, by a null source, and close it (§2.6.3, §2.6.6; JMS mapping)."""
    if any(first == subscribing.link_name for _, first in connection.subscriptions.values()):
        raise LocalProtocolError(
            f"the subscription {subscribing.name!r} is in use by this connection: close its receivers first"
        )
    terms = LinkTerms(
        name=subscribing.link_name,
        target=Target(),
        settle_mode="unsettled",
        desired_capabilities=subscribing.capabilities,
    )
    ending = ReceiverCore(connection, session, terms, 0, require_filters=False)
    ending.restorable = False
    async with Receiver(ending) as link:
        found = link.source is not None
        ending.detach(closed=True)
        await ending.until(lambda: ending.over)
        if ending.cause is not None:
            raise ending.lost()
    if not found:
        raise LinkDetached("amqp:not-found", f"the peer has no subscription {subscribing.name!r}")

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

from ..engine import LinkTerms, ReceiverLink
from ..errors import AmqpError, LinkDetached, LocalProtocolError, Unsupported
from ..messaging import Source, Target
from ..types import Symbol
from ._receiver import Receiver

if TYPE_CHECKING:
    from ..messaging import Filter
    from ._connection import Connection
    from ._session import Session

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
            raise ValueError(f"a subscription's name is not empty and has no '|': {self.name!r}")
        if self.global_ and not self.shared:
            raise ValueError("a subscription is global if containers share it: shared=True, global_=True")

    @property
    def capabilities(self) -> tuple[Symbol, ...]:
        """What says who shares it."""
        return (SHARED,) * self.shared + (GLOBAL,) * self.global_

    @property
    def link_name(self) -> str:
        """The name of its first link; by that of a durable one it is unsubscribed."""
        return next(self.link_names())

    def link_names(self) -> Iterator[str]:
        """A name for each link of it: the first one of a durable subscription has no number."""
        if not self.shared:
            yield self.name
            return
        words = "-".join(["global"] * self.global_ + ["volatile"] * (not self.durable))
        stem = f"{self.name}|{words}"
        if self.durable:
            yield stem.removesuffix("|")
        for number in itertools.count(2 if self.durable else 1):
            yield f"{stem}{number}"


class SubscriptionReceiver(Receiver):
    """A receiver of a subscription: it holds the peer to what was asked for."""

    def __init__(
        self,
        connection: Connection,
        session: Session | None,
        terms: LinkTerms,
        credit: int,
        *,
        require_filters: bool,
        subscribing: Subscribing,
    ) -> None:
        super().__init__(connection, session, terms, credit, require_filters=require_filters)
        self._subscribing = subscribing

    def _attach_to(self, session: Session) -> ReceiverLink:
        here = self.connection._subscriptions
        if self._subscribing.shared:
            # The lowest that is free: brokers keep what they know of a durable one for each name.
            taken = {receiver.name for receiver in here if receiver is not self}
            name = next(name for name in self._subscribing.link_names() if name not in taken)
            self._terms = replace(self._terms, name=name)
        link = super()._attach_to(session)
        here[self] = self._subscribing
        return link

    def _examine(self) -> AmqpError | None:
        asked, answered = self._terms.source, self.source
        offered = (*self.connection.remote.offered_capabilities, *self.remote.offered_capabilities)
        if self._subscribing.shared and SHARED_SUBS not in offered:
            return Unsupported("the peer has no shared subscriptions: it does not offer SHARED-SUBS")
        if self._subscribing.durable and asked is not None and answered is not None and not self._kept(answered, asked):
            lifetime = f"expiry policy {answered.expiry_policy!r}, timeout {answered.timeout} s"
            return Unsupported(f"the peer does not keep the subscription as long as asked for: {lifetime}")
        return super()._examine()

    def _kept(self, answered: Source, asked: Source) -> bool:
        """Whether the source lives on without its link for as long as it was asked to."""
        if answered.expiry_policy == "never":
            return True
        in_time = self.connection.profile.timeouts and answered.timeout >= asked.timeout
        return asked.expiry_policy != "never" and in_time

    def _end_for_good(self, error: AmqpError | None) -> None:
        self.connection._subscriptions.pop(self, None)
        super()._end_for_good(error)


def subscription_terms(
    subscribing: Subscribing,
    address: str | Source,
    *,
    filters: Iterable[Filter],
    timeout: int | None,
    outcomes: tuple[str, ...],
    properties: dict[Any, Any],
) -> LinkTerms:
    """The link that asks for a subscription.

    Raises:
        ValueError: two filters of one name, or a timeout that is none, or that is for nothing.
    """
    if timeout is not None and (timeout < 1 or not subscribing.durable):
        raise ValueError("a timeout is of a durable subscription, and one second at least")
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


async def end_subscription(connection: Connection, session: Session, subscribing: Subscribing) -> None:
    """Attach to what the peer keeps under this name, by a null source, and close it (§2.6.3, §2.6.6; JMS mapping)."""
    if any(each.link_name == subscribing.link_name for each in connection._subscriptions.values()):
        raise LocalProtocolError(f"the subscription {subscribing.name!r} is in use here: leave its receivers first")
    terms = LinkTerms(
        name=subscribing.link_name,
        target=Target(),
        settle_mode="unsettled",
        desired_capabilities=subscribing.capabilities,
    )
    ending = Receiver(connection, session, terms, 0, require_filters=False)
    ending._restorable = False
    async with ending as link:
        found = link.source is not None
        link._detach(closed=True)
        await link._until(lambda: link._over)
        if link._cause is not None:
            raise link._lost()
    if not found:
        raise LinkDetached("amqp:not-found", f"the peer has no subscription {subscribing.name!r}")

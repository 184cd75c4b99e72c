"""Subscriptions that outlive a link, or are shared by several: identified by container and name (§2.6.1, §2.6.3).

A subscription belongs to a user's container and has the name of its link. The name of a shared subscription (capability
"shared") is the part before "|", so that its links can have different names; with the capability "global" it belongs to
all containers. It ends

- with the closing detach of its only link;
- `timeout` seconds after its expiry policy applies (§3.5.6), unless a link came back;
- when it is requested with another topic or filter: then it begins anew.

With a store, durable subscriptions survive the broker; its end counts as that of every connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from .._errors import Refused
from .._log import attempt
from .._queues.topic import Kind, Owner, Subscription, SubscriptionKey, Topic
from .retained import Lifetime, Retained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...engine import Link, LinkSession
    from ...messaging import Source, Target
    from .._queues.message import Clock
    from .._queues.selection import Filtering
    from .retained import DetachKind, ExpiryTrigger


@dataclass(slots=True, eq=False)
class RetainedSubscription:
    """A subscription, with its terms and links.

    Attributes:
        queue: the queue of its messages.
        source: the source in the last attach.
        lifetime: the lifetime in the last answer.
        filters: those of its filters that are applied.
        links: the links that consume from it now.
        session, connection: those of the last link that left.
        deadline: when it ends, on the broker's clock; None: not known yet.
    """

    key: SubscriptionKey
    queue: Subscription
    source: Source
    lifetime: Lifetime
    filters: list[Any]
    links: dict[Link, Callable[[], None]]
    session: LinkSession | None = None
    connection: object = None
    deadline: float | None = None

    @property
    def durable(self) -> bool:
        """Whether it is to survive the broker (§3.5.5)."""
        return self.source.durable != "none"

    def is_of(self, topic: Topic, filters: Mapping[Any, Any] | None) -> bool:
        """Return whether the subscription has that topic and these filters."""
        return self.queue.topic is topic and self.filters == applied(filters)


def applied(filters: Mapping[Any, Any] | None) -> list[Any]:
    """Return filters without their names, which have no meaning."""
    return list((filters or {}).values())


def is_retained(source: Source) -> bool:
    """Return whether a source asks for a subscription that outlives its link, or is shared.

    "session-end" is the default of expiry-policy, and so no request.
    """
    return (
        source.durable != "none"
        or source.expiry_policy in ("connection-close", "never")
        or source.timeout > 0
        or "shared" in source.capabilities
    )


def key_of(owner: Owner, link_name: str, source: Source) -> SubscriptionKey:
    """Return the key of the subscription for a link of that name and source."""
    if "shared" not in source.capabilities:
        return SubscriptionKey(owner, link_name, "own")
    kind: Kind = "volatile" if source.durable == "none" else "shared"
    return SubscriptionKey(None if "global" in source.capabilities else owner, link_name.partition("|")[0], kind)


class SubscriptionJournal(Protocol):
    """Records subscriptions."""

    def note_subscription(self, lasting: RetainedSubscription) -> None:
        """Record that a subscription is new or ends at another time, if its source asks for durability."""


class Subscriptions(Retained[RetainedSubscription]):
    """All retained subscriptions of one virtual host.

    Args:
        longest: the most seconds that a subscription is kept without links; None: as long as its source asks.

    Attributes:
        store: keeps durable subscriptions; None: there is no store.
    """

    store: SubscriptionJournal | None = None

    def __init__(self, clock: Clock, alarm: Callable[[Retained[Any], float], None], longest: int | None = None) -> None:
        super().__init__(clock, alarm)
        self._longest = longest
        self._all: dict[SubscriptionKey, RetainedSubscription] = {}

    def lifetime(self, source: Source | Target) -> Lifetime:
        """Return the lifetime that a terminus asks for, as far as it is allowed."""
        policy, longest = source.expiry_policy, self._longest
        if longest is None:
            return Lifetime(policy, source.timeout)
        if policy == "never":
            return Lifetime("link-detach", longest)
        return Lifetime(policy, min(source.timeout, longest))

    def standing(self, key: SubscriptionKey, topic: Topic, filters: Mapping[Any, Any] | None) -> Subscription | None:
        """Return the queue that the next `join` will use; None: it will create one."""
        found = self._all.get(key)
        return found.queue if found is not None and not found.queue.deleted and found.is_of(topic, filters) else None

    def check(self, key: SubscriptionKey, topic: Topic, filters: Mapping[Any, Any] | None) -> Subscription | None:
        """Return the queue in use that the next `join` will share; None: it will share no queue.

        Raises:
            Refused: `amqp:not-allowed`: others use a subscription of that name with another topic or filter.
        """
        found = self._all.get(key)
        if found is None or found.queue.deleted or not found.links or key.kind == "own":
            return None
        if not found.is_of(topic, filters):
            raise Refused("amqp:not-allowed", f"the shared subscription {key.name!r} has another topic or filter")
        return found.queue

    def join(
        self,
        key: SubscriptionKey,
        topic: Topic,
        source: Source,
        filters: Mapping[Any, Any] | None,
        filtering: Filtering | None,
    ) -> RetainedSubscription:
        """Return a subscription, created if missing, after `check`; take one not shared from its link (§2.6.1)."""
        found = self._all.get(key)
        if found is not None and key.kind == "own":
            links, found.links = found.links, {}
            for steal in links.values():
                attempt("taking a subscription from a link", steal)
        if found is not None and (found.queue.deleted or not found.is_of(topic, filters)):
            self.end(found)
            found = None
        if found is None:
            queue = topic.subscribe(filtering, lasting=True)
            queue.key = key
            found = self._all[key] = RetainedSubscription(key, queue, source, Lifetime(), applied(filters), {})
        found.source = source
        found.lifetime = self.lifetime(source)
        # Equal to the old one except for no-local, which depends on the connection.
        found.queue.filtering = filtering
        self._stop_expiry(found)
        if self.store is not None:
            self.store.note_subscription(found)
        return found

    def restore(self) -> None:
        """Start the time of restored subscriptions, whose connections are lost."""
        for lasting in list(self._all.values()):
            self._begin_expiry(lasting, "connection")
            if lasting.deadline is not None:
                self._end_at(lasting, lasting.deadline)

    def find(self, owner: Owner, link_name: str, capabilities: Iterable[str]) -> RetainedSubscription:
        """Return the durable subscription that a link without a source asks to end (§2.6.3; JMS mapping).

        Raises:
            Refused: `amqp:not-found`: there is no such subscription; `amqp:resource-locked`: it is in use.
        """
        wanted = set(capabilities)
        base = link_name.partition("|")[0]
        keys = [SubscriptionKey(owner, link_name, "own"), SubscriptionKey(owner, base, "shared")]
        if "shared" in wanted:
            keys = [SubscriptionKey(None if "global" in wanted else owner, base, "shared")]
        for key in keys:
            found = self._all.get(key)
            if found is not None and not found.queue.deleted:
                if found.links:
                    raise Refused("amqp:resource-locked", f"the subscription {base!r} is in use")
                return found
        raise Refused("amqp:not-found", f"there is no subscription {base!r}")

    def leave(
        self, lasting: RetainedSubscription, link: Link, how: DetachKind, session: LinkSession, connection: object
    ) -> None:
        """Remove a link that ended."""
        if lasting.links.pop(link, None) is None or lasting.links or self._all.get(lasting.key) is not lasting:
            return
        self._left(lasting, session, connection)
        # Links of a volatile subscription are closed; it ends with the last one.
        if how == "closed":
            self.end(lasting)
        else:
            self._begin_expiry(lasting, how)

    def _begin_expiry(self, lasting: RetainedSubscription, how: ExpiryTrigger) -> None:
        if lasting.queue.deleted:
            self._forget(lasting)
            return
        before = lasting.deadline
        super()._begin_expiry(lasting, how)
        if lasting.deadline != before and self.store is not None:
            self.store.note_subscription(lasting)

    def end(self, lasting: RetainedSubscription) -> None:
        self._forget(lasting)
        if not lasting.queue.deleted:
            lasting.queue.end()

    def _forget(self, lasting: RetainedSubscription) -> None:
        self._stop_expiry(lasting)
        if self._all.get(lasting.key) is lasting:
            del self._all[lasting.key]

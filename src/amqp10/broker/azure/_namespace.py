"""A namespace: its entities and hubs by their addresses."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakSet

from ...messaging import Error
from ...types import decode, encode
from .._errors import Refused
from ._conditions import ALREADY_EXISTS, ENTITY_DISABLED, ENTITY_NOT_FOUND, NOT_ALLOWED
from ._config import AzureConfig, EntityConfig, QueueConfig, SubscriptionConfig, TopicConfig
from ._event_hubs.hub import Hub, Partition
from ._event_hubs.links import Hubs
from ._service_bus.entity import Entity
from ._service_bus.forwarding import forward
from ._service_bus.terms import EntityTerms, Status
from ._service_bus.topic import Subscription, spread
from ._stored import restored_config, restored_map, restored_rule, same, stored_config, stored_rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...engine import Link
    from .._queues.journal import Records
    from .._virtual_host_core import Journal, VirtualHostCore

_DEAD_LETTERS = "/$deadletterqueue"
_TRANSFER = "/$transfer"
_CLOCK: Final = "clock"
"""The key for how far the clock was moved; the key of settings is "d" and the name."""
_URI = re.compile(r"(?:amqps?|sb)://[^/]*", re.IGNORECASE)


_MAX_ENTITIES: Final = 10_000
_MAX_SUBSCRIPTIONS: Final = 2000


class PeerLinks(Protocol):
    """The links of one connection, as far as the namespace and its controls need them."""

    def pass_time(self, seconds: float) -> None:
        """Let time pass for a peer that has put no token yet."""

    def end_idle(self, config: AzureConfig) -> float | None:
        """Detach links that were unused for too long; return when to look again, or None."""

    def of(self, node: Entity | Hub | Partition | None) -> list[Link]:
        """Return the links to an entity, a hub or a partition; with None all links."""

    def detach(self, link: Link, error: Error) -> None:
        """Detach a link to an entity or a hub."""

    def end_tokens(self) -> None:
        """End all tokens of the connection."""


@dataclass(eq=False, slots=True)
class Declared:
    """A declared queue, topic or subscription.

    Attributes:
        created, updated: times in seconds since 1970.
        subscriptions: those of a topic, by names in lowercase.
        ignored_settings: settings that have no effect here, and are returned as they were given.
        given: its settings in the broker's configuration, as a store keeps them; None: it is not in the configuration.
        topic: the name of the topic of a subscription.
    """

    config: QueueConfig | TopicConfig | SubscriptionConfig
    entity: Entity
    created: float
    updated: float
    subscriptions: dict[str, Declared] = field(default_factory=dict)
    ignored_settings: Mapping[str, str] = field(default_factory=dict)
    given: dict[str, Any] | None = None
    topic: str | None = None


class Namespace:
    """The entities of a broker.

    Attributes:
        hubs: its event hubs.

    Args:
        vhost: gets their nodes, and looks them up by address.

    Raises:
        Refused: another node has the name of an entity.
    """

    def __init__(self, config: AzureConfig, vhost: VirtualHostCore) -> None:
        self._entities: dict[str, Entity] = {}
        self._declared: dict[str, Declared] = {}  # queues and topics, by names in lowercase
        self._subscriptions: dict[Entity, Subscription] = {}
        self._config = config
        self._vhost = vhost
        self._ahead = 0.0
        self._store: Journal | None = None
        self._records: Records | None = None
        self.links: WeakSet[PeerLinks] = WeakSet()  # those of all connections
        self.hubs: Hubs = Hubs(config, vhost, self.clock)
        for queue in config.queues:
            assert isinstance(queue, QueueConfig)
            self.declare(queue)
        for topic in config.topics:
            self.declare(topic)
        for declared in self._all_declared():
            declared.given = stored_config(declared.config)
        vhost.name_space = self

    def clock(self) -> float:
        """Return the time in seconds since 1970."""
        return self._config.clock() + self._ahead

    # In the store

    def restore(self, owner: str, key: str, content: bytes) -> None:
        if owner == "" and key == _CLOCK:
            self._ahead = float(decode(content))
        elif owner == "":
            self._restore_declared(restored_map(content))
        elif owner in self._entities:
            self._entities[owner].restore_record(key, content)
        elif (node := self.hubs.node(owner)) is not None:
            node.restore_record(key, content)
        # A record of a hub that is no longer in the configuration stays in the store for its return.

    def _restore_declared(self, record: dict[str, Any]) -> None:
        """Restore the settings of an entity, unless its configuration has changed since."""
        config = restored_config(record["config"])
        topic = self._declared.get(record["topic"].casefold()) if record["topic"] is not None else None
        of_it = self._declared if topic is None else topic.subscriptions
        declared = of_it.get(config.name.casefold())
        if declared is None and isinstance(config, SubscriptionConfig):
            if topic is None:
                raise LookupError(f"the topic {record['topic']!r:.200} of the subscription does not exist")
            declared = self.subscribe(topic, config)
        elif declared is None:
            assert not isinstance(config, SubscriptionConfig)
            declared = self.declare(config)
        elif declared.given is None or record["given"] is None or not same(declared.given, record["given"]):
            return
        else:
            self.change(declared, config)
        declared.created, declared.updated, declared.ignored_settings = (
            record["created"],
            record["updated"],
            record["said"],
        )
        declared.entity.status = record["status"]
        declared.given = record["given"]
        if isinstance(config, SubscriptionConfig):
            rules = [(restored_rule(each), float(created)) for each, created in record["rules"]]
            self._subscriptions[declared.entity].restore(rules)

    def keep(self, store: Journal) -> None:
        self._store = store
        self._records = store.records("")
        for name, entity in self._entities.items():
            entity.keep(store.records(name))
        self.hubs.keep(store)
        for declared in self._all_declared():
            self._note(declared)
        for entity in list(self._entities.values()):
            entity.pass_on_restored()

    def fits(self, octets: int) -> bool:
        """Return whether messages of `octets` octets have room on the disk of the store, if there is a store."""
        return self._store is None or self._store.fits(octets)

    async def wait_durable(self) -> None:
        """Wait until everything so far is on the disk of the store, if there is a store."""
        if self._store is not None:
            await self._store.wait_durable()

    def _all_declared(self) -> Iterator[Declared]:
        """Yield all queues and topics, each topic followed by its subscriptions."""
        for each in self._declared.values():
            yield each
            yield from each.subscriptions.values()

    def _note(self, declared: Declared) -> None:
        """Record the settings of an entity; the store reads them when it writes them."""
        if self._records is not None:
            self._records.put(_key_of(declared), partial(self._stored, declared))

    def _stored(self, declared: Declared) -> bytes:
        subscription = self._subscriptions.get(declared.entity)
        rules = subscription.rules if subscription is not None else []
        record = {
            "topic": declared.topic,
            "config": stored_config(declared.config),
            "given": declared.given,
            "created": declared.created,
            "updated": declared.updated,
            "said": dict(declared.ignored_settings),
            "status": declared.entity.status,
            "rules": [[stored_rule(each.rule), each.created] for each in rules],
        }
        return encode(record)

    # Time

    def advance(self, seconds: float) -> None:
        """Let time pass for all entities and links, at once."""
        self._ahead += seconds
        if self._records is not None:
            self._records.put(_CLOCK, lambda: encode(self._ahead))
        for entity in self._entities.values():
            self._vhost.alarm(entity, self._vhost.clock())
        for hub in self.hubs.all:
            for partition in hub.partitions:
                self._vhost.alarm(partition, self._vhost.clock())
        for links in list(self.links):
            links.pass_time(seconds)
        self._vhost.alarm(self, self._vhost.clock())
        self._vhost.expire()
        self._vhost.flush()
        self._vhost.alarm(self, self._vhost.clock())  # whoever waits for the next deadline must look again

    def expire(self, now: float) -> float | None:
        """End links and entities that were unused for too long; return when to look again, or None."""
        ends = [end for links in list(self.links) if (end := links.end_idle(self._config)) is not None]
        ends += self._delete_idle()
        return now + max(0.0, min(ends) - self.clock()) if ends else None

    def _delete_idle(self) -> list[float]:
        """Delete entities that were unused for their own time; return when the times of the others end."""
        ends = []
        for topic in list(self._declared.values()):
            for declared in (*list(topic.subscriptions.values()), topic):
                seconds, now = declared.config.auto_delete_on_idle, self.clock()
                if seconds is None:
                    continue
                end = (now if self._in_use(declared) else self._last_use(declared)) + seconds
                if end > now:
                    ends.append(end)
                elif declared.topic is None:
                    self.delete(declared.config.name)
                else:
                    self.delete(declared.topic, declared.config.name)
        return ends

    def _in_use(self, declared: Declared) -> bool:
        config = declared.config
        forwards = isinstance(config, EntityConfig) and config.forward_to is not None
        return forwards or declared.entity.in_use or any(map(self._in_use, declared.subscriptions.values()))

    def _last_use(self, declared: Declared) -> float:
        of_it = (declared, *declared.subscriptions.values())
        return max(max(each.entity.accessed, each.updated) for each in of_it)

    def _watch_idle(self, declared: Declared) -> None:
        """Check later whether an entity is idle, if it is deleted then."""
        if declared.config.auto_delete_on_idle is not None:
            self._vhost.alarm(self, self._vhost.clock() + declared.config.auto_delete_on_idle)

    def watch(self) -> None:
        """Check from now on whether links are idle."""
        least = min(self._config.idle_timeout or math.inf, self._config.hub_idle_timeout or math.inf)
        if least < math.inf:
            self._vhost.alarm(self, self._vhost.clock() + least)

    def flush(self) -> None:
        """Run all entities that changed."""
        self._vhost.flush()

    @property
    def entities(self) -> Iterable[Entity]:
        """All entities, including dead-letter queues."""
        return self._entities.values()

    @property
    def declared(self) -> Iterable[Declared]:
        """All queues and topics."""
        return self._declared.values()

    def find_declared(self, name: str, subscription: str | None = None) -> Declared:
        """Return a queue or topic, or a subscription of a topic.

        Raises:
            Refused: there is no such entity.
        """
        found = self._declared.get(name.casefold())
        if found is None:
            raise Refused(ENTITY_NOT_FOUND, f"there is no queue or topic {name!r:.300}")
        if subscription is not None:
            return _subscription_of(found, subscription)
        return found

    def declare(self, config: QueueConfig | TopicConfig) -> Declared:
        """Declare a queue, or a topic with its subscriptions.

        Raises:
            Refused: the name is taken, or there are too many entities.
        """
        if config.name.casefold() in self._declared:
            raise Refused(ALREADY_EXISTS, f"a queue or topic {config.name!r} exists already")
        if len(self._declared) >= _MAX_ENTITIES:
            raise Refused("amqp:resource-limit-exceeded", f"a namespace can have at most {_MAX_ENTITIES} entities")
        if isinstance(config, QueueConfig):
            entity = self._declare_received(config.name, config)
        else:
            self._check_free(config.name)
            entity = self._declare(config.name, _terms(config))
        declared = Declared(config, entity, self.clock(), self.clock())
        self._declared[config.name.casefold()] = declared
        if isinstance(config, TopicConfig):
            for each in config.subscriptions:
                assert isinstance(each, SubscriptionConfig)
                self.subscribe(declared, each)
            self._spread(declared)
        self._connect()
        self._note(declared)
        self._watch_idle(declared)
        return declared

    def subscribe(self, topic: Declared, config: SubscriptionConfig) -> Declared:
        """Add a subscription to a topic.

        Raises:
            Refused: the name is taken, or there are too many subscriptions.
        """
        if config.name.casefold() in topic.subscriptions:
            raise Refused(ALREADY_EXISTS, f"{topic.config.name!r} has a subscription {config.name!r} already")
        if len(topic.subscriptions) >= _MAX_SUBSCRIPTIONS:
            raise Refused(
                "amqp:resource-limit-exceeded", f"a topic can have at most {_MAX_SUBSCRIPTIONS} subscriptions"
            )
        entity = self._declare_received(f"{topic.config.name}/Subscriptions/{config.name}", config)
        faults = config.dead_letter_filter_errors
        subscription = Subscription(entity, config.rules, self.clock, dead_letters_faults=faults)
        self._subscriptions[entity] = subscription
        declared = Declared(config, entity, self.clock(), self.clock(), topic=topic.config.name)
        topic.subscriptions[config.name.casefold()] = declared
        subscription.changed = partial(self._note, declared)
        self._note(declared)
        self._spread(topic)
        self._connect()
        self._watch_idle(declared)
        return declared

    def change(self, declared: Declared, config: QueueConfig | TopicConfig | SubscriptionConfig) -> None:
        """Change settings; messages that are already there keep their ttl.

        Raises:
            Refused: one of these settings cannot be changed.
        """
        before = declared.config
        terms, old = _terms(config), declared.entity.terms
        if terms.requires_session != old.requires_session:
            raise Refused(NOT_ALLOWED, f"whether {before.name!r} requires sessions cannot be changed")
        if (terms.duplicate_window is None) != (old.duplicate_window is None):
            raise Refused(NOT_ALLOWED, f"whether {before.name!r} detects duplicates cannot be changed")
        declared.config, declared.updated, declared.entity.terms = config, self.clock(), terms
        if isinstance(config, SubscriptionConfig):
            self._subscriptions[declared.entity].dead_letters_faults = config.dead_letter_filter_errors
        if isinstance(config, EntityConfig) and isinstance(before, EntityConfig):
            dead_letters = declared.entity.dead_letters
            assert dead_letters is not None
            if before.forward_to is not None and before.forward_to != config.forward_to:
                declared.entity.keep_messages()
            if (
                before.forward_dead_letters_to is not None
                and before.forward_dead_letters_to != config.forward_dead_letters_to
            ):
                dead_letters.keep_messages()
        if isinstance(config, TopicConfig):
            self._spread(declared)
        self._connect()
        self._note(declared)
        self._watch_idle(declared)

    def set_status(self, entity: Entity, status: Status) -> None:
        """Set the status of an entity; a change to anything but "Active" detaches the links to it."""
        if status == entity.status:
            return
        entity.status = status
        if status == "Active":
            return
        error = Error(ENTITY_DISABLED, f"{entity.name!r} is {status} now")
        for links in list(self.links):
            for link in links.of(entity):
                links.detach(link, error)

    def delete(self, name: str, subscription: str | None = None) -> None:
        """Delete a queue, a topic with its subscriptions, or one subscription, with all messages.

        Raises:
            Refused: there is no such entity.
        """
        declared = self.find_declared(name)
        if subscription is not None:
            self._remove(_subscription_of(declared, subscription))
            del declared.subscriptions[subscription.casefold()]
            self._spread(declared)
            return
        for each in (declared, *declared.subscriptions.values()):
            self._remove(each)
        del self._declared[name.casefold()]

    def _remove(self, declared: Declared) -> None:
        entity = declared.entity
        if self._records is not None:
            self._records.remove(_key_of(declared))
        self._subscriptions.pop(entity, None)
        for each in (entity, entity.dead_letters, entity.undelivered):
            if each is not None:
                del self._entities[each.name.casefold()]
                self._vhost.delete(each)

    def _connect(self) -> None:
        """Set up forwarding to all targets that exist."""
        for declared in [every for each in self._declared.values() for every in (each, *each.subscriptions.values())]:
            config, entity = declared.config, declared.entity
            if not isinstance(config, EntityConfig):
                continue
            for source, name in (
                (entity, config.forward_to),
                (entity.dead_letters, config.forward_dead_letters_to),
            ):
                target = self.find(name) if name is not None else None
                if source is not None and target is not None and not source.goes_on_to(target):
                    forward(source, target)

    def _spread(self, topic: Declared) -> None:
        assert isinstance(topic.config, TopicConfig)
        subscriptions = [self._subscriptions[each.entity] for each in topic.subscriptions.values()]
        spread(topic.entity, subscriptions, filters_first=topic.config.filtering_messages_before_publishing)

    def _check_free(self, name: str) -> None:
        """Check that no node has a name.

        Raises:
            Refused: a node has it.
        """
        if name in self._vhost.nodes or self.find(name) is not None or self.hubs.node(name) is not None:
            raise Refused(ALREADY_EXISTS, f"a node {name!r} exists already")

    def _declare_received(self, name: str, config: EntityConfig) -> Entity:
        """Declare a queue or a subscription, with its dead-letter queues."""
        self._check_free(name)
        usual = EntityTerms(config.lock_duration, sendable=False)
        dead_letters = self._declare(name + _DEAD_LETTERS, usual)
        entity = self._declare(name, _terms(config), dead_letters)
        entity.undelivered = dead_letters.undelivered = self._declare(name + _TRANSFER + _DEAD_LETTERS, usual)
        return entity

    def _declare(self, name: str, terms: EntityTerms, dead_letters: Entity | None = None) -> Entity:
        vhost = self._vhost
        entity = Entity(
            name,
            terms,
            clock=self.clock,
            limits=vhost.limits,
            touch=vhost.touch,
            expire_after=lambda seconds: vhost.alarm(entity, vhost.clock() + max(0.0, seconds)),
            dead_letters=dead_letters,
        )
        vhost.adopt(entity)
        self._entities[name.casefold()] = entity
        if self._store is not None:
            entity.keep(self._store.records(name.casefold()))
        return entity

    def subscription(self, entity: Entity) -> Subscription | None:
        """Return the subscription whose messages are in this entity, or None."""
        return self._subscriptions.get(entity)

    def is_topic(self, entity: Entity) -> bool:
        """Return whether an entity is a topic."""
        declared = self._declared.get(entity.name.casefold())
        return declared is not None and isinstance(declared.config, TopicConfig)

    def find(self, address: str) -> Entity | None:
        """Return the entity that an address means, ignoring case: its name, or a URI with the name as its path."""
        return self._entities.get(path_of(address).casefold())

    def has_node(self, address: str) -> bool:
        """Return whether an address means any node, including those of the broker's own kind."""
        return self.name_of(address) in self._vhost.nodes

    def has_any(self, path: str) -> bool:
        """Return whether a path, in lower case, means an entity, a hub or what is in one, or a node of the broker's."""
        if self.find(path) is not None or self.hubs.split(path)[0] is not None:
            return True
        return any(name.casefold() == path for name in self._vhost.nodes)

    def name_of(self, address: str) -> str:
        """Return the name of the node that an address means."""
        entity, path = self.find(address), path_of(address)
        return (self.hubs.name_of(path) or path) if entity is None else entity.name


def _key_of(declared: Declared) -> str:
    """Return the key of an entity's settings in the store; it sorts a topic before its subscriptions."""
    name = declared.config.name.casefold()
    return f"d{name}" if declared.topic is None else f"d{declared.topic.casefold()}/subscriptions/{name}"


def _subscription_of(topic: Declared, name: str) -> Declared:
    found = topic.subscriptions.get(name.casefold())
    if found is None:
        raise Refused(ENTITY_NOT_FOUND, f"{topic.config.name!r} has no subscription {name!r:.300}")
    return found


def _terms(config: EntityConfig | TopicConfig) -> EntityTerms:
    if not isinstance(config, EntityConfig):
        return EntityTerms(ttl=config.ttl, duplicate_window=config.duplicate_window, most_octets=config.max_size)
    queue = config if isinstance(config, QueueConfig) else None
    return EntityTerms(
        config.lock_duration,
        config.max_delivery_count,
        config.ttl,
        config.dead_letter_expired,
        queue.duplicate_window if queue is not None else None,
        config.requires_session,
        queue.max_size if queue is not None else None,
        sendable=queue is not None,
    )


def path_of(address: str) -> str:
    """Return the path of an address that is a URI; any other address as it is."""
    uri = _URI.match(address)
    return address if uri is None else address[uri.end() :].strip("/")

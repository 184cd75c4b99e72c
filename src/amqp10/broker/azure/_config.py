"""The entities of a namespace, configured in Python or in the JSON file of Microsoft's emulator."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from os import PathLike, fspath
from typing import Any, Final, Literal, Self

from ..._arguments import check_fields, check_type, file_of, without_secrets
from ..._azure_rules import CORRELATED, CorrelationRuleFilter, Rule, RuleFilter, SqlRuleFilter
from ..._json import parse_json
from ._place import FOR_EVER, MAX_LOCK, Place, camel
from ._service_bus.rules import ActiveRule

_MIN_IDLE: Final = 300.0
_MAX_NAME_LENGTH: Final = 260
_MAX_PARTITIONS: Final = 1024
_DEFAULT_GROUP: Final = "$Default"
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9_-])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class EntityConfig:
    """The settings that queues and subscriptions share."""

    name: str
    _: KW_ONLY
    lock_duration: float = 60.0
    max_delivery_count: int = 10
    ttl: float | None = None
    dead_letter_expired: bool = False
    requires_session: bool = False
    forward_to: str | None = None
    forward_dead_letters_to: str | None = None
    auto_delete_on_idle: float | None = None

    def __post_init__(self) -> None:
        _check_name(f"the name of a {self._kind}", self.name)
        _check_idle(self.auto_delete_on_idle)
        check_type("lock_duration", self.lock_duration, float)
        if not 0 < self.lock_duration <= MAX_LOCK:
            raise ValueError(
                f"lock_duration must be more than 0 and at most {MAX_LOCK:g} seconds, not {self.lock_duration}"
            )
        _check_count("max_delivery_count", self.max_delivery_count)
        _check_seconds("ttl", self.ttl)
        if self.requires_session and self.forward_to is not None:
            raise ValueError(f"the {self._kind} {self.name!r} forwards all its messages, so it cannot require sessions")

    @property
    def _kind(self) -> str:
        return type(self).__name__.removesuffix("Config").lower()


@dataclass(frozen=True, slots=True)
class QueueConfig(EntityConfig):
    """A queue of Service Bus.

    Attributes:
        name: its address, whose case is ignored.
        lock_duration: seconds that a message is locked for its receiver; at most 300.
        max_delivery_count: attempts after which a message becomes a dead letter.
        ttl: the most seconds that a message lives; None: no limit.
        dead_letter_expired: make expired messages dead letters instead of dropping them.
        requires_session: require a session of each message.
        forward_to: the queue or topic that all messages are forwarded to.
        forward_dead_letters_to: the queue or topic that dead letters are forwarded to.
        auto_delete_on_idle: seconds, at least 300, after which an unused entity is deleted with its messages. It is
            used if something is sent, received, peeked or changed, or somebody receives, or messages are scheduled or
            forwarded. None: it stays.
        duplicate_window: seconds in which a message with an earlier id is dropped; None: duplicates are accepted.
        max_size: octets of all its messages, beyond which messages are refused; None: it has no limit of its own.

    Raises:
        ValueError: a name or a number is invalid.
    """

    duplicate_window: float | None = None
    max_size: int | None = None

    def __post_init__(self) -> None:
        EntityConfig.__post_init__(self)
        _check_seconds("duplicate_window", self.duplicate_window)
        if self.max_size is not None:
            _check_count("max_size", self.max_size)
        check_fields(self)


@dataclass(frozen=True, slots=True)
class SubscriptionConfig(EntityConfig):
    """A subscription of a topic. It has the attributes of `QueueConfig` except its last two, and:

    Attributes:
        rules: rules that choose its messages; all messages by default.
        dead_letter_filter_errors: make a message a dead letter if a rule cannot be evaluated for it.

    Raises:
        ValueError: see `QueueConfig`; or two rules have one name, or a name is empty or longer than 50 characters, or a
            correlation filter compares nothing, or SQL is invalid, with the place of the error.
        TypeError: `rules` contains something else.
    """

    rules: Iterable[Rule] = (Rule(),)
    dead_letter_filter_errors: bool = False

    def __post_init__(self) -> None:
        EntityConfig.__post_init__(self)
        _check_list("rules", self.rules, 'Rule("NAME", SqlRuleFilter({}))')
        rules = tuple(self.rules)
        for index, rule in enumerate(rules):
            _check_kind(f"rules[{index}]", rule, Rule)
            ActiveRule(rule)
        object.__setattr__(self, "rules", rules)
        _check_unlike("rules", (rule.name for rule in rules))
        check_fields(self)


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic of Service Bus.

    Attributes:
        name: its address, whose case is ignored; a subscription has the address `NAME/Subscriptions/ITS NAME`.
        subscriptions: subscriptions, or names for subscriptions with the usual settings.
        ttl, duplicate_window, max_size: see `QueueConfig`; `max_size` is that of scheduled messages.
        auto_delete_on_idle: see `QueueConfig`; using a subscription also uses its topic.
        filtering_messages_before_publishing: refuse a message that no subscription would get with the condition
            com.microsoft:no-matching-subscription, instead of dropping it.

    Raises:
        ValueError: see `QueueConfig`; or two subscriptions have one name.
        TypeError: `subscriptions` is not a list, or contains something else.
    """

    name: str
    subscriptions: Iterable[SubscriptionConfig | str] = ()
    _: KW_ONLY
    ttl: float | None = None
    duplicate_window: float | None = None
    max_size: int | None = None
    auto_delete_on_idle: float | None = None
    filtering_messages_before_publishing: bool = False

    def __post_init__(self) -> None:
        _check_name("the name of a topic", self.name)
        _check_idle(self.auto_delete_on_idle)
        _check_seconds("ttl", self.ttl)
        _check_seconds("duplicate_window", self.duplicate_window)
        if self.max_size is not None:
            _check_count("max_size", self.max_size)
        _check_list("subscriptions", self.subscriptions)
        subscriptions = tuple(
            SubscriptionConfig(each) if isinstance(each, str) else each for each in self.subscriptions
        )
        for index, each in enumerate(subscriptions):
            _check_kind(f"subscriptions[{index}]", each, SubscriptionConfig)
        object.__setattr__(self, "subscriptions", subscriptions)
        _check_unlike("subscriptions", (each.name for each in subscriptions))
        check_fields(self)


@dataclass(frozen=True, slots=True)
class EventHubConfig:
    """An event hub.

    Attributes:
        name: its address, whose case is ignored.
        partitions: the number of partitions; their ids are "0" and so on.
        consumer_groups: consumer groups besides "$Default", which always exists.
        retention: seconds after which an event is dropped; None: it stays, and senders wait when there is no more room.

    Raises:
        ValueError: a name or a number is invalid, or two groups have one name.
        TypeError: `consumer_groups` is not a list of names.
    """

    name: str
    partitions: int = 4
    consumer_groups: Iterable[str] = ()
    _: KW_ONLY
    retention: float | None = 86_400.0

    def __post_init__(self) -> None:
        _check_name("the name of an event hub", self.name)
        if "/" in self.name:
            raise ValueError(f"the name of an event hub must not have a '/': {self.name!r}")
        check_type("partitions", self.partitions, int)
        if not 1 <= self.partitions <= _MAX_PARTITIONS:
            raise ValueError(f"partitions must be 1 to {_MAX_PARTITIONS}, not {self.partitions}")
        _check_list("consumer_groups", self.consumer_groups)
        given = tuple(self.consumer_groups)
        for index, each in enumerate(given):
            _check_kind(f"consumer_groups[{index}]", each, str)
        groups = tuple(name for name in given if name.casefold() != _DEFAULT_GROUP.casefold())
        for name in groups:
            _check_name("the name of a consumer group", name)
            if "/" in name:
                raise ValueError(f"the name of a consumer group must not have a '/': {name!r}")
        _check_unlike("consumer groups", groups)
        object.__setattr__(self, "consumer_groups", (_DEFAULT_GROUP, *groups))
        _check_seconds("retention", self.retention)
        check_fields(self)


@dataclass(frozen=True, slots=True)
class AzureConfig:
    """A namespace: `AzureConfig([QueueConfig("orders")], [TopicConfig("news", ["all"])], event_hubs=["telemetry"])`.

    Attributes:
        queues: queues, or names for queues with the usual settings.
        topics: topics.
        event_hubs: event hubs, or names for event hubs with four partitions.
        idle_timeout: seconds after which an unused link of Service Bus is detached; None: never.
        hub_idle_timeout: the same for links of Event Hubs; a reader with credit is not idle.
        clock: the time in seconds since 1970 for locks and expiry; a test can use its own.

    Raises:
        ValueError: two entities have one name, or messages are forwarded to an unknown entity.
        TypeError: an argument is not a list, or contains something else.
    """

    queues: Iterable[QueueConfig | str] = ()
    topics: Iterable[TopicConfig] = ()
    _: KW_ONLY
    event_hubs: Iterable[EventHubConfig | str] = ()
    idle_timeout: float | None = 600.0
    hub_idle_timeout: float | None = 1800.0
    clock: Callable[[], float] = field(default=time.time, repr=False)

    def __post_init__(self) -> None:
        _check_list("queues", self.queues)
        queues = tuple(QueueConfig(each) if isinstance(each, str) else each for each in self.queues)
        object.__setattr__(self, "queues", queues)
        _check_list("topics", self.topics, "TopicConfig({})")
        object.__setattr__(self, "topics", tuple(self.topics))
        _check_list("event_hubs", self.event_hubs)
        hubs = tuple(EventHubConfig(each) if isinstance(each, str) else each for each in self.event_hubs)
        object.__setattr__(self, "event_hubs", hubs)
        kinds = {"queues": QueueConfig, "topics": TopicConfig, "event_hubs": EventHubConfig}
        for argument, kind in kinds.items():
            for index, each in enumerate(getattr(self, argument)):
                _check_kind(f"{argument}[{index}]", each, kind)
        _check_seconds("idle_timeout", self.idle_timeout)
        _check_seconds("hub_idle_timeout", self.hub_idle_timeout)
        check_fields(self)
        names = [*(each.name for each in queues), *(each.name for each in self.topics)]
        _check_unlike("entities", [*names, *(each.name for each in hubs)])
        for hub in hubs:
            for name in names:
                if name.casefold().startswith(hub.name.casefold() + "/"):
                    raise ValueError(f"{name!r} is an address of the event hub {hub.name!r}, too: rename one of them")
        known = {name.casefold() for name in names}
        for entity in self.entities:
            for target in (entity.forward_to, entity.forward_dead_letters_to):
                if target is not None and target.casefold() not in known:
                    raise ValueError(
                        f"{entity.name!r} forwards to {target!r}, which is not a queue or topic of this configuration"
                    )

    @property
    def entities(self) -> Iterator[EntityConfig]:
        """All entities that messages are received from."""
        for queue in self.queues:
            assert isinstance(queue, QueueConfig)
            yield queue
        for topic in self.topics:
            for subscription in topic.subscriptions:
                assert isinstance(subscription, SubscriptionConfig)
                yield subscription

    @classmethod
    def read(cls, path: str | PathLike[str], *, clock: Callable[[], float] = time.time) -> Self:
        """Read the file of Microsoft's emulator (`Config.json`).

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is malformed, or asks for something unsupported; the message names the place.
        """
        try:
            with file_of("path"), open(path, encoding="utf-8-sig") as file:
                text = file.read()
            return cls.parse(text, clock=clock)
        except ValueError as error:
            raise ValueError(f"{fspath(path)}: {error}") from None

    @classmethod
    def parse(cls, text: str, *, clock: Callable[[], float] = time.time) -> Self:
        """Parse the text of that file.

        Raises:
            ValueError: see `read`.
        """
        try:
            document = parse_json(text)
        except ValueError as error:
            raise ValueError(f"this is not JSON: {error}") from None
        top = Place(document, "").members({"UserConfig": True})
        parts = dict.fromkeys(("Namespaces", "NamespaceConfig", "Logging", "LoggingConfig"), False)
        user = top["UserConfig"].members(parts)
        if not user.keys() & {"Namespaces", "NamespaceConfig"}:
            raise top["UserConfig"].lacks("Namespaces, or NamespaceConfig for Event Hubs")
        found: dict[str, Place] = {}
        queues: list[QueueConfig] = []
        topics: list[TopicConfig] = []
        if "Namespaces" in user:
            of_it = _only(user["Namespaces"]).members({"Name": False, "Queues": False, "Topics": False})
            queues = [_queue(place) for place in _named(of_it.get("Queues"), found)]
            topics = [_topic(place) for place in _named(of_it.get("Topics"), found)]
        hubs: list[EventHubConfig] = []
        if "NamespaceConfig" in user:
            of_it = _only(user["NamespaceConfig"]).members({"Type": True, "Name": False, "Entities": True})
            if of_it["Type"].text() != "EventHub":
                raise of_it["Type"].wrong("must be EventHub", of_it["Type"].value)
            hubs = [_event_hub(place) for place in _named(of_it["Entities"], found)]
        return cls(queues, topics, event_hubs=hubs, clock=clock)


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of Service Bus: its element in the emulator's file and in XML, and its attribute here.

    Attributes:
        kind: how the value is read: the name of a method of `Place`.
        in_file: whether the JSON file has it, too.
    """

    element: str
    attribute: str
    kind: Literal["flag", "count", "seconds", "lock", "entity"]
    in_file: bool = True


SETTINGS: Final = (
    Setting("DefaultMessageTimeToLive", "ttl", "seconds"),
    Setting("AutoDeleteOnIdle", "auto_delete_on_idle", "seconds", in_file=False),
    Setting("LockDuration", "lock_duration", "lock"),
    Setting("RequiresSession", "requires_session", "flag"),
    Setting("DeadLetteringOnMessageExpiration", "dead_letter_expired", "flag"),
    Setting("MaxDeliveryCount", "max_delivery_count", "count"),
    Setting("ForwardTo", "forward_to", "entity"),
    Setting("ForwardDeadLetteredMessagesTo", "forward_dead_letters_to", "entity"),
    Setting("DeadLetteringOnFilterEvaluationExceptions", "dead_letter_filter_errors", "flag"),
    Setting("FilteringMessagesBeforePublishing", "filtering_messages_before_publishing", "flag", in_file=False),
)
USUAL_WINDOW: Final = 600.0
DETECTS_DUPLICATES: Final = "RequiresDuplicateDetection"
DUPLICATE_WINDOW: Final = "DuplicateDetectionHistoryTimeWindow"
"""Two elements that are one attribute: `duplicate_window`, which is None without detection."""


def settings_of(config: object) -> list[Setting]:
    """Return the settings that a configuration, or its class, has."""
    return [each for each in SETTINGS if hasattr(config, each.attribute)]


def _named(place: Place | None, found: dict[str, Place], *, checks: bool = True) -> Iterator[Place]:
    """Yield the items of an array, whose names must differ from each other and those in `found`."""
    for item in place.items() if place is not None else []:
        name = item.required("Name")
        before = found.setdefault(name.text().casefold(), item)
        if before is not item:
            raise name.wrong(f"must differ from that of {before.path} in more than capitals", name.value)
        try:
            if checks:
                _check_name("it", name.value)
        except ValueError as error:
            raise ValueError(f"{name.path}: {error}") from None
        yield item


def _only(place: Place) -> Place:
    """Return the only item of an array of namespaces."""
    namespaces = place.items()
    if len(namespaces) != 1:
        raise place.wrong("must have one namespace", len(namespaces))
    return namespaces[0]


def _event_hub(place: Place) -> EventHubConfig:
    members = place.members({"Name": True, "PartitionCount": True, "ConsumerGroups": False})
    listed = members["ConsumerGroups"].items() if "ConsumerGroups" in members else []
    groups = [each.members({"Name": True})["Name"].text() for each in listed]
    try:
        return EventHubConfig(members["Name"].text(), members["PartitionCount"].number(), groups)
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(place.path) else f"{place.path}: {text}") from None


def _queue(place: Place) -> QueueConfig:
    members = place.members({"Name": True, "Properties": False})
    return QueueConfig(members["Name"].text(), **_settings(members.get("Properties"), QueueConfig))


def _topic(place: Place) -> TopicConfig:
    members = place.members({"Name": True, "Properties": False, "Subscriptions": False})
    settings = _settings(members.get("Properties"), TopicConfig)
    subscriptions = [_subscription(each) for each in _named(members.get("Subscriptions"), {})]
    return TopicConfig(members["Name"].text(), subscriptions, **settings)


def _subscription(place: Place) -> SubscriptionConfig:
    members = place.members({"Name": True, "Properties": False, "Rules": False})
    settings = _settings(members.get("Properties"), SubscriptionConfig)
    if rules := [_rule(each) for each in _named(members.get("Rules"), {}, checks=False)]:
        settings["rules"] = rules
    return SubscriptionConfig(members["Name"].text(), **settings)


def _settings(place: Place | None, config: type) -> dict[str, Any]:
    """Read the settings of a configuration of that class."""
    if place is None:
        return {}
    known = {each.element: each for each in settings_of(config) if each.in_file}
    duplicates = (DETECTS_DUPLICATES, DUPLICATE_WINDOW) if hasattr(config, "duplicate_window") else ()
    members = place.members(dict.fromkeys((*known, *duplicates), False))
    found = {each.attribute: getattr(members[name], each.kind)() for name, each in known.items() if name in members}
    window = members[DUPLICATE_WINDOW].seconds() or FOR_EVER if DUPLICATE_WINDOW in members else USUAL_WINDOW
    if DETECTS_DUPLICATES in members and members[DETECTS_DUPLICATES].flag():
        found["duplicate_window"] = window
    return found


def _rule(place: Place) -> Rule:
    members = place.members({"Name": True, "Properties": True})
    kinds = {"FilterType": True, "SqlFilter": False, "CorrelationFilter": False, "Action": False}
    of_rule = members["Properties"].members(kinds)
    kind = of_rule["FilterType"]
    name = members["Name"].text()
    try:
        passes: RuleFilter
        if kind.text().casefold() == "sql":
            passes = SqlRuleFilter(_expression(members["Properties"], "SqlFilter"))
        elif kind.value.casefold() == "correlation":
            fields = members["Properties"].required("CorrelationFilter")
            names = {camel(name): name for name in CORRELATED}
            of_it = fields.members(dict.fromkeys((*names, "Properties"), False))
            texts = {names[each]: of_it[each].text() for each in of_it if each != "Properties"}
            properties = of_it["Properties"].value if "Properties" in of_it else {}
            if not isinstance(properties, dict):
                raise of_it["Properties"].wrong("must be an object", properties)
            passes = CorrelationRuleFilter(**texts, properties=properties)
        else:
            raise kind.wrong("must be Sql or Correlation", kind.value)
        rule = Rule(name, passes, _expression(members["Properties"], "Action") if "Action" in of_rule else "")
        ActiveRule(rule)
        return rule
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(place.path) else f"{place.path}: {text}") from None


def _expression(place: Place, name: str) -> str:
    members = place.required(name).members({"SqlExpression": True, "Parameters": False, "CompatibilityLevel": False})
    return members["SqlExpression"].text()


def _check_count(what: str, count: int) -> None:
    check_type(what, count, int)
    if count < 1:
        raise ValueError(f"{what} must be 1 or more, not {count}")


def _check_seconds(what: str, seconds: float | None) -> None:
    check_type(what, seconds, float | None)
    if seconds is not None and not 0 < seconds < math.inf:
        raise ValueError(f"{what} must be more than 0 seconds, or None, not {seconds}")


def _check_idle(seconds: float | None) -> None:
    check_type("auto_delete_on_idle", seconds, float | None)
    if seconds is not None and not _MIN_IDLE <= seconds < math.inf:
        raise ValueError(f"auto_delete_on_idle must be at least {_MIN_IDLE:g} seconds, or None, not {seconds}")


def _check_kind(argument: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        found = type(value)
        shown = found.__name__ if found.__module__ == "builtins" else f"{found.__module__}.{found.__qualname__}"
        wanted = "a str" if kind is str else f"an amqp10.broker.azure.{kind.__name__}"
        raise TypeError(f"{argument} must be {wanted}, not the {shown} {without_secrets(value)}")


def _check_unlike(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise ValueError(f"two {what} have the name {name!r}; capitals make no difference")
        seen.add(name.casefold())


def _check_list(argument: str, value: object, item: str = "{}") -> None:
    if isinstance(value, str):
        written = item.format(without_secrets(value))
        raise TypeError(f"{argument} must be a list, not a str: write {argument}=[{written}]")
    if not isinstance(value, Iterable):
        raise TypeError(f"{argument} must be a list, not {without_secrets(value)}")


def _check_name(what: str, name: str) -> None:
    _check_kind(what, name, str)
    if len(name) > _MAX_NAME_LENGTH or not _NAME.fullmatch(name) or "//" in name:
        rule = f"must be at most {_MAX_NAME_LENGTH} letters, digits, '.', '-', '_' or '/', the first a letter or digit"
        raise ValueError(f"{what} {rule}, not {without_secrets(name)}")

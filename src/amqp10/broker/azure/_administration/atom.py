"""Entities as the administration describes them: XML in entries and feeds of Atom."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args
from xml.etree.ElementTree import Element, SubElement, TreeBuilder
from xml.parsers.expat import ExpatError, ParserCreate

from ...._azure_rules import (
    CORRELATED,
    CorrelationRuleFilter,
    FalseRuleFilter,
    Rule,
    RuleFilter,
    SqlRuleFilter,
    TrueRuleFilter,
)
from ....types import Described, Symbol
from .._config import (
    DETECTS_DUPLICATES,
    DUPLICATE_WINDOW,
    USUAL_WINDOW,
    QueueConfig,
    SubscriptionConfig,
    TopicConfig,
    settings_of,
)
from .._place import Place, camel, seconds_in
from .._service_bus.terms import Status

if TYPE_CHECKING:
    from .._namespace import Declared

_ATOM: Final = "{http://www.w3.org/2005/Atom}"
_BUS: Final = "{http://schemas.microsoft.com/netservices/2010/10/servicebus/connect}"
_COUNTS: Final = "{http://schemas.microsoft.com/netservices/2011/06/servicebus}"
_INSTANCE: Final = "{http://www.w3.org/2001/XMLSchema-instance}"
_TYPE: Final = _INSTANCE + "type"
_SCHEMA: Final = "http://www.w3.org/2001/XMLSchema"
_MAX_DEPTH: Final = 16
_MAX_ELEMENTS: Final = 5000
_MEGABYTE: Final = 1_048_576
_USUAL_MEGABYTES: Final = 1024
_MAX_TEXT_LENGTH: Final = 1024
_FOR_EVER: Final = "P10675199DT2H48M5.4775807S"
_MAX_DUPLICATE_WINDOW: Final = 604_800.0
_LAST: Final = 253_402_300_799.0
_STATUSES: Final = get_args(Status)

Config = TypeVar("Config", QueueConfig, TopicConfig, SubscriptionConfig)


# Reading


def read_xml(body: bytes) -> Element:
    """Parse an XML document without a document type, and so without entities.

    Raises:
        ValueError: it is not such a document, or is too deep or too large.
    """
    builder = TreeBuilder()
    parser = ParserCreate(namespace_separator="}")
    depth, elements = 0, 0

    def begin(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, elements
        depth, elements = depth + 1, elements + 1
        if depth > _MAX_DEPTH or elements > _MAX_ELEMENTS:
            raise ValueError(f"the XML must have at most {_MAX_ELEMENTS} elements, nested at most {_MAX_DEPTH} deep")
        builder.start(_full(name), {_full(each): value for each, value in attributes.items()})

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(_full(name))

    def refuse(*_: object) -> None:
        raise ValueError("the XML must not declare a document type")

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(body, True)
    except (ExpatError, LookupError, UnicodeError) as error:
        raise ValueError(f"the body is not XML: {error}") from None
    return builder.close()


def _full(name: str) -> str:
    return "{" + name if "}" in name else name


def description_in(entry: Element) -> Element:
    """Return the description in an entry.

    Raises:
        ValueError: the element is not an entry with one description.
    """
    content = entry.find(f"{_ATOM}content")
    if entry.tag != f"{_ATOM}entry" or content is None or len(content) != 1:
        raise ValueError("the body must be an Atom entry with one description in its content")
    return content[0]


class Description:
    """The settings in a description, by the names of their elements.

    Args:
        wanted: the name that the description must have.

    Raises:
        ValueError: it has another name.
    """

    def __init__(self, description: Element, wanted: str) -> None:
        if description.tag != _BUS + wanted:
            raise ValueError(f"the entry must describe a {wanted}, not {_local(description.tag)!r:.200}")
        self.elements = {_local(each.tag): each for each in description}

    def __contains__(self, name: str) -> bool:
        return bool(self.text(name))

    def text(self, name: str) -> str:
        """Return the text of an element; "": it is missing.

        Raises:
            ValueError: the text is too long.
        """
        element = self.elements.get(name)
        text = (element.text or "").strip() if element is not None else ""
        if len(text) > _MAX_TEXT_LENGTH:
            raise ValueError(f"{name} must have at most {_MAX_TEXT_LENGTH} characters, not {len(text)}")
        return text

    def at(self, name: str) -> _Text:
        """Return the text of an element with its name; see `text`."""
        return _Text(self.text(name), name)


class _Text(Place):
    """The text of an element, and the element's name."""

    def flag(self) -> bool:
        if self.value.casefold() not in ("", "true", "false", "1", "0"):
            raise self.wrong("must be true or false", self.value)
        return self.value.casefold() in ("true", "1")

    def count(self) -> int:
        if not (self.value.isascii() and self.value.isdigit() and len(self.value) <= 18 and int(self.value) >= 1):
            raise self.wrong("must be a number of 1 or more", self.value)
        return int(self.value)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


_KEPT: Final = (
    *("EnableBatchedOperations", "EnableExpress", "EnablePartitioning"),
    *("MaxMessageSizeInKilobytes", "SupportOrdering", "UserMetadata"),
)
"""Settings that have no effect here, and are returned as they were given."""
_NEWER: Final = "MaxMessageSizeInKilobytes"
"""A setting that the version of 2017 does not have."""
_MAX_SIZE: Final = "MaxSizeInMegabytes"
_KEYS: Final = "AuthorizationRules"
_MAX_KEYS: Final = 12
_TIMESPAN: Final = Symbol("com.microsoft:timespan")
"""Describes a duration, in ticks of 0.1 microseconds, as SDKs send it in properties of messages."""
_TICKS: Final = 10_000_000


def kept(described: Description) -> dict[str, str]:
    """Return the given settings that have no effect here.

    Raises:
        ValueError: there are too many authorization rules.
    """
    found = {name: described.text(name) for name in _KEPT if name in described}
    if DUPLICATE_WINDOW in described and not described.at(DETECTS_DUPLICATES).flag():
        found[DUPLICATE_WINDOW] = described.text(DUPLICATE_WINDOW)
    rules = described.elements.get(_KEYS)
    if rules is not None and len(rules):
        if len(rules) > _MAX_KEYS:
            raise ValueError(f"{_KEYS} must be at most {_MAX_KEYS}, not {len(rules)}")
        found[_KEYS] = "".join(_written(rules, ""))
    return found


def status_of(described: Description) -> Status:
    """Return the status of an entity.

    Raises:
        ValueError: it is not a status.
    """
    status: Any = described.text("Status") or "Active"
    if status not in _STATUSES:
        raise ValueError(f"Status must be one of {', '.join(_STATUSES)}, not {status!r:.200}")
    found: Status = status
    return found


def config_of(config: Config, described: Description, host: str) -> Config:
    """Return a configuration with the settings of a description in place of its own.

    Args:
        host: the host of this namespace, which targets of forwarding name: "sb://HOST/orders".

    Raises:
        ValueError: a setting is invalid.
    """
    changes: dict[str, Any] = {}
    for setting in settings_of(config):
        if setting.kind == "entity":
            changes[setting.attribute] = _entity_in(described.text(setting.element), host)
        elif setting.element in described:
            changes[setting.attribute] = getattr(described.at(setting.element), setting.kind)()
    if not isinstance(config, SubscriptionConfig):
        window = config.duplicate_window
        detects = described.at(DETECTS_DUPLICATES).flag() if DETECTS_DUPLICATES in described else window is not None
        if DUPLICATE_WINDOW in described:
            given = described.at(DUPLICATE_WINDOW)
            window = given.seconds() or _LAST
            if window > _MAX_DUPLICATE_WINDOW:
                raise given.wrong("must be P7D or less", given.value)
        changes["duplicate_window"] = (window or USUAL_WINDOW) if detects else None
        if _MAX_SIZE in described and (megabytes := described.at(_MAX_SIZE).count()) != _megabytes(config.max_size):
            changes["max_size"] = megabytes * _MEGABYTE
    return replace(config, **changes)


def _entity_in(text: str, host: str) -> str | None:
    """Return the name of the entity in a URI, or in a name by itself."""
    scheme, separator, rest = text.partition("://")
    if separator:
        said_host, _, text = rest.partition("/")
        # azure-servicebus for Python leaves out the port.
        here = said_host.casefold() in (host.casefold(), host.casefold().partition(":")[0])
        if scheme.casefold() not in ("sb", "amqps", "amqp", "https", "http") or not here:
            raise ValueError(f"messages can be forwarded only within the namespace {host}, not to {rest!r:.200}")
    return text.strip("/") or None


def read_description(name: str, description: Element) -> Rule:
    """Return the rule in a description, under the name `name`.

    Raises:
        ValueError: the description is invalid.
    """
    described = Description(description, "RuleDescription")
    passes, action = described.elements.get("Filter"), described.elements.get("Action")
    expression, parameters = "", {}
    if action is not None and _kind(action) == "SqlRuleAction":
        expression, parameters = _expression(action), _pairs(action, "Parameters", "a parameter of an action")
    rule_filter = _filter(passes) if passes is not None else TrueRuleFilter()
    return Rule(name, rule_filter, expression, action_parameters=parameters)


def _kind(element: Element) -> str:
    return element.get(_TYPE, "").rpartition(":")[2]


def _expression(element: Element) -> str:
    return element.findtext(f"{_BUS}SqlExpression") or ""


def _filter(element: Element) -> RuleFilter:
    kind = _kind(element)
    if kind == "TrueFilter":
        return TrueRuleFilter()
    if kind == "FalseFilter":
        return FalseRuleFilter()
    if kind == "SqlFilter":
        return SqlRuleFilter(_expression(element), _pairs(element, "Parameters", "a parameter of a filter"))
    if kind != "CorrelationFilter":
        raise ValueError(
            f"a filter must be a SqlFilter, CorrelationFilter, TrueFilter or FalseFilter, not {kind!r:.100}"
        )
    fields = {name: element.findtext(_BUS + camel(name)) for name in CORRELATED}
    properties = _pairs(element, "Properties", "a property of a correlation filter")
    return CorrelationRuleFilter(**{name: text for name, text in fields.items() if text}, properties=properties)


def _pairs(element: Element, name: str, what: str) -> dict[str, Any]:
    """Return the names and values of a list in an element."""
    found = {}
    for pair in element.findall(f"{_BUS}{name}/{_BUS}KeyValueOfstringanyType"):
        value = pair.find(f"{_BUS}Value")
        if value is None:
            raise ValueError(f"{what} must have a Key and a Value")
        found[pair.findtext(f"{_BUS}Key") or ""] = _value(value, what)
    return found


def _value(element: Element, what: str) -> Any:
    """Return a value in the type that its element names."""
    kind, text = _kind(element), element.text or ""
    try:
        if kind in ("int", "long"):
            number = int(text)
            if not -(1 << 63) <= number < 1 << 63:
                raise ValueError
            return number
        if kind == "double":
            return float(text)
        if kind == "boolean":
            return {"true": True, "false": False}[text.casefold()]
        if kind == "dateTime":
            return datetime.fromisoformat(text)
        if kind == "duration":
            ticks = round(seconds_in(text.removeprefix("-")) * _TICKS)
            if ticks >= 1 << 63:
                raise ValueError
            return Described(_TIMESPAN, -ticks if text.startswith("-") else ticks)
    except (ValueError, KeyError):
        raise ValueError(f"{what} is not a {kind}: {text!r:.100}") from None
    return text


# Writing


def document(element: Element) -> bytes:
    """Return an encoded document with the prefixes of Service Bus, which some SDKs expect."""
    return b'<?xml version="1.0" encoding="utf-8"?>' + "".join(_written(element, "")).encode()


def _written(element: Element, around: str) -> Iterator[str]:
    """Yield the text of an element whose parent has the namespace `around`."""
    space, _, name = element.tag.rpartition("}")
    if space + "}" == _COUNTS:
        yield f"<d2p1:{name}>{escape(element.text or '', quote=False)}</d2p1:{name}>"
        return
    yield f"<{name}"
    if space != around:
        yield f' xmlns="{escape(space[1:])}"'
        if space + "}" == _BUS:
            yield f' xmlns:i="{_INSTANCE[1:-1]}"'
    if name == "CountDetails":
        yield f' xmlns:d2p1="{_COUNTS[1:-1]}"'
    for key, value in element.attrib.items():
        yield f' {key.replace(_INSTANCE, "i:")}="{escape(value)}"'
    yield f">{escape(element.text or '', quote=False)}"
    for each in element:
        yield from _written(each, space)
    yield f"</{name}>"


def entry(url: str, title: str, description: Element, created: float, updated: float, author: str = "") -> Element:
    """Return an entry that contains a description."""
    element = Element(f"{_ATOM}entry")
    _add(element, f"{_ATOM}id", url)
    _add(element, f"{_ATOM}title", title, {"type": "text"})
    _add(element, f"{_ATOM}published", _moment(created))
    _add(element, f"{_ATOM}updated", _moment(updated))
    if author:
        _add(SubElement(element, f"{_ATOM}author"), f"{_ATOM}name", author)
    SubElement(element, f"{_ATOM}link", {"rel": "self", "href": url})
    SubElement(element, f"{_ATOM}content", {"type": "application/xml"}).append(description)
    return element


def feed(url: str, title: str, entries: Iterable[Element], updated: float, following: str | None) -> Element:
    """Return a feed of entries; `following` is the URL of the next part, or None."""
    element = Element(f"{_ATOM}feed")
    _add(element, f"{_ATOM}title", title, {"type": "text"})
    _add(element, f"{_ATOM}id", url)
    _add(element, f"{_ATOM}updated", _moment(updated))
    SubElement(element, f"{_ATOM}link", {"rel": "self", "href": url})
    if following is not None:
        SubElement(element, f"{_ATOM}link", {"rel": "next", "href": following})
    element.extend(entries)
    return element


def error(status: int, text: str) -> Element:
    """Return the body of an answer that refuses a request."""
    element = Element("Error")
    _add(element, "Code", str(status))
    _add(element, "Detail", _printable(text))
    return element


def namespace_info(name: str, created: float) -> Element:
    """Describe the namespace."""
    elements = {
        "Alias": "",
        "CreatedTime": _moment(created),
        "MessagingSKU": "Standard",
        "ModifiedTime": _moment(created),
        "Name": name,
        "NamespaceType": "Messaging",
    }
    return _described("NamespaceInfo", elements.items())


def describe(declared: Declared, host: str, rules: Collection[Rule] = (), *, older: bool = False) -> Element:
    """Describe an entity: its settings, and counts of its messages.

    Args:
        rules: those of all subscriptions of a topic.
        older: whether to leave out what the version of 2017 does not have.
    """
    config, entity = declared.config, declared.entity
    elements: list[tuple[str, str | Element]] = []
    for setting in settings_of(config):
        value = getattr(config, setting.attribute)
        if setting.kind != "entity":
            elements.append((setting.element, _WRITERS[setting.kind](value)))
        elif value is not None:
            elements.append((setting.element, f"sb://{host}/{value}"))
    if not isinstance(config, SubscriptionConfig):
        elements += [
            (_MAX_SIZE, str(_megabytes(config.max_size))),
            (DETECTS_DUPLICATES, _flag(config.duplicate_window is not None)),
            ("SizeInBytes", str(entity.bytes)),
            ("IsAnonymousAccessible", "false"),
        ]
    if isinstance(config, TopicConfig):
        correlated = sum(isinstance(rule.filter, CorrelationRuleFilter) for rule in rules)
        elements += [
            ("EnableSubscriptionPartitioning", "false"),
            ("SubscriptionCount", str(len(declared.subscriptions))),
            ("SqlFilterCount", str(len(rules) - correlated)),
            ("CorrelationFilterCount", str(correlated)),
        ]
    dead = entity.dead_letters.depth if entity.dead_letters is not None else 0
    transferred = entity.undelivered.depth if entity.undelivered is not None else 0
    counts = Element(f"{_BUS}CountDetails")
    for name, number in {
        "ActiveMessageCount": entity.count("active"),
        "DeadLetterMessageCount": dead,
        "ScheduledMessageCount": entity.count("scheduled"),
        "TransferMessageCount": 0,
        "TransferDeadLetterMessageCount": transferred,
    }.items():
        _add(counts, _COUNTS + name, str(number))
    usual = {"EnableBatchedOperations": "true", "SupportOrdering": "true"}
    if not isinstance(config, SubscriptionConfig):
        usual |= {"EnablePartitioning": "false", "EnableExpress": "false"}
        usual[DUPLICATE_WINDOW] = _duration(config.duplicate_window or USUAL_WINDOW)
    rest: dict[str, str | Element] = {**usual, **declared.ignored_settings}
    if _KEYS in declared.ignored_settings:
        rest[_KEYS] = read_xml(declared.ignored_settings[_KEYS].encode())
    if older:
        rest.pop(_NEWER, None)
    elements += [
        ("MessageCount", str(entity.depth + dead + transferred)),
        ("CountDetails", counts),
        ("Status", entity.status),
        ("CreatedAt", _moment(declared.created)),
        ("UpdatedAt", _moment(declared.updated)),
        ("AccessedAt", _moment(entity.accessed)),
        ("EntityAvailabilityStatus", "Available"),
        *rest.items(),
    ]
    kind = type(config).__name__.removesuffix("Config")
    return _described(f"{kind}Description", elements)


def describe_rule(rule: Rule, created: float) -> Element:
    """Describe a rule."""
    element = Element(f"{_BUS}RuleDescription")
    passes = rule.filter
    if isinstance(passes, CorrelationRuleFilter):
        fields = [(camel(name), getattr(passes, name)) for name in CORRELATED]
        inside = SubElement(element, f"{_BUS}Filter", {_TYPE: "CorrelationFilter"})
        for name, text in fields:
            if text is not None:
                _add(inside, _BUS + name, _printable(text))
        if passes.properties:
            _add_pairs(inside, "Properties", passes.properties)
    else:
        kind = type(passes).__name__.replace("RuleFilter", "Filter")
        inside = SubElement(element, f"{_BUS}Filter", {_TYPE: kind})
        constant = "1=1" if isinstance(passes, TrueRuleFilter) else "1=0"
        _add(inside, f"{_BUS}SqlExpression", passes.expression if isinstance(passes, SqlRuleFilter) else constant)
        _add(inside, f"{_BUS}CompatibilityLevel", "20")
        if isinstance(passes, SqlRuleFilter) and passes.parameters:
            _add_pairs(inside, "Parameters", passes.parameters)
    action = SubElement(element, f"{_BUS}Action", {_TYPE: "SqlRuleAction" if rule.action else "EmptyRuleAction"})
    if rule.action:
        _add(action, f"{_BUS}SqlExpression", rule.action)
        _add(action, f"{_BUS}CompatibilityLevel", "20")
        if rule.action_parameters:
            _add_pairs(action, "Parameters", rule.action_parameters)
    _add(element, f"{_BUS}CreatedAt", _moment(created))
    _add(element, f"{_BUS}Name", rule.name)
    return element


def _add_pairs(element: Element, what: str, pairs: Mapping[str, Any]) -> None:
    inside = SubElement(element, _BUS + what)
    for name, value in pairs.items():
        pair = SubElement(inside, f"{_BUS}KeyValueOfstringanyType")
        _add(pair, f"{_BUS}Key", _printable(name))
        kind, text = _typed(value)
        _add(pair, f"{_BUS}Value", _printable(text), {_TYPE: f"d6p1:{kind}", "xmlns:d6p1": _SCHEMA})


def _typed(value: Any) -> tuple[str, str]:
    if isinstance(value, bool):
        return "boolean", _flag(value)
    if isinstance(value, int):
        return "int" if -(1 << 31) <= value < 1 << 31 else "long", str(value)
    if isinstance(value, float):
        return "double", str(value)
    if isinstance(value, datetime):
        return "dateTime", value.isoformat()
    if isinstance(value, Described) and value.descriptor == _TIMESPAN:
        return "duration", "-" * (value.value < 0) + _duration(abs(value.value) / _TICKS)
    return "string", str(value)


def _described(name: str, elements: Iterable[tuple[str, str | Element]]) -> Element:
    element = Element(_BUS + name)
    for each, value in elements:
        if isinstance(value, Element):
            element.append(value)
        else:
            _add(element, _BUS + each, value)
    return element


def _add(element: Element, tag: str, text: str, attributes: Mapping[str, str] | None = None) -> None:
    SubElement(element, tag, dict(attributes or {})).text = text


def _printable(text: str) -> str:
    """Return a text without characters that XML cannot contain."""
    return "".join(_sayable(text))


def _sayable(text: str) -> Iterator[str]:
    for character in text:
        point = ord(character)
        if point in (9, 10, 13) or 32 <= point < 0xD800 or 0xE000 <= point < 0xFFFE or point > 0xFFFF:
            yield character


def _megabytes(octets: int | None) -> int:
    return _USUAL_MEGABYTES if octets is None else math.ceil(octets / _MEGABYTE)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _moment(seconds: float) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=min(max(0.0, seconds), _LAST))
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _duration(seconds: float | None) -> str:
    if seconds is None or seconds >= _LAST:
        return _FOR_EVER
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "D"), (hours, "H"), (minutes, "M"), (rest, "S")]
    date, *times = ["" if not number else f"{number:.6f}".rstrip("0").rstrip(".") + letter for number, letter in parts]
    time = "".join(times)
    return f"P{date}" + (f"T{time}" if time else "") if date or time else "PT0S"


_WRITERS: Final[dict[str, Callable[[Any], str]]] = {
    "flag": _flag,
    "count": str,
    "seconds": _duration,
    "lock": _duration,
}
"""What writes each kind of setting."""

"""The SQL of Service Bus: conditions that filter messages, and actions that change them.

Documented at https://learn.microsoft.com/azure/service-bus-messaging/service-bus-messaging-sql-filter and
.../service-bus-messaging-sql-rule-action. Precedences and limits are those of the broker's other selectors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

from ..._filters.selector.fields import application_property, section_field
from ..._filters.selector.parser import Parser, parse
from ..._filters.selector.tokens import Grammar, SelectorError
from ..._filters.selector.values import Candidate, Constant, Incomparable, Value, plain
from ..._queues.message import QueuedMessage

if TYPE_CHECKING:
    from ....messaging import Message
    from .._messages import EntityMessage

_MAX_LENGTH: Final = 1024
"""The most characters of a condition, or of an action."""
_MAX_STATEMENTS: Final = 32
Change = Callable[[Candidate], Callable[["Message"], None]]
"""Computes, from a message as it came, the change to make."""

_PROPERTIES: Final = {
    "contenttype": "content_type",
    "correlationid": "correlation_id",
    "label": "subject",
    "messageid": "message_id",
    "replyto": "reply_to",
    "replytosessionid": "reply_to_group_id",
    "sessionid": "group_id",
    "subject": "subject",
    "to": "to",
}
"""Fields of messages, by names in lowercase."""
_OTHERS: Final[dict[str, Value]] = {
    "timetolive": section_field("header.ttl"),
    "deliverycount": section_field("header.delivery_count"),
    "partitionkey": section_field("m.x-opt-partition-key"),
    "scheduledenqueuetimeutc": section_field("m.x-opt-scheduled-enqueue-time"),
    "sequencenumber": section_field("m.x-opt-sequence-number"),
    "enqueuedtimeutc": section_field("m.x-opt-enqueued-time"),
}
_SCOPE: Final = re.compile(r"(sys|user)\.", re.IGNORECASE)


def _split(word: str) -> tuple[bool, str]:
    """Return whether a word names a field of Service Bus, and its name without quotes."""
    scope = _SCOPE.match(word)
    name = word if scope is None else word[scope.end() :]
    if name[0] == '"':
        name = name[1:-1].replace('""', '"')
    elif name[0] == "[":
        name = name[1:-1].replace("]]", "]")
    return scope is not None and scope[1].casefold() == "sys", name


def _property(name: Value) -> Value:
    """Return a function that gives the property with a computed name; unknown if the name is invalid."""

    def evaluate(candidate: Candidate) -> Any:
        found = name(candidate)
        if not isinstance(found, str) or not found:
            return None
        scope = _SCOPE.match(found)
        if scope is None or scope.end() == len(found):
            return application_property(found)(candidate)
        try:
            return _find(found)(candidate)
        except ValueError:
            return None

    return evaluate


def _find(word: str) -> Value:
    system, name = _split(word)
    if not system:
        return application_property(name)
    if name.casefold() in _PROPERTIES:
        field = _PROPERTIES[name.casefold()]
        return lambda candidate: plain(candidate.field(field))
    if name.casefold() in _OTHERS:
        return _OTHERS[name.casefold()]
    raise ValueError(f"messages have no sys.{name}")


_GRAMMAR: Final = Grammar(
    "Service Bus SQL",
    re.compile(
        r"""(?P<space>[ \t\f\r\n]+)
          | (?P<string>'[^']*(?:''[^']*)*')
          | (?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
          | (?P<decimal>[0-9]+)
          | (?P<parameter>@\w+)
          | (?P<name>(?:(?:sys|user|SYS|USER|Sys|User)\.)?
                     (?:[^\W\d]\w*|"[^"]+(?:""[^"]*)*"|\[[^\[\]]+(?:\]\][^\[\]]*)*\]))
          | (?P<operator><>|!=|<=|>=|[=<>+\-*/%(),;])""",
        re.VERBOSE,
    ),
    frozenset(("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "LIKE", "IN", "IS", "ESCAPE", "EXISTS", "SET", "REMOVE")),
    orders_strings=True,
    lists_strings_only=False,
    find=_find,
    has_exists=True,
    strict=True,
    functions={
        "newid": (0, lambda: lambda candidate: uuid4()),
        "property": (1, _property),
        "p": (1, _property),
    },
)


def candidate_of(message: EntityMessage) -> Candidate:
    """Return a message as conditions see it."""
    return Candidate(QueuedMessage(message.outgoing()))


def condition_of(text: str, parameters: Mapping[str, Any]) -> Value:
    """Return the closure of a condition, which raises Incomparable for values of the wrong kinds.

    Args:
        parameters: the values of names with "@" before them.

    Raises:
        SelectorError: it is not a valid condition, or is too long.
    """
    _check_length(text)
    return parse(text, replace(_GRAMMAR, parameters=parameters))


def changes_of(text: str, parameters: Mapping[str, Any]) -> list[Change]:
    """Return the changes of an action: SET name = value and REMOVE name, separated by semicolons.

    Args:
        parameters: as for a condition.

    Raises:
        SelectorError: it is not a valid action, or is too long.
    """
    _check_length(text)
    changes: list[Change] = []
    parser = Parser(text, replace(_GRAMMAR, parameters=parameters))
    while not parser.over:
        if len(changes) == _MAX_STATEMENTS:
            raise parser.wrong(f"more than {_MAX_STATEMENTS} statements")
        changes.append(_statement(parser))
        if not parser.over:
            parser.expect(";")
    if not changes:
        raise parser.wrong("expected SET or REMOVE")
    return changes


def _check_length(text: str) -> None:
    if len(text) > _MAX_LENGTH:
        raise SelectorError(f"{_GRAMMAR.name} of more than {_MAX_LENGTH} characters")


def _statement(parser: Parser) -> Change:
    removes = parser.accept("REMOVE")
    if not removes and not parser.accept("SET"):
        raise parser.wrong("expected SET or REMOVE")
    word = parser.expect("name")
    system, name = _split(word.value)
    field = _PROPERTIES.get(name.casefold()) if system else None
    if system and field is None:
        raise parser.wrong(f"sys.{name} cannot be set", word.at)
    value: Value = Constant(None)
    if not removes:
        parser.expect("=")
        value = parser.value()

    def change(candidate: Candidate) -> Callable[[Message], None]:
        new: Any = value(candidate)
        if field is not None and isinstance(new, UUID):
            new = str(new)
        if field is not None and not isinstance(new, str | None):
            raise Incomparable(f"sys.{name} must be a string, not {new!r:.60}")

        def apply(message: Message) -> None:
            if field is not None:
                setattr(message, field, new)
                return
            properties = dict(message.application_properties)
            if new is None:
                properties.pop(name, None)
            else:
                properties[name] = new
            message.application_properties = properties

        return apply

    return change

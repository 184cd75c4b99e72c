"""Rules of Service Bus subscriptions: `amqp10.azure` adds and lists them, `amqp10.broker.azure` applies them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import datetime
from typing import Any, Final, TypeAlias

from ._arguments import check_type, without_secrets


@dataclass(frozen=True, slots=True)
class TrueRuleFilter:
    """A filter that all messages pass."""


@dataclass(frozen=True, slots=True)
class FalseRuleFilter:
    """A filter that no message passes."""


@dataclass(frozen=True, slots=True)
class SqlRuleFilter:
    """A filter by an SQL condition: `SqlRuleFilter("color = 'red' AND sys.Label LIKE 'eu-%'")`.

    The condition is parsed by its receiver: by the service when the rule is added, by the emulator when configured.

    Attributes:
        parameters: values for names such as "@color" in the condition. Only the HTTP administration of Service Bus
            takes them; AMQP requests cannot carry them.

    Raises:
        TypeError: the condition is not a string.
        ValueError: the name of a parameter does not begin with "@".
    """

    expression: str
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_text("expression", self.expression)
        _check_parameters("parameters", self.parameters)


@dataclass(frozen=True, slots=True)
class CorrelationRuleFilter:
    """A filter by values, which must all be equal: `CorrelationRuleFilter(label="red", properties={"n": 1})`.

    Attributes:
        label: the `subject` of a message.
        session_id, reply_to_session_id: its `group_id` and `reply_to_group_id`.
        properties: application properties.
    """

    _: KW_ONLY
    correlation_id: str | None = None
    message_id: str | None = None
    to: str | None = None
    reply_to: str | None = None
    label: str | None = None
    session_id: str | None = None
    reply_to_session_id: str | None = None
    content_type: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in CORRELATED:
            check_type(name, getattr(self, name), str | None)
        check_type("properties", self.properties, Mapping)


RuleFilter: TypeAlias = TrueRuleFilter | FalseRuleFilter | SqlRuleFilter | CorrelationRuleFilter
CORRELATED: Final = tuple(each.name for each in fields(CorrelationRuleFilter) if each.name != "properties")
"""The fields of a correlation filter, in the order of the wire."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a subscription: `Rule("red", SqlRuleFilter("color = 'red'"), action="SET seen = TRUE")`.

    Attributes:
        name: unique in the subscription. A new subscription has the rule "$Default", which all messages pass.
        filter: selects the messages.
        action: an SQL action that changes the selected messages; "" changes nothing.
        created_at: when the rule was added; None unless it was read from the service.
        action_parameters: values for names such as "@seen" in the action; see `SqlRuleFilter`.

    Raises:
        TypeError: the name or the action is not a string, or `filter` is not a filter.
        ValueError: the name of a parameter does not begin with "@".
    """

    name: str = "$Default"
    filter: RuleFilter = field(default_factory=TrueRuleFilter)
    action: str = ""
    created_at: datetime | None = field(default=None, compare=False)
    action_parameters: Mapping[str, Any] = field(default_factory=dict, hash=False, kw_only=True)

    def __post_init__(self) -> None:
        _check_parameters("action_parameters", self.action_parameters)
        _check_text("the name of a rule", self.name)
        _check_text("action", self.action)
        if not isinstance(self.filter, RuleFilter):
            raise TypeError(
                "filter must be a SqlRuleFilter, CorrelationRuleFilter, TrueRuleFilter or FalseRuleFilter, not the "
                f"{type(self.filter).__name__} {without_secrets(self.filter)}: "
                "SqlRuleFilter(\"color = 'red'\") takes SQL"
            )


def _check_parameters(argument: str, parameters: Mapping[str, Any]) -> None:
    check_type(argument, parameters, Mapping[str, Any])
    for name in parameters:
        if not name.startswith("@"):
            raise ValueError(f'the name of a parameter must begin with "@", unlike {without_secrets(name)}')


def _check_text(argument: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be a str, not the {type(value).__name__} {without_secrets(value)}")

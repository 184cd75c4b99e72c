"""Rules of Service Bus' subscriptions: `amqp10.azure` adds and lists them, `amqp10.broker.azure` obeys them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import datetime
from typing import Any, Final, TypeAlias


@dataclass(frozen=True, slots=True)
class TrueFilter:
    """All messages pass."""


@dataclass(frozen=True, slots=True)
class FalseFilter:
    """No message passes."""


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """Those messages pass that a condition is true of: `SqlFilter("color = 'red' AND sys.Label LIKE 'eu-%'")`.

    Whoever gets it reads the condition: the service when the rule is added, the emulator when it is configured.

    Attributes:
        parameters: values for names such as "@color" in the condition. The administration of Service Bus takes them;
            requests of AMQP have no place for them.

    Raises:
        TypeError: the condition is no string.
        ValueError: the name of a parameter does not begin with "@".
    """

    expression: str
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_text("expression", self.expression)
        _check_parameters(self.parameters)


@dataclass(frozen=True, slots=True)
class CorrelationFilter:
    """Those messages pass that have all of these values: `CorrelationFilter(label="red", properties={"n": 1})`.

    Attributes:
        label: what messages call `subject`.
        session_id, reply_to_session_id: what they call `group_id` and `reply_to_group_id`.
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


RuleFilter: TypeAlias = TrueFilter | FalseFilter | SqlFilter | CorrelationFilter
CORRELATED: Final = tuple(each.name for each in fields(CorrelationFilter) if each.name != "properties")
"""Names of a correlation filter's fields, in the order of the wire."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a subscription: `Rule("red", SqlFilter("color = 'red'"), action="SET seen = TRUE")`.

    Attributes:
        name: no other rule of the subscription has it; a new subscription has "$Default", which is true.
        filter: which messages it is for.
        action: what is changed of them, in SQL; "" for nothing.
        created_at: when it was added; None where it was not read from the service.
        action_parameters: values for names such as "@seen" in the action; see `SqlFilter`.

    Raises:
        TypeError: the name or the action is no string, or `filter` is no filter.
        ValueError: the name of a parameter does not begin with "@".
    """

    name: str = "$Default"
    filter: RuleFilter = field(default_factory=TrueFilter)
    action: str = ""
    created_at: datetime | None = field(default=None, compare=False)
    action_parameters: Mapping[str, Any] = field(default_factory=dict, hash=False, kw_only=True)

    def __post_init__(self) -> None:
        _check_parameters(self.action_parameters)
        _check_text("the name of a rule", self.name)
        _check_text("action", self.action)
        if not isinstance(self.filter, RuleFilter):
            raise TypeError(
                "filter must be a SqlFilter, CorrelationFilter, TrueFilter or FalseFilter, not the "
                f"{type(self.filter).__name__} {self.filter!r:.200}: SqlFilter(\"color = 'red'\") takes SQL"
            )


def _check_parameters(parameters: Mapping[str, Any]) -> None:
    for name in parameters:
        if not name.startswith("@"):
            raise ValueError(f'the name of a parameter must begin with "@", unlike {name!r:.200}')


def _check_text(argument: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be a str, not the {type(value).__name__} {value!r:.200}")

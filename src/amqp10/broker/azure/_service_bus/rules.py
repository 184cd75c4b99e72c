"""The rules of a subscription: which messages of its topic it gets, and how they are changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ...._azure_rules import (
    CORRELATED,
    CorrelationRuleFilter,
    FalseRuleFilter,
    Rule,
    RuleFilter,
    SqlRuleFilter,
    TrueRuleFilter,
)
from ....types import Described, Int, ULong
from ..._filters.selector.values import Candidate, plain, same
from .._messages import timestamp
from .sql import candidate_of, changes_of, condition_of

if TYPE_CHECKING:
    from .._messages import EntityMessage

_MAX_NAME_LENGTH: Final = 50
# Descriptors on the wire: those of rules and actions, and those of filters, have consecutive numbers.
_RULE, _NO_ACTION, _ACTION = (ULong(0x0000_0137_0000_0004 + number) for number in range(3))
_SQL, _TRUE, _FALSE, _CORRELATION = (ULong(0x13_7000_0006 + number) for number in range(4))
_COMPATIBILITY: Final = Int(20)
_FIELDS: Final = {"label": "subject", "session_id": "group_id", "reply_to_session_id": "reply_to_group_id"}


class ActiveRule:
    """A rule to compare messages with; its SQL is parsed once.

    Attributes:
        rule: the rule as it was configured or added.
        created: when it was added, in seconds since 1970.
        matches: returns whether a message passes; raises Incomparable if it compares values of the wrong kinds.

    Raises:
        ValueError: the name is empty or too long, the filter compares nothing, or SQL is invalid, with the place of the
            error.
    """

    __slots__ = ("_changes", "created", "matches", "rule")

    def __init__(self, rule: Rule, created: float = 0) -> None:
        if not 1 <= len(rule.name) <= _MAX_NAME_LENGTH:
            raise ValueError(
                f"the name of a rule must have 1 to {_MAX_NAME_LENGTH} characters, unlike {rule.name!r:.200}"
            )
        self.rule: Rule = rule
        self.created: float = created
        self.matches: Callable[[Candidate], bool] = _predicate(rule.filter)
        self._changes = changes_of(rule.action, rule.action_parameters) if rule.action else []

    def changed(self, message: EntityMessage, candidate: Candidate) -> EntityMessage:
        """Return a copy of a message with the changes of the action.

        Raises:
            Incomparable: the action computes with values of the wrong kinds.
        """
        twin = message.twin()
        for change in self._changes:
            twin.rewrite(change(candidate))
        return twin

    def described(self) -> Described:
        """Return the rule in its form for clients."""
        text = self.rule.action
        action = Described(_ACTION, [text, _COMPATIBILITY]) if text else Described(_NO_ACTION, [])
        return Described(_RULE, [_described(self.rule.filter), action, self.rule.name, timestamp(self.created)])


def _predicate(rule_filter: RuleFilter) -> Callable[[Candidate], bool]:
    match rule_filter:
        case SqlRuleFilter(expression, parameters):
            condition = condition_of(expression, parameters)
            return lambda candidate: condition(candidate) is True
        case CorrelationRuleFilter():
            if not rule_filter.properties and all(getattr(rule_filter, name) is None for name in CORRELATED):
                raise ValueError(
                    "a correlation filter must compare at least one field or property; TrueRuleFilter() matches all "
                    "messages"
                )
            return lambda candidate: _correlates(rule_filter, candidate)
    return lambda _: isinstance(rule_filter, TrueRuleFilter)


def _correlates(rule_filter: CorrelationRuleFilter, candidate: Candidate) -> bool:
    for name in CORRELATED:
        wanted = getattr(rule_filter, name)
        if wanted is not None and _text(candidate.field(_FIELDS.get(name, name))) != wanted:
            return False
    properties = candidate.application_properties
    return all(
        name in properties and same(plain(properties[name]), plain(value))
        for name, value in rule_filter.properties.items()
    )


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, UUID | int) else value


def _described(rule_filter: RuleFilter) -> Described:
    match rule_filter:
        case SqlRuleFilter(expression):
            return Described(_SQL, [expression, _COMPATIBILITY])
        case CorrelationRuleFilter(properties=properties):
            return Described(_CORRELATION, [*(getattr(rule_filter, name) for name in CORRELATED), dict(properties)])
    return Described(_TRUE if isinstance(rule_filter, TrueRuleFilter) else _FALSE, [])


def copies(message: EntityMessage, rules: Iterable[ActiveRule]) -> list[EntityMessage]:
    """Return the copies of a message for a subscription with these rules: one for all rules without an action, and one
    for each rule with an action.

    Raises:
        Incomparable: a rule compares, or computes with, values of the wrong kinds.
    """
    found: list[EntityMessage] = []
    candidate, plainly = candidate_of(message), False
    for rule in rules:
        if rule.matches(candidate):
            if rule.rule.action:
                found.append(rule.changed(message, candidate))
            else:
                plainly = True
    return [message.twin(), *found] if plainly else found


def read_rule(name: str, description: Mapping[Any, Any]) -> Rule:
    """Return the rule that a client adds.

    Raises:
        ValueError: the rule is invalid.
    """
    action = description.get("sql-rule-action")
    text = action.get("expression") if isinstance(action, dict) else None
    return Rule(name, _read_filter(description), str(text or ""))


def _read_filter(description: Mapping[Any, Any]) -> RuleFilter:
    sql, correlation = description.get("sql-filter"), description.get("correlation-filter")
    if isinstance(sql, dict) and isinstance(sql.get("expression"), str):
        return SqlRuleFilter(sql["expression"])
    if isinstance(correlation, dict):
        properties = correlation.get("properties")
        fields = {name: correlation.get(name.replace("_", "-")) for name in CORRELATED}
        for field_name, value in fields.items():
            if not isinstance(value, str | None):
                raise ValueError(f"{field_name} of a correlation filter must be a string, not {value!r:.60}")
        return CorrelationRuleFilter(**fields, properties=properties if isinstance(properties, dict) else {})
    if "true-filter" in description:
        return TrueRuleFilter()
    if "false-filter" in description:
        return FalseRuleFilter()
    raise ValueError("a rule must have a sql-filter, a correlation-filter, a true-filter or a false-filter")

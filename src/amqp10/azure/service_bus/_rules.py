"""The rules of a subscription: adding, removing and listing them through the management node."""

from __future__ import annotations

from typing import Any, Final

from ..._arguments import checked, without_secrets
from ..._azure_rules import (
    CORRELATED,
    CorrelationRuleFilter,
    FalseRuleFilter,
    Rule,
    RuleFilter,
    SqlRuleFilter,
    TrueRuleFilter,
)
from ...types import Described, Int
from .._moments import moment
from ._errors import ServiceBusError
from ._management import EntityManagement, listed

_PAGE: Final = 100


class SubscriptionRules:
    """The rules of a subscription, made by `bus.rules()`. It needs no opening."""

    def __init__(self, node: EntityManagement) -> None:
        self._node = node

    @checked
    async def add(self, rule: Rule) -> None:
        """Add a rule. A new subscription also has the rule "$Default", which passes all messages: remove that one.

        Raises:
            TypeError: `rule` is not a `Rule`.
            ValueError: the rule's SQL has parameters, which the request cannot carry.
            RuleExists: the subscription has a rule of that name.
            ServiceBusError: the service refused the rule, or the token does not allow managing.
            DeliveryUncertain: the connection was lost before the answer came.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError, EncodeError: the service could
                not be asked.

        Cancelling: the rule may be added.
        """
        if not isinstance(rule, Rule):
            raise TypeError(
                f'rule must be a Rule, not {without_secrets(rule)}: Rule("red", SqlRuleFilter("color = \'red\'"))'
            )
        if rule.action_parameters or (isinstance(rule.filter, SqlRuleFilter) and rule.filter.parameters):
            raise ValueError(
                f"the rule {rule.name!r:.200} has parameters, which AMQP cannot carry: write their values into the "
                "expression"
            )
        fields: dict[str, Any] = dict(_filter_fields(rule.filter))
        if rule.action:
            fields["sql-rule-action"] = {"expression": rule.action}
        await self._node.ask("add-rule", {"rule-name": rule.name, "rule-description": fields})

    @checked
    async def remove(self, name: str) -> None:
        """Remove a rule.

        Raises:
            EntityNotFound: no rule has that name.
            ServiceBusError: the token does not allow managing.
            DeliveryUncertain, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: see `add`.

        Cancelling: the rule may be removed.
        """
        await self._node.ask("remove-rule", {"rule-name": name})

    async def list(self) -> list[Rule]:
        """Return all rules.

        Raises:
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.

        Cancelling: nothing has changed.
        """
        found: list[Rule] = []
        while True:
            answer = await self._node.ask("enumerate-rules", {"skip": Int(len(found)), "top": Int(_PAGE)}, repeat=True)
            page = [_read(each) for each in listed(answer, "rules")]
            found += page
            if len(page) < _PAGE:
                return found

    def __repr__(self) -> str:
        return f"<SubscriptionRules {self._node.address!r}>"


def _filter_fields(rule_filter: RuleFilter) -> dict[str, Any]:
    match rule_filter:
        case SqlRuleFilter(expression):
            return {"sql-filter": {"expression": expression}}
        case TrueRuleFilter():
            return {"true-filter": {}}
        case FalseRuleFilter():
            return {"false-filter": {}}
    values = {name.replace("_", "-"): getattr(rule_filter, name) for name in CORRELATED}
    fields: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    return {"correlation-filter": {**fields, "properties": dict(rule_filter.properties)}}


def _read(entry: Any) -> Rule:
    """Return a rule of an answer.

    Raises:
        ServiceBusError: the rule is incomplete.
    """
    values = _values(entry.get("rule-description") if isinstance(entry, dict) else None)
    if len(values) < 3:
        raise ServiceBusError(
            None, f"a rule in an answer must have a filter, an action and a name, unlike {entry!r:.200}"
        )
    rule_filter, action, name, *rest = values
    changes = _values(action)
    return Rule(
        str(name), _read_filter(rule_filter), str(changes[0]) if changes else "", moment(rest[0]) if rest else None
    )


def _read_filter(described: Any) -> RuleFilter:
    # The last digit of a filter's descriptor says its kind.
    kind = (
        described.descriptor & 0xF if isinstance(described, Described) and isinstance(described.descriptor, int) else 7
    )
    values = _values(described)
    if kind == 6:
        return SqlRuleFilter(str(values[0]) if values else "")
    if kind == 8:
        return FalseRuleFilter()
    if kind != 9:
        return TrueRuleFilter()
    named: dict[str, Any] = dict(zip(CORRELATED, values, strict=False))
    properties = values[len(CORRELATED)] if len(values) > len(CORRELATED) else None
    return CorrelationRuleFilter(**named, properties=properties or {})


def _values(described: Any) -> list[Any]:
    value = described.value if isinstance(described, Described) else described
    return list(value) if isinstance(value, list | tuple) else []

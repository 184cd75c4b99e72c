"""The settings of entities as a store keeps them, from the configuration and the administration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from ..._azure_rules import CorrelationRuleFilter, FalseRuleFilter, Rule, RuleFilter, SqlRuleFilter, TrueRuleFilter
from ...types import decode, encode
from ._config import QueueConfig, SubscriptionConfig, TopicConfig

_CONFIGS: Final[dict[str, type[QueueConfig | TopicConfig | SubscriptionConfig]]] = {
    "queue": QueueConfig,
    "topic": TopicConfig,
    "subscription": SubscriptionConfig,
}
_FILTERS: Final[dict[str, type[RuleFilter]]] = {
    "true": TrueRuleFilter,
    "false": FalseRuleFilter,
    "sql": SqlRuleFilter,
    "correlation": CorrelationRuleFilter,
}


def stored_config(config: QueueConfig | TopicConfig | SubscriptionConfig) -> dict[str, Any]:
    """Return the settings of a queue, a topic without its subscriptions, or a subscription with its rules."""
    values = {each.name: getattr(config, each.name) for each in fields(config) if each.name != "subscriptions"}
    if isinstance(config, SubscriptionConfig):
        values["rules"] = [stored_rule(rule) for rule in config.rules]
    return {**values, "kind": next(kind for kind, each in _CONFIGS.items() if type(config) is each)}


def restored_config(values: Mapping[str, Any]) -> QueueConfig | TopicConfig | SubscriptionConfig:
    """Return stored settings.

    Raises:
        KeyError, TypeError, ValueError: they are invalid.
    """
    settings = dict(values)
    kind = _CONFIGS[settings.pop("kind")]
    if kind is SubscriptionConfig:
        settings["rules"] = [restored_rule(each) for each in settings["rules"]]
    return kind(**settings)


def stored_rule(rule: Rule) -> dict[str, Any]:
    """Return a rule as a store keeps it."""
    kind = next(kind for kind, each in _FILTERS.items() if type(rule.filter) is each)
    values = {each.name: getattr(rule.filter, each.name) for each in fields(rule.filter)}
    stored = {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}
    parameters = dict(rule.action_parameters)
    return {"name": rule.name, "kind": kind, "filter": stored, "action": rule.action, "parameters": parameters}


def restored_rule(values: Mapping[str, Any]) -> Rule:
    """Return a stored rule; see `restored_config`."""
    rule_filter = _FILTERS[values["kind"]](**values["filter"])
    return Rule(values["name"], rule_filter, values["action"], action_parameters=values["parameters"])


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two settings are the same in a store."""
    return encode(dict(one)) == encode(dict(other))


def restored_map(content: bytes) -> dict[str, Any]:
    """Return a stored map.

    Raises:
        DecodeError, TypeError: `content` is not an encoded map.
    """
    found = decode(content)
    if not isinstance(found, dict):
        raise TypeError(f"a record must be a map, not {type(found).__name__}")
    return found

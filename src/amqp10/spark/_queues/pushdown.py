"""Turns filters of a DataFrame into a selector that the broker applies.

Spark applies the filters again: the selector only saves the transfer of unwanted messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from ...messaging import selector_literal

# The JMS names that all brokers with selectors know: Broker-J does not map group-id to JMSXGroupID.
_NAMES: Final = {"subject": "JMSType", "priority": "JMSPriority"}
_COMPARED: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


def selector(filters: Iterable[Filter]) -> str | None:
    """Return a selector that matches at least the rows that the filters match; None if no filter translates."""
    conditions = [condition for each in filters if (condition := _condition(each)) is not None]
    return " AND ".join(conditions) or None


def _condition(each: Any) -> str | None:
    path: tuple[str, ...] = getattr(each, "attribute", ())
    name = _NAMES.get(path[0]) if len(path) == 1 else None
    if name is None:
        return None
    operator = _COMPARED.get(type(each))
    if operator is not None and (operator == "=" or name == "JMSPriority"):
        return f"{name} {operator} {selector_literal(each.value)}"  # strings cannot be ordered in a selector
    if isinstance(each, In) and each.value and None not in each.value:
        if name == "JMSPriority":
            return "(" + " OR ".join(f"{name} = {selector_literal(value)}" for value in each.value) + ")"
        return f"{name} IN ({', '.join(map(selector_literal, each.value))})"
    if isinstance(each, StringStartsWith) and not set(each.value) & set("%_!"):
        return f"{name} LIKE {selector_literal(each.value + '%')}"
    if isinstance(each, IsNotNull):
        return f"{name} IS NOT NULL"
    return None

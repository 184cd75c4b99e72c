"""Filters of a DataFrame as selectors: what is pushed lets nothing pass less than Spark does."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    IsNull,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from amqp10.spark._queues.pushdown import selector


@pytest.mark.parametrize(
    ("each", "condition"),
    [
        (EqualTo(("subject",), "it's"), "JMSType = 'it''s'"),
        (In(("subject",), ("a", "b")), "JMSType IN ('a', 'b')"),
        (In(("priority",), (1, 2)), "(JMSPriority = 1 OR JMSPriority = 2)"),
        (GreaterThan(("priority",), 4), "JMSPriority > 4"),
        (LessThanOrEqual(("priority",), 4), "JMSPriority <= 4"),
        (StringStartsWith(("subject",), "order."), "JMSType LIKE 'order.%'"),
        (IsNotNull(("subject",)), "JMSType IS NOT NULL"),
        (StringStartsWith(("subject",), "100%"), None),
        (GreaterThan(("subject",), "a"), None),
        (In(("subject",), ("a", None)), None),
        (EqualTo(("body",), "x"), None),
        (EqualTo(("group_id",), "x"), None),
        (EqualTo(("application_properties", "a"), "x"), None),
        (Not(EqualTo(("subject",), "x")), None),
        (IsNull(("subject",)), None),
        (StringContains(("subject",), "x"), None),
    ],
)
def test_one_filter(each: Filter, condition: str | None) -> None:
    """A condition on a field that brokers know by the same name, or none."""
    assert selector([each]) == condition


def test_several() -> None:
    """Those that can be said, joined; the others are Spark's alone."""
    filters = [EqualTo(("subject",), "a"), EqualTo(("body",), "x"), GreaterThan(("priority",), 4)]
    assert selector(filters) == "JMSType = 'a' AND JMSPriority > 4"
    assert selector([]) is None

"""Values and tables of AMQP/Fast for Hypothesis."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from amqp10.dialects.fast.wire.values import Seconds

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60)


tables = st.recursive(
    st.dictionaries(
        texts,
        st.one_of(
            st.fixed_dictionaries({"S": st.binary(max_size=40)}),
            st.fixed_dictionaries({"I": st.integers(-(2**31), 2**31 - 1)}),
            st.fixed_dictionaries({"D": st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(0, 255)).map(list)}),
            st.fixed_dictionaries({"T": st.integers(0, 2**64 - 1)}),
        ),
        max_size=4,
    ),
    lambda inner: st.dictionaries(texts, st.fixed_dictionaries({"F": inner}), max_size=3),
    max_leaves=4,
)


BY_TYPE = {
    "octet": st.integers(0, 2**8 - 1),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "bit": st.booleans(),
    "shortstr": texts,
    "longstr": st.binary(max_size=70_000),
    "table": tables,
}


def table(entries: dict[str, dict[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, typed in entries.items():
        ((kind, value),) = typed.items()
        if kind == "S":
            with suppress(UnicodeDecodeError):
                value = value.decode()
        elif kind == "D":
            value = Decimal(value[0]).scaleb(-value[1])
        elif kind == "T":
            value = Seconds(value)
        elif kind == "F":
            value = table(value)
        result[name] = value
    return result

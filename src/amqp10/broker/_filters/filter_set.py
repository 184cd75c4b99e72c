"""The filters that the broker applies: from the filter set of a source to a test of messages (§3.5.8).

A filter of an unknown kind is left out of the answer, so that the peer sees that it is not applied. A malformed filter
of a known kind is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...errors import DecodeError
from ...messaging import (
    ApplicationPropertiesFilter,
    DirectBinding,
    Filter,
    HeadersBinding,
    NoLocal,
    PropertiesFilter,
    Selector,
    SqlFilter,
    TopicBinding,
)
from ...types import Described, Symbol, ULong, encode
from .._errors import Refused
from .._log import report
from .._queues.message import QueuedMessage
from .._queues.selection import Filtering
from .predicates import (
    Malformed,
    Test,
    application_properties_filter,
    direct_binding,
    headers_binding,
    properties_filter,
    topic_binding,
)
from .selector.parser import parse
from .selector.tokens import JMS, SQL, Grammar, SelectorError
from .selector.values import MAX_STEPS, Candidate, conjunction

# "Impose a limit on the complexity of each filter expression" (AMQP filter expressions, section 7.1).
_MAX_FILTERS = 16
# Octets of conditions that take as long as one more message: the longest selectors take milliseconds.
_AS_ONE_MORE: Final = 256

# The capabilities that announce these filters: apache-filters.xml; AMQP filter expressions, section 3.
CAPABILITIES: Final = tuple(
    Symbol(name)
    for name in (
        "APACHE.ORG:SELECTOR",
        "APACHE.ORG:NO_LOCAL",
        "APACHE.ORG:LEGACY_AMQP_EXCHANGE_FILTERS",
        "AMQP_FILTEX_PROP_V1_0",
        "AMQP_FILTEX_SQL_V1_0",
    )
)


def read_filters(
    requested: Mapping[Any, Any] | None, connection: int
) -> tuple[dict[Any, Any] | None, Filtering | None]:
    """Return the filters that are applied, as the peer wrote them, and their joint test; None: no filter is applied.

    Args:
        requested: the filter set of the source.
        connection: the number of the connection that asks.

    Raises:
        Refused: `amqp:invalid-field`: a filter is malformed; the description says which, and where.
    """
    if not requested:
        return None, None
    if len(requested) > _MAX_FILTERS:
        raise _refusal(f"more than {_MAX_FILTERS} filters")
    applied: dict[Any, Any] = {}
    tests: list[Test] = []
    for name, described in requested.items():
        if described is None:
            continue
        if type(name) is not Symbol or type(described) is not Described:
            raise _refusal(f"the filter {name!r:.60} must be a described value under a symbol")
        descriptor = described.descriptor
        # §1.5: other descriptors have no meaning
        make = _MAKERS.get(descriptor) if type(descriptor) in (Symbol, ULong) else None
        if make is None:
            continue
        try:
            tests.append(make(described.value, connection))
        except (SelectorError, Malformed) as error:
            raise _refusal(f"the filter {name!s:.60}: {error}") from None
        applied[name] = described
    if not tests:
        return None, None
    local = connection if any(_is(NoLocal, described) for described in applied.values()) else None
    passes = _all(tests)
    key = encode(list(applied.values()))
    cost = len(key) // _AS_ONE_MORE

    def passes_known(entry: QueuedMessage, known: dict[str, Any]) -> bool:
        candidate = known.get("candidate")
        if candidate is None:
            candidate = known["candidate"] = Candidate(entry)
        return not candidate.unreadable and passes(candidate)

    return applied, Filtering((key, local), lambda entry: passes(Candidate(entry)), passes_known, cost)


def _refusal(description: str) -> Refused:
    return Refused("amqp:invalid-field", description)


def _is(kind: type[Filter], described: Described) -> bool:
    return described.descriptor in (kind.descriptor_name, kind.descriptor_code)


def _all(tests: list[Test]) -> Callable[[Candidate], bool]:
    """Return a joint test, which keeps within the steps of one message."""
    one = tests[0] if len(tests) == 1 else conjunction(tests)

    def passes(candidate: Candidate) -> bool:
        candidate.steps = MAX_STEPS
        try:
            return one(candidate) is True
        except DecodeError:
            # A message that cannot be read does not pass. It is marked, so that no other filter reads it again.
            candidate.unreadable = True
        except Exception as error:
            report("a filter failed; the message does not pass it", error)
        return False

    return passes


def _condition(grammar: Grammar) -> Callable[[Any, int], Test]:
    def make(value: Any, connection: int) -> Test:
        if not isinstance(value, str):
            raise Malformed("a selector must be a string")
        # An empty JMS selector passes everything (Jakarta Messaging 3.8.1).
        return parse(value, grammar) if value.strip() or grammar is SQL else lambda candidate: True

    return make


def _no_local(value: Any, connection: int) -> Test:
    return lambda candidate: candidate.entry.origin != connection


# From each descriptor of a kind to the function that makes a test from a filter's value and a connection.
_MAKERS: Final[dict[object, Callable[[Any, int], Test]]] = {
    descriptor: make
    for kind, make in (
        (Selector, _condition(JMS)),
        (SqlFilter, _condition(SQL)),
        (NoLocal, _no_local),
        (DirectBinding, lambda value, connection: direct_binding(value)),
        (TopicBinding, lambda value, connection: topic_binding(value)),
        (HeadersBinding, lambda value, connection: headers_binding(value)),
        (PropertiesFilter, lambda value, connection: properties_filter(value)),
        (ApplicationPropertiesFilter, lambda value, connection: application_properties_filter(value)),
    )
    for descriptor in (kind.descriptor_name, kind.descriptor_code)
}

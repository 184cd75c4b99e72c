"""Hypothesis strategies for messages, outcomes and termini (Part 3).

Generated values have the types that decoding returns, so that they survive a round trip unchanged. `exact_message`
makes messages comparable by value and type.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from ..messaging import (
    Accepted,
    AmqpSequence,
    AmqpValue,
    Coordinator,
    Data,
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    DeliveryState,
    Error,
    Message,
    MessageFields,
    MessageId,
    Modified,
    Outcome,
    Received,
    Rejected,
    Released,
    Source,
    Target,
)
from ..types import Symbol
from ._strategies import (
    amqp_values,
    binaries,
    booleans,
    described,
    exact,
    lists,
    scalars,
    strings,
    symbols,
    timestamps,
    ulongs,
    uuids,
)

MESSAGE_FIELDS: tuple[str, ...] = tuple(MessageFields.__annotations__)


def exact_message(message: Message) -> dict[str, Any]:
    """Return a message as a dict by field, equal only for messages of the same values and AMQP types."""
    return {name: _exact_field(getattr(message, name)) for name in MESSAGE_FIELDS} | {"body": exact_body(message.body)}


def _exact_field(value: Any) -> Any:
    return value if isinstance(value, timedelta) else exact(value)


def exact_body(body: Any) -> tuple[str, Any]:
    """Return the form of a body, and its content with AMQP types."""
    match body:
        case bytes():
            return "data", (body,)
        case Data():
            return "data", body.parts
        case AmqpSequence():
            return "amqp-sequence", tuple(map(exact, body.parts))
        case AmqpValue():
            return "amqp-value", exact(body.value)
        case _:
            return "amqp-value", exact(body)


# Messages


def message_ids() -> st.SearchStrategy[MessageId]:
    """Generate message-ids of each of the four types (§3.2.11-14)."""
    return st.one_of(ulongs(), uuids(), binaries(40), strings(40))


def annotation_maps(values: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[dict[Any, Any]]:
    """Generate annotations or a footer: symbols and ulongs to values of any type (§3.2.10)."""
    return st.dictionaries(symbols(20) | ulongs(), amqp_values(4) if values is None else values, max_size=4)


def application_properties() -> st.SearchStrategy[dict[str, Any]]:
    """Generate application-properties: strings to values of simple types (§3.2.5)."""
    return st.dictionaries(strings(20), scalars() | described(), max_size=5)


def headers() -> st.SearchStrategy[dict[str, Any]]:
    """Generate fields of the header (§3.2.1)."""
    uint = st.integers(0, 0xFFFF_FFFF)
    return st.fixed_dictionaries(
        {},
        optional={
            "durable": booleans(),
            "priority": st.integers(0, 255),
            "ttl": uint.map(lambda ms: timedelta(milliseconds=ms)),
            "first_acquirer": booleans(),
            "delivery_count": uint,
        },
    )


def properties() -> st.SearchStrategy[dict[str, Any]]:
    """Generate fields of the properties (§3.2.4)."""
    return st.fixed_dictionaries(
        {},
        optional={
            "message_id": message_ids(),
            "user_id": binaries(40),
            "to": strings(40),
            "subject": strings(40),
            "reply_to": strings(40),
            "correlation_id": message_ids(),
            "content_type": symbols(40),
            "content_encoding": symbols(20),
            "absolute_expiry_time": timestamps(),
            "creation_time": timestamps(),
            "group_id": strings(40),
            "group_sequence": st.integers(0, 0xFFFF_FFFF),
            "reply_to_group_id": strings(40),
        },
    )


def bodies(values: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[Any]:
    """Generate bodies of each form: bytes, `Data` of several sections, `AmqpSequence`, plain values, `AmqpValue`.

    `values` generates the contents of sequences and amqp-values, by default any AMQP value.
    """
    values = amqp_values(6) if values is None else values
    sequences = st.lists(lists(values, 3), min_size=1, max_size=3)
    return st.one_of(
        binaries(),
        st.lists(binaries(), min_size=2, max_size=4).map(lambda parts: Data(*parts)),
        sequences.map(lambda parts: AmqpSequence(*parts)),
        values.map(lambda value: AmqpValue(value) if isinstance(value, bytes) else value),
    )


def messages(
    body: st.SearchStrategy[Any] | None = None, values: st.SearchStrategy[Any] | None = None
) -> st.SearchStrategy[Message]:
    """Generate messages with any fields and body; `values` generates the values in annotations, footer and body."""
    sections: dict[str, st.SearchStrategy[Any]] = {
        "delivery_annotations": annotation_maps(values),
        "message_annotations": annotation_maps(values),
        "application_properties": application_properties(),
        "footer": annotation_maps(values),
    }

    def build(*parts: Any) -> Message:
        body, *fields = parts
        merged: dict[str, Any] = {name: value for each in fields for name, value in each.items()}
        return Message(body, **merged)

    maps = st.fixed_dictionaries({}, optional=sections)
    return st.builds(build, bodies(values) if body is None else body, headers(), properties(), maps)


# Delivery states and termini


def fields_maps() -> st.SearchStrategy[dict[Symbol, Any]]:
    """Generate maps of the type `fields`: symbols to values (§2.8.13)."""
    # No floating point: composites are compared by ==, and NaN is not equal to itself.
    return st.dictionaries(
        symbols(20), st.one_of(ulongs(), strings(20), symbols(20), uuids(), timestamps()), max_size=3
    )


def errors() -> st.SearchStrategy[Error]:
    """Generate `Error`."""
    return st.builds(Error, symbols(30), st.none() | strings(30), st.none() | fields_maps())


def outcomes() -> st.SearchStrategy[Outcome]:
    """Generate `Accepted`, `Rejected`, `Released` or `Modified`."""
    maybe = st.none() | booleans()
    return st.one_of(
        st.builds(Accepted),
        st.builds(Rejected, st.none() | errors()),
        st.builds(Released),
        st.builds(Modified, maybe, maybe, st.none() | fields_maps()),
    )


def delivery_states() -> st.SearchStrategy[DeliveryState]:
    """Generate an outcome, or `Received`."""
    return outcomes() | st.builds(Received, st.integers(0, 0xFFFF_FFFF), st.integers(0, 0xFFFF_FFFF_FFFF_FFFF))


_LIFETIMES = (DeleteOnClose(), DeleteOnNoLinks(), DeleteOnNoMessages(), DeleteOnNoLinksOrMessages())
_CAPABILITIES = st.lists(symbols(20), max_size=3).map(tuple)


def _terminus() -> Mapping[str, st.SearchStrategy[Any]]:
    lifetime = st.sampled_from(_LIFETIMES).map(lambda policy: {Symbol("lifetime-policy"): policy})
    return {
        "address": st.none() | strings(40),
        "durable": st.sampled_from(["none", "configuration", "unsettled-state"]),
        "expiry_policy": st.sampled_from(["link-detach", "session-end", "connection-close", "never"]),
        "timeout": st.integers(0, 0xFFFF_FFFF),
        "dynamic": booleans(),
        "dynamic_node_properties": st.none() | lifetime | fields_maps(),
        "capabilities": _CAPABILITIES,
    }


def sources() -> st.SearchStrategy[Source]:
    """Generate `Source`, with any of its fields."""
    own = {
        "distribution_mode": st.none() | st.sampled_from(["move", "copy"]),
        "filter": st.none() | st.dictionaries(symbols(20), described(strings(20)), max_size=2),
        "default_outcome": st.none() | outcomes(),
        "outcomes": st.lists(symbols(20), max_size=3).map(tuple),
    }
    return st.builds(Source, **_terminus(), **own)


def targets() -> st.SearchStrategy[Target]:
    """Generate `Target`, with any of its fields."""
    return st.builds(Target, **_terminus())


def coordinators() -> st.SearchStrategy[Coordinator]:
    """Generate `Coordinator`."""
    return st.builds(Coordinator, _CAPABILITIES)

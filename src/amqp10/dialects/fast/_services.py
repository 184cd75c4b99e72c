"""Termini of AMQP 1.0 as destinations of AMQP/Fast, and back: services, names, selectors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...errors import LocalProtocolError
from ...messaging import NoLocal, Selector, Source, Target
from ...types import Described, Symbol
from ._commands import HandleConsume, HandleOpen
from ._values import MAX_LONGSTR, MAX_SHORTSTR

if TYPE_CHECKING:
    from ...engine import LinkTerms

QUEUE: Final = 1
TOPIC: Final = 2
PEER: Final = 3
_TOPIC_WORDS: Final = frozenset({"topic", "temporary-topic"})
_SELECTORS: Final = frozenset({Selector.descriptor_name, Selector.descriptor_code})


def opening(terms: LinkTerms, *, producer: bool) -> HandleOpen:
    """The command that opens a handle to the terminus at the server.

    Raises:
        LocalProtocolError: its address can not be said.
    """
    terminus: Any = terms.target if producer else terms.source
    address = terminus.address if terminus is not None else None
    if len((address or "").encode()) > MAX_SHORTSTR or "\0" in (address or ""):
        raise LocalProtocolError(f"an address of more than {MAX_SHORTSTR} octets, or with a NUL")
    topic = terminus is not None and bool(_TOPIC_WORDS.intersection(terminus.capabilities))
    return HandleOpen(
        service_type=TOPIC if topic else QUEUE,
        producer=producer,
        consumer=not producer,
        temporary=terminus is not None and terminus.dynamic,
        dest_name=address or "",
        options={"name": terms.name} if len(terms.name.encode()) < 1024 else {},
    )


def termini_of(asked: LinkTerms, created: str | None) -> LinkTerms:
    """What a server that says nothing about it has given: what was asked for, as far as it can be asked for.

    Args:
        created: the name of a dynamic node.
    """
    source, target = asked.source, asked.target
    if isinstance(target, Target):
        target = Target(created or target.address, dynamic=target.dynamic, capabilities=target.capabilities)
    if isinstance(source, Source):
        source = Source(
            created if source.dynamic else source.address,
            durable=source.durable,
            expiry_policy=source.expiry_policy,
            timeout=source.timeout,
            dynamic=source.dynamic,
            distribution_mode=source.distribution_mode,
            filter=applied(source.filter) or None,
            outcomes=source.outcomes,
            capabilities=source.capabilities,
        )
    return replace(asked, source=source, target=target, unsettled=None, receiver_settle_mode="first", properties={})


def applied(filters: Any) -> dict[Any, Any]:
    """Those of the filters that AMQP/Fast can say: one selector."""
    for name, value in (filters or {}).items():
        if not isinstance(value, Described) or value.descriptor not in _SELECTORS:
            continue
        if isinstance(value.value, str) and len(value.value.encode()) <= MAX_LONGSTR:
            return {name: value}
    return {}


def selector_of(filters: Any) -> bytes:
    """The selector among the filters."""
    return b"".join(described.value.encode() for described in applied(filters).values())


def filters_of(selector: bytes) -> dict[Any, Any] | None:
    """A selector as a filter set.

    Raises:
        UnicodeDecodeError: it is no text.
    """
    if not selector:
        return None
    return {Symbol(Selector.usual_name): Selector(selector.decode()).described}


def target_of(opening: HandleOpen, name: str | None = None) -> Target:
    """The target that a producer's handle means; `name`: instead of the handle's, "" for the anonymous terminus."""
    address = opening.dest_name if name is None else name
    return Target(
        address or None,
        dynamic=opening.temporary and name is None,
        capabilities=_capabilities(opening),
    )


def source_of(opening: HandleOpen, command: HandleConsume | None) -> Source:
    """The source that a consumer's handle means, and what is said to consume; None: it is temporary.

    Raises:
        UnicodeDecodeError: the selector is no text.
    """
    if command is None:
        return Source(dynamic=True, capabilities=_capabilities(opening))
    filters = filters_of(command.selector) or {}
    if command.no_local:
        filters[Symbol(NoLocal.usual_name)] = NoLocal().described
    lasting = bool(command.identifier) and opening.service_type == TOPIC
    return Source(
        opening.dest_name + command.dest_name,
        durable="unsettled-state" if lasting else "none",
        expiry_policy="never" if lasting else "session-end",
        filter=filters or None,
        capabilities=_capabilities(opening),
    )


def _capabilities(opening: HandleOpen) -> tuple[Symbol, ...]:
    return (Symbol("topic"),) if opening.service_type == TOPIC else ()

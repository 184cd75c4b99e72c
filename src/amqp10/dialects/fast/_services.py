"""Termini of AMQP 1.0 as destinations of AMQP/Fast, and back: services, names, selectors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...errors import LocalProtocolError
from ...messaging import Filter, NoLocal, PropertiesFilter, Selector, Source, Target, outlives_link
from ...types import Described, Int, Symbol
from ._commands import HandleConsume, HandleOpen, HandleQuery
from ._values import MAX_LONGSTR, MAX_SHORTSTR

if TYPE_CHECKING:
    from ...engine import LinkTerms
    from ._values import Table

QUEUE: Final = 1
TOPIC: Final = 2
PEER: Final = 3
_TOPIC_WORDS: Final = frozenset({"topic", "temporary-topic"})
_SELECTORS: Final = frozenset({Selector.descriptor_name, Selector.descriptor_code})
_NO_LOCAL: Final = frozenset({NoLocal.descriptor_name, NoLocal.descriptor_code})
_PROPERTIES: Final = frozenset({PropertiesFilter.descriptor_name, PropertiesFilter.descriptor_code})


def opening(terms: LinkTerms, *, producer: bool) -> HandleOpen:
    """The command that opens a handle to the terminus at the server.

    Raises:
        LocalProtocolError: its address can not be said.
    """
    terminus: Any = terms.target if producer else terms.source
    address = (terminus.address if terminus is not None else None) or ""
    if len(address.encode()) > MAX_SHORTSTR or "\0" in address:
        raise LocalProtocolError(f"an address of more than {MAX_SHORTSTR} octets, or with a NUL")
    topic = terminus is None or bool(_TOPIC_WORDS.intersection(terminus.capabilities))
    return HandleOpen(
        service_type=TOPIC if topic else QUEUE,
        producer=producer,
        consumer=not producer,
        temporary=terminus is not None and terminus.dynamic,
        dest_name=address,
        options=_options(terms, terminus),
    )


def _options(terms: LinkTerms, terminus: Any) -> Table:
    """What a server that knows AMQP 1.0 may want to know; to any other it says nothing."""
    options: Table = {"name": terms.name} if len(terms.name.encode()) < 1024 else {}
    capabilities = terminus.capabilities if terminus is not None else terms.desired_capabilities
    if capabilities:
        options["capabilities"] = " ".join(capabilities)
    priority = terms.properties.get("priority")
    if isinstance(priority, int) and abs(priority) < 1 << 31:
        options["priority"] = int(priority)
    if terminus is not None and 0 < terminus.timeout < 1 << 31:
        options["timeout"] = int(terminus.timeout)
    return options


def identifier_of(terms: LinkTerms) -> str:
    """The name of a subscription that outlives its link; "" for any other source."""
    source = terms.source
    lasts = isinstance(source, Source) and outlives_link(source, None) and "topic" in source.capabilities
    return terms.name if lasts and len(terms.name.encode()) <= MAX_SHORTSTR else ""


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
            distribution_mode=source.distribution_mode or "move",
            filter=applied(source.filter) or None,
            outcomes=source.outcomes,
            capabilities=source.capabilities,
        )
    return replace(asked, source=source, target=target, unsettled=None, receiver_settle_mode="first", properties={})


def applied(filters: Any) -> dict[Any, Any]:
    """Those of the filters that AMQP/Fast can say: a selector, a content-type, and no-local, one of each."""
    sayable: dict[Any, Any] = {}
    kinds = set()
    for name, value in (filters or {}).items():
        kind = _kind_of(value)
        if kind is not None and kind not in kinds:
            kinds.add(kind)
            sayable[name] = value
    return sayable


def _kind_of(value: Any) -> type[Filter] | None:
    """Which of the three a filter is, if it is one and can be said."""
    if not isinstance(value, Described):
        return None
    said = value.value
    if value.descriptor in _SELECTORS and isinstance(said, str) and len(said.encode()) <= MAX_LONGSTR:
        return Selector
    if value.descriptor in _NO_LOCAL:
        return NoLocal
    if value.descriptor in _PROPERTIES and isinstance(said, dict) and said.keys() == {"content-type"}:
        mime_type = said[Symbol("content-type")]
        plain = isinstance(mime_type, str) and 0 < len(mime_type) <= MAX_SHORTSTR and not mime_type.startswith("&")
        return PropertiesFilter if plain else None
    return None


def restrict(command: HandleConsume | HandleQuery, source: Source | None) -> None:
    """Say the filters of a source in a command."""
    for value in applied(source.filter if source is not None else None).values():
        kind = _kind_of(value)
        if kind is Selector:
            command.selector = value.value.encode()
        elif kind is PropertiesFilter:
            command.mime_type = str(value.value[Symbol("content-type")])
        elif isinstance(command, HandleConsume):
            command.no_local = True


def filters_of(command: HandleConsume | HandleQuery) -> dict[Any, Any] | None:
    """What a command says of which messages are wanted, as a filter set.

    Raises:
        UnicodeDecodeError: the selector is no text.
    """
    filters: list[Filter] = []
    if command.selector:
        filters.append(Selector(command.selector.decode()))
    if command.mime_type:
        filters.append(PropertiesFilter(content_type=command.mime_type))
    if isinstance(command, HandleConsume) and command.no_local:
        filters.append(NoLocal())
    return {each.name: each.described for each in filters} or None


def target_of(opening: HandleOpen, name: str | None = None) -> Target:
    """The target that a producer's handle means; `name`: instead of the handle's, "" for the anonymous terminus."""
    address = opening.dest_name if name is None else name
    dynamic = opening.temporary and name is None
    return Target(address or None, dynamic=dynamic, capabilities=_capabilities(opening))


def temporary_source(opening: HandleOpen) -> Source:
    """The source of a handle to a temporary destination."""
    return Source(dynamic=True, capabilities=_capabilities(opening))


def source_of(opening: HandleOpen, command: HandleConsume | HandleQuery) -> Source:
    """The source that a consumer's or browser's handle means, and what is said to consume or to look at.

    Raises:
        UnicodeDecodeError: the selector is no text.
    """
    filters = filters_of(command)
    address = opening.dest_name + command.dest_name
    if isinstance(command, HandleQuery):
        return Source(address, distribution_mode="copy", filter=filters, capabilities=_capabilities(opening))
    lasting = bool(command.identifier) and opening.service_type == TOPIC
    timeout = opening.options.get("timeout") if lasting else None
    limited = isinstance(timeout, int) and timeout > 0
    return Source(
        address,
        durable="unsettled-state" if lasting else "none",
        expiry_policy="never" if lasting and not limited else "link-detach" if lasting else "session-end",
        timeout=timeout if isinstance(timeout, int) and limited else 0,
        filter=filters,
        capabilities=_capabilities(opening),
    )


def link_properties(opening: HandleOpen) -> dict[Symbol, Any]:
    """What the client says of the link itself."""
    priority = opening.options.get("priority")
    return {Symbol("priority"): Int(priority)} if isinstance(priority, int) else {}


def _capabilities(opening: HandleOpen) -> tuple[Symbol, ...]:
    said = opening.options.get("capabilities")
    words = said.split() if isinstance(said, str) and said.isascii() else []
    if opening.service_type == TOPIC and not _TOPIC_WORDS.intersection(words):
        words.append("topic")
    return tuple(map(Symbol, words))

"""Termini of AMQP 1.0 as destinations of AMQP/Fast, and back: services, names, selectors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ....errors import LocalProtocolError
from ....messaging import Filter, NoLocal, PropertiesFilter, Selector, Source, Target, outlives_link
from ....types import Described, Int, Symbol
from ..wire.commands import HandleConsume, HandleOpen, HandleQuery
from ..wire.values import MAX_LONGSTR, MAX_SHORTSTR

if TYPE_CHECKING:
    from ....engine import LinkTerms
    from ..wire.values import Table

QUEUE: Final = 1
TOPIC: Final = 2
PEER: Final = 3
_TOPIC_WORDS: Final = frozenset({"topic", "temporary-topic"})
_SELECTORS: Final = frozenset({Selector.descriptor_name, Selector.descriptor_code})
_NO_LOCAL: Final = frozenset({NoLocal.descriptor_name, NoLocal.descriptor_code})
_PROPERTIES: Final = frozenset({PropertiesFilter.descriptor_name, PropertiesFilter.descriptor_code})


def opening(terms: LinkTerms, *, producer: bool) -> HandleOpen:
    """Return the command that opens a handle to the terminus at the server.

    Raises:
        LocalProtocolError: the address of the terminus is too long, or has a NUL.
    """
    terminus: Any = terms.target if producer else terms.source
    address = (terminus.address if terminus is not None else None) or ""
    if len(address.encode()) > MAX_SHORTSTR or "\0" in address:
        raise LocalProtocolError(f"an address must have at most {MAX_SHORTSTR} octets, and no NUL")
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
    """Return options for servers that know AMQP 1.0; other servers ignore them."""
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
    """Return the name of a subscription that outlives its link; "" for any other source."""
    source = terms.source
    lasts = isinstance(source, Source) and outlives_link(source, None) and "topic" in source.capabilities
    return terms.name if lasts and len(terms.name.encode()) <= MAX_SHORTSTR else ""


def termini_of(requested: LinkTerms, created: str | None) -> LinkTerms:
    """Return the terms that the server has granted. It does not report them, so assume what AMQP/Fast can express.

    Args:
        created: the name of a dynamic node; None without one.
    """
    source, target = requested.source, requested.target
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
    return replace(requested, source=source, target=target, unsettled=None, receiver_settle_mode="first", properties={})


def applied(filters: Any) -> dict[Any, Any]:
    """Return the filters that AMQP/Fast can express: at most one selector, one content-type and one no-local."""
    sayable: dict[Any, Any] = {}
    kinds = set()
    for name, value in (filters or {}).items():
        kind = _kind_of(value)
        if kind is not None and kind not in kinds:
            kinds.add(kind)
            sayable[name] = value
    return sayable


def _kind_of(value: Any) -> type[Filter] | None:
    """Return which of the three kinds a filter is; None if AMQP/Fast cannot express it."""
    if not isinstance(value, Described):
        return None
    content = value.value
    if value.descriptor in _SELECTORS and isinstance(content, str) and len(content.encode()) <= MAX_LONGSTR:
        return Selector
    if value.descriptor in _NO_LOCAL:
        return NoLocal
    if value.descriptor in _PROPERTIES and isinstance(content, dict) and content.keys() == {"content-type"}:
        mime_type = content[Symbol("content-type")]
        plain = isinstance(mime_type, str) and 0 < len(mime_type) <= MAX_SHORTSTR and not mime_type.startswith("&")
        return PropertiesFilter if plain else None
    return None


def apply_filters(command: HandleConsume | HandleQuery, source: Source | None) -> None:
    """Write those filters of `source` that AMQP/Fast can express into `command`."""
    for value in applied(source.filter if source is not None else None).values():
        kind = _kind_of(value)
        if kind is Selector:
            command.selector = value.value.encode()
        elif kind is PropertiesFilter:
            command.mime_type = str(value.value[Symbol("content-type")])
        elif isinstance(command, HandleConsume):
            command.no_local = True


def filters_of(command: HandleConsume | HandleQuery) -> dict[Any, Any] | None:
    """Return the filters of a command as a filter set; None if the command has no filter.

    Raises:
        UnicodeDecodeError: the selector is not UTF-8 text.
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
    """Return the target of a producer's handle.

    Args:
        name: replaces the name that the handle was opened with; "" gives the anonymous terminus.
    """
    address = opening.dest_name if name is None else name
    dynamic = opening.temporary and name is None
    return Target(address or None, dynamic=dynamic, capabilities=_capabilities(opening))


def temporary_source(opening: HandleOpen) -> Source:
    """Return the source of a handle to a temporary destination."""
    return Source(dynamic=True, capabilities=_capabilities(opening))


def source_of(opening: HandleOpen, command: HandleConsume | HandleQuery) -> Source:
    """Return the source of a consumer's or browser's handle, from its opening and the command that consumes or looks.

    Raises:
        UnicodeDecodeError: the selector is not UTF-8 text.
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
    """Return the link properties that the client gave when it opened the handle: its priority, if any."""
    priority = opening.options.get("priority")
    return {Symbol("priority"): Int(priority)} if isinstance(priority, int) else {}


def _capabilities(opening: HandleOpen) -> tuple[Symbol, ...]:
    text = opening.options.get("capabilities")
    capabilities = text.split() if isinstance(text, str) and text.isascii() else []
    if opening.service_type == TOPIC and not _TOPIC_WORDS.intersection(capabilities):
        capabilities.append("topic")
    return tuple(map(Symbol, capabilities))

"""Filters select the messages of a source that a receiver gets (§3.5.8).

A filter set is a map from names, which the receiver chooses, to described values, whose descriptors name the kind of
filter. A message must pass every filter of the set. The specification defines no kinds; they are registered at
https://www.amqp.org/specification/1.0/filters or defined by brokers. A peer answers with the set that it applies, which
lacks the filters it does not know. For another filter of this package, see "How to add…" in CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Literal, Self

from ..._arguments import checked
from ...types import Described, Symbol, ULong

# Symbolic descriptors by numeric ones: a peer may answer a symbol with the number.
_NAME_OF: Final[dict[object, str]] = {}


class Filter:
    """One filter of a source: `Source("events", filters=[...])`.

    The subclasses are the filters that brokers implement. For another kind, write a subclass with its descriptors and a
    usual name, or put a `Described` under any name into `Source.filter`.

    Attributes:
        descriptor_name: the symbolic descriptor, which is sent, because every broker takes it.
        descriptor_code: the numeric descriptor; None if the kind has only a symbol.
        usual_name: the default key of this kind in the filter set; `named` sets another.
        name: the key of this filter.
        value: the condition, in AMQP types.
    """

    __slots__ = ("name", "value")

    descriptor_name: ClassVar[Symbol]
    descriptor_code: ClassVar[int | None] = None
    usual_name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.descriptor_code is not None:
            _NAME_OF[cls.descriptor_code] = str(cls.descriptor_name)

    def __init__(self, value: Any) -> None:
        self.name: Symbol = Symbol(self.usual_name)
        self.value: Any = value

    def named(self, name: str) -> Self:
        """Return the same filter under another key, for a set with two of a kind or a peer that expects the key."""
        twin = type(self).__new__(type(self))
        twin.name = Symbol(name)
        twin.value = self.value
        return twin

    @property
    def described(self) -> Described:
        """The value of the filter in the filter set."""
        return Described(self.descriptor_name, self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Filter):
            return NotImplemented
        return (self.name, self.described) == (other.name, other.described)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"


def filter_set(filters: Iterable[Filter], more: Mapping[Any, Any] | None = None) -> dict[Any, Any] | None:
    """Return the filter set of `filters` and `more`, whose values may be filters too; None if it is empty.

    Raises:
        ValueError: two filters have the same name.
    """
    together = {name: each.described if isinstance(each, Filter) else each for name, each in (more or {}).items()}
    for each in filters:
        if each.name in together:
            raise ValueError(f"two filters have the name {str(each.name)!r}: rename one with named()")
        together[each.name] = each.described
    return together or None


def unapplied_filters(requested: Mapping[Any, Any] | None, applied: Mapping[Any, Any] | None) -> dict[Any, Any]:
    """Return the filters in `requested` that are missing from `applied`, the peer's answer.

    Only kinds are compared: a peer may answer with the other descriptor, under another name, and with the value as it
    understood it.
    """
    answer = {name: value for name, value in (applied or {}).items() if value is not None}
    missing: dict[Any, Any] = {}
    for name, value in (requested or {}).items():
        if value is None:  # "acts as if there were no such key present" (§3.5.8)
            continue
        kind = _kind(value)
        if name in answer and _kind(answer[name]) in (kind, None):
            continue
        renamed = (other for other in answer if other not in (requested or {}) and _kind(answer[other]) == kind)
        found = next(renamed, None) if kind is not None else None
        if found is None:
            missing[name] = value
        else:
            del answer[found]
    return missing


def _kind(value: Any) -> object:
    """Return the kind of a value in a filter set; None for a value without a descriptor (§1.5)."""
    if not isinstance(value, Described) or type(value.descriptor) not in (Symbol, ULong):
        return None
    return _NAME_OF.get(value.descriptor, value.descriptor)


# Registered with the specification: https://svn.apache.org/repos/asf/qpid/trunk/qpid/specs/apache-filters.xml, also in
# apache/qpid-broker-j:specs/apache-filters.xml. Artemis, Broker-J, ActiveMQ, Azure and others implement some of them.


class NoLocal(Filter):
    """A filter against messages sent over the same connection (`apache.org:no-local-filter:list`).

    Artemis applies it only to topics.
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("apache.org:no-local-filter:list")
    descriptor_code: ClassVar[int] = 0x0000_468C_0000_0003
    usual_name = "no-local"

    def __init__(self) -> None:
        super().__init__([])

    def __repr__(self) -> str:
        return "NoLocal()"


@checked
class DirectBinding(Filter):
    """A filter for messages with exactly this subject (`apache.org:legacy-amqp-direct-binding:string`).

    At a direct exchange of a broker that also speaks older AMQP versions, the subject is the binding key.
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("apache.org:legacy-amqp-direct-binding:string")
    descriptor_code: ClassVar[int] = 0x0000_468C_0000_0000
    usual_name = "direct-binding"

    def __init__(self, subject: str) -> None:
        super().__init__(subject)


@checked
class TopicBinding(Filter):
    """A filter by a pattern of words between dots for the subject (`apache.org:legacy-amqp-topic-binding:string`).

    `*` matches one word, `#` any number of words: "*.stock.#" matches "usd.stock" and "eur.stock.db".
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("apache.org:legacy-amqp-topic-binding:string")
    descriptor_code: ClassVar[int] = 0x0000_468C_0000_0001
    usual_name = "topic-binding"

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)


@checked
class HeadersBinding(Filter):
    """A filter by application properties (`apache.org:legacy-amqp-headers-binding:map`).

    Args:
        headers: values by name; None for any value. The peer ignores names that begin with "x-".
        match: whether "all" headers must match, or "any".

    Raises:
        ValueError: `match` is another word, or a header is named "x-match".
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("apache.org:legacy-amqp-headers-binding:map")
    descriptor_code: ClassVar[int] = 0x0000_468C_0000_0002
    usual_name = "headers-binding"

    def __init__(self, headers: Mapping[str, Any], match: Literal["all", "any"] = "all") -> None:
        if "x-match" in headers:
            raise ValueError("x-match must be given as `match`")
        super().__init__({"x-match": Symbol(match), **headers})

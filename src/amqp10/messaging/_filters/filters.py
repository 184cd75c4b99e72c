"""Filters: which messages of a source a receiver is given (§3.5.8).

A filter set is a map: under a name of the receiver's choice stands a described value, whose descriptor says what kind
of filter it is. A message passes if it passes every filter of the set. The kinds are no part of the specification but
extensions of it, registered at https://www.amqp.org/specification/1.0/filters or invented by brokers; a peer answers
with the set that it does apply, and what it does not know is simply missing there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Self

from ...types import Described, Symbol, ULong

# Filters by their other descriptors: a peer may answer with the number where the symbol was said.
_NAME_OF: Final[dict[object, str]] = {}


class Filter:
    """One filter of a source: `Source("events", filters=[...])`.

    The subclasses are the filters that brokers are known to have. For another kind write a subclass with descriptors
    and a usual name, or put a `Described` under a name of your own into `Source.filter`.

    Attributes:
        descriptor_name: the symbolic descriptor. It is the one that is sent: every broker takes it.
        descriptor_code: the numeric descriptor; None for a filter with a symbol alone.
        usual_name: the key in the filter set that filters of this kind have, unless they are `named`.
        name: this filter's key.
        value: what it says, in AMQP types.
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
        """Return the same filter under another key, where a set has two of a kind or a peer expects it."""
        twin = type(self).__new__(type(self))
        twin.name = Symbol(name)
        twin.value = self.value
        return twin

    @property
    def described(self) -> Described:
        """The filter as it stands in the filter set."""
        return Described(self.descriptor_name, self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Filter):
            return NotImplemented
        return (self.name, self.described) == (other.name, other.described)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"


def filter_set(filters: Iterable[Filter], more: Mapping[Any, Any] | None = None) -> dict[Any, Any] | None:
    """Return the filter set of these filters and those in `more`, whose values may be filters too; None if empty.

    Raises:
        ValueError: two of them have the same name.
    """
    together = {name: each.described if isinstance(each, Filter) else each for name, each in (more or {}).items()}
    for each in filters:
        if each.name in together:
            raise ValueError(f"two filters have the name {str(each.name)!r}: rename one with named()")
        together[each.name] = each.described
    return together or None


def unapplied_filters(asked: Mapping[Any, Any] | None, applied: Mapping[Any, Any] | None) -> dict[Any, Any]:
    """Return the filters in `asked` that are not in `applied`, the ones that the peer says it applies.

    Kinds are compared, not values: a peer may answer with the other of a filter's two descriptors, under another name,
    and with the value as it understood it.
    """
    answer = {name: value for name, value in (applied or {}).items() if value is not None}
    missing: dict[Any, Any] = {}
    for name, value in (asked or {}).items():
        if value is None:  # "acts as if there were no such key present" (§3.5.8)
            continue
        kind = _kind(value)
        if name in answer and _kind(answer[name]) in (kind, None):
            continue
        renamed = (other for other in answer if other not in (asked or {}) and _kind(answer[other]) == kind)
        found = next(renamed, None) if kind is not None else None
        if found is None:
            missing[name] = value
        else:
            del answer[found]
    return missing


def _kind(value: Any) -> object:
    """Return the kind of a filter set's value; None for one without a descriptor (§1.5), which has only its key."""
    if not isinstance(value, Described) or type(value.descriptor) not in (Symbol, ULong):
        return None
    return _NAME_OF.get(value.descriptor, value.descriptor)


# https://svn.apache.org/repos/asf/qpid/trunk/qpid/specs/apache-filters.xml, registered with the specification; the text
# is also in apache/qpid-broker-j:specs/apache-filters.xml. Artemis, Broker-J, ActiveMQ, Azure and others have parts.


class NoLocal(Filter):
    """Nothing that was sent over this same connection (`apache.org:no-local-filter:list`).

    Artemis applies it to topics only.
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("apache.org:no-local-filter:list")
    descriptor_code: ClassVar[int] = 0x0000_468C_0000_0003
    usual_name = "no-local"

    def __init__(self) -> None:
        super().__init__([])

    def __repr__(self) -> str:
        return "NoLocal()"


class DirectBinding(Filter):
    """Messages whose subject is exactly this one (`apache.org:legacy-amqp-direct-binding:string`).

    Over a direct exchange of a broker that also speaks the older AMQPs it is the binding key.
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("apache.org:legacy-amqp-direct-binding:string")
    descriptor_code: ClassVar[int] = 0x0000_468C_0000_0000
    usual_name = "direct-binding"

    def __init__(self, subject: str) -> None:
        super().__init__(subject)


class TopicBinding(Filter):
    """Messages whose subject fits a pattern of words between dots (`apache.org:legacy-amqp-topic-binding:string`).

    `*` stands for one word, `#` for none or more: "*.stock.#" takes "usd.stock" and "eur.stock.db".
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("apache.org:legacy-amqp-topic-binding:string")
    descriptor_code: ClassVar[int] = 0x0000_468C_0000_0001
    usual_name = "topic-binding"

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)


class HeadersBinding(Filter):
    """Messages with these application properties (`apache.org:legacy-amqp-headers-binding:map`).

    Args:
        headers: name to value; None for any value. Names that begin with "x-" are ignored by the peer.
        match: "all" of them have to match, or "any".

    Raises:
        ValueError: `match` is another word, or a header is named "x-match".
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("apache.org:legacy-amqp-headers-binding:map")
    descriptor_code: ClassVar[int] = 0x0000_468C_0000_0002
    usual_name = "headers-binding"

    def __init__(self, headers: Mapping[str, Any], match: str = "all") -> None:
        if match not in ("all", "any"):
            raise ValueError(f"match must be 'all' or 'any', not {match!r}")
        if "x-match" in headers:
            raise ValueError("x-match must be given as `match`")
        super().__init__({"x-match": Symbol(match), **headers})

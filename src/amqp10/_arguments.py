"""Checks of arguments: a wrong type or a number out of range becomes an error that names argument, value and rule.

`checked` compares arguments with the annotations of what is called. It is for calls that a program makes now and then,
not for those that it makes for each message.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from itertools import chain, repeat
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

F = TypeVar("F", bound=Callable[..., Any])

SECRETS: Final = frozenset({"cert", "credential", "key", "key_password", "password", "secret", "users", "where"}) | {
    *("headers", "proxy", "sasl", "tls", "token", "tokens", "url")
}
"""The arguments whose value no error shows, because it may contain a secret."""

_MOMENT: Final = "datetime.now(UTC) + timedelta(hours=1) is one with a time zone"
_ADVICE: Final = {
    "at": _MOMENT,
    "azure": "AzureConfig.read('Config.json') reads one",
    "before": _MOMENT,
    "filter": "SqlFilter(\"color = 'red'\") takes SQL",
    "handler": "write it with `async def`",
    "messages": "use send() for one message, or make it a list",
    "partition": "hub.properties() lists all ids",
    "rule": 'Rule("red", SqlFilter("color = \'red\'")) is one',
    "sasl": "amqp10.Plain(USER, PASSWORD) is one, and False leaves the SASL layer out",
    "session_id": "next_session() takes any session",
    "start": "EventPosition.first() begins with the oldest event",
    "state": "encode it",
    "updated_after": _MOMENT,
    "tls": "amqp10.TLS() has the usual settings, and so does amqps:// in the URL",
    "tokens": "LoginTokens(source) or CbsTokens(source) takes what gives tokens",
}
"""What to try, by the name of the argument."""

_LISTS: Final = (Collection, Iterable, Sequence)
_SPELLED: Final = {
    bool: "True or False",
    bytes: "bytes",
    float: "a number",
    types.NoneType: "None",
    Callable: "a function",
    Mapping: "a mapping",
}


def checked(target: F) -> F:
    """Decorate a function, or a class with an `__init__`: check its arguments against its annotations.

    An annotation that cannot be evaluated at runtime, such as that of an import for type checkers, is not checked.

    The decorated function raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument is not one of the words of its `Literal`.
    """
    if isinstance(target, type):
        target.__init__ = checked(target.__init__)  # type: ignore[misc]
        return target
    parameters = inspect.signature(target).parameters.values()
    positional = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    rest = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), "")

    @functools.cache
    def hints() -> dict[str, Any]:
        return hints_of(target)

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for name, value in chain(zip(chain(positional, repeat(rest)), args), kwargs.items()):  # noqa: B905
            if name in hints():
                check_type(name, value, hints()[name])

    if inspect.iscoroutinefunction(target):

        @functools.wraps(target)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            check(args, kwargs)
            return await target(*args, **kwargs)

        return typing.cast(F, call_async)

    @functools.wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        check(args, kwargs)
        return target(*args, **kwargs)

    return typing.cast(F, call)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the evaluated annotations of a function's parameters, except `**` ones."""
    hints: dict[str, Any] = {}
    for each in inspect.signature(function).parameters.values():
        if each.annotation is each.empty or each.kind is each.VAR_KEYWORD:
            continue
        try:
            hints[each.name] = _evaluated(each.annotation, function.__globals__)
        except NameError:
            continue
    return hints


def check_fields(instance: Any) -> None:
    """Check the fields of a dataclass against their annotations, for one that has checks of its own before.

    Raises:
        TypeError, ValueError: see `check_settings`.
    """
    check_settings({each.name: getattr(instance, each.name) for each in fields(instance)}, type(instance))


def check_settings(settings: Mapping[str, object], kind: type) -> None:
    """Check settings against the annotations of `kind`, a `TypedDict` or a dataclass.

    Raises:
        TypeError: a setting has the wrong type.
        ValueError: a setting is not one of the words of its `Literal`.
    """
    hints = _hints_of_class(kind)
    for name, value in settings.items():
        check_type(name, value, hints[name])


_hints_of_class = functools.cache(typing.get_type_hints)


def check_type(name: str, value: object, hint: Any) -> None:
    """Check that a value fits an annotation.

    Args:
        name: the name of the argument.

    Raises:
        TypeError: `value` has another type.
        ValueError: `value` is NaN, or not one of the words of a `Literal`.
    """
    if _fits(value, hint):
        return
    rule, advice = _spelled(hint), _ADVICE.get(name)
    unknown_word = isinstance(value, str | list | tuple) and re.search("(one|some) of ", rule)
    not_a_number = isinstance(value, float) and math.isnan(value)
    error = ValueError if unknown_word or not_a_number else TypeError
    if isinstance(value, str) and "a sequence of str" in rule and name not in SECRETS:
        advice = f"write {name}=[{value!r:.200}]"
    elif isinstance(value, timedelta) and "a number" in rule:
        advice = "timedelta.total_seconds() returns one"
    elif value is None and name in SECRETS:
        advice = "if an environment variable has it, look whether that is set"
    raise error(f"{name} must be {rule}, not {_shown(name, value)}{f'; {advice}' if advice else ''}")


def check_range(name: str, value: float, least: float, most: float = math.inf, *, above: bool = False) -> None:
    """Check that a number is in a range.

    Args:
        name: the name of the argument.
        least, most: the smallest and the largest number that is valid.
        above: `least` itself is not valid.

    Raises:
        ValueError: `value` is out of range.
    """
    if least <= value <= most and not (above and value == least):
        return
    if most < math.inf:
        rule = f"in {least}..{most}" if not above else f"more than {least} and at most {most}"
    else:
        rule = f"more than {least}" if above else f"at least {least}"
    raise ValueError(f"{name} must be {rule}, not {value}")


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    return eval(annotation, names) if isinstance(annotation, str) else annotation


def _alternatives(hint: Any) -> Iterable[Any]:
    """Yield the members of a union, however nested; another annotation is its only member."""
    if get_origin(hint) in (Union, types.UnionType):
        for each in get_args(hint):
            yield from _alternatives(each)
    else:
        yield types.NoneType if hint is None else hint


def _fits(value: object, hint: Any) -> bool:
    return any(_fits_one(value, each, get_origin(each) or each) for each in _alternatives(hint))


def _fits_one(value: object, hint: Any, kind: Any) -> bool:
    if kind is Literal:
        return value in get_args(hint)
    if kind is Callable:
        return callable(value)
    if kind is float:
        return (isinstance(value, float) and not math.isnan(value)) or _fits_one(value, int, int)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    unknown = kind is Any or not isinstance(kind, type)
    if unknown or (getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False)):
        return True  # it cannot be told at runtime
    if not isinstance(value, kind) or (kind in _LISTS and isinstance(value, str | bytes)):
        return False  # a text is a sequence of texts too, but hardly meant as one
    members = get_args(hint)
    if isinstance(value, Mapping) and len(members) == 2:
        return all(_fits(key, members[0]) and _fits(item, members[1]) for key, item in value.items())
    if kind is tuple and members and ... not in members:
        return len(value) == len(members) and all(map(_fits, value, members))
    if isinstance(value, list | tuple) and members:
        return all(_fits(each, members[0]) for each in value)
    return True


def _spelled(hint: Any) -> str:
    texts = [_SPELLED.get(get_origin(each) or each) or _spelled_one(each) for each in _alternatives(hint)]
    return " or ".join(dict.fromkeys(texts))


def _spelled_one(hint: Any) -> str:
    kind, members = get_origin(hint) or hint, get_args(hint)
    if kind is Literal:
        return f"one of {', '.join(map(str, members))}" if len(members) > 1 else str(*members)
    if kind is tuple and members and ... not in members:
        return f"a tuple of {', '.join(map(_spelled, members))}"
    if kind in (*_LISTS, list, tuple):
        if not members or members[0] is Any:
            return "a sequence"
        if get_origin(members[0]) is Literal:
            return f"some of {', '.join(map(str, get_args(members[0])))}"
        return f"a sequence of {_spelled(members[0]).removeprefix('an ').removeprefix('a ')}"
    return _with_article(kind.__name__)


def _shown(name: str, value: object) -> str:
    return _with_article(type(value).__name__) if name in SECRETS else f"{value!r:.200}"


def _with_article(noun: str) -> str:
    spoken_as_letters = noun[:2].isupper() and noun[0] in "FHLMNRSX"
    return f"{'an' if noun[0] in 'AEIOaeio' or spoken_as_letters else 'a'} {noun}"

"""Checks of arguments: a wrong type or a number out of range becomes an error that names argument, value and rule.

`checked` compares arguments with the annotations of what is called. It is for calls that a program makes now and then,
not for those that it makes for each message.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import fields
from datetime import timedelta
from itertools import chain, repeat
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

from .secrets import SECRETS, without_secrets
from .unknown import no_argument, too_many

F = TypeVar("F", bound=Callable[..., Any])

_MOMENT: Final = "datetime.now(UTC) + timedelta(hours=1) is one with a time zone"
_ADVICE: Final = {
    "at": _MOMENT,
    "azure": "AzureConfig.read('Config.json') reads one",
    "before": _MOMENT,
    "connection": "Connection(URL) is one",
    "filter": "SqlRuleFilter(\"color = 'red'\") takes SQL",
    "handler": "write it with `async def`",
    "moment": _MOMENT,
    "messages": "use send() for one message, or make it a list",
    "offset": "event.offset is one, and EventPosition.first() begins with the oldest event",
    "partition": "hub.properties() lists all ids",
    "reason": "a number of seconds is for Retry(delay=10)",
    "reconnect": "Reconnect() has the usual settings",
    "retries": "Retries(attempts=3) is one",
    "replies": "connection.requester(address) makes a Requester",
    "rule": 'Rule("red", SqlRuleFilter("color = \'red\'")) is one',
    "sasl": "amqp10.Plain(USER, PASSWORD) is one, and False leaves the SASL layer out",
    "session_id": "next_session() takes any session",
    "start": "EventPosition.first() begins with the oldest event",
    "state": "encode it",
    "updated_after": _MOMENT,
    "tls": "amqp10.TLS() has the usual settings, and so does amqps:// in the URL",
    "url": "amqp://USER:PASSWORD@HOST is one",
    "tokens": "LoginTokens(source) or CbsTokens(source) takes what gives tokens",
}
"""What to try, by the name of the argument, which means one thing in the whole package."""

_LISTS: Final = (Collection, Iterable, Sequence)
_SPELLED: Final = {
    bool: "True or False",
    bytes: "bytes",
    float: "a number",
    types.NoneType: "None",
    Callable: "a function",
    Mapping: "a mapping",
    type: "a class",
}


def checked(target: F) -> F:
    """Decorate a function, or a class with an `__init__`: check its arguments against its annotations.

    An argument is not checked if its annotation has a name that only type checkers import.

    The decorated function raises:
        TypeError: an argument is unknown or has the wrong type.
        ValueError: an argument is not one of the words of its `Literal`.
    """
    if isinstance(target, type):
        target.__init__ = checked(target.__init__)  # type: ignore[misc]
        return target
    parameters = inspect.signature(target).parameters.values()
    positional = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    rest = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), "")
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    takes_any = any(each.kind is each.VAR_KEYWORD and "Unpack[" not in str(each.annotation) for each in parameters)

    @functools.cache
    def hints() -> dict[str, Any]:
        return hints_of(target)

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if len(args) > len(positional) and not rest:
            raise TypeError(too_many(target, positional, [each for each in named if each not in positional]))
        for name in kwargs:
            if not (takes_any or name in named or name in hints()):
                raise TypeError(no_argument(target, name, dict.fromkeys([*named, *hints()])))
        names = chain(positional, repeat(rest))  # what is left belongs to *args
        for name, value in chain(zip(names, args), kwargs.items()):  # noqa: B905
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
    """Return the evaluated annotations of a function's arguments; for `**` of a `TypedDict`, of its keys."""
    hints: dict[str, Any] = {}
    for each in inspect.signature(function).parameters.values():
        if each.annotation is each.empty:
            continue
        try:
            hint = _evaluated(each.annotation, function.__globals__)
        except NameError:
            continue
        if each.kind is not each.VAR_KEYWORD:
            hints[each.name] = hint
        elif get_origin(hint) is typing.Unpack:
            hints |= _hints_of_class(*get_args(hint))
    return hints


def check_fields(instance: Any) -> None:
    """Check the fields of a dataclass against their annotations.

    For a `__post_init__` that must make other checks first; otherwise use `@checked`.

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


def check_keywords(function: Callable[..., Any], keywords: Mapping[str, object], kind: type) -> None:
    """Check the keyword arguments that a function takes by a `TypedDict` which only type checkers import there.

    Raises:
        TypeError: one is unknown or has the wrong type.
        ValueError: one is not one of the words of its `Literal`.
    """
    for name in keywords:
        if name not in _hints_of_class(kind):
            raise TypeError(no_argument(function, name, _hints_of_class(kind)))
    check_settings(keywords, kind)


_hints_of_class = functools.cache(typing.get_type_hints)


def check_type(name: str, value: object, hint: Any) -> None:
    """Check that a value fits an annotation.

    Args:
        name: the name of the argument.

    Raises:
        TypeError: `value` has another type.
        ValueError: `value` is NaN, or not one of the words of a `Literal`.
    """
    if not _fits(value, hint):
        raise _error(name, value, hint)


def check_range(name: str, value: float, least: float, most: float = math.inf, *, exclusive: bool = False) -> None:
    """Check that a number is in a range.

    Args:
        name: the name of the argument.
        least, most: the smallest and the largest number that is valid.
        exclusive: `least` itself is not valid.

    Raises:
        ValueError: `value` is out of range.
    """
    if least <= value <= most and not (exclusive and value == least):
        return
    if most < math.inf:
        rule = f"in {least}..{most}" if not exclusive else f"more than {least} and at most {most}"
    else:
        rule = f"more than {least}" if exclusive else f"at least {least}"
    raise ValueError(f"{name} must be {rule}, not {value}")


@contextmanager
def file_of(name: str) -> Iterator[None]:
    """Name the argument in the error of a file that cannot be opened in the block.

    Args:
        name: the name of the argument.

    Raises:
        OSError: of the same class, with the same number and file.
    """
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno, f"{name} must be a file that can be opened: {error.strerror}", error.filename
        ) from None


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    return eval(annotation, names) if isinstance(annotation, str) else annotation


def _alternatives(hint: Any) -> Iterable[Any]:
    """Yield the members of a union, however nested; another annotation is its only member."""
    if get_origin(hint) in (Union, types.UnionType):
        for each in get_args(hint):
            yield from _alternatives(each)
    elif isinstance(hint, TypeVar) and hint.__bound__ is not None:
        yield from _alternatives(hint.__bound__)
    else:
        yield types.NoneType if hint is None else hint


def _fits(value: object, hint: Any) -> bool:
    return any(_fits_member(value, each, get_origin(each) or each) for each in _alternatives(hint))


def _fits_member(value: object, hint: Any, kind: Any) -> bool:
    if kind is Literal:
        return value in get_args(hint)
    if kind is Callable:
        return callable(value)
    if kind is float:
        return (isinstance(value, float) and not math.isnan(value)) or _fits_member(value, int, int)
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
    if isinstance(value, list | tuple) and members and members[0] is not object:
        return all(_fits(each, members[0]) for each in value)
    return True


def _error(name: str, value: object, hint: Any) -> TypeError | ValueError:
    """Return the error for a value that does not fit its annotation."""
    allowed = list(_alternatives(hint))
    unknown_word = isinstance(value, str | list | tuple) and any(map(_has_words, allowed))
    not_a_number = isinstance(value, float) and math.isnan(value)
    advice = _ADVICE.get(name)
    if isinstance(value, str) and any(map(_is_list_of_str, allowed)) and name not in SECRETS:
        advice = f"write {name}=[{without_secrets(value)}]"
    elif isinstance(value, type) and any(map(_is_list_of_classes, allowed)):
        advice = f"write {name}=({value.__name__},)"
    elif isinstance(value, Mapping) and (pair := next(filter(_is_mapping, allowed), None)) is not None:
        key, item = map(_spelled, get_args(pair))
        advice = f"each key must be {key}, and each value {item}"
    elif isinstance(value, timedelta) and float in allowed:
        advice = "timedelta.total_seconds() returns one"
    elif value is None and name in SECRETS:
        advice = "if an environment variable has it, look whether that is set"
    elif advice is None and any(get_origin(each) is Callable for each in allowed):
        advice = "give the name of a function, without (), or a lambda"
    text = f"{name} must be {_spelled(hint)}, not {_shown(name, value, hint)}{f'; {advice}' if advice else ''}"
    return ValueError(text) if unknown_word or not_a_number else TypeError(text)


def _has_words(hint: Any) -> bool:
    """Return whether a hint is a `Literal` of several words, or a sequence of them."""
    if get_origin(hint) is Literal:
        return len(get_args(hint)) > 1
    return _is_list(hint) and get_origin(get_args(hint)[0]) is Literal


def _is_list_of_str(hint: Any) -> bool:
    return _is_list(hint) and str in _alternatives(get_args(hint)[0])


def _is_list_of_classes(hint: Any) -> bool:
    return _is_list(hint) and get_origin(get_args(hint)[0]) is type


def _is_list(hint: Any) -> bool:
    """Return whether a hint is a sequence of any length, with a hint for its members."""
    kind, members = get_origin(hint), get_args(hint)
    return (kind in (*_LISTS, list) and bool(members)) or (kind is tuple and ... in members)


def _is_mapping(hint: Any) -> bool:
    return get_origin(hint) is Mapping and len(get_args(hint)) == 2


def _spelled(hint: Any) -> str:
    texts = [_SPELLED.get(get_origin(each) or each) or _spell_member(each) for each in _alternatives(hint)]
    return " or ".join(dict.fromkeys(texts))


def _spell_member(hint: Any) -> str:
    kind, members = get_origin(hint) or hint, get_args(hint)
    if kind is Literal:
        return f"one of {', '.join(map(str, members))}" if len(members) > 1 else str(*members)
    if kind is tuple and members and ... not in members:
        return f"a tuple ({', '.join(map(_spelled, members))})"
    if kind in (*_LISTS, list, tuple):
        if not members or members[0] in (Any, object):
            return "a sequence"
        if (get_origin(members[0]) or members[0]) is type:
            return "a sequence of classes"
        if get_origin(members[0]) is Literal:
            return f"some of {', '.join(map(str, get_args(members[0])))}"
        return f"a sequence of {_spelled(members[0]).removeprefix('an ').removeprefix('a ')}"
    return with_article(kind.__name__)


def _shown(name: str, value: object, hint: Any) -> str:
    """Return the value as an error shows it: never with a password.

    A text where none belongs may be one, for instance a URL in place of a connection: only its type is shown.
    """
    may_have_text = isinstance(value, str | bytes | bytearray | Mapping | Set | list | tuple)
    if name not in SECRETS and not (may_have_text and not _takes_words(hint)):
        return without_secrets(value)
    kind = with_article(type(value).__name__)
    if name not in SECRETS and isinstance(value, list | tuple) and value:
        return f"{kind} of {', '.join(sorted({type(each).__name__ for each in value})):.200}"
    return kind


def _takes_words(hint: Any) -> bool:
    """Return whether a text or number fits an annotation or its members."""
    for each in _alternatives(hint):
        kind = get_origin(each) or each
        if kind in (str, bytes, int, float, bool, Literal):
            return True
        if kind is not Callable and any(map(_takes_words, get_args(each))):
            return True
    return False


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 message" or "2 deliveries"."""
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count} {noun}"


def with_article(noun: str) -> str:
    """Return a noun, such as the name of a class, behind "a" or "an"."""
    spoken_as_letters = noun[:2].isupper() and noun[0] in "FHLMNRSX"
    return f"{'an' if noun[0] in 'AEIOaeio' or spoken_as_letters else 'a'} {noun}"

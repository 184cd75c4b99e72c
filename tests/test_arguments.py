"""What a program is told that passes an argument of the wrong type, or a number that is out of range."""

from __future__ import annotations

import errno
import importlib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest

from amqp10 import (
    TLS,
    Connection,
    ConnectionSettings,
    Message,
    OAuthBearer,
    Reconnect,
    Requester,
    Retries,
    Retry,
    Source,
    StreamOffset,
    Target,
    Worker,
    bridge,
)
from amqp10._arguments import SECRETS, check_type, checked, counted, hints_of
from amqp10.broker import Broker, read_config
from amqp10.broker.azure import AzureConfig, EventHubConfig, QueueConfig, SubscriptionConfig, TopicConfig
from amqp10.rabbitmq import management

from .kit.public_calls import NotMade, PublicCall, public_calls
from .kit.steps import steps

PACKAGES = (
    *("", ".azure", ".bridging", ".broker", ".broker.azure", ".otel", ".rabbitmq", ".sasl", ".testing", ".worker"),
    *(".native.amqp_0_9_1", ".native.amqp_0_10", ".native.fast"),
)


class Wrong:
    """A value of a type that no argument has."""

    def __repr__(self) -> str:
        return "<hunter2>"


def checked_calls() -> Iterator[Callable[..., Any]]:
    """Yield the checked constructors, methods and functions of the public packages."""
    for name in PACKAGES:
        package = importlib.import_module(f"amqp10{name}")
        for public in [getattr(package, each) for each in getattr(package, "__all__", ["Native"])]:
            members = [getattr(public, each, None) for each in dir(public)] if inspect.isclass(public) else []
            for member in [public, *members]:
                function = getattr(member, "__func__", member)
                if inspect.isfunction(function) and function.__code__.co_filename == checked.__code__.co_filename:
                    yield function


CALLS = sorted(set(checked_calls()), key=lambda call: (call.__module__, call.__qualname__))


UNCHECKED = {
    "BlobLeases.__init__": {"container"},  # of an optional dependency
    "Broker.__init__": {"azure"},  # the constructor checks it, so that other brokers need not import its class
    "PostgreSQLLeases.__init__": {"pool"},  # of an optional dependency
    "SessionWorker.__init__": {"bus"},  # the constructor checks it, so that other workers need not import its class
}
"""Arguments of checked calls whose annotations do not exist at runtime."""


def test_calls_are_found() -> None:
    """The checked calls are those that a program begins with, and some hundred others."""
    names = {f"{call.__module__}.{call.__qualname__}" for call in CALLS}
    assert {"amqp10.worker._worker.Worker.__init__", "amqp10.client._factory.LinkFactory.receiver"} <= names
    assert len(CALLS) >= 100


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_annotations_exist_at_runtime(call: Callable[..., Any]) -> None:
    """No annotation of a checked call has a name that only type checkers import, because nothing would check it."""
    parameters = inspect.signature(call).parameters.values()
    annotated = {each.name for each in parameters if each.annotation is not each.empty}
    keywords = {each.name for each in parameters if each.kind is each.VAR_KEYWORD}
    hints = set(hints_of(inspect.unwrap(call)))
    assert annotated - keywords - hints == UNCHECKED.get(call.__qualname__, set())
    if any("Unpack[" in str(each.annotation) for each in parameters):
        assert hints - annotated, "the keys of the TypedDict"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_wrong_types(call: Callable[..., Any]) -> None:
    """Each argument of a public call that has the wrong type is refused by an error with its name, rule and value."""
    for name, hint in hints_of(inspect.unwrap(call)).items():
        parameter = inspect.signature(call).parameters.get(name)  # None for a key of `**settings`
        if hint in (Any, object) or (parameter is not None and parameter.kind is parameter.VAR_POSITIONAL):
            continue
        with pytest.raises(TypeError) as raised:
            finish(call(**{name: Wrong()}))
        shown = "a Wrong" if name in SECRETS else "<hunter2>"
        assert re.match(rf"{name} must be (?!object).+, not {shown}(; .+)?$", str(raised.value)), raised.value


def finish(result: Any) -> None:
    """Run a coroutine until it first waits or ends."""
    if inspect.iscoroutine(result):
        try:
            result.send(None)
        finally:
            result.close()


@pytest.mark.parametrize("name", sorted(ConnectionSettings.__annotations__))
def test_settings_of_a_connection(name: str) -> None:
    """Each setting of a connection is checked when the connection is made, not when it connects."""
    settings: Any = {name: Wrong()}
    with pytest.raises(TypeError, match=f"^{name} must be"):
        Connection("amqp://localhost", **settings)


@pytest.mark.parametrize("kind", [QueueConfig, SubscriptionConfig, TopicConfig, EventHubConfig])
def test_fields_of_entities(kind: Any) -> None:
    """Each field of an entity of the emulator is checked when the entity is made."""
    for each in fields(kind)[1:]:
        with pytest.raises(TypeError, match=rf"^{each.name} must be .+, not <hunter2>"):
            kind("name", **{each.name: Wrong()})


FITTING = [
    (int, 3),
    (float, 3),
    (float, math.inf),
    (bool, True),
    (int | None, None),
    (str | Sequence[str], "a"),
    (Sequence[str], ["a", "b"]),
    (Iterable[str], iter("ab")),
    (Mapping[str, int], {"a": 1}),
    (Mapping[Any, Any], {1: object()}),
    (tuple[int, ...], (1, 2)),
    (tuple[int, str], (1, "a")),
    (Literal["on", "off"], "on"),
    (Callable[[], float], len),
    (type[Exception], ValueError),
    (Any, object()),
]


@pytest.mark.parametrize(("hint", "value"), FITTING)
def test_fitting(hint: Any, value: Any) -> None:
    """A value that fits the annotation passes."""
    check_type("size", value, hint)


UNFIT: list[tuple[Any, Any, type[Exception], str]] = [
    (int, "20", TypeError, "size must be an int, not '20'"),
    (int, True, TypeError, "size must be an int, not True"),
    (int, 3.5, TypeError, "size must be an int, not 3.5"),
    (float, math.nan, ValueError, "size must be a number, not nan"),
    (
        float,
        timedelta(seconds=1),
        TypeError,
        "size must be a number, not datetime.timedelta(seconds=1); timedelta.total",
    ),
    (bool, 1, TypeError, "size must be True or False, not 1"),
    (int | None, "a", TypeError, "size must be an int or None, not 'a'"),
    (Sequence[str], "ab", TypeError, "size must be a sequence of str, not 'ab'"),
    (Sequence[str], ["a", 3], TypeError, "size must be a sequence of str, not ['a', 3]"),
    (Iterable[str], 3, TypeError, "size must be a sequence of str, not 3"),
    (Mapping[str, int], [("a", 1)], TypeError, "size must be a mapping, not [('a', 1)]"),
    (Mapping[str, int], {"a": "b"}, TypeError, "size must be a mapping, not {'a': 'b'}"),
    (tuple[int, str], (1, 2), TypeError, "size must be a tuple (an int, a str), not (1, 2)"),
    (Callable[[], float], 3.0, TypeError, "size must be a function, not 3.0"),
    (Literal["on", "off"], "of", ValueError, "size must be one of on, off, not 'of'"),
    (Sequence[Literal["on", "off"]], ["of"], ValueError, "size must be some of on, off, not ['of']"),
    (Literal["on", "off"], 3, TypeError, "size must be one of on, off, not 3"),
    (Retries | None, 3, TypeError, "size must be a Retries or None, not 3"),
]


@pytest.mark.parametrize(("hint", "value", "kind", "text"), UNFIT)
def test_unfit(hint: Any, value: Any, kind: type[Exception], text: str) -> None:
    """A value that does not fit is refused, with the rule in words."""
    with pytest.raises(kind, match=f"^{re.escape(text)}"):
        check_type("size", value, hint)


def test_lists_of_anything_are_not_walked_through() -> None:
    """A list of a hundred thousand messages costs no more to check than one: nothing is asked of its members."""

    def cost(count: int) -> int:
        messages = [None] * count
        return steps(lambda: check_type("messages", messages, Iterable[object] | Sequence[object]))

    cost(1)  # caches
    assert cost(100_000) == cost(1)


def test_secrets() -> None:
    """An error does not show the value of an argument that may hold a secret."""
    for name in SECRETS:
        with pytest.raises(TypeError) as raised:
            check_type(name, b"hunter2", str)
        assert "hunter2" not in str(raised.value)
    with pytest.raises(TypeError, match=r"^url must be a str, not a NoneType; if an environment variable"):
        check_type("url", None, str)


@pytest.mark.parametrize("hint", [Retries, Connection | None, Callable[[str], str], Sequence[Retries]])
@pytest.mark.parametrize("value", ["s3cret", b"s3cret", ["s3cret"], {"s3cret": "s3cret"}])
def test_no_text_is_shown_for_what_is_none(hint: Any, value: Any) -> None:
    """An error does not show a text, which may be a password, where something else belongs."""
    shown = "a list of str" if isinstance(value, list) else f"a {type(value).__name__}"
    with pytest.raises(TypeError, match=f"not {shown}(;|$)") as raised:
        check_type("size", value, hint)
    assert "s3cret" not in str(raised.value)


CONNECTION = Connection("amqp://localhost")

ADVICE: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (Worker, (CONNECTION, "q", print), {"retries": 3}, "retries must be a Retries or None, not 3; Retries(attempts=3)"),
    (Worker, ("amqp://h", "q", print), {}, "connection must be a Connection, not a str; Connection(URL) is one"),
    (Connection, ("amqp://h",), {"reconnect": True}, "reconnect must be a Reconnect or None, not True; Reconnect()"),
    (management, ("amqp://h",), {}, "links must be a Connection or a Session, not a str"),
    (
        Requester,
        ("amqp://h", "x"),
        {},
        "Requester() is not for programs: connection.requester(address) makes one",
    ),
    (Message, (), {"headers": {}}, "a message has no field 'headers': use application_properties"),
    (Source, ("q",), {"capabilities": "shared"}, "capabilities must be a sequence of str, not 'shared'; write capabi"),
    (Source, ("q",), {"filter": "a = 1"}, "filter must be a dict or None, not a str"),
    (Source, ("q",), {"timeout": 0.5}, "timeout must be an int, not 0.5"),
    (Source, ("q",), {"durable": 2}, "durable must be one of none, configuration, unsettled-state, not 2"),
    (Target, ("q",), {"dynamic": "yes"}, "dynamic must be True or False, not 'yes'"),
    (Broker(port=0).connect, (), {"tls": 1}, "tls must be a TLS or an SSLContext or None, not "),
    (Broker(port=0).connect, (5,), {}, "url must be a str, not "),
    (Message("").replace, (), {"Priority": 1}, "a message has no field 'Priority': did you mean priority?"),
    (Retries, (), {"never": KeyError}, "never must be a sequence of classes, not <class 'KeyError'>; write never=(Key"),
    (Retry, (10,), {}, "reason must be a str, not 10; a number of seconds is for Retry(delay=10)"),
    (
        Broker,
        (),
        {"users": {"ann": b"pw"}},
        "users must be a mapping or None, not a dict; each key must be a str, and each value a str or ",
    ),
    (
        bridge,
        (("amqp://h",), (CONNECTION, "b")),
        {},
        "source must be a tuple (a Connection or a str, a str or a Source), not ('amqp://h',)",
    ),
]


@pytest.mark.parametrize(("call", "args", "kwargs", "text"), ADVICE)
def test_advice(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any], text: str) -> None:
    """An error about a type says what to try."""
    with pytest.raises(TypeError, match=f"^{re.escape(text)}"):
        call(*args, **kwargs)


RANGES: list[tuple[Callable[[], Any], str]] = [
    (lambda: Reconnect(attempts=0), "attempts must be at least 1, not 0"),
    (lambda: Reconnect(first_max_time=0), "first_max_time must be more than 0, not 0"),
    (lambda: Reconnect(multiplier=0.5), "multiplier must be at least 1, not 0.5"),
    (lambda: Reconnect(jitter=2), "jitter must be in 0..1, not 2"),
    (lambda: Reconnect(resume_timeout=-1), "resume_timeout must be in 0..4294967295, not -1"),
    (lambda: Retries(attempts=0), "attempts must be at least 1, not 0"),
    (lambda: Worker(CONNECTION, "q", print, concurrency=0), "concurrency must be at least 1, not 0"),
    (lambda: Worker(CONNECTION, "q", print, drain_timeout=-1), "drain_timeout must be at least 0, not -1"),
    (lambda: CONNECTION.browser("q", credit=0), "credit must be at least 1, not 0"),
    (lambda: bridge((CONNECTION, "a"), (CONNECTION, "b"), rate=0), "rate must be more than 0 and at most 1.79"),
    (lambda: OAuthBearer("token", port=0), "port must be in 1..65535, not 0"),
    (lambda: Broker(port=-1), "port must be in 0..65535, not -1"),
    (lambda: Broker(close_timeout=-1), "close_timeout must be at least 0, not -1"),
    (lambda: StreamOffset(-1), "where must be at least 0, not -1"),
]


@pytest.mark.parametrize(("call", "text"), RANGES)
def test_out_of_range(call: Callable[[], Any], text: str) -> None:
    """A number out of range is refused by an error with the argument's name, the rule and the value."""
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        call()


FACTS = {
    *("BridgePlan", "BridgeReport", "ConnectionAttempted", "ConnectionRestored", "DeliveriesStale"),
    *("ExchangeFacts", "ExchangeSnapshot"),
    *("Health", "HubProperties", "LastEvent", "LinkHealth", "MessagesRepeated", "MessagesUncertain"),
    *("PartitionProperties", "QuarantinedMessage", "QueueFacts", "QueueInfo", "QueueSnapshot"),
    *("StoredDelivery", "SubscriptionSnapshot"),
    *("TokenRefused", "TokenRenewed", "TopicSnapshot"),
}
"""Classes whose objects the package makes, for programs to read."""

SILENT: dict[tuple[str, str], str] = {
    ("Checkpoint", "sequence_number"): "-1 is before all events",
    ("Connection.receiver", "priority"): "a priority may be negative",
    ("Connection.subscription", "priority"): "a priority may be negative",
    ("Endpoint", "port"): "the package makes it from a URL",
    ("EventPosition.offset", "offset"): "-1 is before all events",
    ("EventPosition.sequence_number", "number"): "-1 is before all events",
    ("Index", "after"): "refused where it is encoded",
    ("Management.declare_queue", "delivery_limit"): "-1 is no limit",
    ("MemoryDeliveryStore.add", "message_format"): "the client calls it",
    ("Quarantine", "most_bytes"): "the broker makes it",
    ("Quarantine", "most_messages"): "the broker makes it",
    ("Quarantine.drop", "number"): "no message has the number",
    ("Quarantine.release", "number"): "no message has the number",
    ("Quarantine.set_aside", "message_format"): "the broker calls it",
    ("Reconnect.delay", "chance"): "the client calls it",
    ("Reconnect.delay", "failures"): "the client calls it",
    ("Retries.decide", "attempt"): "the worker calls it",
    ("SasKey.sign", "expires_on"): "a time in the past",
    ("Sender.send_encoded", "message_format"): "called for each message: refused where it is encoded",
    ("ServiceBusReceiver", "prefetch"): "ServiceBus makes it",
    ("Source", "timeout"): "refused where a link is made of it, like that of a target",
    ("Target", "timeout"): "refused where a link is made of it, like that of a source",
    ("StreamDecoder", "limit"): "the client makes it",
    ("Token", "expires_on"): "a time in the past",
    ("Xid.decode_fields", "at"): "the package calls it",
    ("Xid.decode_fields", "end"): "the package calls it",
    ("data_head", "size"): "called for each message",
    ("patch_header", "delivery_count"): "called for each message: refused where it is encoded",
    ("patch_header", "priority"): "called for each message: refused where it is encoded",
    ("Native.list", "after"): "the dialect refuses it where it is encoded",
    ("Native.show", "number"): "the dialect refuses it where it is encoded",
}
"""Numeric arguments that take -1 or NaN, or are refused later, and why."""


def numeric(call: PublicCall) -> Iterator[tuple[str, bool]]:
    """Yield the arguments of a call that are numbers, and whether they may have fractions."""
    several = {each.name for each in call.parameters if each.kind is each.VAR_POSITIONAL}
    for name, hint in call.hints.items():
        if name in several:
            continue
        kinds = set(alternatives(hint))
        if kinds & {int, float} and not kinds & {str, bytes}:
            yield name, float in kinds


def alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


NUMBERS = [
    (call, name, fractions)
    for call in public_calls()
    if str(call.function.__module__).startswith("amqp10.")
    and not call.function.__module__.startswith(("amqp10.net", "amqp10.testing", "amqp10.types"))
    and not (call.owner is not None and call.owner.__name__ in FACTS)
    and call.name not in ("Message", "Message.replace")  # values of a message: refused where it is encoded
    for name, fractions in numeric(call)
]


@pytest.mark.parametrize(("call", "name", "fractions"), NUMBERS, ids=lambda each: getattr(each, "name", str(each)))
def test_numbers_out_of_any_range(
    call: PublicCall, name: str, fractions: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every numeric argument refuses -1, NaN and True, by an error with its name and value; others have a reason."""
    monkeypatch.chdir(tmp_path)  # some arguments are files, which are made
    silent = []
    for value in (-1, math.nan, True, *([] if fractions else [math.inf, 0.5])):
        try:
            finish(call.call(**{name: value}))
        except NotMade:
            return
        except (TypeError, ValueError) as error:
            if name in str(error) and str(value) in str(error):
                continue
        except Exception:  # it is past the check of its arguments
            pass
        silent.append(value)
    assert bool(silent) == ((call.name, name) in SILENT), silent


@pytest.mark.parametrize("terminus", [Source("q", timeout=-1), Target("q", timeout=-1)])
def test_timeout_of_termini(terminus: Any) -> None:
    """The timeout of a source or target is checked when a link is made of it, before it is attached."""
    make = CONNECTION.receiver if isinstance(terminus, Source) else CONNECTION.sender
    with pytest.raises(ValueError, match=r"timeout must be in 0\.\.4294967295, not -1"):
        make(terminus)


def test_close_timeout_is_set() -> None:
    """What a program sets as the time for closing is checked as well."""
    connection = Connection("amqp://localhost")
    connection.close_timeout = 1
    with pytest.raises(ValueError, match="close_timeout must be at least 0, not -1"):
        connection.close_timeout = -1
    assert connection.close_timeout == 1


FILES: list[tuple[Callable[[], object], str]] = [
    (lambda: TLS(ca="none").client_context(), "ca"),
    (lambda: TLS(certificate="none").client_context(), "certificate"),
    (lambda: TLS(certificate=__file__, key="none").client_context(), "key"),
    (lambda: TLS(pkcs12="none").client_context(), "pkcs12"),
    (lambda: Broker(users_file="none"), "users_file"),
    (lambda: AzureConfig.read("none"), "path"),
    (lambda: read_config("none"), "path"),
]


@pytest.mark.parametrize(("call", "name"), FILES)
def test_missing_file(call: Callable[[], object], name: str) -> None:
    """The error about a file that does not exist names the argument and the file, and has the class that it had."""
    with pytest.raises(FileNotFoundError, match=rf"{name} must be a file that can be opened: .*'none'") as raised:
        call()
    assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, "none")


@pytest.mark.anyio
async def test_path_of_a_socket(tmp_path: Path) -> None:
    """The error about a Unix socket that cannot be made names the argument and the path."""
    with pytest.raises(FileNotFoundError, match=r"path must be that of a socket to make: .*none"):
        async with Broker(path=tmp_path / "none" / "socket"):
            pass


def test_counts_in_words() -> None:
    """A noun behind a count is in the singular for one, and only for one."""
    assert [counted(each, "message") for each in (0, 1, 2)] == ["0 messages", "1 message", "2 messages"]
    assert [counted(each, "delivery") for each in (1, 3)] == ["1 delivery", "3 deliveries"]

"""Every public callable of the package, with arguments that it takes: for tests of what wrong arguments are told."""

from __future__ import annotations

import enum
import importlib
import inspect
import ssl
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin
from unittest.mock import Mock

from anyio.abc import ByteStream

from amqp10 import (
    Browser,
    Connection,
    Management,
    Message,
    Plain,
    Receiver,
    Requester,
    Responder,
    SasKey,
    Sender,
    Session,
    Source,
    SQLiteDeliveryStore,
    Target,
    Transaction,
)
from amqp10.azure import (
    EventHub,
    EventReader,
    EventSender,
    ServiceBus,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSession,
)
from amqp10.broker import Broker, SasRule
from amqp10.client.internals import ConnectionFace
from amqp10.rabbitmq import Management as RabbitManagement

from .inside.package import hints_of

PACKAGES = (
    *(
        "",
        ".amqp010",
        ".amqp091",
        ".amqpfast",
        ".azure",
        ".bridging",
        ".broker",
        ".broker.azure",
        ".client",
        ".messaging",
    ),
    *(".net", ".otel", ".profiles", ".rabbitmq", ".sasl", ".testing", ".types", ".worker"),
)


class PublicCall:
    """A public function, constructor or method.

    Attributes:
        name: as its users write it: `Connection.receiver`.
        function: what they call, without the object of a method.
        owner: the class whose method it is, or that it makes; None for a function.
    """

    def __init__(self, name: str, function: Callable[..., Any], owner: type | None, *, bound: bool) -> None:
        self.name, self.function, self.owner, self._bound = name, function, owner, bound
        self.hints: dict[str, Any] = hints_of(inspect.unwrap(function))
        self._makes = function.__name__ == "__init__"
        parameters = list(inspect.signature(function).parameters.values())
        self.parameters = parameters[1:] if bound else parameters

    def call(self, **wrong: object) -> Any:
        """Call it with these arguments, and with right ones for the others that it needs.

        Raises:
            NotMade: an argument or the object of a method cannot be made here.
        """
        args: list[Any] = [made(self.owner)] if self._bound and not self._makes else []
        named = {each.name for each in self.parameters}
        kwargs: dict[str, Any] = {name: value for name, value in wrong.items() if name not in named}  # of **settings
        wrong = NEEDED.get(self.name, {}) | wrong
        for each in self.parameters:
            if each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
                continue
            if each.name not in wrong and each.default is not each.empty:
                continue
            value = wrong[each.name] if each.name in wrong else given(each.name, self.hints.get(each.name))
            if each.kind is each.POSITIONAL_ONLY:
                args.append(value)
            else:
                kwargs[each.name] = value
        called: Any = self.owner if self._makes else self.function
        return called(*args, **kwargs)


class NotMade(Exception):
    """A right argument of a type that is not made here."""


_STRING = "Endpoint=sb://h;SharedAccessKeyName=n;SharedAccessKey=a2V5"
CONNECTION = Connection("amqp://localhost")
HUB = EventHub(f"{_STRING};EntityPath=hub")
BUS = ServiceBus(_STRING)

MADE: dict[Any, Callable[[], Any]] = {
    Any: lambda: "any",
    Broker: lambda: Broker(port=0),
    Connection: lambda: CONNECTION,
    ConnectionFace: lambda: CONNECTION,
    ByteStream: lambda: Mock(ByteStream),
    Browser: lambda: CONNECTION.browser("q"),
    EventHub: lambda: HUB,
    EventReader: lambda: HUB.reader("0"),
    EventSender: lambda: HUB.sender(),
    Management: lambda: CONNECTION.management(),
    RabbitManagement: lambda: RabbitManagement(CONNECTION.requester("q")),
    Receiver: lambda: CONNECTION.receiver("q"),
    Requester: lambda: CONNECTION.requester("q"),
    Responder: lambda: CONNECTION.responder("q"),
    Sender: lambda: CONNECTION.sender("q"),
    ServiceBus: lambda: BUS,
    ServiceBusReceiver: lambda: BUS.receiver("q"),
    ServiceBusSender: lambda: BUS.sender("q"),
    ServiceBusSession: lambda: BUS.session("q", "s"),
    Session: lambda: CONNECTION.session(),
    Transaction: lambda: CONNECTION.transaction(),
    Mapping: dict,
    Message: lambda: Message(""),
    Plain: lambda: Plain("u", "p"),
    SasKey: lambda: SasKey("n", "a2V5"),
    Source: lambda: Source("q"),
    Target: lambda: Target("q"),
    bool: lambda: False,
    bytes: lambda: b"b",
    datetime: lambda: datetime.now(UTC),
    dict: dict,
    float: lambda: 1.0,
    int: lambda: 1,
    object: lambda: "any",
    ssl.SSLContext: ssl.create_default_context,
    str: lambda: "text",
    types.NoneType: lambda: None,
}

NEEDED: Mapping[str, dict[str, Any]] = {
    "Connection.receiver": {"address": "q"},
    "Connection.subscription": {"durable": False},
    "EventHub": {"where": f"{_STRING};EntityPath=hub"},
    "Sender.send_stream": {"message": Message()},
    "ServiceBus": {"where": _STRING},
    "ServiceBus.next_session": {"entity": "q"},
    "ServiceBus.receiver": {"entity": "q"},
    "TokenRules": {"sas": [SasRule("n", "key")]},
    "bridge": {"source": (CONNECTION, "a"), "target": (CONNECTION, "b")},
}
"""Arguments with defaults that a call needs together with others."""

_UNMADE: set[Any] = {SQLiteDeliveryStore}  # it opens a file, which nobody here would close
"""Classes that cannot be made here, or are being made."""

NAMED: Mapping[str, Any] = {"url": "amqp://localhost", "where": "first"}


def given(name: str, hint: Any) -> Any:
    """Return a right argument for an annotation.

    Raises:
        NotMade: no object of that type is made here.
    """
    if name in NAMED:
        return NAMED[name]
    kind = get_origin(hint) or hint
    if kind in (Union, types.UnionType):
        for each in get_args(hint):
            try:
                return given(name, each)
            except NotMade:
                continue
    if kind is Literal:
        return get_args(hint)[0]
    if kind is Callable:
        return nothing
    if kind is type:
        return ValueError
    if kind is tuple and get_args(hint) and ... not in get_args(hint):
        return tuple(given(name, each) for each in get_args(hint))
    if kind in MADE:
        return MADE[kind]()
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind))
    if isinstance(kind, type):
        return [] if kind.__module__ in ("builtins", "collections.abc") else made(kind)
    raise NotMade(f"{name}: {hint}")


def nothing(*_args: Any) -> None:
    """Stand for a handler or another function of the user's."""


def made(kind: Any) -> Any:
    """Return an object of a class.

    Raises:
        NotMade: the class needs what is not made here.
    """
    if kind in MADE:
        return MADE[kind]()
    if kind not in _UNMADE:
        _UNMADE.add(kind)  # until it is made: it may need another one
        with suppress(Exception):
            one = PublicCall(kind.__name__, kind.__init__, kind, bound=True).call()
            _UNMADE.remove(kind)
            return one
    raise NotMade(f"{kind}")


@cache
def public_calls() -> tuple[PublicCall, ...]:
    """Return the public functions, constructors and methods, each once, in the order of their packages."""
    found: dict[Any, PublicCall] = {}
    for package in PACKAGES:
        module = importlib.import_module(f"amqp10{package}")
        for name in module.__all__:
            for each in _of(name, getattr(module, name)):
                found.setdefault(each.function, each)
    return tuple(found.values())


def _of(name: str, public: Any) -> Iterator[PublicCall]:
    if inspect.isfunction(public):
        yield PublicCall(name, public, None, bound=False)
    if not inspect.isclass(public) or issubclass(public, BaseException):
        return
    if inspect.isfunction(public.__init__):
        yield PublicCall(public.__name__, public.__init__, public, bound=True)
    for member in dir(public):
        static = inspect.getattr_static(public, member)
        function = getattr(static, "__func__", static)
        if not member.startswith("_") and inspect.isfunction(function):
            bound = not isinstance(static, classmethod | staticmethod)
            yield PublicCall(f"{name}.{member}", function if bound else getattr(public, member), public, bound=bound)

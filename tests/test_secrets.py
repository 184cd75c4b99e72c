"""No public object that is given a secret shows it; the classes are found by what their constructors take."""

from __future__ import annotations

import copy
import inspect
import logging
import traceback
from dataclasses import asdict, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from amqp10 import (
    AmqpError,
    CbsTokens,
    Connection,
    ConnectionDetails,
    LoginTokens,
    Message,
    Plain,
    Reconnect,
    SasKey,
    ScramSha256,
    SQLiteDeliveryStore,
    Token,
)
from amqp10._arguments import SECRETS as NAMES
from amqp10.broker import Broker
from amqp10.otel import instrument, instrument_broker, uninstrument, uninstrument_broker

from .kit.inside.cli import JSONLines
from .kit.public_calls import NotMade, PublicCall, public_calls
from .kit.telemetry import Seen

SECRET = "hunter2"
PACKAGES = (
    "amqp10",
    "amqp10.client",
    "amqp10.net",
    "amqp10.sasl",
    "amqp10.broker",
    "amqp10.testing",
    "amqp10.bridging",
    "amqp10.azure",
)
SECRETS: dict[str, Any] = {
    "password": SECRET,
    "token": SECRET,
    "url": f"amqp://u:{SECRET}@h",
    "where": f"sb://u:{SECRET}@h",
    "headers": {"Authorization": SECRET},
    "users": {"u": SECRET},
    "sasl": Plain("u", SECRET),
    "target": f"/path?sig={SECRET}",
    "key": SECRET,
}
"""Arguments that are a secret, or have one, by name."""

OTHERS: dict[str, Any] = {"name": "n", "user": "u", "scheme": "ws", "host": "h", "port": 1}
NONE = {
    "CertificateFiles": "names files that it has written, for tests",
    "CertificateAuthority": "writes files for tests, with a password that is no secret",
    "HeadersBinding": "its headers are those of messages",
    "PlannedEnd": "its url is one without credentials, as its docstring says",
    "ConnectionRestored": "its url is one without credentials, as its docstring says",
    "ConnectionAttempted": "its url is one without credentials, as its docstring says",
    "Health": "its url is one without credentials, as its docstring says",
    "Worker": "its key is a function of a message",
    "TopicBinding": "its key is a routing key",
    "DirectBinding": "its key is a routing key",
    "LinkTerms": "its target is an address",
    "StreamOffset": "it says where a stream begins",
    "ServiceBusDelivery": "its token names a lock",
    "EventBatch": "its key is a partition key",
    "BridgePlan": "its target is an end without credentials",
}


def found() -> list[type]:
    """The public classes whose constructor takes such an argument."""
    classes: dict[str, type] = {}
    for package in PACKAGES:
        module = import_module(package)
        for name in module.__all__:
            each = getattr(module, name)
            if not inspect.isclass(each) or each.__name__ in NONE or issubclass(each, BaseException | dict):
                continue
            try:
                names = set(inspect.signature(each).parameters)
            except ValueError:
                continue
            if names & SECRETS.keys() and not ("target" in names and "source" in names):
                classes[f"{each.__module__}.{each.__name__}"] = each
    return list(classes.values())


def made(cls: type) -> Any:
    """An object of that class, with all the secrets that it takes."""
    values: dict[str, Any] = {**OTHERS, **SECRETS}
    if cls.__name__ == "Proxy":
        values["url"] = f"http://u:{SECRET}@h"
    if cls.__name__ == "TLS":
        values["pkcs12"] = "file"
    if cls.__name__ == "EventHub":
        values["where"] = f"Endpoint=sb://h;SharedAccessKeyName=n;SharedAccessKey={SECRET};EntityPath=hub"
    if cls.__name__ == "FaultProxy":
        values["url"] = f"amqp://u:{SECRET}@h:1"
    parameters = inspect.signature(cls).parameters
    return cls(
        **{
            name: values[name]
            for name, parameter in parameters.items()
            if (name in SECRETS and not (cls.__name__ == "TLS" and name == "key"))
            or (name in values and (parameter.default is parameter.empty or name == "pkcs12"))
        }
    )


@pytest.mark.parametrize("cls", found(), ids=lambda cls: cls.__name__)
def test_no_secret_is_shown(cls: type) -> None:
    """Neither by repr, str or format, of it or of what it is in; nor by the attributes that anybody prints."""
    one = made(cls)
    for shown in (repr(one), str(one), f"{one}", f"{[one]}", f"{one!a}", repr(copy.copy(one))):
        assert SECRET not in shown
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        raise ValueError(one)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_what_is_found() -> None:
    """Those that are known to take one are among them, so that none is left out by accident."""
    names = {each.__name__ for each in found()}
    expected = {
        "Broker",
        "Connection",
        "ConnectionDetails",
        "Endpoint",
        "JwtKey",
        "Plain",
        "Proxy",
        "SasKey",
        "SasRule",
        "TLS",
        "WebSocket",
        "XOAuth2",
    }
    assert expected <= names
    assert SECRET not in repr(Token(SECRET, 5.0)) + repr(LoginTokens(lambda _: SECRET)) + repr(
        CbsTokens(SasKey("n", SECRET))
    )
    assert is_dataclass(ConnectionDetails)
    assert asdict(ConnectionDetails("amqp://h"))["url"] == "amqp://h"  # the data are there for who asks


CONNECTION_STRING = f"Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey={SECRET}"
URL = f"amqps://u:{SECRET}@h"
TELLTALES: list[Any] = [
    *(URL, URL.encode(), f"amqps://u:{SECRET} /@h", f"u:{SECRET}@h", CONNECTION_STRING, f"wss://h/?token={SECRET}"),
    *(f"SharedAccessSignature sr=h&sig={SECRET}&se=1", URL.replace("@", 300 * "t" + "@")),
    *([URL], (URL,), {URL}, {"u": URL.encode()}, {URL: 1}, ([URL], "a"), (CONNECTION_STRING, 1)),
]
"""Values that say by their form that they have a secret."""

BARE: list[Any] = [SECRET, SECRET.encode(), [SECRET], {"u": SECRET}]
"""Secrets that nothing but the name of their argument tells."""

SHOWN = {
    ("Broker.exchange", "name"): "the error of a name that does not exist is that of a dict",
    ("Broker.queue", "name"): "the error of a name that does not exist is that of a dict",
    ("Broker.queue", "virtual_host"): "the error of a name that does not exist is that of a dict",
    ("Broker.topic", "name"): "the error of a name that does not exist is that of a dict",
    ("Broker.virtual_host", "name"): "the error of a name that does not exist is that of a dict",
    ("Quarantine.drop", "number"): "the error of a number that does not exist is that of a dict",
    ("Quarantine.release", "number"): "the error of a number that does not exist is that of a dict",
    ("Permissions.allows", "action"): "it is asked by the broker, for each action",
    ("SQLiteDeliveryStore", "path"): "its errors name the file",
    ("StreamOffset", "where"): "its errors show a word that is no position",
    ("ClientHandshake.start", "offered"): "mechanisms that a server offers",
    ("choose", "offered"): "mechanisms that a server offers",
    ("same_host", "one"): "a host that was read from a URL",
    ("same_host", "other"): "a host that was read from a URL",
    ("Field", "name"): "written where a type is defined",
    ("Field", "type"): "written where a type is defined",
    ("ScriptedPeer.attach_link", "handle"): "a field of a frame that a test writes",
    ("ScriptedPeer.attach_link", "name"): "a field of a frame that a test writes",
    ("ScriptedPeer.attach_link", "role"): "a field of a frame that a test writes",
    ("ScriptedPeer.grant", "handle"): "a field of a frame that a test writes",
    ("ScriptedPeer.grant", "credit"): "a field of a frame that a test writes",
    ("ScriptedPeer.grant", "delivery_count"): "a field of a frame that a test writes",
    ("field", "type"): "written where a type is defined",
}
"""Arguments that an error may show, and why."""

GLOBAL = ("instrument", "uninstrument", "register_dialect")
"""Functions that change what all tests use."""


CALLS = [each for each in public_calls() if each.name not in GLOBAL]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_no_error_shows_a_secret(call: PublicCall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No error shows a URL's password, a key or a token, whichever argument of a public call it is passed as."""
    monkeypatch.chdir(tmp_path)  # some arguments are files, which are made
    for name in {each.name for each in call.parameters} - {name for of, name in SHOWN if of == call.name}:
        for value in [*TELLTALES, *(BARE if name in NAMES else [])]:
            assert SECRET not in said(call, name, value), (name, value)


def said(call: PublicCall, name: str, value: object) -> str:
    """Return all that is printed of the error of a call with this argument; "" for none."""
    try:
        result = call.call(**{name: value})
        try:
            if inspect.iscoroutine(result):
                result.send(None)
        finally:
            close(result)
    except NotMade:
        return ""
    except OSError:  # of a file that does not exist
        return ""
    except Exception as error:
        # Of the error and its causes, less the lines of code.
        return "".join(traceback.format_exception(error, limit=0)) + repr(error)
    return ""


def close(result: object) -> None:
    """Close a coroutine, or a store with its file."""
    if inspect.iscoroutine(result) or isinstance(result, SQLiteDeliveryStore):
        result.close()


def test_calls_reach_their_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most public calls get as far as the check of their arguments: few need what the tests cannot make."""
    monkeypatch.chdir(tmp_path)  # some arguments are files, which are made
    reached = set()
    for call in CALLS:
        try:
            close(call.call())
        except NotMade:
            continue
        except Exception:  # it may need more, such as a broker
            pass
        reached.add(call.name)
    assert {"Connection", "Connection.receiver", "Sender.send_many", "EventHub.reader", "Worker"} <= reached
    assert len(reached) > 0.7 * len(CALLS)


WAYS: dict[str, Any] = {
    "URL": lambda url: Connection(url.replace("//", f"//u:{SECRET}@"), sasl=ScramSha256("u", SECRET), dialect="1.0"),
    "0-9-1": lambda url: Connection(url.replace("//", f"//u:{SECRET}@"), dialect="0-9-1"),
    "0-10": lambda url: Connection(url.replace("//", f"//u:{SECRET}@"), dialect="0-10"),
    "fast": lambda url: Connection(url.replace("//", f"//u:{SECRET}@"), dialect="fast"),
    "wrong": lambda url: Connection(url.replace("//", f"//u:not-{SECRET}@"), reconnect=Reconnect(attempt_timeout=5)),
    "refused": lambda url: Connection(f"amqp://u:{SECRET}@127.0.0.1:1"),
    "token": lambda url: Connection(url, tokens=LoginTokens(lambda _: SECRET, allow_insecure=True)),
}
"""Connections with a secret: logins in each dialect, one that is refused, and one without a server."""


@pytest.mark.anyio
@pytest.mark.parametrize("way", WAYS)
async def test_what_is_observed(way: str, caplog: pytest.LogCaptureFixture) -> None:
    """No log record of any level, span, metric or repr shows a secret: of a login, an outage, errors and what is held.

    The log has its frames too, and the broker is watched like the client.
    """
    caplog.set_level(logging.DEBUG, "amqp10")
    seen, shown = Seen(), []
    instrument(**seen.settings)
    try:
        async with Broker(users={"u": SECRET}) as broker:
            instrument_broker(tracer_provider=seen.settings["tracer_provider"])
            shown.append(repr(broker))
            connection = WAYS[way](broker.url)
            try:
                async with connection, connection.sender("q") as sender, connection.receiver("q") as receiver:
                    await sender.send(Message("x"))
                    delivery = await receiver.receive()
                    shown += map(repr, (connection, sender, receiver, delivery, connection.health(), connection.remote))
                    with delivery:
                        pass
            except AmqpError as error:
                shown += [repr(error), "".join(traceback.format_exception(error))]
                assert way in ("wrong", "refused", "token")
            shown += map(repr, (connection, broker.connections, connection.url))
            metrics = seen.metrics()
            uninstrument_broker()
    finally:
        uninstrument()
    for record in caplog.records:
        shown += [record.getMessage(), repr(vars(record)), JSONLines().format(record)]
    spans = seen.spans()
    shown += [each.to_json() for each in spans] + [repr(metrics)]
    assert any(each.name == "amqp10.frames" for each in caplog.records) == (way != "refused")
    assert bool(spans) == (way not in ("wrong", "refused", "token"))
    lines = [
        line for each in shown for line in each.splitlines() if "lambda url" not in line
    ]  # this file in tracebacks
    assert [line for line in lines if SECRET in line or SECRET.encode().hex() in line] == []

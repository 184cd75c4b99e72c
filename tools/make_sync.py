"""Write src/amqp10/sync/_facades.py and azure.py, the synchronous form of the client, from the asynchronous classes.

Each public method keeps its name, parameters, types and docstring. A coroutine becomes a method that waits, with one
parameter more, `timeout`; `async with` becomes `with`, and `async for` `for`. Usage: make sync, or with --check to fail
when a file is not what this would write.
"""

from __future__ import annotations

import ast
import builtins
import collections.abc
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
import time
import types
import typing
from pathlib import Path
from typing import Any

import amqp10.amqp010 as amqp010
import amqp10.amqp091 as amqp091
import amqp10.amqpfast as amqpfast
import amqp10.azure as azure
import amqp10.client as client
import amqp10.rabbitmq as rabbitmq
from amqp10._arguments import Missing, Renamed
from amqp10.azure._client import NamespaceClient, NamespaceSender
from amqp10.client._factory import LinkFactory
from amqp10.client._links.link import Link
from amqp10.messaging import EventPosition
from amqp10.native.topology import Topology

FOLDER = Path(__file__).parent.parent / "src" / "amqp10" / "sync"
# The class, its name in amqp10.sync, and attributes beside its properties.
BASES: list[tuple[type, str, dict[str, str]]] = [(LinkFactory, "LinkFactory", {}), (Link, "Link", {})]
CLASSES: list[tuple[type, str, dict[str, str]]] = [
    (client.Connection, "Connection", {}),
    (client.Session, "Session", {}),
    (client.Sender, "Sender", {}),
    (client.Receiver, "Receiver", {}),
    (client.Browser, "Browser", {}),
    (client.Delivery, "Delivery", {}),
    (client.SentDelivery, "SentDelivery", {}),
    (client.BodyWriter, "BodyWriter", {}),
    (client.Transaction, "Transaction", {}),
    (client.Requester, "Requester", {}),
    (client.Responder, "Responder", {"receiver": "Receiver"}),
    (client.Request, "Request", {"delivery": "Delivery"}),
    (client.Management, "Management", {}),
    (rabbitmq.Management, "RabbitManagement", {}),
]
NATIVES: list[tuple[type, str, dict[str, str]]] = [
    (Topology, "Topology", {}),
    (amqp091.Native, "Native091", {}),
    (amqp010.Native, "Native010", {}),
    (amqp010.XA, "XA", {}),
    (amqpfast.Native, "NativeFast", {}),
]
AZURE: list[tuple[type, str, dict[str, str]]] = [
    (NamespaceClient, "_NamespaceClient", {"connection": "Connection"}),
    (NamespaceSender, "_NamespaceSender", {"sender": "Sender"}),
    (azure.ServiceBus, "ServiceBus", {}),
    (azure.ServiceBusSender, "ServiceBusSender", {}),
    (azure.ServiceBusReceiver, "ServiceBusReceiver", {"receiver": "Receiver", "mode": "Mode"}),
    (azure.ServiceBusSession, "ServiceBusSession", {}),
    (
        azure.ServiceBusDelivery,
        "ServiceBusDelivery",
        {"message": "Message", "lock_token": "UUID | None", "settled": "bool"},
    ),
    (azure.SubscriptionRules, "SubscriptionRules", {}),
    (azure.EventHub, "EventHub", {"name": "str"}),
    (azure.EventSender, "EventSender", {}),
    (azure.EventReader, "EventReader", {"receiver": "Receiver", "partition": "str"}),
]
FACADES = {cls: name for cls, name, _ in BASES + CLASSES + NATIVES + AZURE}
ABSTRACT = {LinkFactory, Link, Topology, NamespaceClient, NamespaceSender}
"""What several classes share: no object has one of these types, so none is wrapped in it."""
OPENED = {client.Connection, azure.ServiceBus, azure.EventHub}
LEFT_OUT = {
    "Connection.connection",
    "Browser.connection",
    "Connection.over",
    "Link.connection",
    "Session.connection",
}
# Where only one task may wait at a time.
IN_TURN = {
    "Receiver.receive",
    "Receiver.receive_batch",
    "Receiver.__anext__",
    "Responder.receive",
    "Responder.__anext__",
    "ServiceBusReceiver.receive",
    "ServiceBusReceiver.receive_batch",
    "ServiceBusReceiver.__anext__",
    "EventReader.receive",
    "EventReader.receive_batch",
    "EventReader.__anext__",
}
RETURNS = {
    "Connection.events": "Iterator[ConnectionEvent]",
    "Delivery.iter_body": "Iterator[bytes]",
    "ServiceBusDelivery.keep_locked": "AbstractContextManager[None]",
    "ServiceBusSession.keep_locked": "AbstractContextManager[None]",
}
DEFAULTS = {repr(time.time): "time.time", repr(EventPosition.first()): "_FIRST"}
PARAMETERS = {
    "Sender.send_many.messages": "Iterable[object]",
    "ServiceBusSender.send_many.messages": "Iterable[object]",
    "EventSender.send_many.events": "Iterable[object]",
    "Sender.send_stream.source": "str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | Iterable[bytes]",
    "Delivery.save.target": "str | os.PathLike[str] | BinaryIO",
}
BODIES = {
    "Connection.native": """
    FACADES.update(natives())
    return self._get("native")
    """,
    "Sender.send_many": """
    count = 0
    for chunk in in_chunks(messages):
        count += self._wait(timeout, "send_many", chunk, window=window, settled=settled, transaction=transaction)
    return count
    """,
    "ServiceBusSender.send_many": """
    count = 0
    for chunk in in_chunks(messages):
        count += self._wait(timeout, "send_many", chunk, window=window)
    return count
    """,
    "EventSender.send_many": """
    count = 0
    for chunk in in_chunks(events):
        count += self._wait(timeout, "send_many", chunk, key=key, window=window)
    return count
    """,
    "ServiceBusReceiver.complete_many": 'self._wait(timeout, "complete_many", tuple(deliveries))',
}
PUBLIC = (
    "amqp10.client",
    "amqp10.messaging",
    "amqp10.errors",
    "amqp10.net",
    "amqp10.sasl",
    "amqp10.profiles",
    "amqp10.rabbitmq",
    "amqp10.engine",
    "amqp10.types",
    "amqp10.azure",
)
OF_DIALECTS = ("amqp10.amqp010", "amqp10.amqp091", "amqp10.amqpfast")
"""Public modules that are not loaded before a program uses what they have."""
NATIVE = '''
if TYPE_CHECKING:

    class native_property:  # noqa: N801
        """A property whose type depends on the dialect."""

        def __init__(self, read: Callable[[Any], Any]) -> None: ...
        @overload
        def __get__(self, connection: Connection[Names091], owner: object) -> Native091: ...
        @overload
        def __get__(self, connection: Connection[Names010], owner: object) -> Native010: ...
        @overload
        def __get__(self, connection: Connection[NamesFast], owner: object) -> NativeFast: ...
        @overload
        def __get__(self, connection: Connection[str], owner: object) -> Any: ...
        def __get__(self, connection: Any, owner: object) -> Any: ...

else:
    native_property = property

'''
OPENING = """
if TYPE_CHECKING:
    # As in the client's own class.
    @overload
    def __new__(cls, url: Address, *, dialect: NamesOfOthers, **settings: Any) -> Self: ...
    @overload
    def __new__(cls, url: Address, *, dialect: Names091, **settings: Any) -> Connection[Names091]: ...
    @overload
    def __new__(cls, url: Address, *, dialect: Names010, **settings: Any) -> Connection[Names010]: ...
    @overload
    def __new__(cls, url: Address, *, dialect: NamesFast, **settings: Any) -> Connection[NamesFast]: ...
    @overload
    def __new__(cls, *args: Any, **settings: Any) -> Self: ...
    def __new__(cls, *args: Any, **settings: Any) -> Any: ...
"""
NATIVE_FACADES = '''
def natives() -> dict[type, type[Facade]]:
    """Return the facade for the operations of each older dialect; this loads these dialects."""
    from .. import amqp010, amqp091, amqpfast

    return {
        amqp091.Native: Native091,
        amqp010.Native: Native010,
        amqp010.XA: XA,
        amqpfast.Native: NativeFast,
    }
'''
STANDARD = {
    "collections.abc": collections.abc.__all__,
    "contextlib": ["AbstractContextManager"],
    "datetime": ["datetime"],
    "uuid": ["UUID"],
    "types": types.__all__,
    "typing": typing.__all__,
}
WORDS = [
    (r"`async with`", "`with`"),
    (r"\basync with\b", "with"),
    (r"\basync for\b", "for"),
    (r"\bawait ", ""),
    (r"\basync iterator\b", "iterator"),
    (r"\b([Aa])nother task\b", r"\1nother thread"),
    (r"\bother tasks\b", "other threads"),
    (r"^( *)Cancelling:", r"\1Timeout:"),
    (r"the block is cancelled,(\s+)for", r"the end of the block raises,\1for"),
    (r"was lost, and the block cancelled", "was lost, though the block went on"),
]


class Writer:
    """Collects the text of a module, and the names that it needs."""

    def __init__(self, classes: list[tuple[type, str, dict[str, str]]]) -> None:
        self.classes = classes
        self.imports: dict[str, set[str]] = {}

    def annotation(self, text: str, function: Any, cls: type) -> str:
        """Return an annotation for the synchronous form, and note what it needs."""
        tree = ast.parse(text, mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                node.id = self.name(node.id, function, cls)
        return ast.unparse(tree)

    def name(self, name: str, function: Any, cls: type) -> str:
        name = {"AsyncIterator": "Iterator", "AsyncIterable": "Iterable"}.get(name, name)
        if hasattr(builtins, name) or name in FACADES.values():
            return self.facade(name, cls)
        for module, names in STANDARD.items():
            if name in names:
                self.imports.setdefault(module, set()).add(name)
                return name
        if name == "DialectT":
            self.imports.setdefault("..client.internals", set()).add(name)
            return name
        for module in PUBLIC + OF_DIALECTS:
            if name in importlib.import_module(module).__all__:
                self.imports.setdefault("." + module.removeprefix("amqp10"), set()).add(name)
                return name
        if name == "os":
            self.imports["os"] = set()
            return name
        # An alias that is not public: what it stands for.
        meant: Any = getattr(sys.modules[function.__module__], name, None)
        if meant is None:  # imported for type checkers only
            modules = [each for path, each in sys.modules.items() if path.startswith("amqp10.")]
            meant = next(found for each in modules if (found := vars(each).get(name)) is not None)
        if isinstance(meant, type):
            self.imports.setdefault("." + meant.__module__.removeprefix("amqp10"), set()).add(name)
            return name
        text = repr(meant).replace("typing.", "").replace("collections.abc.", "").replace("pathlib.", "")
        text = re.sub(r"\bamqp10(?:\.\w+)*\.(\w+)", r"\1", text).replace("NoneType", "None")
        text = re.sub(r"<class '([\w.]+)'>", lambda match: match[1].rpartition(".")[2], text)
        return self.annotation(text, function, cls)

    def facade(self, name: str, cls: type) -> str:
        """Management is two classes: which one is meant says the module."""
        return "RabbitManagement" if name == "Management" and cls is rabbitmq.Management else name

    def parameters(self, function: Any, cls: type, where: str) -> tuple[str, str]:
        """Return a function's parameters as they are declared, but for self, and as they are passed on."""
        declared, passed = [], []
        starred = False
        for parameter in list(inspect.signature(function).parameters.values())[1:]:
            name = parameter.name
            said = PARAMETERS.get(f"{where}.{name}", parameter.annotation)
            text = f"{name}: {self.annotation(said, function, cls)}"
            if parameter.default is not parameter.empty:
                default = repr(parameter.default)
                text += f" = {DEFAULTS.get(default, default)}"
            if parameter.kind is parameter.VAR_POSITIONAL:
                declared.append("*" + text)
                passed.append(f"*{name}")
                starred = True
                continue
            if parameter.kind is parameter.VAR_KEYWORD:
                declared.append("**" + text)
                passed.append(f"**{name}")
                continue
            if parameter.kind is parameter.KEYWORD_ONLY:
                if not starred:
                    declared.append("*")
                    starred = True
                passed.append(f"{name}={name}")
            else:
                passed.append(name)
            declared.append(text)
        return ", ".join(declared), "".join(f", {each}" for each in passed)

    def method(self, cls: type, sync: str, name: str, function: Any) -> str:
        where = f"{sync}.{name}"
        for base in cls.__mro__:
            if f"{FACADES.get(base, '')}.{name}" in BODIES | dict.fromkeys((*IN_TURN, *RETURNS)):
                where = f"{FACADES[base]}.{name}"
                break
        declared, passed = self.parameters(function, cls, where)
        returns = RETURNS.get(where, inspect.signature(function).return_annotation)
        returned = self.annotation(returns, function, cls)
        waits = inspect.iscoroutinefunction(function)
        if waits:
            timeout = "timeout: float | None = None"
            if "**" in declared:
                before, _, rest = declared.rpartition("**")
                declared = f"{before}{'' if '*, ' in before else '*, '}{timeout}, **{rest}"
            else:
                starred = re.search(r"(^|, )\*", declared)
                declared += f"{', ' if declared else ''}{'' if starred else '*, '}{timeout}"
        if where in BODIES:
            body = textwrap.dedent(BODIES[where]).strip()
        else:
            how = ("self._in_turn" if where in IN_TURN else "self._wait") if waits else "self._do"
            call = f"{how}({'timeout, ' if waits else ''}{name!r}{passed})"
            body = call if returned == "None" else f"return {call}"
        head = f"def {name}(self{', ' if declared else ''}{declared}) -> {returned}:"
        return f"{head}\n{textwrap.indent(self.docstring(function) + body, '    ')}\n"

    def docstring(self, value: Any) -> str:
        text = inspect.getdoc(value) or ""
        for pattern, words in WORDS:
            text = re.sub(pattern, words, text, flags=re.MULTILINE)
        if not text:  # the function has none
            return ""
        return f'"""{text}"""\n' if "\n" not in text else f'"""{text}\n"""\n'

    def cls(self, cls: type, name: str, attributes: dict[str, str]) -> str:
        bases = [each for each in cls.__mro__[1:] if each in FACADES][:1]
        parts = [self.docstring(cls) + "\n__slots__ = ()\n"]
        own = dict(inspect.getmembers(bases[0])) if bases else {}
        named = [FACADES[each] for each in bases]
        if cls in OPENED:
            named += ["Opened", "Generic[DialectT]"] if cls is client.Connection else ["Opened"]
            if cls is client.Connection:
                parts.append(OPENING)
            declared, passed = self.parameters(cls.__init__, cls, name)  # type: ignore[misc]
            parts.append(f"def __init__(self, {declared}) -> None:\n    super().__init__(Async{name}({passed[2:]}))\n")
        for each, said in attributes.items():
            type_ = self.annotation(said, cls.__init__, cls)  # type: ignore[misc]
            parts.append(f"@property\ndef {each}(self) -> {type_}:\n    return self._get({each!r})\n")
        renamed: list[str] = []
        for each, value in inspect.getmembers(cls):
            if f"{name}.{each}" in LEFT_OUT or own.get(each) is value:
                continue
            if each == "__aenter__":
                text = self.docstring(value)
                given = inspect.signature(value).return_annotation
                returned = self.annotation(given, value, cls)
                body = "return self._enter()" if given == "Self" else "return self._enter_given()"
                parts.append(f"def __enter__(self) -> {returned}:\n{textwrap.indent(text, '    ')}    {body}\n")
            elif each == "__aexit__":
                self.imports.setdefault("types", set()).add("TracebackType")
                text = textwrap.indent(self.docstring(value), "    ")
                declared = (
                    "exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None"
                )
                parts.append(
                    f"def __exit__(self, {declared}) -> None:\n{text}    self._leave(exc_type, exc, traceback)\n"
                )
            elif each in ("__enter__", "__exit__"):
                if hasattr(cls, "__aenter__"):
                    continue  # that one only says to use `async with`
                parts.append(self.method(cls, name, each, value))
            elif each == "__aiter__":
                parts.append("def __iter__(self) -> Self:\n    return self\n")
                self.imports.setdefault("typing", set()).add("Self")
            elif each == "__anext__":
                returned = self.annotation(inspect.signature(value).return_annotation, value, cls)
                parts.append(f"def __next__(self) -> {returned}:\n    return self._step()\n")
            elif each.startswith("_"):
                continue
            elif isinstance(value, Renamed):
                note = f", {value.note!r}" if value.note else ""
                renamed.append(f"    {each} = Renamed({value.name!r}{note})\n")
            elif isinstance(value, Missing):
                renamed.append(f"    {each} = Missing({value.text!r})\n")
            elif isinstance(value, property) and value.fget is not None:
                returned = self.annotation(inspect.signature(value.fget).return_annotation, value.fget, cls)
                text = textwrap.indent(self.docstring(value), "    ")
                body = f"    return self._get({each!r})\n"
                if f"{name}.{each}" in BODIES:
                    body = textwrap.indent(textwrap.dedent(BODIES[f"{name}.{each}"]).strip(), "    ") + "\n"
                kind = "native_property" if each == "native" else "property"
                parts.append(f"@{kind}\ndef {each}(self) -> {returned}:\n{text}{body}")
            elif inspect.isfunction(value):
                parts.append(self.method(cls, name, each, value))
        if renamed:
            parts.append(f"if not TYPE_CHECKING:\n{''.join(renamed)}")
        return f"class {name}({', '.join(named) or 'Facade'}):\n{textwrap.indent(chr(10).join(parts), '    ')}\n"

    def module(self, first: str, imports: list[str], then: str = "") -> str:
        """Return the text of the module.

        Args:
            first: its docstring.
            imports: what it imports in any case.
            then: what stands before the classes.
        """
        classes = [self.cls(cls, name, attributes) for cls, name, attributes in self.classes]
        lines = [first, "", "from __future__ import annotations", "", *imports]
        # The asynchronous classes by their modules, for FACADES; those of older dialects are added when they are used.
        modules = {azure: "azure", client: "client", rabbitmq: "rabbitmq"}
        pairs = ""
        for cls, name, _ in [each for each in self.classes if each not in NATIVES and each[0] not in ABSTRACT]:
            home = next(home for each, home in modules.items() if vars(each).get(cls.__name__) is cls)
            pairs += f"    {home}.{cls.__name__}: {name},\n"
        for module, names in sorted(self.imports.items()):
            if not names:
                lines.append(f"import {module}")
            wanted = sorted(each for each in names if each not in FACADES.values())
            if not wanted:
                continue
            line = f"from {module} import {', '.join(wanted)}"
            if module.replace("..", "amqp10.") in OF_DIALECTS:
                then = then.replace("if TYPE_CHECKING:\n", f"if TYPE_CHECKING:\n    {line}\n")
            else:
                lines.append(line)
        table = f"FACADES.update({{\n{pairs}}})\n"
        return "\n".join(lines) + "\n\n" + then + "\n\n".join(classes) + "\n\n" + table


def texts() -> dict[Path, str]:
    """Return the text of each file."""
    core = Writer(BASES + CLASSES + NATIVES).module(
        '"""The synchronous form of the client, made by tools/make_sync.py: run `make sync`."""\n\n'
        "# ruff: noqa: A002, E501\n"
        '# mypy: disable-error-code="no-any-return"',
        [
            "from collections.abc import Callable",
            "from typing import TYPE_CHECKING, Generic, overload",
            "from .._arguments import Missing, Renamed",
            "from ..client import Connection as AsyncConnection",
            "from ..client.internals import Names010, Names091, NamesFast, NamesOfOthers",
            "from ._loop import FACADES, Facade, Opened, in_chunks",
            "from .. import client, rabbitmq",
        ],
        NATIVE,
    )
    core += NATIVE_FACADES
    names = [name for cls, name, _ in AZURE if cls not in ABSTRACT]
    listed = "".join(f"    {name!r},\n" for name in sorted(names))
    of_azure = Writer(AZURE).module(
        '"""Service Bus and Event Hubs without `await`, made by tools/make_sync.py: run `make sync`.\n\n'
        "What does not wait, such as `MessageBatch`, `Rule` and the errors, is imported from `amqp10.azure`.\n"
        '"""\n\n# mypy: disable-error-code="no-any-return"',
        [
            "import time",
            "from .. import azure",
            "from ..azure import EventHub as AsyncEventHub",
            "from ..azure import ServiceBus as AsyncServiceBus",
            "from ..messaging import EventPosition",
            "from ._facades import Connection, Receiver, Sender, Transaction",
            "from ._loop import FACADES, Facade, Opened, in_chunks",
        ],
        f"_FIRST = EventPosition.first()\n\n__all__ = (\n{listed})\n\n",
    )
    return {
        path: formatted(text, path) for path, text in ((FOLDER / "_facades.py", core), (FOLDER / "azure.py", of_azure))
    }


def formatted(text: str, path: Path) -> str:
    """Return the text as ruff lays it out."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in (
        [*ruff, "check", "--select", "I,F401,UP007", "--fix", "--quiet", "--stdin-filename", str(path), "-"],
        [*ruff, "format", "--quiet", "--stdin-filename", str(path), "-"],
    ):
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    # mypy has no defaults for arguments of such types.
    return text.replace('dialect: DialectT = "1.0",', 'dialect: DialectT = "1.0",  # type: ignore[assignment]')


def main() -> None:
    for path, text in texts().items():
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.name} is not what the client's classes make: run `make sync`")


if __name__ == "__main__":
    main()

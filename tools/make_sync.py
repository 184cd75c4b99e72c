"""Write src/amqp10/sync/_facades.py, the synchronous form of the client, from the classes of the asynchronous one.

Each public method keeps its name, parameters, types and docstring. A coroutine becomes a method that waits, with one
parameter more, `timeout`; `async with` becomes `with`, and `async for` `for`. Usage: make sync, or with --check to fail
when the file is not what this would write.
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
import types
import typing
from pathlib import Path
from typing import Any

import amqp10.client as client
import amqp10.rabbitmq as rabbitmq

TARGET = Path(__file__).parent.parent / "src" / "amqp10" / "sync" / "_facades.py"
# The class, its name in amqp10.sync, and attributes beside its properties.
CLASSES: list[tuple[type, str, dict[str, str]]] = [
    (client.Connection, "Connection", {}),
    (client.Session, "Session", {}),
    (client.Sender, "Sender", {}),
    (client.Receiver, "Receiver", {}),
    (client.Browser, "Browser", {}),
    (client.Delivery, "Delivery", {"tag": "bytes", "message_format": "int | None", "local_settled": "bool"}),
    (client.SentDelivery, "SentDelivery", {"tag": "bytes", "local_settled": "bool"}),
    (client.BodyWriter, "BodyWriter", {}),
    (client.Transaction, "Transaction", {}),
    (client.Requester, "Requester", {}),
    (client.Responder, "Responder", {"receiver": "Receiver"}),
    (client.Request, "Request", {"delivery": "Delivery"}),
    (client.Management, "Management", {}),
    (rabbitmq.Management, "RabbitManagement", {}),
]
FACADES = {cls: name for cls, name, _ in CLASSES}
LEFT_OUT = {
    "Browser.connection",
    "Connection.connection",
    "Connection.over",
    "Delivery.stream",
    "Receiver.connection",
    "Sender.connection",
    "Session.connection",
    "SentDelivery.begun",
    "SentDelivery.handed_over",
    "SentDelivery.streamed",
}
# Where only one task may wait at a time.
IN_TURN = {
    "Receiver.receive",
    "Receiver.receive_batch",
    "Receiver.__anext__",
    "Responder.receive",
    "Responder.__anext__",
}
RETURNS = {"Connection.events": "Iterator[ConnectionEvent]", "Delivery.body": "Iterator[bytes]"}
PARAMETERS = {
    "Sender.send_many.messages": "Iterable[object]",
    "Sender.send_stream.source": "str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | Iterable[bytes]",
    "Delivery.save.target": "str | os.PathLike[str] | BinaryIO",
}
BODIES = {
    "Sender.send_many": """
    count = 0
    for chunk in in_chunks(messages):
        count += self._wait(timeout, "send_many", chunk, window=window, settled=settled, transaction=transaction)
    return count
    """
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
)
STANDARD = {
    "collections.abc": collections.abc.__all__,
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
]


class Writer:
    """Collects the text of the module, and the names that it needs."""

    def __init__(self) -> None:
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
        for module in PUBLIC:
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
                text += f" = {parameter.default!r}"
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
                declared += f"{', ' if declared else ''}{'' if '*, ' in declared else '*, '}{timeout}"
        if where in BODIES:
            body = textwrap.dedent(BODIES[where]).strip()
        else:
            how = ("self._in_turn" if where in IN_TURN else "self._wait") if waits else "self._do"
            call = f"{how}({'timeout, ' if waits else ''}{name!r}{passed})"
            body = call if returned == "None" else f"result: {returned} = {call}\nreturn result"
        head = f"def {name}(self{', ' if declared else ''}{declared}) -> {returned}:"
        return f"{head}\n{textwrap.indent(self.docstring(function) + body, '    ')}\n"

    def docstring(self, value: Any) -> str:
        text = inspect.getdoc(value) or ""
        for pattern, words in WORDS:
            text = re.sub(pattern, words, text, flags=re.MULTILINE)
        return f'"""{text}"""\n' if "\n" not in text else f'"""{text}\n"""\n'

    def cls(self, cls: type, name: str, attributes: dict[str, str]) -> str:
        base = next((FACADES[each] for each in cls.__mro__[1:] if each in FACADES), None)
        parts = [self.docstring(cls) + "\n__slots__ = ()\n"]
        own = {} if base is None else dict(inspect.getmembers(next(b for b in cls.__mro__[1:] if b in FACADES)))
        if cls is client.Connection:
            base = "Opened"
            declared, passed = self.parameters(client.Connection.__init__, cls, name)
            parts.append(
                f"def __init__(self, {declared}) -> None:\n    super().__init__(AsyncConnection({passed[2:]}))\n"
            )
        elif cls is client.Sender:
            pass
        for each, type_ in attributes.items():
            parts.append(
                f"@property\ndef {each}(self) -> {type_}:\n    value: {type_} = self._get({each!r})\n    return value\n"
            )
        for each, value in inspect.getmembers(cls):
            if f"{name}.{each}" in LEFT_OUT or own.get(each) is value:
                continue
            if each == "__aenter__":
                text = self.docstring(value)
                parts.append(f"def __enter__(self) -> Self:\n{textwrap.indent(text, '    ')}    return self._enter()\n")
                self.imports.setdefault("typing", set()).add("Self")
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
                parts.append(self.method(cls, name, each, value))
            elif each == "__aiter__":
                parts.append("def __iter__(self) -> Self:\n    return self\n")
                self.imports.setdefault("typing", set()).add("Self")
            elif each == "__anext__":
                parts.append(self.step(cls, value))
            elif each.startswith("_"):
                continue
            elif isinstance(value, property) and value.fget is not None:
                returned = self.annotation(inspect.signature(value.fget).return_annotation, value.fget, cls)
                text = textwrap.indent(self.docstring(value), "    ")
                body = f"    value: {returned} = self._get({each!r})\n    return value\n"
                parts.append(f"@property\ndef {each}(self) -> {returned}:\n{text}{body}")
            elif inspect.isfunction(value):
                parts.append(self.method(cls, name, each, value))
        return f"class {name}({base or 'Facade'}):\n{textwrap.indent(chr(10).join(parts), '    ')}\n"

    def step(self, cls: type, function: Any) -> str:
        returned = self.annotation(inspect.signature(function).return_annotation, function, cls)
        return textwrap.dedent(f"""
            def __next__(self) -> {returned}:
                try:
                    result: {returned} = self._in_turn(None, "__anext__")
                except StopAsyncIteration:
                    raise StopIteration from None
                return result
            """).lstrip()

    def module(self) -> str:
        classes = [self.cls(cls, name, attributes) for cls, name, attributes in CLASSES]
        lines = [
            '"""The synchronous form of the client, made by tools/make_sync.py: run `make sync`."""',
            "",
            "# ruff: noqa: E501",
            "from __future__ import annotations",
            "",
            "from ..client import Connection as AsyncConnection",
            "from ._loop import FACADES, Facade, Opened, in_chunks",
        ]
        # The asynchronous classes by their modules, for FACADES.
        pairs = "".join(
            f"    {'rabbitmq' if cls is rabbitmq.Management else 'client'}.{cls.__name__}: {name},\n"
            for cls, name, _ in CLASSES
        )
        lines += ["from .. import client, rabbitmq"]
        for module, names in sorted(self.imports.items()):
            if not names:
                lines.append(f"import {module}")
            wanted = sorted(each for each in names if each not in FACADES.values())
            if wanted:
                lines.append(f"from {module} import {', '.join(wanted)}")
        table = f"FACADES.update({{\n{pairs}}})\n"
        return "\n".join(lines) + "\n\n" + "\n\n".join(classes) + "\n\n" + table


def formatted(text: str) -> str:
    """Return the text as ruff lays it out."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in (
        [*ruff, "check", "--select", "I,F401,UP007", "--fix", "--quiet", "--stdin-filename", str(TARGET), "-"],
        [*ruff, "format", "--quiet", "--stdin-filename", str(TARGET), "-"],
    ):
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


def main() -> None:
    text = formatted(Writer().module())
    if "--check" in sys.argv:
        if not TARGET.exists() or TARGET.read_text() != text:
            sys.exit(f"{TARGET.name} is not what the client's classes make: run `make sync`")
    else:
        TARGET.write_text(text)


if __name__ == "__main__":
    main()

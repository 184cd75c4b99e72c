"""pyright's language server, asked for what an editor offers at a place of a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

CURSOR: Final = "¦"
"""Where the cursor is."""


class LanguageServer:
    """A running server: `complete` asks it."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self._folder = folder
        self._process = process
        self._last = 0
        folders = [{"uri": folder.as_uri(), "name": "program"}]
        capabilities = {"workspace": {"configuration": True}}
        self._ask(
            "initialize",
            {"processId": os.getpid(), "capabilities": capabilities, "workspaceFolders": folders},
        )
        self._send({"method": "initialized", "params": {}})

    def complete(self, program: str) -> list[str]:
        """Return what the server offers where `CURSOR` stands in a program."""
        before, _, after = program.partition(CURSOR)
        uri = (self._folder / f"program_{self._last}.py").as_uri()
        document = {"uri": uri, "languageId": "python", "version": 1, "text": before + after}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        position = {"line": before.count("\n"), "character": len(before.rpartition("\n")[2])}
        found = self._ask("textDocument/completion", {"textDocument": {"uri": uri}, "position": position})
        return [each["label"] for each in (found or {}).get("items", [])]

    def end(self) -> None:
        """Have it exit."""
        self._ask("shutdown", None)
        self._send({"method": "exit", "params": None})

    def _ask(self, method: str, params: dict[str, Any] | None) -> Any:
        self._last += 1
        number = self._last
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._read()
            if "method" not in message:
                if message.get("id") == number:
                    return message["result"]
            elif message["method"] == "workspace/configuration":
                settings = {
                    "pythonPath": sys.executable,
                    "analysis": {"extraPaths": [os.environ.get("PYTHONPATH", "")]},
                }
                self._send({"id": message["id"], "result": [settings for _ in message["params"]["items"]]})
            elif "id" in message:
                self._send({"id": message["id"], "result": None})

    def _send(self, message: dict[str, Any]) -> None:
        text = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while header := self._process.stdout.readline().strip():
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        return message


@contextmanager
def language_server(folder: Path) -> Iterator[LanguageServer]:
    """Run the server for programs in a folder."""
    command = [sys.executable, "-m", "pyright.langserver", "--stdio"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    with subprocess.Popen(command, **pipes, env=environment) as process:
        server = LanguageServer(folder, process)
        try:
            yield server
        finally:
            server.end()

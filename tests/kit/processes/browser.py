"""A headless Chromium, told what to do by its DevTools protocol over two pipes. It needs no package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

from .programs import started

PROGRAMS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_OPTIONS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--remote-debugging-pipe", "--window-size=1200,900"),
)
_ON_3_AND_4: Final = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3]]
for number, end in enumerate(ends, 3):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from its descriptor 3, and writes answers to 4."""


def find_browser() -> str | None:
    """Return the path of a Chromium; None where there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Page:
    """A tab.

    Attributes:
        events: what the browser told of it, in order: name and parameters.
    """

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self._commands = commands
        self._answers = answers
        self._number = 0
        self._session: str | None = None
        self.events: list[tuple[str, dict[str, Any]]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Give a command, and return the answer to it."""
        self._number += 1
        said = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            said["sessionId"] = self._session
        self._commands.write(json.dumps(said).encode() + b"\0")
        self._commands.flush()
        while (heard := self._hear()).get("id") != self._number:
            pass
        assert "error" not in heard, heard["error"]
        result: dict[str, Any] = heard["result"]
        return result

    def _hear(self) -> dict[str, Any]:
        text = bytearray()
        while (octet := self._answers.read(1)) != b"\0":
            assert octet, "the browser has ended"
            text += octet
        heard: dict[str, Any] = json.loads(text)
        if "method" in heard:
            self.events.append((heard["method"], heard.get("params", {})))
        return heard

    def open(self, file: Path) -> None:
        """Open a file, and wait until it is loaded; what was told before is forgotten."""
        self.events.clear()
        self.ask("Page.navigate", url=file.as_uri())
        while all(name != "Page.loadEventFired" for name, _ in self.events):
            self._hear()

    def read(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def click(self, selector: str) -> None:
        """Click in the middle of an element, scrolled to if need be."""
        where = self.read(
            f"(() => {{ const each = document.querySelector({json.dumps(selector)}); each.scrollIntoView();"
            " const at = each.getBoundingClientRect(); return [at.x + at.width / 2, at.y + at.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=where[0], y=where[1], button="left", clickCount=1)

    def press_enter(self) -> None:
        """Press and release the key in what has the focus."""
        self.ask(
            "Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13
        )
        self.ask("Input.dispatchKeyEvent", type="keyUp", key="Enter", code="Enter", windowsVirtualKeyCode=13)


@contextmanager
def browsing(program: str) -> Iterator[Page]:
    """Run a browser until the block is left, with a profile of its own."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with (
        TemporaryDirectory(prefix="amqp10-browser-", ignore_cleanup_errors=True) as profile,
        open(ours_out, "wb") as commands,
        open(ours_in, "rb") as answers,
    ):
        launch = [sys.executable, "-c", _ON_3_AND_4, str(theirs_in), str(theirs_out)]
        command = [*launch, program, *_OPTIONS, f"--user-data-dir={profile}"]
        # As root, Debian's wrapper would look for a home; nothing of the profile is kept.
        env = {**os.environ, "HOME": profile}
        with started(command, pass_fds=(theirs_in, theirs_out), env=env, stderr=subprocess.DEVNULL) as process:
            os.close(theirs_in)
            os.close(theirs_out)
            yield Page(commands, answers)
            process.kill()

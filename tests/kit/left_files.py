"""What tests leave in a folder that is not theirs."""

from __future__ import annotations

import os
from collections.abc import Generator
from fnmatch import fnmatch
from pathlib import Path

import pytest


class LeftFiles:
    """Fails the test after which the top of the repository has something new that git does not ignore.

    With several workers, each of them fails the test that it runs then: one of these wrote the file.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        ignored = root / ".gitignore"
        self._ignored = [line.strip("/") for line in ignored.read_text().splitlines()] if ignored.exists() else []
        self._known = set(os.listdir(root))

    def new(self) -> list[str]:
        """Return the names that are new since the last call, sorted."""
        names = set(os.listdir(self._root))
        new, self._known = names - self._known, names
        return sorted(name for name in new if not any(fnmatch(name, each) for each in self._ignored))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """Look after each test, when its fixtures have removed what is theirs."""
        result = yield
        if new := self.new():
            pytest.fail(f"this test, or one beside it, has left {', '.join(new)} in {self._root}", pytrace=False)
        return result

"""Runs a program of the documentation in this process, for a tenth of what an interpreter of its own takes."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from unittest.mock import patch


def run_program(code: str, name: str, *arguments: str) -> str:
    """Run `code` as `python name arguments` would, and return what it writes."""
    written = io.StringIO()
    own_environment = patch.dict(os.environ)  # what it sets there ends with it
    with redirect_stdout(written), patch.object(sys, "argv", [name, *arguments]), own_logging(), own_environment:
        exec(compile(code, name, "exec"), {"__name__": "__main__", "__file__": name})
    return written.getvalue()


@contextmanager
def own_logging() -> Iterator[None]:
    """Let a program set up logging as at the start of a process, and take back what it did."""
    loggers = [logging.root, *map(logging.getLogger, list(logging.root.manager.loggerDict))]
    before = [(each, each.level, each.handlers) for each in loggers]
    logging.root.handlers = []
    try:
        yield
    finally:
        for each, level, handlers in before:
            each.setLevel(level)
            each.handlers = handlers

"""Runs programs: one of the documentation in this process, and any in a process that no test waits for without end."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any
from unittest.mock import patch


def run_program(code: str, name: str, *arguments: str) -> str:
    """Run `code` as `python name arguments` would, and return what it writes."""
    written = io.StringIO()
    own_environment = patch.dict(os.environ)  # what it sets there ends with it
    with redirect_stdout(written), patch.object(sys, "argv", [name, *arguments]), own_logging(), own_environment:
        exec(compile(code, name, "exec"), {"__name__": "__main__", "__file__": name})
    return written.getvalue()


@contextmanager
def started(command: Sequence[str], limit: float | None = 500, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run a process beside the block, and wait for its end after it.

    An error in the block kills it, and so does the limit: then what waits for it fails, and not the whole run.

    Args:
        command: what to run.
        limit: s; None: of a fixture that lives as long as the tests do.
        options: of `subprocess.Popen`.
    """
    process = subprocess.Popen(command, **options)
    timer = threading.Timer(limit or 0, process.kill)
    timer.daemon = True
    if limit is not None:
        timer.start()
    try:
        with process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise
    finally:
        timer.cancel()


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

"""The command line, `amqp10 COMMAND`; `amqp10 --help` has the commands. Needs the extra `amqp10[cli]`."""

from __future__ import annotations

import gc
import io
import signal
import sys
from contextlib import suppress
from typing import NoReturn

__all__ = ("main",)

_SEARCHES = (10_000, 5, 2)
"""The thresholds of Python's cyclic garbage collector, whose first is 700 or 2,000 by default.

A full collection runs after about 100,000 new objects, as frequently as by default, so garbage does not live longer.
"""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code (see `amqp10 --help`)."""
    _buffer_output()
    try:
        from ._main import run
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print(f"amqp10: the command line needs {error.name}: pip install 'amqp10[cli]'", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # later ones are seen by `run`
        sys.exit(128 + signal.SIGINT)
    # Messages are many objects without cycles: in the demo the default thresholds took an eighth of the CPU. A library
    # must leave them to the program, but this process is ours.
    if hasattr(gc, "set_threshold"):  # PyPy has none
        gc.set_threshold(*_SEARCHES)
    code = run(arguments)
    _drop_unwritten()
    sys.exit(code)


def _buffer_output() -> None:
    """Make each write to standard output whole: with PYTHONUNBUFFERED a full disk takes a part, which is no error.

    Every command flushes what it writes.
    """
    out = sys.stdout
    raw = getattr(out, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), out.encoding, out.errors, line_buffering=True)


def _drop_unwritten() -> None:
    """Close a standard stream that cannot be written; otherwise Python tries again at exit, and exits with code 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # it was closed when the process started
                stream.flush()
        except OSError:
            with suppress(OSError):
                stream.close()

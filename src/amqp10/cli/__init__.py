"""The command line, `amqp10 COMMAND`; `amqp10 --help` has the commands. Needs the extra `amqp10[cli]`."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ("main",)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code (see `amqp10 --help`)."""
    try:
        from ._main import run
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print(f"amqp10: the command line needs {error.name}: pip install 'amqp10[cli]'", file=sys.stderr)
        sys.exit(2)
    sys.exit(run(arguments))

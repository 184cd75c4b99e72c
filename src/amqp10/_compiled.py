"""Whether this installation has its compiled part: docs/howto/compiled.md."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from typing import Final

from .engine import _delivery

COMPILED: Final = _delivery.__file__.endswith(tuple(EXTENSION_SUFFIXES))
"""The objects that there is one of for each message are compiled. All else is the same."""

"""Whether this installation has its compiled part: docs/howto/compiled.md."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from .engine import _delivery

COMPILED: Final = Path(_delivery.__file__).suffix != ".py"
"""The objects that there is one of for each message are compiled. All else is the same."""

"""Whether this installation has its compiled part: docs/operate/compiled.md."""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Final

from .engine import IncomingDelivery

COMPILED: Final = str(sys.modules[IncomingDelivery.__module__].__file__).endswith(tuple(EXTENSION_SUFFIXES))
"""The objects that there is one of for each message are compiled. All else is the same."""

"""Whether this installation has the compiled classes: docs/operate/compiled.md."""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Final

from .engine import IncomingDelivery

COMPILED: Final = str(sys.modules[IncomingDelivery.__module__].__file__).endswith(tuple(EXTENSION_SUFFIXES))
"""True if the classes with one object for each message are compiled. Nothing else differs."""

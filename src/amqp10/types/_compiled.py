"""The compiled part of the codec: `fast`, the module `_fast`, or None where that is not compiled."""

from __future__ import annotations

from typing import Any

fast: Any = None
try:
    from . import _fast
except ImportError:
    pass
else:
    fast = _fast

"""`fast`: the compiled reader and writer of messages, the module `_fast`, or None if it is not compiled."""

from __future__ import annotations

from typing import Any

fast: Any
try:
    from . import _fast as fast
except ImportError:
    fast = None

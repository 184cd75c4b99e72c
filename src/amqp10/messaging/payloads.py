"""Payloads other than plain bytes: large ones in their read buffers, and those of other dialects."""

from __future__ import annotations

from ._payload import LARGE as LARGE
from ._payload import Pieces as Pieces
from ._payload import Unmapped as Unmapped

__all__ = (
    "LARGE",
    "Pieces",
    "Unmapped",
)

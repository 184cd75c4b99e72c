"""Payloads other than plain bytes: large ones in their read buffers, and those of other dialects."""

from __future__ import annotations

from ._pieces import LARGE as LARGE
from ._pieces import Pieces as Pieces
from ._pieces import Unmapped as Unmapped

__all__ = (
    "LARGE",
    "Pieces",
    "Unmapped",
)

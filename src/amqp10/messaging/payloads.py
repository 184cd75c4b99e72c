"""What a delivery carries beside plain bytes: large payloads in the buffers they came in, and foreign ones."""

from __future__ import annotations

from ._pieces import LARGE as LARGE
from ._pieces import Pieces as Pieces
from ._pieces import Unmapped as Unmapped

__all__ = (
    "LARGE",
    "Pieces",
    "Unmapped",
)

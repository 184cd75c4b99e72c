"""Payloads other than plain bytes: large ones in their read buffers, and those of other dialects."""

from __future__ import annotations

from ._payload import LARGE as LARGE
from ._payload import ForeignPayload as ForeignPayload
from ._payload import SplitPayload as SplitPayload

__all__ = (
    "LARGE",
    "ForeignPayload",
    "SplitPayload",
)

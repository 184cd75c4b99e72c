"""Segments for tests, and what is on the disk of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from ..inside.spark import Segment, known_rows

SCHEMA = pa.schema([("body", pa.binary()), ("message_id", pa.string())])


def batch(*ids: str | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"body": [b"x"] * len(ids), "message_id": list(ids)}, SCHEMA)


def retired(segment: Segment) -> Path:
    """Its folder after the commit."""
    return segment.folder.with_suffix(".done")


def make(segment: Segment, *ids: str | None, confirmed: bool = False) -> None:
    segment.folder.mkdir(parents=True, exist_ok=True)
    with segment.write(SCHEMA) as draft:
        draft.append(batch(*ids))
        assert draft.publish()
    if confirmed:
        segment.confirm()


def known(wal: Path | str, **which: Any) -> set[str]:
    return {each for table in known_rows(str(wal), **which) for each in table.column("message_id").to_pylist() if each}


def files(segment: Segment) -> list[str]:
    folder = segment.folder if segment.folder.exists() else retired(segment)
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

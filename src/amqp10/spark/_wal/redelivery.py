"""Recognizes messages that are delivered again, by their message-ids and bodies.

Bodies are compared as the query reads them. Of whole encoded messages only the bare message is compared: a broker
changes the header and annotations of what it delivers again. If the two copies were decoded differently, only their ids
are compared.

The broker's own mark of a redelivery is not used: Artemis sets none, and others forget it in a restart.
"""

from __future__ import annotations

import hashlib
import os
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..._files import private
from .._rows.malformed import bare_message
from .._rows.variant import is_variant, variant_to_amqp

IDS: Final = "message_id"
BODY: Final = "body"
DIGEST: Final = "digest"
ERROR: Final = "_decode_error"

BODY_ENCODING: Final = b"amqp10.body"
"""Key in the metadata of an Arrow schema: how bodies were decoded."""

WHOLE_MESSAGE: Final = b"amqp"
_ENCODINGS: Final = {"amqp": WHOLE_MESSAGE, "json": b"json"}


def read_rows(path: Path) -> list[pa.Table]:
    """Return the rows of a file, with the columns that identify them."""
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as content:
            table = content.read_all()
    except FileNotFoundError:
        return []
    if IDS not in table.column_names:
        return []
    return [table.select([name for name in (IDS, BODY, DIGEST, ERROR) if name in table.column_names])]


def ids_in_common(ids: pa.ChunkedArray, known: list[pa.Table]) -> pa.ChunkedArray:
    """Return those ids that are in `known`, usually very few; one pass over what may be a million ids."""
    others = pa.chunked_array([chunk for each in known for chunk in each.column(IDS).chunks], pa.string())
    return ids.filter(pc.and_(pc.is_in(ids, value_set=others), pc.not_equal(ids, "")))  # NULL for NULL: none


def find_redelivered(table: pa.Table, known: list[pa.Table], common: pa.ChunkedArray) -> list[bool]:
    """Return for each row whether it is in `known`; bodies are compared only for the ids in `common`."""
    again = [False] * len(table)
    met = pc.is_in(table.column(IDS), value_set=common)
    suspects = pc.indices_nonzero(met)
    if len(suspects):
        mine = table.take(suspects)
        seen: dict[str, set[str | None]] = {}
        for each in known:
            alike = _body_encoding(each) == _body_encoding(table)
            for name, digest in digests(each.filter(pc.is_in(each.column(IDS), value_set=mine.column(IDS)))):
                seen.setdefault(name, set()).add(digest if alike else None)
        for row, (name, digest) in zip(suspects.to_pylist(), digests(mine), strict=True):
            again[row] = digest is None or not seen[name].isdisjoint((digest, None))
    return again


def digests(table: pa.Table) -> Iterator[tuple[str, str | None]]:
    """Yield the id of each row, and a digest of its body; None for a body that was not stored."""
    for batch in table.to_batches():  # all bodies at once may not fit into memory
        yield from _digests(batch)


def _digests(batch: pa.RecordBatch) -> Iterator[tuple[str, str | None]]:
    ids = batch.column(IDS).to_pylist()
    names = batch.schema.names
    if DIGEST in names:
        return zip(ids, batch.column(DIGEST).to_pylist(), strict=True)
    if BODY in names:
        bodies = batch.column(BODY).to_pylist()
        if _body_encoding(batch) == WHOLE_MESSAGE:
            bodies = map(_stable_part, bodies)
        elif ERROR in names:
            errors = batch.column(ERROR).to_pylist()
            bodies = (each if error is None else _stable_part(each) for each, error in zip(bodies, errors, strict=True))
        return zip(ids, map(_digest, bodies), strict=True)
    return ((each, None) for each in ids)


def with_body_encoding(schema: pa.Schema, body_format: str) -> pa.Schema:
    """Return the schema with a note on how bodies are decoded."""
    variant = BODY in schema.names and is_variant(schema.field(BODY).type)
    return schema.with_metadata({BODY_ENCODING: b"variant" if variant else _ENCODINGS.get(body_format, b"plain")})


def _body_encoding(rows: pa.Table | pa.RecordBatch) -> bytes | None:
    return (rows.schema.metadata or {}).get(BODY_ENCODING)


def _stable_part(body: Any) -> bytes:
    """Return the part of a whole message that a redelivery does not change."""
    spelled = variant_to_amqp(body) if isinstance(body, dict) else body
    # `Columns` puts a whole message into a column of strings in base64.
    return bare_message(b64decode(spelled) if isinstance(spelled, str) else spelled)


def _digest(body: Any) -> str:
    if isinstance(body, dict):  # a variant
        body = body["value"] + body["metadata"]
    data = body.encode() if isinstance(body, str) else body or b""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def save_ids(path: Path, suffix: str) -> None:
    """Write the ids and digests of a file's rows to a file beside it, flushed to disk before the first is deleted."""
    for table in read_rows(path):
        kept = [each for each in digests(table) if each[0]]
        if kept:
            ids, bodies = zip(*kept, strict=True)
            draft = path.with_suffix(".ids.tmp")
            schema = pa.schema({IDS: pa.string(), DIGEST: pa.string()}, table.schema.metadata)
            with open(draft, "wb", opener=private) as file:
                with pa.ipc.new_stream(file, schema) as writer:
                    writer.write_table(pa.table([ids, bodies], schema))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path.with_suffix(suffix))

"""The parts of the codec, for packages that read and write parts of values."""

from __future__ import annotations

from ._codegen import values_reader as values_reader
from ._compiled import fast as fast
from ._composite import decode_fields as decode_fields
from ._composite import type_at as type_at
from ._constructors import CODES as CODES
from ._decode import BROKEN as BROKEN
from ._decode import DEFAULT_LIMITS as DEFAULT_LIMITS
from ._decode import broken as broken
from ._decode import room_for as room_for
from ._encode import BINARY_HEAD as BINARY_HEAD
from ._encode import PLAN_SCOPE as PLAN_SCOPE
from ._encode import STRING_HEAD as STRING_HEAD
from ._encode import WRITERS as WRITERS
from ._encode import Writer as Writer
from ._encode import close_compound as close_compound
from ._encode import keep_key as keep_key
from ._encode import pack_word as pack_word
from ._encode import path_to_fault as path_to_fault
from ._encode import plans_of as plans_of
from ._encode import write_entries as write_entries
from ._encode import write_string as write_string
from ._encode import write_symbol as write_symbol
from ._encode import write_ubyte as write_ubyte
from ._encode import write_uint as write_uint
from ._encode import write_ulong as write_ulong
from ._plans import Part as Part
from ._plans import Plans as Plans
from ._plans import forget_oldest as forget_oldest
from ._read_compound import map_shapes as map_shapes
from ._read_primitive import READERS as READERS
from ._read_primitive import unpack_word as unpack_word
from ._shapes import Entry as Entry
from ._shapes import ShapeReader as ShapeReader
from ._shapes import Shapes as Shapes
from ._shapes import read_by as read_by
from ._shapes import read_map as read_map
from ._shapes import write_reader as write_reader

__all__ = (
    "BINARY_HEAD",
    "BROKEN",
    "CODES",
    "DEFAULT_LIMITS",
    "PLAN_SCOPE",
    "READERS",
    "STRING_HEAD",
    "WRITERS",
    "Entry",
    "Part",
    "Plans",
    "ShapeReader",
    "Shapes",
    "Writer",
    "broken",
    "close_compound",
    "decode_fields",
    "fast",
    "forget_oldest",
    "keep_key",
    "map_shapes",
    "pack_word",
    "path_to_fault",
    "plans_of",
    "read_by",
    "read_map",
    "room_for",
    "type_at",
    "unpack_word",
    "values_reader",
    "write_entries",
    "write_reader",
    "write_string",
    "write_symbol",
    "write_ubyte",
    "write_uint",
    "write_ulong",
)

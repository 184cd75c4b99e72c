"""Part 1 of AMQP 1.0: the types and their encoding.

`encode` and `decode` convert between Python values and octets; the table in `_values` maps Python types to AMQP types.
`composite` and `field` declare composite types: performatives, sections and outcomes.
"""

from __future__ import annotations

from ._codegen import composite as composite
from ._composite import Composite as Composite
from ._composite import Field as Field
from ._composite import as_composite as as_composite
from ._composite import decode_composite as decode_composite
from ._composite import field as field
from ._decode import DEFAULT_LIMITS as DEFAULT_LIMITS
from ._decode import Limits as Limits
from ._decode import decode as decode
from ._decode import decode_from as decode_from
from ._decode import skip as skip
from ._encode import encode as encode
from ._encode import encode_to as encode_to
from ._serial import SERIAL_MASK as SERIAL_MASK
from ._serial import serial_add as serial_add
from ._serial import serial_compare as serial_compare
from ._serial import serial_diff as serial_diff
from ._serial import serial_lt as serial_lt
from ._values import TYPE_NAMES as TYPE_NAMES
from ._values import Array as Array
from ._values import Byte as Byte
from ._values import Char as Char
from ._values import Decimal32 as Decimal32
from ._values import Decimal64 as Decimal64
from ._values import Decimal128 as Decimal128
from ._values import Described as Described
from ._values import Float as Float
from ._values import Int as Int
from ._values import Map as Map
from ._values import Short as Short
from ._values import Symbol as Symbol
from ._values import Timestamp as Timestamp
from ._values import TypeName as TypeName
from ._values import UByte as UByte
from ._values import UInt as UInt
from ._values import ULong as ULong
from ._values import UShort as UShort
from ._write_array import write_array as _write_array  # registers the writer of arrays

del _write_array

__all__ = (
    "DEFAULT_LIMITS",
    "SERIAL_MASK",
    "TYPE_NAMES",
    "Array",
    "Byte",
    "Char",
    "Composite",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Described",
    "Field",
    "Float",
    "Int",
    "Limits",
    "Map",
    "Short",
    "Symbol",
    "Timestamp",
    "TypeName",
    "UByte",
    "UInt",
    "ULong",
    "UShort",
    "as_composite",
    "composite",
    "decode",
    "decode_composite",
    "decode_from",
    "encode",
    "encode_to",
    "field",
    "serial_add",
    "serial_compare",
    "serial_diff",
    "serial_lt",
    "skip",
)


def __dir__() -> tuple[str, ...]:
    return __all__

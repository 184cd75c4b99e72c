"""An atheris target for the value decoder: any octets decode to a value that round-trips, or are a DecodeError.

python tests/fuzz/fuzz_values.py [CORPUS...] [-max_total_time=60] [-max_len=4096]
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["amqp10.types", "amqp10.messaging"]):
    from amqp10 import messaging  # noqa: F401  (its composites enter the registry)
    from amqp10.errors import DecodeError
    from amqp10.types import Composite, decode_composite, decode_from, encode, skip


def one_input(data: bytes) -> None:
    """What libFuzzer calls with every input."""
    try:
        value, end = decode_from(data)
    except DecodeError:
        pass
    else:
        assert skip(data) == end
        again = encode(value)
        assert encode(decode_from(again)[0]) == again
    try:
        composite, _ = decode_composite(data)
    except DecodeError:
        return
    if isinstance(composite, Composite):
        again = composite.encode()
        assert encode(decode_composite(again)[0]) == again


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()

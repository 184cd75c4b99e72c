"""An atheris target for the frame reader: any octets, in any portions, are frames or one of two errors.

python tests/fuzz/fuzz_frames.py [CORPUS...] [-max_total_time=60] [-max_len=4096]

The first octet says how the rest is cut. What is read must not depend on that, and what is read can be written again.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["amqp10.dialects", "amqp10.types", "amqp10.messaging"]):
    from amqp10.dialects.v1_0.wire.frames import FRAME_AMQP, FRAME_SASL, FrameReader
    from amqp10.dialects.v1_0.wire.transfer import read_transfer
    from amqp10.errors import DecodeError, RemoteProtocolError
    from amqp10.types import Composite, decode_composite

LIMIT = 4096


# A frame as octets, for a NaN does not equal itself: type, channel, performative, payload.
Read = tuple[int, int, bytes | None, bytes]


def read(data: bytes, portion: int) -> list[Read | str]:
    """Everything in the data: frames, the names of errors, and how much is left over if no error ended it."""
    reader = FrameReader(LIMIT)
    found: list[Read | str] = []
    for start in range(0, len(data), portion):
        reader.feed(data[start : start + portion])
        while True:
            try:
                frame = reader.next()
            except DecodeError:
                found.append("DecodeError")
                continue
            except RemoteProtocolError as error:
                return [*found, error.condition]
            if frame is None:
                break
            kind, channel, performative, payload = frame
            assert performative is None or kind in (FRAME_AMQP, FRAME_SASL)
            found.append((kind, channel, None if performative is None else performative.encode(), bytes(payload)))
    return [*found, f"{reader.buffered} left"]


def one_input(data: bytes) -> None:
    """What libFuzzer calls with every input."""
    portion, data = (data[0] if data else 0) + 1, data[1:]
    found = read(data, len(data) or 1)
    assert read(data, portion) == found, "the result depends on how the bytes were cut"
    for frame in found:
        if isinstance(frame, str):
            continue
        kind, channel, performative, payload = frame
        if performative is None:
            continue
        size = 8 + len(performative) + len(payload)
        again = size.to_bytes(4, "big") + bytes((2, kind)) + channel.to_bytes(2, "big") + performative + payload
        assert read(again, size) == ([frame, "0 left"] if size <= LIMIT else ["amqp:connection:framing-error"])
    check_fast_path(b"\0\x53\x14" + data)


def check_fast_path(body: bytes) -> None:
    """The octets as the body of a transfer: the fast way may only take what the generic one takes, with its result."""
    fast = read_transfer(body, 3, len(body))
    if fast is not None:
        generic, end = decode_composite(body)
        assert isinstance(generic, Composite)
        assert (fast[0], fast[1]) == (generic, end)
        assert fast[0].encode() == generic.encode()


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()

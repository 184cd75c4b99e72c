"""An atheris target for the frame reader: any octets, in any portions, are frames or one of two errors.

python tests/fuzz/fuzz_frames.py [CORPUS...] [-max_total_time=60] [-max_len=4096]

The first octet says how the rest is cut. What is read must not depend on that, and what is read can be written again.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["amqp10.dialects", "amqp10.types", "amqp10.messaging"]):
    from amqp10.dialects.v1_0._frames import FRAME_AMQP, FRAME_SASL, Frame, FrameReader, encode_frame
    from amqp10.dialects.v1_0._transfer import read_transfer
    from amqp10.errors import DecodeError, RemoteProtocolError
    from amqp10.types import Composite, decode_composite

LIMIT = 4096


def read(data: bytes, portion: int) -> list[Frame | str]:
    """Everything in the data: frames, the names of errors, and how much is left over if no error ended it."""
    reader = FrameReader(LIMIT)
    found: list[Frame | str] = []
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
            found.append(frame)
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
        assert performative is None or kind in (FRAME_AMQP, FRAME_SASL)
        if kind == FRAME_AMQP and performative is not None:
            again = encode_frame(channel, performative, payload)
            reader = FrameReader(len(again))
            reader.feed(again)
            second = reader.next()
            assert second is not None
            assert second[2] is not None
            assert encode_frame(second[1], second[2], second[3]) == again
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

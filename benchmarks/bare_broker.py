"""What a broker without rules costs in plain Python: transfers are cut, kept, written out and settled, and that is all.

    python benchmarks/bare_broker.py

The octets are the orders of `real.py`, in chunks as they are read from a socket; there is no socket. "dict": each
payload is kept under its delivery-id until it is accepted. "objects": beside that, an object for each delivery in, each
message and each delivery out, and a queue between, as a broker has for its rules. The figures are µs of CPU a message,
the least of several runs.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable
from struct import Struct

from real import as_sent, orders

CHUNK = 65_536
TRANSFER = Struct(">I 4s 8s s I 2s I 2s")
"""Size, rest of the frame's header, head of the list with the handle, delivery-id, delivery-tag, two fields more."""

FRAME, LIST, UINT, TAG, REST = (
    b"\x02\x00\x00\x00",
    b"\x00\x53\x14\xc0\x10\x05\x52\x00",
    b"\x70",
    b"\xa0\x04",
    b"\x43\x42",
)
DISPOSITION = Struct(">I 4s 8s I s I 5s")
"""The same of an outcome for a range: the list's head, role and constructor; first, last, settled and accepted."""

Broker = Callable[[bytes], int]


def transfers(payloads: list[bytes]) -> list[bytes]:
    """Return the frames of a sender, in chunks of whole frames."""
    chunks, chunk = [], b""
    for number, payload in enumerate(payloads):
        chunk += TRANSFER.pack(TRANSFER.size + len(payload), FRAME, LIST, UINT, number, TAG, number, REST) + payload
        if len(chunk) >= CHUNK:
            chunks.append(chunk)
            chunk = b""
    return [*chunks, chunk] if chunk else chunks


def accepted(first: int, last: int) -> bytes:
    """Return the outcome of a range."""
    head = b"\x00\x53\x15\xc0\x11\x05\x41\x70"
    return DISPOSITION.pack(DISPOSITION.size, FRAME, head, first, UINT, last, b"\x41\x00\x53\x24\x45")


def by_dict() -> Broker:
    """Return a broker that keeps payloads in a dict."""
    unpack, pack, size_of_head = TRANSFER.unpack_from, TRANSFER.pack, TRANSFER.size
    held: dict[int, bytes] = {}

    def through(data: bytes) -> int:
        at, first, number = 0, -1, -1
        out: list[bytes] = []
        while at < len(data):
            size, _, _, _, number, _, _, _ = unpack(data, at)
            first = number if first < 0 else first
            held[number] = payload = data[at + size_of_head : at + size]
            out.append(pack(size, FRAME, LIST, UINT, number, TAG, number, REST))
            out.append(payload)
            at += size
        written = b"".join(out)  # to the receiver, which accepts all of it
        for each in range(first, number + 1):
            del held[each]
        return len(written) + len(accepted(first, number))

    return through


class Entry:
    """A delivery or a message: some facts of it."""

    __slots__ = ("available", "number", "payload", "settled", "state", "tag", "waiter")

    def __init__(self, number: int, tag: int, payload: bytes) -> None:
        self.number, self.tag, self.payload = number, tag, payload
        self.available = self.settled = False
        self.state = self.waiter = None


def by_objects() -> Broker:
    """Return a broker that has three objects for a message, and a queue."""
    unpack, pack, size_of_head = TRANSFER.unpack_from, TRANSFER.pack, TRANSFER.size
    queue: deque[Entry] = deque()
    held: dict[int, Entry] = {}

    def through(data: bytes) -> int:
        at, first, number = 0, -1, -1
        incoming: deque[Entry] = deque()
        while at < len(data):
            size, _, _, _, number, _, tag, _ = unpack(data, at)
            first = number if first < 0 else first
            incoming.append(Entry(number, tag, data[at + size_of_head : at + size]))
            at += size
        while incoming:
            delivery = incoming.popleft()
            queue.append(Entry(delivery.number, delivery.tag, delivery.payload))
            delivery.settled = True
        out: list[bytes] = []
        while queue:
            entry = queue.popleft()
            sent = held[entry.number] = Entry(entry.number, entry.tag, entry.payload)
            payload = sent.payload
            out.append(pack(size_of_head + len(payload), FRAME, LIST, UINT, sent.number, TAG, sent.tag, REST))
            out.append(payload)
        written = b"".join(out)
        for each in range(first, number + 1):
            held.pop(each).settled = True
        return len(written) + len(accepted(first, number))

    return through


def measure(make: Callable[[], Broker], chunks: list[bytes], count: int, runs: int) -> float:
    """Return the µs of CPU that a message takes, the least of so many runs."""
    best = float("inf")
    for _ in range(runs):
        broker = make()
        began = time.process_time()
        for chunk in chunks:
            broker(chunk)
        best = min(best, (time.process_time() - began) / count * 1e6)
    return best


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000, help="orders of a run")
    parser.add_argument("--runs", type=int, default=9)
    given = parser.parse_args()
    made = [as_sent(fields) for fields in orders(min(given.count, 2000))]
    payloads = [made[number % len(made)] for number in range(given.count)]
    chunks = transfers(payloads)
    print(f"{sum(map(len, payloads)) / len(payloads):.0f} octets a message")
    for name, make in (("dict", by_dict), ("objects", by_objects)):
        print(f"{name:8} {measure(make, chunks, given.count, given.runs):5.2f} µs")


if __name__ == "__main__":
    main()

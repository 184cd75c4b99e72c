"""What can be asked in AMQP/Fast and AMQP 1.0 has no word for."""

from __future__ import annotations

from dataclasses import dataclass

from ...engine import Request


@dataclass(frozen=True, slots=True)
class Index:
    """Which messages are in a queue.

    Attributes:
        numbers: what they are called, by whoever asked: `Show` shows one.
        after: 0 where all are listed, else the number after which to ask for more.
    """

    numbers: tuple[int, ...]
    after: int = 0


@dataclass(frozen=True, slots=True)
class List(Request[Index]):
    """Which messages are there (handle-query)?

    Attributes:
        address: of the queue.
        selector: only those that it selects; "" for all.
        after: only those after this number; 0 looks anew.
    """

    address: str
    selector: str = ""
    after: int = 0


@dataclass(frozen=True, slots=True)
class Show(Request[bytes]):
    """One of the messages that `List` listed, with the same selector (handle-browse); the answer is encoded."""

    address: str
    number: int
    selector: str = ""

"""What every Python peer of `real_clients.py` shares: the fields of what it sends, each message different."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count, cycle
from pathlib import Path
from typing import Any
from uuid import UUID

from clock import Clock

MODES = ("order-send", "order-receive", "row-send", "row-receive", "relay", "one", "links")
IN_FLIGHT = 1000
LINK_CREDIT = 10
"""Of each link in "links"."""

Fields = dict[str, Any]


def clock_of(peer: str) -> Clock:
    """Read the arguments."""
    return Clock(peer, MODES)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


class Messages:
    """The fields of messages, over and over, each with an id that no other has.

    Args:
        clock: whose file they are in.
        times: what a moment is to be in this client: a `datetime`, or milliseconds since 1970 as they are.
    """

    def __init__(self, clock: Clock, times: Any = _moment) -> None:
        made = json.loads(Path(clock.messages).read_text())
        self.orders: list[Fields] = made["orders"]
        self.rows: list[Fields] = made["rows"]
        for order in self.orders:
            order["creation_time"] = times(order["creation_time"])
            properties = order["application_properties"]
            properties["due"] = times(properties["due"])
            properties["trace"] = UUID(properties["trace"])
        for row in self.rows:
            for name in ("created", "changed"):
                row[name] = times(row[name])
            row["session"] = UUID(row["session"])

    def each_order(self) -> Iterator[tuple[str, Fields]]:
        """An id and the fields of an order, without end."""
        return ((f"order-{number:012}", fields) for number, fields in zip(count(), cycle(self.orders), strict=False))

    def each_row(self) -> Iterator[tuple[str, Fields]]:
        """An id and a row, without end."""
        return ((f"row-{number:012}", row) for number, row in zip(count(), cycle(self.rows), strict=False))

    def json_us(self) -> float:
        """CPU µs that the JSON of an order and its id take by themselves."""
        each = self.each_order()
        began = time.process_time()
        for _ in range(len(self.orders)):
            json.dumps(next(each)[1]["order"]).encode()
        return (time.process_time() - began) / len(self.orders) * 1e6

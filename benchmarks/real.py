"""What messages as applications send them cost to encode and to decode: each is different, all of it is read.

    python benchmarks/real.py                     a few seconds
    python benchmarks/real.py --beside OTHER/src  the same of another tree of this package, in turn: what a change gains

`orders` are events: a JSON body of 200 to 900 octets, six properties (an id and a time of its own in each), six
application properties of six types, two annotations. `rows` have an id, and for a body a map of 19 fields.
"encode" makes the message out of a dict and encodes it, JSON apart; "decode" looks at every field. The figures are CPU
µs a message, medians of rounds that take turns. `budget.py` counts the same in steps of the interpreter.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from amqp10 import Message
from amqp10.types import Symbol

COUNT = 500
"""Messages of each kind: no two alike, and more than any cache of whole messages would have."""

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_REGIONS = ("eu-west-1", "us-east-2", "ap-south-1", "sa-east-1")
_STATES = ("created", "paid", "packed", "shipped", "returned")
_CURRENCIES = ("EUR", "USD", "JPY", "BRL")

Fields = dict[str, Any]


def _uuid(chance: random.Random) -> UUID:
    return UUID(int=chance.getrandbits(128), version=4)


def _moment(chance: random.Random) -> datetime:
    return _BEGIN + timedelta(milliseconds=chance.randrange(10**10))


def orders(count: int = COUNT) -> list[Fields]:
    """Return the arguments of `Message` for as many events, the same in every run."""
    chance = random.Random(4711)
    made = []
    for number in range(count):
        state = chance.choice(_STATES)
        lines = [
            {"sku": f"SKU-{chance.randrange(10**6):06}", "quantity": chance.randrange(1, 20), "price": chance.random()}
            for _ in range(chance.randrange(2, 13))
        ]
        order = {"id": number, "state": state, "customer": f"customer-{chance.randrange(10**5)}", "lines": lines}
        made.append(
            {
                "body": json.dumps(order).encode(),
                "message_id": str(_uuid(chance)),
                "subject": f"order.{state}",
                "reply_to": "orders.replies",
                "correlation_id": f"basket-{chance.randrange(10**8)}",
                "content_type": "application/json",
                "creation_time": _moment(chance),
                "application_properties": {
                    "region": chance.choice(_REGIONS),
                    "attempt": chance.randrange(4),
                    "total": round(chance.random() * 1000, 2),
                    "express": chance.random() < 0.3,
                    "due": _moment(chance),
                    "trace": _uuid(chance),
                },
                "message_annotations": {
                    "x-opt-partition-key": f"customer-{chance.randrange(10**5)}",
                    "x-opt-sequence-number": number + 10**6,
                },
            }
        )
    return made


def rows(count: int = COUNT) -> list[Fields]:
    """Return the arguments of `Message` for as many rows, the same in every run."""
    chance = random.Random(815)
    return [
        {
            "message_id": f"row-{number:012}",
            "body": {
                "id": number + 10**9,
                "customer": f"customer-{chance.randrange(10**5)}",
                "name": f"{chance.choice(_STATES)} {chance.randrange(10**4)}",
                "email": f"somebody-{chance.randrange(10**6)}@example.org",
                "region": chance.choice(_REGIONS),
                "currency": chance.choice(_CURRENCIES),
                "quantity": chance.randrange(1, 100),
                "price": chance.random() * 100,
                "discount": chance.random(),
                "total": chance.random() * 10**4,
                "tax": chance.random() * 10**3,
                "paid": chance.random() < 0.8,
                "shipped": chance.random() < 0.5,
                "created": _moment(chance),
                "changed": _moment(chance),
                "session": _uuid(chance),
                "clicks": chance.randrange(-1000, 1000),
                "referrer": None if chance.random() < 0.5 else "newsletter",
                "comment": "" if chance.random() < 0.5 else f"please ring {chance.randrange(10**4)} times",
            },
        }
        for number in range(count)
    ]


def as_sent(fields: Fields) -> bytes:
    """Make the message of its fields, and encode it."""
    return Message(**fields).encode()


def read_order(payload: bytes) -> tuple[Any, ...]:
    """Decode an event, and look at every field that it has."""
    message = Message.decode(payload)
    properties = message.application_properties
    annotations = message.message_annotations
    return (
        message.message_id,
        message.subject,
        message.reply_to,
        message.correlation_id,
        message.content_type,
        message.creation_time,
        properties["region"],
        properties["attempt"],
        properties["total"],
        properties["express"],
        properties["due"],
        properties["trace"],
        annotations["x-opt-partition-key"],
        annotations["x-opt-sequence-number"],
        message.body,
    )


def read_row(payload: bytes) -> tuple[str, dict[str, Any]]:
    """Decode a row to its native values."""
    message = Message.decode(payload)
    return message.message_id, message.body  # type: ignore[return-value]


def check() -> None:
    """See that what is read is what was sent."""
    for order in orders(20):
        read = read_order(as_sent(order))
        sent = [order[name] for name in order if not isinstance(order[name], dict)]
        sent += [*order["application_properties"].values(), *order["message_annotations"].values()]
        assert sorted(map(repr, sent)) == sorted(repr(str(each) if type(each) is Symbol else each) for each in read)
    for row in rows(20):
        assert read_row(as_sent(row)) == (row["message_id"], row["body"])


Workload = tuple[Callable[[Any], Any], list[Any]]


def workloads() -> dict[str, Workload]:
    """Return what is done to each of which things, by name."""
    events, table = orders(), rows()
    return {
        "order encode": (as_sent, events),
        "order decode": (read_order, [as_sent(each) for each in events]),
        "row encode": (as_sent, table),
        "row decode": (read_row, [as_sent(each) for each in table]),
    }


def measure(workload: Workload, rounds: int) -> float:
    """Return CPU µs a message, the median of some rounds."""
    operation, things = workload
    took = []
    for _ in range(rounds):
        began = time.process_time()
        for each in things:
            operation(each)
        took.append((time.process_time() - began) / len(things) * 1e6)
    return statistics.median(took)


def measured_by(source: Path, rounds: int) -> dict[str, float]:
    """Measure the package in `source`, in a process of its own."""
    command = [sys.executable, __file__, "--figures", "--rounds", str(rounds)]
    env = os.environ | {"PYTHONPATH": str(source.resolve())}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--beside", type=Path, metavar="SRC", help="another tree of this package to measure in turn")
    parser.add_argument("--turns", type=int, default=7, help="processes of each, with --beside")
    parser.add_argument("--figures", action="store_true", help="print JSON")
    given = parser.parse_args()
    if given.beside is None:
        check()
        figures = {name: measure(each, given.rounds) for name, each in workloads().items()}
        if given.figures:
            print(json.dumps(figures))
            return
        print("| workload | CPU µs/message |\n|---|--:|")
        for name, cost in figures.items():
            print(f"| {name} | {cost:.2f} |")
        return
    import amqp10

    here = Path(amqp10.__file__).parents[1]
    turns = [(measured_by(here, given.rounds), measured_by(given.beside, given.rounds)) for _ in range(given.turns)]
    print("| workload | CPU µs/message | beside | times that |\n|---|--:|--:|--:|")
    for name in turns[0][0]:
        ours, theirs = (statistics.median(turn[side][name] for turn in turns) for side in (0, 1))
        ratio = statistics.median(one[name] / other[name] for one, other in turns)
        print(f"| {name} | {ours:.2f} | {theirs:.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()

"""What one message costs to encode and to decode, without a connection, beside other clients in the same run.

    python benchmarks/codec.py             properties, 5 application properties and 100 bytes of data; a few seconds

Others that are not installed are left out. Rounds are interleaved, the figures are medians of CPU µs a message.
"decode" ends when the message-id, the application properties and the body have been looked at; "body only" shows that
the other sections wait until they are.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from amqp10 import Message

BODY = b"x" * 100
FIELDS: dict[str, Any] = {
    "subject": "order.created",
    "correlation_id": "order-4711",
    "content_type": "application/json",
}
APPLICATION = {"region": "eu-west-1", "attempt": 3, "priority": 7.5, "urgent": True, "trace": "4bf92f3577b34da6"}
MESSAGE_ID = "message-0001"
OURS = "amqp10"

Operations = dict[str, Callable[[], Any]]


def amqp10() -> Operations:
    def encode() -> bytes:
        return Message(BODY, message_id=MESSAGE_ID, application_properties=APPLICATION, **FIELDS).encode()

    payload = encode()

    def decode() -> tuple[Any, dict[str, Any], bytes]:
        message = Message.decode(payload)
        return message.message_id, message.application_properties, message.body

    def body_only() -> int:
        return len(Message.decode(payload).body)

    assert decode() == (MESSAGE_ID, APPLICATION, BODY)
    return {"encode": encode, "decode": decode, "decode, body only": body_only}


def proton() -> Operations:
    from proton import Message as ProtonMessage

    def encode() -> Any:
        return ProtonMessage(id=MESSAGE_ID, properties=APPLICATION, body=BODY, inferred=True, **FIELDS).encode()

    payload = encode()

    def decode() -> Any:
        message: Any = ProtonMessage()
        message.decode(payload)
        return message.id, message.properties, message.body

    assert decode()[1]["region"] == "eu-west-1"
    return {"encode": encode, "decode": decode}


def pyamqp() -> Operations:
    from azure.servicebus._pyamqp._decode import decode_payload
    from azure.servicebus._pyamqp._encode import encode_payload
    from azure.servicebus._pyamqp.message import Message as PyamqpMessage
    from azure.servicebus._pyamqp.message import Properties

    make: Any = PyamqpMessage

    def encode() -> bytearray:
        output = bytearray()
        properties = Properties(message_id=MESSAGE_ID, **FIELDS)
        encode_payload(output, make(properties=properties, application_properties=APPLICATION, data=[BODY]))
        return output

    payload = memoryview(bytes(encode()))

    def decode() -> Any:
        message = decode_payload(payload)
        return message.properties, message.application_properties, message.data

    assert len(decode()[1]) == 5
    return {"encode": encode, "decode": decode}


CODECS: dict[str, Callable[[], Operations]] = {OURS: amqp10, "proton": proton, "pyamqp": pyamqp}


def measure(
    operations: dict[tuple[str, str], Callable[[], Any]], rounds: int, each: int
) -> dict[tuple[str, str], float]:
    """Median CPU µs of every operation; all of them once in every round."""
    took: dict[tuple[str, str], list[float]] = {key: [] for key in operations}
    for _ in range(rounds):
        for key, operation in operations.items():
            began = time.process_time()
            for _ in range(each):
                operation()
            took[key].append((time.process_time() - began) / each * 1e6)
    return {key: statistics.median(times) for key, times in took.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--each", type=int, default=2000, help="messages in a round")
    given = parser.parse_args()
    operations: dict[tuple[str, str], Callable[[], Any]] = {}
    for name, load in CODECS.items():
        try:
            loaded = load()
        except ImportError:
            print(f"{name} is not installed")
            continue
        operations |= {(operation, name): run for operation, run in loaded.items()}
    figures = measure(operations, given.rounds, given.each)
    print("| operation | codec | CPU µs/message | times ours |\n|---|---|--:|--:|")
    for (operation, name), cost in sorted(figures.items(), key=lambda figure: (figure[0][0] != "encode", figure[0])):
        print(f"| {operation} | {name} | {cost:.2f} | {cost / figures[operation, OURS]:.1f} |")


if __name__ == "__main__":
    main()

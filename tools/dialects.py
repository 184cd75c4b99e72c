"""Write docs/reference/dialects.md: what each dialect can do, from what their packages declare.

`--check` writes nothing and fails if the page is not what they declare.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from amqp10.engine import CAPABILITIES, Dialect, dialects

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "dialects.md"

INTRODUCTION = """\
# Dialects and what they can do

Every dialect has the same `Connection`, `Session`, `Sender`, `Receiver` and `Message`;
[Choose a dialect](../older/index.md) shows how to select one. All of them can send and receive, settled or not, with
credit, TLS and heartbeats. Beyond that they differ. Asking a dialect for something that it lacks raises `Unsupported`
before any byte is written. This page is generated from what the dialects declare, by `python tools/dialects.py`.

[The contract suite](../build/testing.md) checks each dialect on the embedded broker. The test beside each row, in
`tests/testing/suite/`, checks every "yes" and every "-". Independent peers show that the bytes are right: the
[interop tables](interop.md#the-older-dialects) list them by feature and broker.
"""

PROOFS = {
    "1.0": "Artemis, Broker-J and RabbitMQ as servers; proton, ProtonJ2, rhea and go-amqp as clients: "
    "[the interop matrix](interop.md), and [the specification, clause by clause](conformance.md)",
    "0-10": "Broker-J as server in `tests/interop/test_amqp_0_10.py`; vectors that Broker-J accepted, in "
    "`tests/dialects/v0_10/`; resuming, which Broker-J lacks, is tested by cutting the connection after each frame",
    "0-9-1": "RabbitMQ and Broker-J as servers in `tests/interop/test_amqp_0_9_1.py`; pika, aio-pika and amqp091-go as "
    "clients of the embedded broker; pamqp on every method and property in `tests/dialects/v0_9/wire/test_pamqp.py`",
    "0-9": "Broker-J and RabbitMQ as servers in `tests/interop/test_amqp_0_9_1.py`; Qpid's JMS client in "
    "`tests/interop/test_qpid_jms.py`",
    "0-9-draft": "vectors written by hand in `tests/dialects/v0_9/`, because no other program speaks it",
    "fast": "vectors written by hand and a second decoder in `tests/dialects/fast/`, and a client that shares no "
    "code with ours, because no other program speaks it",
}
ELSEWHERE = {
    "annotations": "tests/worker/test_worker.py",
    "multi-frame": "test_large",
    "session-resume": "tests/broker/retained/test_sessions.py",
    "find-outcomes": "tests/dialects/v0_10/client/test_orphaned_branches.py",
    "message-formats": "tests/client/sending/test_sender.py",
    "terminus-capabilities": "tests/client/requests/test_requester.py",
    "token-nodes": "tests/client/tokens/test_tokens.py",
    "transactional-acquisition": "tests/broker/transactions/test_acquires.py",
    "transactions-over-queues": "tests/bridging/test_dialects.py",
    "update-secret": "tests/broker/tokens/test_tokens.py",
    "virtual-hosts": "tests/broker/test_virtual_hosts.py",
}
SUITE = ROOT / "src" / "amqp10" / "testing" / "suite"


def render(found: list[Dialect]) -> str:
    """The page."""
    lines = [INTRODUCTION, "| `Connection(dialect=...)` | protocol header | `Connection.native` | proved by |"]
    lines.append("|---|---|---|---|")
    tests = "".join(path.read_text(encoding="utf-8") for path in sorted(SUITE.glob("*.py")))
    for each in found:
        headers = " or ".join(f"`{header.hex(' ')}`" for header in each.headers)
        native = f"`{each.native.replace(':', '.')}`" if each.native is not None else "none"
        lines.append(f'| `"{each.name}"` | {headers} | {native} | {PROOFS[each.name]} |')
    lines += ["", "| capability | what it is | " + " | ".join(each.name for each in found) + " | test |"]
    lines.append("|---|---|" + ":-:|" * len(found) + "---|")
    for word, meaning in CAPABILITIES.items():
        has = " | ".join("yes" if word in each.capabilities else "-" for each in found)
        name = f"test_{word.replace('-', '_')}"
        shown = [each for each in (name, f"{name}_out") if f"def {each}(" in tests]
        lines.append(f"| `{word}` | {meaning} | {has} | `{shown[0] if shown else ELSEWHERE[word]}` |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page is out of date")
    arguments = parser.parse_args()
    page = render(dialects())
    if arguments.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
            print(f"{PAGE.relative_to(ROOT)} is out of date: run `python tools/dialects.py`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Every example runs as a user would run it, and writes what its page says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXPECTED = {
    "hello.py": "hello greeting\n",
    "many.py": "10000 accepted\n10000 received, their sum is 49995000\n",
    "on_asyncio.py": "one\nb'two'\n{'number': 3}\n",
    "credit.py": "task 0\ntask 1\ntask 2\ntask 3\ntask 4\n",
    "filters.py": "two for eu: [1, 3]\nby fields: [2]\nnot applied: rabbitmq:stream-offset-spec\n",
    "streams.py": "all of it:\n0: 18\n1: 19\n2: 21\nfrom 2:\n2: 21\nstill there: 3\n",
    "subscriptions.py": "kept: while nobody listens\none has 0\ntwo has 1\none has 2\ntwo has 3\n"
    "waiting: ['first', 'second']\n",
    "large_messages.py": "chunk by chunk whole\na file 3000000 bytes\nthe copy is equal\n",
    "nodes.py": "first 144\n",
    "transactions.py": "1\n4\ninvalid literal for int() with base 10: 'three'\n",
    "websocket.py": "over a WebSocket\na page from anywhere: 403\n",
    "proxy.py": "CONNECT\nsent\n",
    "request_reply.py": "".join(f"{n} * {n} = {n * n}\n" for n in range(10)),
    "durable_broker.py": "kept: durable\nleft: 0\n",
    "exactly_once.py": "got 0\ngot 1\ngot 2\n",
    "amqp_0_9_1.py": "nobody wants db.info\ndisk full came as db.error\nerrors has 0\n",
    "amqp_0_10.py": "errors has 2\ndisk full came as db.error\nno route came as net.error\nprepared: ['order 4711']\n"
    "nothing yet: 0\npart of something larger\n",
    "amqp_fast.py": "listed: 1 2 3\n3 is id-3, order 3\n2 is id-2, order 2\n1 is id-1, order 1\n"
    "done as a whole: order 1\nno: the dialect has no outcome rejected\n",
    "dialects.py": (ROOT / "docs" / "howto" / "dialects.txt").read_text(),
    "exchanges.py": "errors has 1\neverything has 2\ndisk full came by logs with db.error\n"
    "no queue is bound for that\n",
    "bridge.py": "100 moved\nb'order 0'\n",
    "two_dialects.py": "sent in 0-9-1 received in 1.0\nsent in 1.0 received in 0-9-1\n",
    "users_and_permissions.py": "shop: sent to orders.paid\nshop: amqp:unauthorized-access\n"
    "audit: amqp:unauthorized-access\nroot: sent to invoices\naudit: received order 1\n",
    "embedded_broker.py": "a copy for each\na copy for each\n1 in the queue\n",
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "amqp10", "broker", "--port", "0", "--user", "guest:guest"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield process.stdout.readline().split()[3].replace("amqp://", "amqp://guest:guest@")
    process.terminate()
    process.wait(30)
    process.stdout.close()


def run(*command: str) -> str:
    """The output of a Python program that must succeed without a word on standard error."""
    ended = subprocess.run([sys.executable, "-W", "error", *command], capture_output=True, text=True, timeout=150)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_example(path: Path, url: str) -> None:
    """It runs against the embedded broker in another process; where the output is fixed, it is that."""
    output = run(str(path), url)
    assert output
    if path.name in EXPECTED:
        assert sorted(output.splitlines()) == sorted(EXPECTED[path.name].splitlines())


def test_the_ten_lines_of_the_readme(url: str, tmp_path: Path) -> None:
    """What the README shows first runs as written, but for the port."""
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    program = tmp_path / "readme.py"
    program.write_text(code[1].replace("amqp://guest:guest@localhost:5672", url))
    assert run(str(program)) == "hello greeting\n"

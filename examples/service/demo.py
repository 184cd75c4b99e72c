"""Run the service beside an embedded broker: three good orders, a bad one, and SIGTERM.
`python demo.py`
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from amqp10.sync import Connection
from amqp10.testing import BackgroundBroker


def until(condition) -> None:
    """Wait for what the service does, for two minutes at most."""
    deadline = time.monotonic() + 120
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the service did not do it in 120 s")
        time.sleep(0.05)


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:  # it is the answer, too
            return error.code
    except OSError:
        return 0


with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
with BackgroundBroker(queues=["orders", "orders.dead"]) as broker:
    settings = {
        "AMQP10_URL": broker.url,
        "AMQP10_WORK_DEAD_LETTERS": "orders.dead",
        "SERVICE_PORT": str(port),
    }
    program = [sys.executable, str(Path(__file__).with_name("service.py"))]
    with subprocess.Popen(
        program, env=os.environ | settings, stderr=subprocess.DEVNULL
    ) as service:
        try:
            until(lambda: status(f"http://127.0.0.1:{port}/ready") == 200)
            print("ready")
            with (
                Connection(broker.url) as connection,
                connection.sender("orders") as sender,
            ):
                sender.send_many(
                    json.dumps({"id": number, "count": number}) for number in range(4)
                )
            until(
                lambda: (
                    broker.queue("orders").depth == 0
                    and broker.queue("orders.dead").depth == 1
                )
            )
            print("orders are done,", broker.queue("orders.dead").depth, "is dead")
            print("live", status(f"http://127.0.0.1:{port}/live"))
        finally:
            service.send_signal(signal.SIGTERM)
    print("ended by SIGTERM:", service.returncode)

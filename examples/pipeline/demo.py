"""Run two processes of the step beside an embedded broker, and kill one at work. `python
demo.py`
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from amqp10 import Message
from amqp10.sync import Connection
from amqp10.testing import BackgroundBroker

COUNT = 1000


def orders():
    for number in range(COUNT):
        item = "coal" if number % 100 == 99 else ("tea", "cake")[number % 2]
        yield Message(
            {"item": item, "count": 2}, message_id=f"order-{number}", durable=True
        )


with BackgroundBroker(queues=["orders-new", "orders-priced", "orders-dead"]) as broker:
    environ = os.environ | {
        "AMQP10_URL": broker.url,
        "AMQP10_WORK_DEAD_LETTERS": "orders-dead",
    }
    with Connection(broker.url) as connection, connection.sender("orders-new") as sender:
        print("new", sender.send_many(orders()))
    step = [sys.executable, str(Path(__file__).with_name("step.py"))]
    processes = [
        subprocess.Popen(step, env=environ, stderr=subprocess.DEVNULL) for _ in range(2)
    ]
    try:
        while broker.queue("orders-priced").depth == 0:
            time.sleep(0.01)
        processes[0].kill()
        deadline = time.monotonic() + 60
        while broker.queue("orders-new").depth and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        for process in processes:
            process.terminate()
            process.wait()
    found: dict[str, set[object]] = {"orders-priced": set(), "orders-dead": set()}
    with Connection(broker.url) as connection:
        for queue, ids in found.items():
            with connection.browser(queue) as browser:
                ids.update(delivery.message.message_id for delivery in browser)
    print("one process was killed")
    print("priced", len(found["orders-priced"]), "dead", len(found["orders-dead"]))

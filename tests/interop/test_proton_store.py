"""python-qpid-proton on a broker that is killed: what it was told is accepted is there, for it and for us."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amqp10 import Connection

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")
from proton import reactor, utils  # noqa: E402

from .test_proton_client import on_thread  # noqa: E402
from .test_proton_subscriptions import connected  # noqa: E402

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.parametrize("anyio_backend", ["trio"]),
]
SECONDS = 20


def start(store: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "amqp10", "broker", "--port", "0", "--store", str(store)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().split()[3]


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(30)
    assert process.stdout is not None
    process.stdout.close()


async def test_proton_through_a_kill(tmp_path: Path) -> None:
    """Sent, subscribed and held by proton; after SIGKILL the rest is there, what was held with a delivery-count."""

    def before(url: str) -> Any:
        container = reactor.Container()
        container.container_id = "c"
        connection = utils.BlockingConnection(url, timeout=SECONDS, container=container)
        connection.create_receiver("topic.news", name="s", options=reactor.DurableSubscription())
        sender = connection.create_sender("orders")
        for number in range(5):
            sender.send(proton.Message(number, durable=True))
        connection.create_sender("topic.news").send(proton.Message("news", durable=True))
        receiver = connection.create_receiver("orders", credit=2)
        receiver.receive(timeout=SECONDS)
        receiver.accept()
        receiver.receive(timeout=SECONDS)  # held
        sender.send(proton.Message("volatile"))  # behind the accept: when it is answered, that is done
        return connection  # which is not closed: that would end the subscription

    def after(url: str) -> None:
        with connected(url, "c") as connection:
            receiver = connection.create_receiver("orders", credit=10)
            messages = [receiver.receive(timeout=SECONDS) for _ in range(4)]
            assert [(message.body, message.durable) for message in messages] == [(n, True) for n in range(1, 5)]
            assert messages[0].delivery_count == 1
            subscriber = connection.create_receiver("topic.news", name="s", options=reactor.DurableSubscription())
            assert subscriber.receive(timeout=SECONDS).body == "news"

    process, url = start(tmp_path / "store")
    lost = await on_thread(lambda: before(url))
    kill(process)
    del lost
    process, url = start(tmp_path / "store")
    await on_thread(lambda: after(url))
    async with Connection(url) as connection, connection.receiver("orders") as receiver:
        await receiver.drain()
        left = await receiver.receive_batch(10, max_wait=0)
        assert [delivery.message.body for delivery in left] == [1, 2, 3, 4]
    kill(process)

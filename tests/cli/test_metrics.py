"""`amqp10 broker --metrics-port`: what Prometheus reads, by its own client library."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from importlib.util import find_spec
from typing import Any

import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families

from amqp10 import AuthenticationFailed, Connection, Plain
from amqp10.broker import Broker
from amqp10.cli import _broker, _metrics
from amqp10.cli._metrics import TEMPORARY, count, render, serving

from ..kit.processes.commands import Commands
from ..kit.waiting import until

pytestmark = pytest.mark.capability("health")


def read(url: str) -> dict[tuple[str, str | None], float]:
    """The samples, by name and label."""
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text = answer.read().decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, sample.labels.get("queue") or sample.labels.get("topic")): sample.value for sample in samples}


@pytest.mark.anyio
async def test_what_is_counted() -> None:
    """Queues, topics, logins and connections, while the broker works."""
    async with Broker(users={"ann": "right"}, topics=["news"], queues=["q"]) as broker:
        async with serving(broker, "127.0.0.1", 0) as port:
            with pytest.raises(AuthenticationFailed):
                async with Connection(broker.url, sasl=Plain("ann", "wrong")):
                    pass
            async with Connection(broker.url, sasl=Plain("ann", "right")) as connection:
                async with connection.sender("q") as sender, connection.sender("news") as news:
                    await sender.send_many(["a", "b", "c"])
                    await news.send("x")
                async with connection.receiver("q", credit=2) as receiver, connection.receiver(dynamic=True):
                    (await receiver.receive()).accept()
                    (await receiver.receive()).reject()
                    await until(lambda: broker.queue("q").rejected and broker.queue("q").unsettled)
                    found = await anyio.to_thread.run_sync(read, f"http://127.0.0.1:{port}/metrics")
    assert found["amqp10_broker_connections", None] == 1
    assert found["amqp10_broker_blocked", None] == 0
    assert found["amqp10_broker_refused_logins_total", None] == 1
    assert found["amqp10_queue_enqueued_total", "q"] == 3
    assert found["amqp10_queue_messages", "q"] == 1
    assert found["amqp10_queue_unsettled", "q"] == 1
    assert found["amqp10_queue_consumers", "q"] == 1
    assert found["amqp10_queue_rejected_total", "q"] == found["amqp10_queue_dead_lettered_total", "q"] == 1
    assert found["amqp10_queue_consumers", TEMPORARY] == 1
    assert (found["amqp10_topic_enqueued_total", "news"], found["amqp10_topic_unheard_total", "news"]) == (1, 1)


@pytest.mark.anyio
async def test_temporary_queues_share_a_label() -> None:
    """However many there are, there is one series for them."""
    async with Broker() as broker, Connection(broker.url) as connection:
        async with connection.receiver(dynamic=True), connection.receiver(dynamic=True):
            assert count(broker).queues[TEMPORARY]["consumers"] == 2
            assert list(count(broker).queues) == [TEMPORARY]


async def said(port: int, request: bytes) -> bytes:
    """All that is answered to a request, however wrong."""
    found = b""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            await stream.send(request)
            while True:
                found += await stream.receive()
    return found


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /any?name[]=x HTTP/1.1\r\nHost: any\r\n\r\n", b"200"),
        (b"HEAD / HTTP/1.0\r\n\r\n", b"200"),
        (b"POST /metrics HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", b"405"),
        (b"\0\xff\r\n\r\n", b"400"),
        (b"GET / HTTP/1.0\r\nX: " + b"x" * 400_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.0\n\n" * 3000, b"431"),
    ],
    ids=["get", "head", "post", "no method", "large head", "no end"],
)
async def test_odd_requests(request_: bytes, status: bytes) -> None:
    """They are answered, or cut off; metrics are there for the next one."""
    async with Broker(queues=["q"]) as broker, serving(broker, "127.0.0.1", 0) as port:
        with anyio.fail_after(60):
            answer = await said(port, request_)
            # A peer may be reset before it has read why so large a head is refused.
            assert answer[9:12] in (status, b"" if status == b"431" else status)
            assert (b'{queue="q"}' in answer) is (status == b"200" and request_.startswith(b"GET"))
            assert (await said(port, b"GET / HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200")


@pytest.mark.anyio
@pytest.mark.parametrize("request_", [b"", b"GET", b"GET / HTTP/1.0\r\nHost: any\r\n", b"\x16\x03\x01\x02\x00\x01"])
async def test_requests_that_end(request_: bytes) -> None:
    """A peer that leaves before its request is complete, as who looks for open ports does, ends nobody else."""
    async with Broker() as broker, serving(broker, "127.0.0.1", 0) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(request_)
            await stream.send_eof()
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
        assert (await said(port, b"GET / HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200")


@pytest.mark.anyio
async def test_faults_stay_with_the_request(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What raises while a request is answered is logged, and the broker goes on."""
    async with Broker() as broker, serving(broker, "127.0.0.1", 0) as port:
        with monkeypatch.context() as patched:
            patched.setattr(_metrics, "render", lambda counted: 1 // 0)
            assert (await said(port, b"GET /metrics?\n\x1b[2J HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 500")
        assert (await said(port, b"GET / HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200")
    assert "ZeroDivisionError" in caplog.text
    assert r"/metrics?\n\x1b[2J" in caplog.text  # it begins no line of its own


@pytest.mark.anyio
async def test_names_are_quoted() -> None:
    """A queue's name cannot say what another's numbers are."""
    name = 'a"} 5\namqp10_queue_messages{queue="b\\'
    async with Broker(queues=[name]) as broker:
        families = list(text_string_to_metric_families(render(count(broker)).decode()))
    assert {sample.labels.get("queue", name) for family in families for sample in family.samples} == {name}


@pytest.mark.anyio
async def test_slow_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent connections take few places, and not for long; those that are too many are closed."""
    monkeypatch.setattr(_metrics, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(_metrics, "TIMEOUT", 0.2)
    async with Broker() as broker, serving(broker, "127.0.0.1", 0) as port, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port)) for _ in range(4)]
        for stream in streams:
            with suppress(anyio.BrokenResourceError):
                await stream.send(b"GET / HT")
        with anyio.fail_after(60):
            for stream in streams:
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()
            answer = b""
            while not answer:  # a place may be taken a moment longer
                answer = await said(port, b"GET / HTTP/1.0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")


def test_the_option(other_broker: Callable[..., tuple[Any, str]]) -> None:
    """The second line says where; the first is as ever."""
    process, _ = other_broker("--metrics-port", "0", "--queue", "orders")
    line = process.stdout.readline()
    assert line.startswith("metrics at http://127.0.0.1:")
    assert read(line.split()[2])["amqp10_queue_messages", "orders"] == 0
    process.terminate()
    assert process.wait(30) == 143


def test_without_the_package(amqp10: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setattr(_broker, "find_spec", lambda name: None if name == "prometheus_client" else find_spec(name))
    result = amqp10("broker", "--metrics-port", "0", "--port", "0")
    assert result.code == 2
    assert "pip install 'amqp10[metrics]'" in result.err

"""The client without `await`: every kind of call, in one thread and in several, with timeouts, interrupts and forks."""

from __future__ import annotations

import inspect
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

import amqp10.client
import amqp10.sync
from amqp10 import (
    Accepted,
    ConnectionGivenUp,
    ConnectionLost,
    LocalProtocolError,
    Message,
    MessageRejected,
    Reconnect,
    amqp010,
    amqp091,
)
from amqp10.sync import Connection, Delivery, Receiver, Sender, _facades, rabbit_management, receive, send
from amqp10.sync._loop import FACADES
from amqp10.testing import BackgroundBroker, FaultProxy

from ..kit.processes.programs import started

pytestmark = pytest.mark.capability("without async")


class FaultProxyThread:
    """A `FaultProxy` in a thread of its own."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> FaultProxyThread:
        self._portal = start_blocking_portal()
        self._in = self._portal.__enter__()
        self._block = self._in.wrap_async_context_manager(self._in.call(FaultProxy, self._url))
        self._proxy = self._block.__enter__()
        self.url = self._proxy.url
        return self

    def cut(self) -> None:
        self._in.call(self._proxy.cut)

    def __exit__(self, *why: Any) -> None:
        self._block.__exit__(None, None, None)
        self._portal.__exit__(None, None, None)


ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def broker() -> Iterator[BackgroundBroker]:
    with BackgroundBroker() as broker:
        yield broker


@pytest.fixture
def connection(broker: BackgroundBroker) -> Iterator[Connection]:
    with Connection(broker.url) as connection:
        yield connection


def test_up_to_date() -> None:
    """The file is what the client's classes make; `make sync` writes it."""
    ended = subprocess.run(
        [sys.executable, "tools/make_sync.py", "--check"], cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("name", ["Connection", "Session", "Sender", "Receiver", "Delivery", "Requester", "Responder"])
def test_same_names(name: str) -> None:
    """Every public method and property of the asynchronous class, with the same parameters in the same order."""
    ours, theirs = getattr(amqp10.sync, name), getattr(amqp10.client, name)
    for each, value in inspect.getmembers(theirs):
        if each.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property)):
            continue
        if each == "connection":
            continue  # the synchronous form has no way from a link to its connection
        found = inspect.getattr_static(ours, each)
        assert inspect.getdoc(found), each
        if inspect.isfunction(value):
            wanted = list(inspect.signature(value).parameters)
            extra = ["timeout"] if inspect.iscoroutinefunction(value) else []
            assert list(inspect.signature(found).parameters) == wanted + extra, each
            assert not inspect.iscoroutinefunction(found)


def test_first_lines(broker: BackgroundBroker) -> None:
    """The README's first example, without `await`."""
    with Connection(broker.url) as connection:
        with connection.sender("orders") as sender:
            sender.send(Message("hello", subject="greeting", application_properties={"n": 1}))
        with connection.receiver("orders", credit=100) as receiver:
            for delivery in receiver:
                assert (delivery.message.body, delivery.message.subject) == ("hello", "greeting")
                delivery.accept()
                break
    assert broker.queue("orders").depth == 0


def test_functions(broker: BackgroundBroker) -> None:
    send(broker.url, "orders", "a", b"b", Message({"c": 1}))
    assert [message.body for message in receive(broker.url, "orders", count=3)] == ["a", b"b", {"c": 1}]
    with pytest.raises(TimeoutError, match=r"receive\(\) took longer than 0.05 s"):
        receive(broker.url, "orders", timeout=0.05)


def test_within_an_event_loop(broker: BackgroundBroker) -> None:
    """As in a notebook, whose own event loop runs in the same thread."""

    async def main() -> None:
        send(broker.url, "orders", "a")
        with Connection(broker.url) as connection, connection.receiver("orders") as receiver:
            with receiver.receive(timeout=60) as message:
                got.append(message.body)

    got: list[Any] = []
    anyio.run(main)
    assert got == ["a"]
    assert broker.queue("orders").depth == 0


def test_outcomes(connection: Connection, broker: BackgroundBroker) -> None:
    """Errors are those of the asynchronous client, raised where the call is."""
    with connection.sender("orders") as sender:
        delivery = sender.submit("a")
        assert delivery.outcome(timeout=60) == Accepted()
        assert sender.send_many(iter(range(2500))) == 2500
        with pytest.raises(TypeError, match="iterable of messages"):
            sender.send_many("hello")
    with connection.receiver("orders") as receiver:
        with receiver.receive() as message:
            assert message.body == "a"
        first = receiver.receive()
        with pytest.raises(ZeroDivisionError), first:
            raise ZeroDivisionError
        batch = receiver.receive_batch(10)
        for each in batch:
            each.accept()
        first_again = receiver.receive(timeout=60)
        assert first_again.tag
        first_again.reject("shop:no", "why")
    assert broker.queue("orders").depth == 2499 - len(batch)
    with rabbit_management(connection) as management:
        management.declare_queue("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    with connection.sender("/queues/full") as sender, pytest.raises(MessageRejected):
        sender.send("x")


def test_links_of_all_kinds(connection: Connection) -> None:
    """Sessions, transactions, browsers, requests, large bodies, what a dialect has."""
    with connection.session() as session, session.sender("orders") as sender, session.receiver("orders") as receiver:
        with session.transaction() as transaction:
            sender.send("one", transaction=transaction)
        assert transaction.state == "committed"
        with pytest.raises(ZeroDivisionError), session.transaction() as transaction:
            sender.send("never", transaction=transaction)
            raise ZeroDivisionError
        receiver.receive(timeout=60).accept()
        with sender.stream() as body:
            body.send(b"in ")
            body.send(b"parts")
        delivery = receiver.receive(timeout=60)
        assert b"".join(delivery.iter_body()) == b"in parts"
        delivery.accept()
        assert receiver.buffered == 0
    with connection.sender("seen") as sender, connection.browser("seen") as browser:
        sender.send("still there")
        assert [each.message.body for each in browser] == ["still there"]
    with connection.requester("service") as requester, connection.responder("service") as responder:

        def serve() -> None:
            with responder.receive(timeout=60) as message:
                assert message.body == "ping"
            request = next(iter(responder))
            assert isinstance(request.delivery, Delivery)
            request.reply("pong", timeout=60)

        with ThreadPoolExecutor() as threads:
            served = threads.submit(serve)
            with pytest.raises(TimeoutError):
                requester.request("ping", timeout=0.2)
            assert requester.request("ping", timeout=60).body == "pong"
            served.result()


def test_native(broker: BackgroundBroker) -> None:
    """What a dialect has of its own is there, too."""
    with Connection(broker.url, dialect="0-9-1") as connection:
        assert connection.native.declare_queue("tasks", timeout=60).name == "tasks"
        with connection.sender("tasks") as sender:
            sender.send("x")
        assert connection.native.get("tasks").body == "x"  # type: ignore[union-attr]
    with Connection(broker.url, dialect="0-10") as middle, middle.native.xa() as xa:
        assert xa.recover(timeout=60) == []
    with Connection(broker.url, dialect="fast") as fast:
        assert fast.native.list("tasks", timeout=60).numbers == ()
    with pytest.raises(LocalProtocolError, match="not open yet"):
        _ = Connection(broker.url, dialect="0-9-1").native


def test_native_of_a_dialect_from_outside(broker: BackgroundBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations for which no synchronous class is made are waited for as well."""
    monkeypatch.setattr(_facades, "natives", dict)
    for each in (amqp091.Native, amqp010.Native, amqp010.XA):
        monkeypatch.delitem(FACADES, each, raising=False)
    with Connection(broker.url, dialect="0-9-1") as connection:
        assert connection.native.declare_queue("tasks", timeout=60).name == "tasks"
        assert repr(connection.native).startswith("<amqp10.sync")
    with Connection(broker.url, dialect="0-10") as middle, middle.native.xa() as xa:
        assert xa.recover(timeout=60) == []


def test_events(broker: BackgroundBroker) -> None:
    """An iterator like any other; it ends with the connection."""
    with ThreadPoolExecutor() as threads:
        with Connection(broker.url) as connection:
            told = threads.submit(list, connection.events())
        assert all(isinstance(each, ConnectionGivenUp) for each in told.result(10))


def test_eight_threads_on_one_connection(connection: Connection, broker: BackgroundBroker) -> None:
    """They share a sender and a receiver: each message is sent once, and received by one of them."""
    each_sends, threads_count = 100, 8
    seen: Counter[Any] = Counter()
    lock = threading.Lock()

    def produce(sender: Sender, number: int) -> None:
        for n in range(each_sends):
            sender.send((number, n), timeout=30)

    def consume(receiver: Receiver) -> None:
        for _ in range(each_sends):
            delivery = receiver.receive(timeout=30)
            with lock:
                seen[tuple(delivery.message.body)] += 1
            delivery.accept()

    with connection.sender("orders") as sender, connection.receiver("orders") as receiver:
        with ThreadPoolExecutor(2 * threads_count) as threads:
            work = [threads.submit(produce, sender, number) for number in range(threads_count)]
            work += [threads.submit(consume, receiver) for _ in range(threads_count)]
            for each in work:
                each.result(60)
    assert seen == Counter((number, n) for number in range(threads_count) for n in range(each_sends))
    assert broker.queue("orders").depth == 0


def test_a_generator_that_receives(connection: Connection) -> None:
    """What `send_many` is given runs in the caller's thread, so it may wait for the same connection."""
    with connection.sender("in") as sender:
        sender.send_many(range(50))
    with connection.receiver("in") as receiver, connection.sender("out") as sender:

        def moved() -> Iterator[Message]:
            for _ in range(50):
                with receiver.receive(timeout=60) as message:
                    yield message

        assert sender.send_many(moved()) == 50


def test_timeouts_lose_nothing(connection: Connection) -> None:
    """The message that comes later is there for the next call."""
    with connection.sender("orders") as sender, connection.receiver("orders") as receiver:
        with pytest.raises(TimeoutError):
            receiver.receive(timeout=0.05)
        sender.send("late")
        delivery = receiver.receive(timeout=60)
        assert delivery.message.body == "late"
        delivery.accept()


def test_closing_ends_those_that_wait(broker: BackgroundBroker) -> None:
    """A thread that waits gets an error when another one closes the connection, and so does every later call."""
    waiting = threading.Event()

    def wait(receiver: Receiver) -> None:
        waiting.set()
        receiver.receive()

    with ThreadPoolExecutor() as threads:
        with Connection(broker.url) as connection:
            receiver = connection.receiver("orders").__enter__()
            waits = threads.submit(wait, receiver)
            assert waiting.wait(60)
        with pytest.raises(anyio.ClosedResourceError):
            waits.result(10)
    with pytest.raises(anyio.ClosedResourceError):
        receiver.receive()
    with pytest.raises(anyio.ClosedResourceError):
        connection.sender("orders")


def test_not_open(broker: BackgroundBroker) -> None:
    """It says so, as the asynchronous one, and leaves no thread behind."""
    before = threading.enumerate()
    connection = Connection(broker.url)
    assert not connection.open
    with pytest.raises(LocalProtocolError, match="not open yet"):
        connection.remote  # noqa: B018
    with pytest.raises(LocalProtocolError, match="open it with `with`"):
        connection.sender("orders")
    with pytest.raises(LocalProtocolError, match="open it with `with`"):
        connection.unsubscribe("x")
    with connection, pytest.raises(LocalProtocolError, match="once"):
        connection.__enter__()
    with pytest.raises(ConnectionLost), Connection("amqp://127.0.0.1:1"):
        pass
    assert not [each for each in threading.enumerate() if each.name == "amqp10" and each not in before]


def test_equal_for_the_same_object(connection: Connection) -> None:
    """Two of them for one object are as good as one."""
    with connection.responder("service") as responder:
        assert responder.receiver == responder.receiver
        assert len({responder.receiver, responder.receiver}) == 1
        assert responder.receiver != connection
        assert "service" in repr(responder.receiver)


def test_reconnect(broker: BackgroundBroker) -> None:
    """Who waits goes on waiting over a loss."""
    with FaultProxyThread(broker.url) as proxy, Connection(proxy.url, reconnect=Reconnect()) as connection:
        with connection.receiver("orders") as receiver, ThreadPoolExecutor() as threads:
            waits = threads.submit(receiver.receive, timeout=20)
            proxy.cut()
            send(broker.url, "orders", "after the loss")
            delivery = waits.result(20)
            assert delivery.message.body == "after the loss"
            delivery.accept()


def test_a_callback_that_waits_for_itself(broker: BackgroundBroker) -> None:
    """It is told, instead of standing still for ever."""
    errors: list[Exception] = []

    def where() -> str:
        try:
            own.unsubscribe("x")
        except Exception as error:
            errors.append(error)
        return broker.url

    own = Connection(where)
    with own:
        pass
    assert [type(error) for error in errors] == [RuntimeError]


@pytest.mark.slow
def test_fork(broker: BackgroundBroker) -> None:
    """In the child each call says what to do; leaving the block there touches nothing; the parent goes on."""
    program = f"""
import os
from amqp10 import ConnectionLost
from amqp10.sync import Connection, send
child = 1
with Connection({broker.url!r}) as connection, connection.sender("orders") as sender:
    sender.send("before")
    child = os.fork()
    if child == 0:
        try:
            sender.send("in the child")
        except ConnectionLost as error:
            assert "after the fork" in str(error), error
            send({broker.url!r}, "orders", "of a connection of its own")
    else:
        assert os.waitpid(child, 0)[1] == 0
        sender.send("after")
if child == 0:
    os._exit(0)
"""
    # Python 3.12 and later warn of each fork where there are threads, and ours has one.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert (ended.returncode, ended.stderr) == (0, "")
    bodies = [message.body for message in receive(broker.url, "orders", count=3, timeout=60)]
    assert bodies == ["before", "of a connection of its own", "after"]


@pytest.mark.parametrize("call", ["next(receiver)", "receiver.receive(timeout=60)"])
def test_keyboard_interrupt(broker: BackgroundBroker, call: str) -> None:
    """It ends the call at once, and the blocks in order: what was not accepted is in the queue."""
    send(broker.url, "orders", *range(5))
    program = f"""
from amqp10.sync import Connection
try:
    with Connection({broker.url!r}) as connection, connection.receiver("orders") as receiver:
        for _ in range(5):
            receiver.receive(timeout=10)
        print("waits", flush=True)
        {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    command = [sys.executable, "-c", program]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
    assert (process.returncode, out, err) == (0, "interrupted\n", "")
    assert len(receive(broker.url, "orders", count=5, timeout=60)) == 5


@pytest.mark.parametrize("path", [ROOT / "README.md", ROOT / "docs" / "build" / "sync.md"], ids=lambda path: path.name)
def test_examples_without_await(broker: BackgroundBroker, path: Path, tmp_path: Path) -> None:
    """The first program of the README, without what makes it asynchronous, and that of the page."""
    code = re.search(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    assert code is not None
    text = code[1].replace("amqp://localhost:5672", broker.url)
    if path.name == "README.md":
        text = re.sub(r"\b(async|await) ", "", text)
        text = text.replace("import asyncio\n", "").replace("asyncio.run(main())", "main()")
        text = text.replace(
            "from amqp10 import Connection, Message", "from amqp10 import Message\nfrom amqp10.sync import Connection"
        )
    (tmp_path / "program.py").write_text(text)
    ended = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True, timeout=200)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "hello greeting\n"

"""`amqp10 trace`: a proxy that passes everything on, and a page that shows what crossed, without secrets."""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import anyio
import pytest

from amqp10 import AuthenticationFailed, Connection, ConnectionLost, LinkDetached, Message, MessageRejected, Plain
from amqp10.broker import Broker
from amqp10.cli._trace import command as _trace_command
from amqp10.cli._trace import page as _trace_page
from amqp10.cli._trace.analysis import analyze
from amqp10.cli._trace.command import Recording, read_trace
from amqp10.cli._trace.page import page
from amqp10.dialects.v1_0.wire.trace import FrameTracer
from amqp10.engine.trace_analysis import Frame, take_apart
from amqp10.net import parse_url

from ...kit.processes.commands import Commands
from ...kit.processes.programs import started
from ...kit.processes.tracing import tracing

pytestmark = pytest.mark.capability("frame trace")

BACKENDS = pytest.mark.anyio
SECRET = "hunter2-hunter2"


def frames(*lines: str | tuple[float, str]) -> list[Frame]:
    """Frames of one connection, by lines that begin with > or <; those without a time come at once."""
    made, time = [], 0.0
    for number, line in enumerate(lines):
        time, text = line if isinstance(line, tuple) else (time, line)
        made.append(Frame(number, time, 1, text.startswith(">"), text[2:]))
    return made


class Reader(HTMLParser):
    """What a browser would make of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "polyline", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == "polyline" or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


# The proxy


@BACKENDS
@pytest.mark.parametrize("dialect", ["1.0", "0-9-1", "0-9", "0-10", "fast"])
async def test_every_dialect(dialect: str) -> None:
    """Messages arrive through it, and each frame is a line that can be taken apart."""
    async with Broker(queues=["q"]) as broker, tracing(broker.url) as (url, recording):
        async with Connection(url, dialect=dialect) as connection, connection.sender("q") as sender:
            await sender.send_many(f"number {number}" for number in range(100))
            async with connection.receiver("q") as receiver:
                for number in range(100):
                    delivery = await receiver.receive()
                    assert delivery.message.body == f"number {number}"
                    delivery.accept()
    shown = page(recording.frames, "test")
    assert Reader(shown).open == []
    assert "no AMQP" not in shown
    assert "cannot be read" not in shown
    assert {frame.sent for frame in recording.frames} == {True, False}
    assert sum(take_apart(frame.text) is not None for frame in recording.frames) > 100


@BACKENDS
async def test_secrets_stay_out() -> None:
    """Neither a password nor a body is in the trace or on the page, of any mechanism and dialect."""
    file = io.StringIO()
    async with Broker(users={"ann": SECRET}, queues=["q"]) as broker, tracing(broker.url, file) as (url, recording):
        for dialect in ("1.0", "0-9-1", "0-10"):
            for login in (None, Plain("ann", SECRET)):
                where = url.replace("//", f"//ann:{SECRET}@") if login is None else url
                async with Connection(where, dialect=dialect, sasl=login) as connection:
                    async with connection.sender("q") as sender:
                        await sender.send(Message(f"body {SECRET}"))
        with pytest.raises(AuthenticationFailed):
            async with Connection(url, sasl=Plain("ann", f"not {SECRET}")):
                pass
    shown = page(recording.frames, "test")
    assert SECRET not in shown
    assert SECRET not in file.getvalue()
    assert "the login was refused" in shown


@BACKENDS
async def test_many_connections_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2,000 messages at once none is missing or out of its order, in the file and in what is kept for a page.

    What is read is written before it is passed on, so a file that is slow holds up the peers, and nothing is dropped.
    """
    monkeypatch.setattr(_trace_command, "MAX_KEPT", 5000)
    file = io.StringIO()
    async with Broker(queues=["q"]) as broker, tracing(broker.url, file) as (url, recording):

        async def work() -> None:
            async with Connection(url) as connection, connection.sender("q") as sender:
                await sender.send_many(range(100))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(work)
        assert broker.queue("q").depth == 2000
    assert recording.left_out == 0
    for frames_seen in (recording.frames, read_trace(io.StringIO(file.getvalue())).frames):
        for number in range(1, 21):
            calls = [take_apart(frame.text) for frame in frames_seen if frame.connection == number and frame.sent]
            ids = [call.number("delivery_id") for call in calls if call is not None and call.name == "Transfer"]
            assert ids == list(range(100))


@BACKENDS
async def test_more_than_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says how many frames it does not have; the file has all."""
    monkeypatch.setattr(_trace_command, "MAX_KEPT", 50)
    file = io.StringIO()
    async with Broker(queues=["q"]) as broker, tracing(broker.url, file) as (url, recording):
        async with Connection(url) as connection, connection.sender("q") as sender:
            await sender.send_many(range(200))
    lines = file.getvalue().splitlines()
    assert sum("Transfer(" in line for line in lines) == 200
    assert len(lines) == 50 + recording.left_out
    assert f"{recording.left_out} further ones were not kept" in page(recording.frames, "t", recording.left_out)


class FullDisk(io.StringIO):
    """A file for which there is no room after its first lines."""

    def write(self, text: str) -> int:
        if self.tell() > 300:
            raise OSError(errno.ENOSPC, "no room")
        return super().write(text)


@BACKENDS
async def test_a_full_disk(capsys: pytest.CaptureFixture[str]) -> None:
    """It is said once; the connection goes on, so does the next one, and the page has every frame."""
    file = FullDisk()
    async with Broker(queues=["q"]) as broker, tracing(broker.url, file) as (url, recording):
        for _ in range(2):
            async with Connection(url) as connection, connection.sender("q") as sender:
                await sender.send_many(range(100))
        assert broker.queue("q").depth == 200
    assert recording.fault is not None
    assert capsys.readouterr().err.count("the trace file ends here, and what crosses goes on: ") == 1
    assert sum("Transfer(" in frame.text for frame in recording.frames) == 200
    assert file.closed


@BACKENDS
async def test_a_fault_of_the_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the reading of that connection, which goes on; the next one is read."""

    def received(*_: object) -> list[str]:
        raise RuntimeError("a fault")

    async with Broker(queues=["q"]) as broker, tracing(broker.url) as (url, recording):
        for faulty in (True, False):
            with monkeypatch.context() as patch:
                if faulty:
                    patch.setattr(FrameTracer, "received", received)
                async with Connection(url) as connection, connection.sender("q") as sender:
                    await sender.send_many(range(100))
        assert broker.queue("q").depth == 200
    analyze(recording.frames)
    first, second = ([frame for frame in recording.frames if frame.connection == number] for number in (1, 2))
    assert [frame.text for frame in first if frame.problems] == ["no frames from here on: RuntimeError in the tracer"]
    assert not any("no AMQP" in frame.text for frame in first)
    assert any("bytes that are not read, after the fault in the tracer" in frame.text for frame in first)
    assert sum("Transfer(" in frame.text for frame in second) == 100


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has a file that is always full")
def test_a_trace_file_without_room(broker_url: str, amqp10: Commands, tmp_path: Path) -> None:
    """The page is written all the same, and the exit code says that the file is not whole."""
    output = tmp_path / "page.html"
    options = ("--output", str(output), "--trace-file", "/dev/full")
    command = [sys.executable, "-m", "amqp10", "trace", broker_url, *options]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[2].rstrip(",").replace("//", "//guest:guest@")
        assert amqp10("send", url, "traced", "x").code == 0
        assert amqp10("receive", url, "traced", "--count", "1").out == "x\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 1
    assert "the trace file ends here, and what crosses goes on: No space left on device" in said
    assert "/dev/full: its last frames are missing: No space left on device" in said
    assert "Transfer" in Reader(output.read_text()).text


def test_no_room_for_the_page(amqp10: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said in a line, and nothing of it is left behind."""
    trace = tmp_path / "trace.jsonl"
    with trace.open("w") as file:
        Recording(file).add(1, ["> [0] Close()"])

    def no_room(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "no room")

    (tmp_path / "there").mkdir()
    monkeypatch.setattr(Path, "write_text", no_room)
    output = tmp_path / "there" / "page.html"
    result = amqp10("trace", "--from", str(trace), "--output", str(output))
    assert result.code == 1
    assert result.err.startswith(f"amqp10: {output}: the page could not be written: ")
    assert list(output.parent.iterdir()) == []


def test_outputs_that_stay_what_they_are(amqp10: Commands, tmp_path: Path) -> None:
    """A pipe, a link and a device are written to; another file in their place would be lost, or break the system."""
    trace = tmp_path / "trace.jsonl"
    with trace.open("w") as file:
        Recording(file).add(1, ["> [0] Close()"])
    (tmp_path / "pages").mkdir()
    pipe, link, full = (tmp_path / "pages" / name for name in ("pipe", "link", "full"))
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "page.html")
    full.symlink_to("/dev/full")
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with open(reading) as reader:
        assert amqp10("trace", "--from", str(trace), "--output", str(pipe)).code == 0
        assert "Close" in Reader(reader.read()).text
    assert amqp10("trace", "--from", str(trace), "--output", str(link)).code == 0
    assert "Close" in Reader((tmp_path / "page.html").read_text()).text
    result = amqp10("trace", "--from", str(trace), "--output", str(full))
    assert result.code == 1
    assert result.err == f"amqp10: {full}: the page could not be written: No space left on device\n"
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert Path("/dev/full").is_char_device()
    assert sorted(pipe.parent.iterdir()) == [full, link, pipe]


@BACKENDS
async def test_a_server_that_is_not_there() -> None:
    """It is said in the trace, and the client is closed."""
    async with tracing("amqp://127.0.0.1:9") as (url, recording):
        with pytest.raises(ConnectionLost):
            async with Connection(url):
                pass
    assert "cannot be reached" in recording.frames[0].text


@BACKENDS
async def test_no_amqp() -> None:
    """Bytes of something else pass, and are counted."""
    async with Broker() as broker, tracing(broker.url) as (url, recording):
        endpoint = parse_url(url)
        async with await anyio.connect_tcp(endpoint.host, endpoint.port) as stream:
            await stream.send(b"GET / HTTP/1.1\r\n\r\n")
            assert (await stream.receive()).startswith(b"AMQP")
    assert "no AMQP" in recording.frames[0].text


@BACKENDS
async def test_refusals_are_marked() -> None:
    """A rejected message, a refused link: each has its mark, and is listed at the top."""
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    async with Broker(queues={"q": arguments}, auto_create=False) as broker, tracing(broker.url) as (url, recording):
        async with Connection(url) as connection, connection.sender("q") as sender:
            await sender.send(1)
            with pytest.raises(MessageRejected):
                await sender.send(2)
            with pytest.raises(LinkDetached):
                async with connection.sender("nowhere"):
                    pass
    reader = Reader(page(recording.frames, "test"))
    assert "rejected" in reader.text
    assert "amqp:not-found" in reader.text
    links = {values["href"] for tag, values in reader.tags if tag == "a"}
    places = {f"#{values['id']}" for tag, values in reader.tags if tag == "details"}
    assert links
    assert links <= places


# The analysis

BEGUN = (
    "> [0] Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=9)",
    "< [0] Begin(remote_channel=0, next_outgoing_id=5, incoming_window=2, outgoing_window=9)",
    "> [0] Attach(name='a', handle=3, role=False)",
    "< [0] Attach(name='a', handle=7, role=True)",
)


def transfer(number: int) -> str:
    return f"> [0] Transfer(handle=3, delivery_id={number}, settled=False) + 9 bytes"


def test_credit_and_window_over_time() -> None:
    """Both are counted as the peers do; use without them is marked."""
    read = frames(
        *BEGUN,
        "< [0] Flow(next_incoming_id=0, incoming_window=2, handle=7, delivery_count=0, link_credit=1)",
        (1.0, transfer(0)),
        (1.1, transfer(1)),
        (1.2, transfer(2)),
        (3.5, "< [0] Flow(next_incoming_id=3, incoming_window=2, handle=7, delivery_count=3, link_credit=10)"),
    )
    (found,) = analyze(read).values()
    curves = {curve.title: [value for _, value in curve.points] for curve in found.curves.values()}
    assert curves["credit of the client on link 'a'"] == [1, 0, 10]
    assert curves["frames that the server takes, channel 0"] == [2, 1, 0, -1, 2]
    assert read[5].problems == []
    assert read[6].problems == ["without credit"]
    assert read[7].problems == ["beyond the window", "without credit"]
    assert any("no window" in problem and "2.4 s" in problem for problem in read[8].problems)
    assert any("no credit" in problem and "2.5 s" in problem for problem in read[8].problems)


def test_unsettled_for_long() -> None:
    """It is marked where the outcome comes at last, and at the end where none came."""
    read = frames(
        *BEGUN,
        "< [0] Flow(next_incoming_id=0, incoming_window=9, handle=7, delivery_count=0, link_credit=9)",
        (1.0, transfer(0)),
        (1.0, transfer(1)),
        (8.0, "< [0] Disposition(role=True, first=0, settled=True, state=Accepted())"),
        (20.0, "< [0] empty"),
    )
    (found,) = analyze(read).values()
    assert read[7].problems == ["unsettled for 7.0 s"]
    (problem,) = found.problems
    assert problem.startswith("1 delivery of the client on channel 0 was unsettled at the end, the oldest for 19.0")


def test_prefetch() -> None:
    """In 0-9-1 what is left of the prefetch is the credit."""
    read = frames(
        "> [1] basic.qos(prefetch_count=2)",
        "< [1] basic.deliver(consumer_tag='c', delivery_tag=1, routing_key='q')",
        "< [1] basic.deliver(consumer_tag='c', delivery_tag=2, routing_key='q')",
        (4.0, "> [1] basic.ack(delivery_tag=2, multiple=True)"),
        "< [1] channel.close(reply_code=404, reply_text='NOT_FOUND', class_id=50)",
    )
    (found,) = analyze(read).values()
    curves = {curve.title: [value for _, value in curve.points] for curve in found.curves.values()}
    assert curves["deliveries that the client takes, channel 1"] == [1, 0, 2]
    assert read[3].problems == ["prefetch used up on channel 1 for 4.0 s"]
    assert read[4].problems == ["ended with 404 'NOT_FOUND'"]


def curves_of(read: list[Frame]) -> dict[str, list[int]]:
    """What the only connection's curves show, by their titles."""
    (found,) = analyze(read).values()
    return {curve.title: [value for _, value in curve.points] for curve in found.curves.values()}


def test_credit_of_0_10() -> None:
    """Credit is granted for a destination; in window mode a completed transfer gives it back. Outcomes are apart."""
    take = (
        "< [1] message.transfer(destination='d', accept_mode=0, acquire_mode=0) message.delivery-properties() + 8 bytes"
    )
    read = frames(
        "> [1] session.attach(name=b's')",
        "< [1] session.attached(name=b's')",
        "< [1] session.command-point(command_id=4294967295, command_offset=0)",
        "> [1] message.set-flow-mode(destination='d', flow_mode=1)",
        "> [1] message.flow(destination='d', unit=1, value=4294967295)",
        "> [1] message.flow(destination='d', unit=0, value=2)",
        take,
        take,
        "> [1] session.completed(commands=((4294967295, 0),))",
        (7.0, "> [1] message.accept(transfers=((4294967295, 4294967295),))"),
        (7.0, "> [1] message.release(transfers=((0, 0),))"),
        (8.0, "> [1] message.stop(destination='d')"),
        (9.0, take),
        (9.5, "< [1] execution.exception(error_code=409, command_id=3)"),
    )
    shown = curves_of(read)
    assert shown["credit of the server for 'd', channel 1"] == [0, 2, 1, 0, 1, 2, 0]
    assert shown["unsettled deliveries of the server, channel 1"] == [1, 2, 1, 0, 1]
    assert [frame.problems for frame in read[9:]] == [
        ["unsettled for 7.0 s"],
        ["unsettled for 7.0 s"],
        [],
        ["without credit"],
        ["refused"],
    ]


def test_publishers_of_0_10() -> None:
    """Their transfers are unsettled until they are complete; a broker that stops them is a problem of theirs."""
    sent = "> [1] message.transfer(destination='', accept_mode=1, acquire_mode=0) + 8 bytes"
    read = frames(
        "> [1] session.attach(name=b's')",
        "> [1] queue.query(queue='q') sync",
        sent,
        sent,
        "< [1] session.completed(commands=((0, 2),))",
        (1.0, "< [1] message.set-flow-mode(destination='', flow_mode=0)"),
        (1.0, "< [1] message.stop(destination='')"),
        (4.0, "< [1] message.flow(destination='', unit=0)"),
        sent,
    )
    assert curves_of(read)["unsettled deliveries of the client, channel 1"] == [1, 2, 0, 1]
    assert read[7].problems == ["no credit for the client for '' on channel 1 for 3.0 s"]
    assert read[8].problems == []


def test_prefetch_of_fast() -> None:
    """What is left of a handle's prefetch; an acknowledgment is of a channel, a reply of a handle."""
    read = frames(
        "> handle-open(channel_id=3, handle_id=2, service_type=1, consumer=True, dest_name='q')",
        "> handle-flow(handle_id=2, flow_pause=True)",
        "> handle-consume(handle_id=2, confirm_tag=2, prefetch=2)",
        "> handle-flow(handle_id=2)",
        "< handle-notify(handle_id=2, message_nbr=1, fragment_size=7, partial=True, delivered=True) + 7 bytes",
        "< handle-notify(handle_id=2, message_nbr=1, fragment_size=7, delivered=True) + 7 bytes",
        "< handle-notify(handle_id=2, message_nbr=2, fragment_size=7, delivered=True) + 7 bytes",
        (3.0, "> channel-ack(channel_id=3, message_nbr=2)"),
        "> handle-open(channel_id=4, handle_id=5, service_type=1, producer=True, dest_name='q')",
        "> handle-send(handle_id=5, confirm_tag=1, fragment_size=7) + 7 bytes",
        (10.0, "< handle-reply(handle_id=5, confirm_tag=1, reply_code=310, reply_text='no')"),
    )
    shown = curves_of(read)
    assert shown["deliveries that the client takes, handle 2"] == [0, 2, 1, 0, 1, 2]
    assert shown["unsettled deliveries of the server, channel 3"] == [1, 2, 0]
    assert shown["unsettled deliveries of the client, handle 5"] == [1, 0]
    assert read[7].problems == ["prefetch used up on handle 2 for 3.0 s"]
    assert read[10].problems == ["refused with 310 'no'", "unsettled for 7.0 s"]


@BACKENDS
@pytest.mark.parametrize("dialect", ["1.0", "0-9-1", "0-9", "0-10", "fast"])
async def test_curves_of_every_dialect(dialect: str) -> None:
    """A receiver with credit for 3 that takes 6: the curve goes down to what is left, and never beyond it."""
    async with Broker(queues=["q"]) as broker, tracing(broker.url) as (url, recording):
        async with Connection(url, dialect=dialect) as connection, connection.sender("q") as sender:
            await sender.send_many(range(6))
            async with connection.receiver("q", credit=3) as receiver:
                for _ in range(6):
                    (await receiver.receive()).accept()
    shown = curves_of(recording.frames)
    (taken,) = [points for title, points in shown.items() if title.startswith(("credit of the s", "deliveries that"))]
    unsettled = [points for title, points in shown.items() if title.startswith("unsettled deliveries of the server")]
    assert max(taken) == 3
    assert 0 <= min(taken) < 3
    assert unsettled
    assert all(max(points) <= 3 and points[-1] == 0 for points in unsettled)
    assert not any(frame.problems for frame in recording.frames)


def test_taking_apart() -> None:
    """Fields may hold brackets, quotes and commas."""
    call = take_apart("""[3] Open(a='x, (y\\'', b=Source(c=(1, 2), d="]"), e={'f': [1]}) + 7 bytes""")
    assert call is not None
    assert (call.channel, call.name, call.rest) == (3, "Open", "+ 7 bytes")
    assert call.fields == {"a": "'x, (y\\''", "b": """Source(c=(1, 2), d="]")""", "e": "{'f': [1]}"}
    assert take_apart("header AMQP 1.0") is None
    assert take_apart("[0] Open(a=((((") is not None


# The page


def test_nothing_in_it_is_obeyed() -> None:
    """Whatever a peer says is text; there is no script, and nothing is fetched."""
    nasty = "<script>alert(1)</script><img src=x onerror=y>"
    reader = Reader(page(frames(f"> [0] Open(container_id='{nasty}')", f"< {nasty}"), nasty))
    assert {tag for tag, _ in reader.tags}.isdisjoint({"script", "img", "link", "iframe"})
    assert "alert(1)" in reader.text
    policy = next(values["content"] for tag, values in reader.tags if tag == "meta" and "http-equiv" in values)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_a_long_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many frames those with problems are all there."""
    monkeypatch.setattr(_trace_page, "MAX_SHOWN", 10)
    read = frames(*["> [0] Close()"] * 50, "< [0] Close(error=Error('x:y'))")
    text = page(read, "t")
    assert len(re.findall("<details", text)) == 10
    assert "41 frames without a problem are not shown" in text
    assert 'id="f50"' in text


def test_from_a_file(amqp10: Commands, tmp_path: Path) -> None:
    """The page can be made later, from the file that the proxy wrote, even if its last line is cut off."""
    trace, output = tmp_path / "trace.jsonl", tmp_path / "page.html"
    with trace.open("w") as file:
        recording = Recording(file)
        recording.add(1, ["> [0] Close()", "< [0] Close(error=Error('x:y'))"])
        file.write('{"t": 1')
    result = amqp10("trace", "--from", str(trace), "--output", str(output))
    assert (result.code, result.out) == (0, "")
    assert "2 frames, 1 with problems" in result.err
    assert "x:y" in Reader(output.read_text()).text
    assert len(read_trace(io.StringIO(trace.read_text())).frames) == 2
    trace.write_text("no trace\n")
    result = amqp10("trace", "--from", str(trace), "--output", str(output))
    assert result.code == 1
    assert "line 1 is not from a trace file" in result.err


def test_wrong_usage(amqp10: Commands) -> None:
    assert amqp10("trace").code == 2
    assert amqp10("trace", "amqp://", "--listen", "x").code == 2
    assert amqp10("trace", "http://h").code == 2

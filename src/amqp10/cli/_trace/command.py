"""`amqp10 trace`: a proxy between any client and any broker, which writes the frames as one HTML page."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, suppress
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import IO, Final

import anyio
import click
from anyio.abc import ByteStream, SocketAttribute

from ..._arguments import without_secrets
from ..._json import parse_json
from ...engine import Negotiation, Tracer
from ...engine.trace_analysis import Frame
from ...errors import AmqpError
from ...net import Endpoint, TLSSettings, TransportOptions, connect, describe, keep_accepting, parse_url, visible
from .._main import Failure, start
from .._options import Peer
from .page import page

MAX_KEPT: Final = 500_000
"""The limit of frames for the page; a trace file has all frames."""

MAX_CHARACTERS: Final = 100_000_000
"""The limit of characters of all lines for the page."""

MAX_LINE_LENGTH: Final = 20_000
"""The limit of characters in a line."""

_BROKEN: Final = (OSError, AmqpError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Recording:
    """The recorded frames.

    Args:
        file: a file to which each frame is written at once, as a line of JSON.

    Attributes:
        left_out: the number of frames that were not kept.
        fault: the error that ended writing to the file, or None.
    """

    def __init__(self, file: IO[str] | None = None) -> None:
        self._file = file
        self._began = monotonic()
        self.frames: list[Frame] = []
        self.left_out = 0
        self.fault: OSError | None = None
        self._characters = 0

    def add(self, connection: int, lines: list[str]) -> None:
        """Take a tracer's lines, which begin with `>` or `<`."""
        now = round(monotonic() - self._began, 6)
        written = ""
        for line in lines:
            text = visible(line[2:MAX_LINE_LENGTH])
            self.keep(Frame(len(self.frames), now, connection, line.startswith(">"), text))
            if self._file is not None:
                record = {"t": now, "c": connection, "d": line[0], "l": text}
                written += json.dumps(record, ensure_ascii=True) + "\n"
        if self._file is not None and written:
            self._write(self._file, written)

    def keep(self, frame: Frame) -> None:
        if len(self.frames) < MAX_KEPT and self._characters < MAX_CHARACTERS:
            self.frames.append(frame)
            self._characters += len(frame.text)
        else:
            self.left_out += 1

    def _write(self, file: IO[str], text: str) -> None:
        """Write to the file. After an error, such as a full disk, write no more, and let the proxy go on."""
        try:
            file.write(text)
        except OSError as error:
            self.fault, self._file = error, None
            with suppress(OSError):
                click.echo(f"amqp10: the trace file ends here, and what crosses goes on: {describe(error)}", err=True)
            with suppress(OSError):  # closing tries to write once more
                file.close()


def read_trace(file: IO[str]) -> Recording:
    """Read a trace file, except a truncated last line.

    Raises:
        Failure: the file is not a trace.
    """
    recording = Recording()
    for number, line in enumerate(file, 1):
        try:
            record = parse_json(line)
            time, text = float(record["t"]), visible(str(record["l"])[:MAX_LINE_LENGTH])
            if not isfinite(time):
                raise ValueError(f"{time} is not a time")
            frame = Frame(len(recording.frames), time, int(record["c"]), record["d"] == ">", text)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            if not line.endswith("\n"):
                break
            raise Failure(f"line {number} is not from a trace file, as --trace-file writes one", 1) from None
        recording.keep(frame)
    return recording


class TraceProxy:
    """Relays connections between clients and one server, and records the frames.

    Args:
        endpoint: the server.
        tls: TLS settings for the server; clients connect to the proxy without TLS.
    """

    def __init__(
        self, endpoint: Endpoint, tls: TLSSettings | None, route: TransportOptions, recording: Recording
    ) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._route = route
        self._recording = recording
        self._connections = 0

    async def serve(self, client: ByteStream) -> None:
        """Relay one connection until its end."""
        self._connections += 1
        number = self._connections
        async with client:
            try:
                server, _ = await connect(self._endpoint, self._tls, self._route)
            except _BROKEN as error:
                self._recording.add(number, [f"< the server cannot be reached: {describe(error)}"])
                return
            async with server:
                await _Relay(number, client, server, self._recording).run()


class _Relay:
    """One connection through the proxy."""

    def __init__(self, number: int, client: ByteStream, server: ByteStream, recording: Recording) -> None:
        self._number = number
        self._client = client
        self._server = server
        self._recording = recording
        self._negotiation: Negotiation | None = Negotiation()
        self._tracer: Tracer | None = None
        self._faulty = False

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._pass, self._server, self._client, False)
            await self._pass(self._client, self._server, True)

    async def _pass(self, source: ByteStream, sink: ByteStream, sent: bool) -> None:
        mark = ">" if sent else "<"
        try:
            while True:
                data = await source.receive()
                # Recorded before it is passed on, so that the answer cannot come first.
                self._recording.add(self._number, self._read(data, sent))
                await sink.send(data)
        except anyio.EndOfStream:
            self._recording.add(self._number, [f"{mark} closed"])
        except _BROKEN as error:
            self._recording.add(self._number, [f"{mark} broken: {describe(error)}"])
        with anyio.CancelScope(shield=True), anyio.move_on_after(1), suppress(*_BROKEN):
            await sink.send_eof()

    def _read(self, data: bytes, sent: bool) -> list[str]:
        """Return the lines for `data`; the client's first octets determine the dialect."""
        mark = ">" if sent else "<"
        if self._tracer is not None:
            try:
                return self._tracer.sent(data) if sent else self._tracer.received(data)
            except Exception as error:  # a bug of ours must not end the connection
                self._tracer, self._faulty = None, True
                return [f"{mark} no frames from here on: {type(error).__name__} in the tracer"]
        if self._faulty:
            return [f"{mark} {len(data)} bytes that are not read, after the fault in the tracer"]
        if self._negotiation is None or not sent:
            return [f"{mark} {len(data)} bytes that are no AMQP, or inside of TLS"]
        if not self._negotiation.receive_data(data):
            return []
        negotiation, self._negotiation = self._negotiation, None
        if negotiation.dialect is None:
            return [f"> {len(negotiation.received)} bytes that are no AMQP, or inside of TLS"]
        self._tracer = negotiation.dialect.tracer(False)
        return self._tracer.sent(negotiation.received)


def _write(recording: Recording, output: Path, title: str) -> None:
    """Write the page: completely or not at all, unless `output` is a device, a pipe or a link, which has to stay one.

    Raises:
        Failure: the page cannot be written.
    """
    in_place = output.is_symlink() or (output.exists() and not output.is_file())
    written = output if in_place else output.with_name(f".{output.name}.{os.getpid()}")
    try:
        written.write_text(page(recording.frames, title, recording.left_out), encoding="utf-8")
        if not in_place:
            written.replace(output)
    except OSError as error:
        if not in_place:
            with suppress(OSError):
                written.unlink()
        raise Failure(f"{output}: the page could not be written: {describe(error)}") from None
    problems = sum(bool(frame.problems) for frame in recording.frames)
    click.echo(f"{len(recording.frames)} frames, {problems} with problems: {output}", err=True)


def _address(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, int]:
    host, _, port = value.rpartition(":")
    if not (port.isdecimal() and len(port) < 6 and int(port) < 65536):
        raise click.BadParameter(f"HOST:PORT or PORT, the port in 0..65535, not {without_secrets(value)}")
    return host or "127.0.0.1", int(port)


@click.command()
@click.argument("url", required=False)
@click.option("--listen", metavar="[HOST:]PORT", default="0", callback=_address, help="where clients connect")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), default="trace.html")
@click.option(
    "--trace-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="also write each frame at once as a line of JSON",
)
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="make the page from a trace file written earlier",
)
@click.option(
    "--tls-ca",
    type=click.Path(exists=True, dir_okay=False),
    help="authorities (PEM) that sign the server's certificate",
)
@click.option("--tls-no-verify", is_flag=True, help="do not check the server's certificate")
@click.option(
    "--tls-server-hostname", metavar="NAME", help="the name in the server's certificate, if it is not the URL's host"
)
def trace(
    url: str | None,
    listen: tuple[str, int],
    output: Path,
    trace_file: Path | None,
    source: Path | None,
    tls_ca: str | None,
    tls_no_verify: bool,
    tls_server_hostname: str | None,
) -> None:
    """Record frames as one HTML page.

    It stands between clients and the broker at URL. Clients connect without TLS to the port that it prints; to the
    broker it uses TLS if URL says so. It writes the page when you stop it (Ctrl-C). It reads every dialect, and leaves
    out secrets and the bodies of messages.
    """
    if (url is None) == (source is None):
        raise click.UsageError("give either URL or --from FILE")
    if source is not None:
        with source.open(encoding="utf-8", errors="replace") as file:
            _write(read_trace(file), output, visible(source.name))
        return
    assert url is not None
    peer = Peer(url, tls_ca, verify=not tls_no_verify, server_hostname=tls_server_hostname)
    try:
        endpoint = parse_url(url)
        peer.route().check(endpoint, peer.tls())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="URL") from None
    with ExitStack() as files:
        written = None
        if trace_file is not None:
            written = files.enter_context(trace_file.open("w", buffering=1, encoding="utf-8"))  # each line at once
        recording = Recording(written)
        proxy = TraceProxy(endpoint, peer.tls(), peer.route(), recording)

        async def run() -> None:
            listener = await anyio.create_tcp_listener(local_host=listen[0], local_port=listen[1])
            async with listener, anyio.create_task_group() as tasks:
                click.echo(
                    f"listening at amqp://{listen[0]}:{listener.extra(SocketAttribute.local_port)}, for {peer.shown}"
                )
                await keep_accepting(listener, proxy.serve, tasks, failed)

        def failed(reason: BaseException) -> None:
            click.echo(f"accepting a connection failed, and is tried again: {reason}", err=True)

        try:
            start(run)
        finally:
            _write(recording, output, peer.shown)
            if recording.fault is not None:
                raise Failure(f"{trace_file}: its last frames are missing: {describe(recording.fault)}")

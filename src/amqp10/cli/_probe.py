"""`amqp10 probe`: shows a server's answers, before and after a login."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import click
from cryptography import x509
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..dialects.v0_9.wire.frames import FrameReader as OlderFrameReader
from ..dialects.v0_9.wire.methods import ConnectionStart
from ..dialects.v0_9.wire.variant import V0_9_1
from ..dialects.v1_0.wire.frames import SASL_HEADER, FrameReader
from ..dialects.v1_0.wire.performatives import SaslMechanisms
from ..engine import dialect
from ..errors import AmqpError
from ..net import Endpoint, connect, parse_url, visible
from ._main import Failure, code_of, start, words
from ._options import Peer, with_peer

if TYPE_CHECKING:
    from ..client import Connection

HEADERS = {
    "AMQP 1.0": b"AMQP\x00\x01\x00\x00",
    "AMQP 1.0 with SASL": SASL_HEADER,
    "AMQP 1.0 with TLS inside": b"AMQP\x02\x01\x00\x00",
    "AMQP 0-9-1": b"AMQP\x00\x00\x09\x01",
    "AMQP 0-9": b"AMQP\x01\x01\x00\x09",
    "AMQP 0-8": b"AMQP\x01\x01\x08\x00",
    "AMQP 0-9 draft": b"AMQP\x01\x01\x09\x01",
    "AMQP 0-10": b"AMQP\x01\x01\x00\x0a",
    "AMQP/Fast 0.7": b"\x80\x01",
}
ANSWER_WAIT = 2.0  # seconds to wait for the answer to a header


@dataclass
class Report:
    """The result of a probe. Parts may be missing; `error` has the reason."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    sasl_mechanisms: list[str] = field(default_factory=list)
    tls: dict[str, str] = field(default_factory=dict)
    dialect: str | None = None
    open: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


def meaning(sent: bytes, answer: bytes) -> str:
    """Return what the server's first bytes mean as an answer to the header `sent`."""
    if not answer:
        return "closed without an answer"
    if answer[:8] == sent:
        return "spoken"
    if answer[:4] == b"AMQP":
        names = [name for name, header in HEADERS.items() if header == answer[:8]]
        return f"no; the server offers {names[0] if names else answer[:8].hex(' ')}"
    if sent == b"AMQP\x01\x01\x09\x01" and answer[0] == 1 and answer[7:11] == b"\0\x0a\0\x0a":
        return "no; the server speaks 0-8, which has the same header"
    if sent == HEADERS["AMQP/Fast 0.7"] and dialect("fast").spoken(answer):
        return "spoken"  # a command at once: the challenge
    if answer[0] == 1 and sent[4:] != b"\x00\x01\x00\x00":
        return "spoken"  # a method frame at once: connection.start
    return f"not AMQP: {answer[:16]!r}"


async def ask(
    endpoint: Endpoint, peer: Peer, header: bytes, enough: Callable[[bytes], object]
) -> tuple[bytes, dict[str, str]]:
    """Send a header, and collect the answer until it is enough or the server falls silent."""
    answer = b""
    stream, _ = await connect(endpoint, peer.tls(), peer.route())
    try:
        await stream.send(header)
        with anyio.move_on_after(ANSWER_WAIT):
            while not enough(answer):
                answer += await stream.receive()
    except (AmqpError, anyio.EndOfStream, anyio.BrokenResourceError, OSError):
        pass  # an end is an answer, too
    facts = tls_facts(stream)
    with anyio.move_on_after(1, shield=True):
        await stream.aclose()
    return answer, facts


def tls_facts(stream: Any) -> dict[str, str]:
    from anyio.streams.tls import TLSAttribute

    connection: ssl.SSLObject | None = stream.extra(TLSAttribute.ssl_object, None)
    if connection is None:
        return {}
    cipher = connection.cipher()
    facts = {"version": connection.version() or "?", "cipher": cipher[0] if cipher else "?"}
    der = connection.getpeercert(binary_form=True)
    if der:
        certificate = x509.load_der_x509_certificate(der)
        facts["subject"] = certificate.subject.rfc4514_string()
        facts["issuer"] = certificate.issuer.rfc4514_string()
        facts["valid until"] = certificate.not_valid_after_utc.isoformat()
    return facts


def mechanisms_in(answer: bytes) -> list[str]:
    reader = FrameReader(65_536)
    reader.feed(answer[8:])
    try:
        frame = reader.next()
    except AmqpError:
        return []
    performative = None if frame is None else frame[2]
    if not isinstance(performative, SaslMechanisms):
        return []
    return [str(name) for name in performative.sasl_server_mechanisms]


def mechanisms_in_start(answer: bytes) -> list[str]:
    """Return the mechanisms of connection.start, the answer to the header of 0-9-1."""
    reader = OlderFrameReader(V0_9_1.framing, 65_536)
    reader.feed(answer)
    try:
        frame = next(reader.frames(), None)
        method = None if frame is None else V0_9_1.methods.decode(frame[2])
    except AmqpError:
        return []
    return method.mechanisms.decode("ascii", "replace").split() if isinstance(method, ConnectionStart) else []


def _tells_enough(answer: bytes) -> bool:
    """Return whether `answer` has a header, or enough of connection.start to tell 0-8 and the draft of 0-9 apart."""
    return len(answer) >= (12 if answer[:1] == b"\x01" else 8)


async def examine(peer: Peer) -> tuple[Report, int]:
    """Probe the server; return the report, and the exit code for how far the probe got."""
    endpoint = parse_url(peer.url)
    report = Report(url=peer.shown)
    try:
        for name, header in HEADERS.items():
            answer, facts = await ask(endpoint, peer, header, _tells_enough)
            report.headers[name] = meaning(header, answer)
            report.tls = facts
    except AmqpError as error:
        report.error = words(error)
        return report, code_of(error) or 1
    if report.headers["AMQP 1.0 with SASL"] == "spoken":
        answer, _ = await ask(endpoint, peer, SASL_HEADER, mechanisms_in)
        report.sasl_mechanisms = mechanisms_in(answer)
    elif report.headers["AMQP 0-9-1"] == "spoken":
        answer, _ = await ask(endpoint, peer, V0_9_1.header, mechanisms_in_start)
        report.sasl_mechanisms = mechanisms_in_start(answer)
    code = 0
    try:
        with anyio.fail_after(10):
            async with peer.connect("auto") as connection:
                report.dialect = connection.dialect
                report.open = {
                    name: value for name, value in open_facts(connection).items() if value not in (None, [], {})
                }
    except TimeoutError:
        report.error, code = "the server did not open the connection within 10 s", 3
    except AmqpError as error:
        report.error, code = words(error), code_of(error) or 1
    return report, code


def open_facts(connection: Connection) -> dict[str, Any]:
    remote = connection.remote
    return {
        "container-id": remote.container_id,
        "max-frame-size": remote.max_frame_size,
        "channel-max": remote.channel_max,
        "idle-time-out": f"{remote.idle_timeout:g} s" if remote.idle_timeout else None,
        "offered-capabilities": [str(one) for one in remote.offered_capabilities],
        "desired-capabilities": [str(one) for one in remote.desired_capabilities],
        "properties": {str(key): str(value) for key, value in remote.properties.items()},
    }


def table_of(report: Report) -> Table:
    table = Table(title=Text(f"What {report.url} answers"), show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, answer in report.headers.items():
        table.add_row(name, escaped(answer))
    table.add_section()
    table.add_row("SASL mechanisms", escaped(", ".join(report.sasl_mechanisms) or "none seen"))
    for name, value in report.tls.items():
        table.add_row(f"TLS {name}", escaped(value))
    table.add_section()
    if report.dialect:
        table.add_row("dialect taken", report.dialect)
    for name, value in report.open.items():
        if isinstance(value, dict):
            value = "\n".join(f"{key}: {item}" for key, item in value.items())
        elif isinstance(value, list):
            value = ", ".join(value)
        table.add_row(name, escaped(str(value)))
    if report.error:
        table.add_row("open", escaped(report.error, style="red"))
    return table


def escaped(text: str, style: str = "") -> Text:
    """Escape a server's text, so that it is neither markup nor terminal control."""
    return Text(visible(text, keep="\n"), style=style)


@click.command()
@with_peer()
@click.option("--json", "as_json", is_flag=True, help="print one JSON object instead of the table")
def probe(peer: Peer, as_json: bool) -> None:
    """Show which protocols a server speaks.

    It also shows the SASL mechanisms of the server at URL, its certificate, and what its open says.
    """
    report, code = start(lambda: examine(peer))
    if as_json:
        click.echo(json.dumps(asdict(report), indent=2))
    elif report.headers:
        Console().print(table_of(report))
    if report.error:
        raise Failure(report.error, code)

"""Odd input, odd servers: one clear line and an exit code, never a traceback, and no secret in what is shown."""

from __future__ import annotations

import io
import json
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest

from amqp10 import BridgePlan, ConnectionLost, Error, Message, PlannedEnd, Symbol
from amqp10.cli._bridge import show
from amqp10.cli._jsonform import from_json
from amqp10.cli._main import words
from amqp10.cli._probe import HEADERS, meaning, mechanisms_in_start
from amqp10.cli._receive import Printer
from amqp10.testing import CertificateAuthority, Close, Detach, Disposition, Flow, ScriptedPeer, Transfer

Commands = Callable[..., Any]
Starter = Callable[..., tuple[Any, str]]


@pytest.mark.parametrize(
    "arguments",
    [
        ("send", "amqp://127.0.0.1:1", "q", "--ttl", "nan", "x"),
        ("send", "amqp://127.0.0.1:1", "q", "--ttl", "1e300", "x"),
        ("send", "amqp://127.0.0.1:1", "q", "--ttl", "-1", "x"),
        ("send", "amqp://127.0.0.1:1", "q", "--tls-key", __file__, "x"),
        ("send", "amqp+unix:///tmp/s", "q", "--tls-no-verify", "x"),
        ("receive", "amqp://127.0.0.1:1", "q", "--wait", "nan"),
        ("browse", "amqp://127.0.0.1:1", "q", "--wait", "inf"),
        ("broker", "--port", "0", "--queue", ""),
        ("broker", "--port", "0", "--queue", "a", "--topic", "a"),
        ("broker", "--port", "0", "--user", "nobody"),
        ("receive", "amqp://127.0.0.1:1", "q", "--credit", "4294967296"),
        ("check", "amqp://%ff:%00@127.0.0.1:1"),
        ("check", "amqp://127.0.0.1:1", "--timeout", "nan"),
        ("check", "amqp://127.0.0.1:1", "--timeout", "0"),
        ("trace", "amqp://127.0.0.1:1", "--listen", "65536"),
        ("trace", "amqp://127.0.0.1:1", "--listen", "1\u00b2"),
        ("work", "..:handle", "amqp://127.0.0.1:1", "q"),
    ],
)
def test_wrong_usage(amqp10: Commands, arguments: tuple[str, ...]) -> None:
    """What an option cannot mean is wrong usage, said before anything is connected or listened on."""
    result = amqp10(*arguments)
    assert result.code == 2
    assert "Error: " in result.err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("raise RuntimeError('at import')", "runtime error: at import"),
        ("import sys; sys.exit(3)", "system exit: 3"),
        ("def handle(message):\n", "indentation error: "),
        ("import not_installed_at_all", "module not found error: No module named 'not_installed_at_all'"),
    ],
)
def test_handler_that_cannot_be_imported(
    amqp10: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, says: str
) -> None:
    """It is wrong usage, which names the module and the reason; an exit code of the module once passed as ours."""
    (tmp_path / "broken_handlers.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_handlers", raising=False)
    result = amqp10("work", "broken_handlers:handle", "amqp://127.0.0.1:1", "q")
    assert result.code == 2
    assert f"'broken_handlers' cannot be imported: {says}" in result.err


def test_files_that_are_not_text(amqp10: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Octets where a trace or a password is expected."""
    (tmp_path / "octets").write_bytes(b"\xff\xfe\n")
    result = amqp10("trace", "--from", str(tmp_path / "octets"), "--output", str(tmp_path / "page.html"))
    assert (result.code, result.err) == (1, "amqp10: line 1 is not from a trace file, as --trace-file writes one\n")
    with (tmp_path / "octets").open(encoding="utf-8") as octets:
        monkeypatch.setattr(sys, "stdin", octets)
        result = amqp10("hash-password")
    assert result.code == 2
    assert "the password on standard input must be UTF-8" in result.err


def test_stores_without_a_name(amqp10: Commands) -> None:
    """A variable of the shell that is empty does not make a broker, or a bridge, forget everything with its process."""
    ends = ("--from", "amqp://127.0.0.1:1", "a", "--to", "amqp://127.0.0.1:1", "b")
    for arguments in (("broker", "--port", "0"), ("bridge", *ends, "--exactly-once")):
        result = amqp10(*arguments, "--store", "")
        assert result.code == 1
        assert "not a regular file" in result.err


def test_port_of_metrics_in_use(amqp10: Commands, broker_url: str) -> None:
    """The error names the port, and the option that takes another."""
    port = broker_url.rpartition(":")[2].rstrip("/")
    result = amqp10("broker", "--port", "0", "--metrics-port", port)
    assert result.code == 1
    assert f"port {port} of 127.0.0.1 is in use: --metrics-port takes another" in result.err


@pytest.mark.parametrize(
    "line",
    [
        '{"body": {"$uuid": 5}}',
        '{"ttl": 1e400}',
        '{"ttl": 1e300}',
        '{"ttl": NaN}',
        '{"body": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"body": ' + "[" * 990 + "]" * 990 + "}",
        *(
            ['{"body": ' + "[" * 700 + "]" * 700 + "}"] if sys.version_info < (3, 12) else []
        ),  # a level is one call there
        '{"body": {"$map": [[1, "a"], [1, "b"]]}}',
    ],
)
def test_json_that_is_no_message(amqp10: Commands, broker_url: str, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """A line of JSON without an AMQP meaning gives code 7, and nothing is sent."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(line + "\n"))
    result = amqp10("send", broker_url, "odd-json", "--json-lines")
    assert result.code == 7
    assert result.err.startswith("amqp10: encode error: ")
    assert amqp10("receive", broker_url, "odd-json", "--wait", "0").out == ""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("latin.csv", b"a\n\xff\n"),
        ("ragged.csv", b"a,b\n1\n"),
        ("headless.csv", b"\n1\n"),
        ("not.zip", b"no archive"),
    ],
)
def test_demo_on_a_file_that_is_no_csv(amqp10: Commands, tmp_path: Path, name: str, content: bytes) -> None:
    """Code 7 and the file's name."""
    path = tmp_path / name
    path.write_bytes(content)
    result = amqp10("demo", "--csv", str(path))
    assert result.code == 7
    assert str(path) in result.err


def test_demo_leaves_what_others_left(amqp10: Commands, broker_url: str, tmp_path: Path) -> None:
    """Messages of an earlier run, more than the receivers' credit, hold nothing up and are there afterwards."""
    (tmp_path / "earlier").write_text("".join(f"left {n}\n" for n in range(2500)))
    with (tmp_path / "earlier").open() as lines, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", lines)
        assert amqp10("send", broker_url, "demo-again", "--lines").code == 0
    rows = tmp_path / "rows.csv"
    rows.write_text("id\n" + "".join(f"{n}\n" for n in range(50)))
    result = amqp10("demo", "--url", broker_url, "--csv", str(rows), "--address", "demo-again")
    assert result.code == 0, result.out + result.err
    left = amqp10("receive", broker_url, "demo-again", "--count", "2500", "--wait", "2")
    assert left.code == 0
    assert sorted(left.out.splitlines()) == sorted(f"left {n}" for n in range(2500))


def test_demo_on_an_address_that_is_refused(amqp10: Commands, broker_url: str, tmp_path: Path) -> None:
    """All its links fail for one reason: that is one line."""
    rows = tmp_path / "rows.csv"
    rows.write_text("id\n1\n")
    result = amqp10("demo", "--url", broker_url, "--csv", str(rows), "--address", "topic://ready")
    assert result.code == 5
    assert result.err.startswith("amqp10: link detached: amqp:precondition-failed")


def test_probe_never_shows_the_password(amqp10: Commands, other_broker: Starter) -> None:
    """One that has to be percent-encoded in the URL is hidden as well; a wrong one gives code 4."""
    _, url = other_broker("--user", "a b:p@s:s")
    right = amqp10("probe", url.replace("amqp://", "amqp://a%20b:p%40s%3As@"), "--json")
    assert right.code == 0
    assert "amqp://a%20b:***@" in right.out
    wrong = amqp10("probe", url.replace("amqp://", "amqp://a%20b:p%40wrong@"))
    assert wrong.code == 4
    assert "p%40" not in right.out + wrong.out + wrong.err
    assert "p@" not in right.out + wrong.out + wrong.err


def test_what_is_no_message_is_rejected(amqp10: Commands, broker_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told of and out of the way; those around it are shown and accepted, and the code is 7."""
    deep = '{"body": ' + "[" * 40 + "]" * 40 + "}"
    monkeypatch.setattr(sys, "stdin", io.StringIO(f'{{"body": "before"}}\n{deep}\n{{"body": "after"}}\n'))
    assert amqp10("send", broker_url, "poison", "--json-lines").code == 0
    result = amqp10("receive", broker_url, "poison", "--wait", "0.2")
    assert result.code == 7
    assert result.out == "before\nafter\n"
    assert "nested too deeply" in result.err
    again = amqp10("receive", broker_url, "poison", "--wait", "0")
    assert (again.code, again.out) == (0, "")


HOSTILE = "[/red] [bold] \x1b]0;owned\x07 \x9b31m \u202edesrever\u2066"


def with_server(script: Callable[[ScriptedPeer], Awaitable[None]], command: Callable[[str], Any]) -> Any:
    """Run a command against a scripted server in a thread of its own."""

    async def serve(task_status: Any) -> None:
        async with ScriptedPeer(patience=20) as peer:
            task_status.started(peer.url)
            await script(peer)

    with anyio.from_thread.start_blocking_portal("asyncio") as portal:
        served, url = portal.start_task(serve)
        result = command(url)
        served.result(20)
    return result


@pytest.mark.parametrize("refuses", [False, True])
def test_probe_of_a_hostile_server(amqp10: Commands, refuses: bool) -> None:
    """A server's words are neither markup nor orders to the terminal."""

    async def script(peer: ScriptedPeer) -> None:
        for _ in range(len(HEADERS) + 1):  # each header, and which dialect is the best
            await peer.accept()
            await peer.send_bytes(b"AMQP\x00\x01\x00\x00")
        await peer.accept()
        await peer.accept_connection(container_id=HOSTILE)
        if refuses:
            await peer.send(Close(error=Error("amqp:not-allowed", HOSTILE)))
            await peer.expect(Close)
        else:
            await peer.accept_close()

    result = with_server(script, lambda url: amqp10("probe", url))
    assert "Traceback" not in result.err
    assert "[/red]" in result.out
    assert (result.out + result.err).replace("\n", "").isprintable()
    assert result.code in ({0, 5} if refuses else {0})  # it may close while the client is closing already


def test_what_a_refusal_says_is_shown_not_obeyed(amqp10: Commands) -> None:
    """The description in a peer's close goes to the terminal escaped."""

    async def script(peer: ScriptedPeer) -> None:
        await peer.accept_connection()
        await peer.send(Close(error=Error("amqp:not-allowed", HOSTILE)))

    result = with_server(script, lambda url: amqp10("send", url, "q", "x"))
    assert result.code == 5
    assert "\\x1b]0;owned\\x07" in result.err
    assert result.err.rstrip("\n").isprintable()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_plan_with_a_hostile_name(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    """What a dry run shows of a peer's name is shown, not obeyed."""
    end = PlannedEnd("amqp://h:1", HOSTILE, "1.0", HOSTILE)
    show(BridgePlan(end, end, "at-least-once", True, 1, False), as_json)
    assert capsys.readouterr().out.replace("\n", "").isprintable()


@pytest.mark.parametrize("form", ["text", "json", "body"])
def test_messages_on_a_terminal(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """L7: control characters, C1 among them, and what turns text around are escaped; JSON is the same JSON."""
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    message = Message(HOSTILE, subject=HOSTILE, application_properties={HOSTILE: Symbol("\x7f")})

    async def write() -> None:
        async with Printer(form, None).running() as printer:
            await printer.show([message, Message(HOSTILE.encode()), Message(b"\x9b\xff")])

    anyio.run(write)
    text = shown.getvalue()
    assert text.replace("\n", "").isprintable()
    assert "owned" in text
    if form == "json":
        assert from_json(text.split("\n")[0]).subject == HOSTILE


@pytest.mark.parametrize(("command", "word"), [("receive", "were rejected"), ("browse", "could not be decoded")])
def test_malformed_messages(amqp10: Commands, command: str, word: str) -> None:
    """What is no message is told of, and the command ends with 7, whether it takes or only looks."""

    async def script(peer: ScriptedPeer) -> None:
        await peer.accept_connection()
        await peer.accept_session()
        await peer.accept_link()
        await peer.expect(Flow)
        await peer.send(Transfer(handle=0, delivery_id=0, delivery_tag=b"0", message_format=0), b"\x00nonsense")
        await peer.expect_any(Detach, skip=(Flow, Disposition))

    options = ("-n", "1", "--wait", "0.5")
    result = with_server(script, lambda url: amqp10(command, url, "q", *options))
    assert result.code == 7
    assert word in result.err


def test_bad_certificate_files_are_named(amqp10: Commands, tmp_path: Path) -> None:
    """A file that is no certificate, or not the one of the key, is named in the one line."""
    bad = tmp_path / "bad.pem"
    bad.write_text("nothing")
    for option in ("--tls-ca", "--tls-certificate"):
        result = amqp10("send", "amqps://127.0.0.1:1", "q", option, str(bad), "x")
        assert result.code == 1
        assert str(bad) in result.err
    authority = CertificateAuthority(tmp_path)
    mine, other = authority.server("localhost"), authority.server("elsewhere")
    result = amqp10("broker", "--port", "0", "--tls-certificate", str(mine.certificate), "--tls-key", str(other.key))
    assert result.code == 1
    assert str(mine.certificate) in result.err


def test_a_certificate_is_a_login(amqp10: Commands, other_broker: Starter, tmp_path: Path) -> None:
    """A broker with --client-ca is reached with --tls-certificate; without one the door stays shut."""
    authority = CertificateAuthority(tmp_path)
    server, client = authority.server("127.0.0.1"), authority.client("alice")
    files = ("--tls-certificate", str(server.certificate), "--tls-key", str(server.key))
    _, url = other_broker(*files, "--client-ca", str(authority.ca))
    trust = ("--tls-ca", str(authority.ca))
    mine = ("--tls-certificate", str(client.certificate), "--tls-key", str(client.key))
    sent = amqp10("send", url, "q", "x", *trust, *mine)
    assert sent.code == 0, sent.err
    assert amqp10("send", url, "q", "x", *trust).code == 3
    assert json.loads(amqp10("probe", url, "--json", *trust, *mine).out)["sasl_mechanisms"] == ["EXTERNAL"]


def test_mechanisms_without_1_0(amqp10: Commands, other_broker: Starter) -> None:
    """A server of 0-9-1 alone names its mechanisms in connection.start."""
    _, url = other_broker("--user", "guest:guest", "--dialect", "0-9-1")
    mechanisms = json.loads(amqp10("probe", url, "--json").out)["sasl_mechanisms"]
    assert {"PLAIN", "AMQPLAIN"} <= set(mechanisms)


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 400 Bad Request", b"\x01\0\0\xff\xff\xff\xff", b"\x01\0\0\0\0\0\x01x\xce"]
)
def test_no_mechanisms_in_an_odd_start(answer: bytes) -> None:
    """What is no connection.start has none, whatever it is."""
    assert mechanisms_in_start(answer) == []


def test_kinds_of_errors_read_as_words() -> None:
    """Class names become words; abbreviations stay whole."""
    assert words(ssl.SSLError(1, "no")) == "SSL error: no"
    assert words(ConnectionLost("gone")) == "connection lost: gone"


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("01 0000 00000020 000a 000a 0800", "no; the server speaks 0-8"),
        ("01 00 0000 00000020 000a 000a 0901", "spoken"),
    ],
)
def test_probe_of_what_has_the_same_header(start: str, said: str) -> None:
    """0-8 and the draft of 0-9 have one header; their frames tell them apart."""
    assert meaning(b"AMQP\x01\x01\x09\x01", bytes.fromhex(start)).startswith(said)

"""send, receive and browse against a broker in another process."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amqp10 import Message
from amqp10.cli._receive import body_of

pytestmark = pytest.mark.capability("command line")

Commands = Callable[..., Any]


@pytest.fixture
def address() -> str:
    """A queue that no other test uses."""
    return f"queue-{uuid.uuid4().hex}"


def test_arguments_arrive_in_order(amqp10: Commands, broker_url: str, address: str) -> None:
    """Each argument is a message; receive prints one a line and accepts them."""
    sent = amqp10("send", broker_url, address, "one", "two")
    assert (sent.code, sent.out) == (0, "")
    assert sent.err == "2 sent, each accepted\n"
    got = amqp10("receive", broker_url, address, "-n", "2")
    assert (got.code, got.out) == (0, "one\ntwo\n")
    assert amqp10("receive", broker_url, address, "--wait", "0.1").out == ""


def test_files_are_bytes(amqp10: Commands, broker_url: str, address: str, tmp_path: Path) -> None:
    """A file's bytes go and come unchanged."""
    content = bytes(range(256)) * 100
    path = tmp_path / "content"
    path.write_bytes(content)
    assert amqp10("send", broker_url, address, "--file", str(path)).code == 0
    got = amqp10("receive", broker_url, address, "-n", "1", "--format", "json")
    import base64

    assert base64.b64decode(json.loads(got.out)["body"]["$binary"]) == content


def test_lines_of_standard_input(
    amqp10: Commands, broker_url: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without arguments each line is a message."""
    monkeypatch.setattr("sys.stdin", io.StringIO("first\nsecond\n"))
    nested = "[" * 20_000
    properties = ("--property", "n=1", "--property", f"nested={nested}")
    assert amqp10("send", broker_url, address, "--subject", "s", *properties).code == 0
    got = amqp10("receive", broker_url, address, "-n", "2", "--format", "json")
    assert [json.loads(line) for line in got.out.splitlines()] == [
        {"subject": "s", "application_properties": {"n": 1, "nested": nested}, "body": body}
        for body in ("first", "second")
    ]


def test_json_lines_both_ways(amqp10: Commands, broker_url: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What receive writes, send reads, types included."""
    form = {
        "message_id": "m1",
        "correlation_id": {"$uuid": "12345678-1234-5678-1234-567812345678"},
        "subject": "s",
        "content_type": {"$symbol": "text/plain"},
        "creation_time": {"$timestamp": "2026-01-02T03:04:05+00:00"},
        "application_properties": {"n": 1, "x": 1.5},
        "body": {"list": [1, None, True, {"$symbol": "y"}, {"$decimal": "1.50"}]},
    }
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(form) + "\n"))
    assert amqp10("send", broker_url, address, "--json-lines").code == 0
    got = amqp10("receive", broker_url, address, "-n", "1", "--format", "json")
    assert json.loads(got.out) == form


def test_bad_json_is_one_line_and_code_7(
    amqp10: Commands, broker_url: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A field that no message has is named, with the line; nothing but one line is written."""
    monkeypatch.setattr("sys.stdin", io.StringIO('{"bodi": 1}\n'))
    result = amqp10("send", broker_url, address, "--json-lines")
    assert result.code == 7
    assert result.err.startswith(
        "amqp10: encode error: line 1: a message has no field 'bodi': an object has the fields"
    )
    assert result.err.count("\n") == 1


def test_the_line_that_is_wrong(
    amqp10: Commands, broker_url: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says which line of the input it is, and what became of those before it."""
    monkeypatch.setattr("sys.stdin", io.StringIO('{"body": 1}\n\n{"body" 2}\n{"body": 3}\n'))
    result = amqp10("send", broker_url, address, "--json-lines")
    assert result.code == 7
    assert "line 3: not JSON: Expecting ':' delimiter at character 9; the messages before it are sent" in result.err
    assert amqp10("receive", broker_url, address, "-n", "1").out == "1\n"


@pytest.mark.parametrize("piped", [False, True])
def test_a_line_without_end(
    amqp10: Commands, broker_url: str, address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, piped: bool
) -> None:
    """Input without line ends is not read into the memory until that is full; the lines before it are sent."""
    monkeypatch.setattr("amqp10.cli._lines.LONGEST", 200_000)
    said = "first\n" + "x" * 200_000 + "\n" + "y" * 200_001
    file = tmp_path / "lines"
    file.write_text(said)
    with file.open() as opened:
        monkeypatch.setattr("sys.stdin", opened if piped else io.StringIO(said))
        result = amqp10("send", broker_url, address, "--lines")
    assert result.code == 7
    assert "encode error: line 3: it has more than 200000 characters; --file sends a file as one message" in result.err
    assert amqp10("receive", broker_url, address, "-n", "2").out == f"first\n{'x' * 200_000}\n"


@pytest.mark.parametrize(
    ("option", "line", "said"),
    [
        ("--json-lines", '{"priority": 300}', "priority: 300 is out of range for ubyte"),
        ("--json-lines", '{"subject": 5}', "subject: a str is required, not int"),
        ("--json-lines", '{"body": [1e999]}', "not JSON: 1e999 is no number of JSON that a double can hold"),
        ("--json-lines", '{"body": Infinity}', "not JSON: Infinity is no number of JSON that a double can hold"),
        ("--json-lines", '{"body": {"$timestamp": "noon"}}', "$timestamp: Invalid isoformat string: 'noon'"),
        ("--lines", "\udcff", "body: '\\udcff' is not Unicode text"),
    ],
)
def test_the_line_that_has_no_encoding(
    amqp10: Commands,
    broker_url: str,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    line: str,
    said: str,
) -> None:
    """A value that AMQP does not have is told with its line, too, and not as a fault of the JSON."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f'{{"body": 1}}\n{line}\n'))
    result = amqp10("send", broker_url, address, option)
    assert result.code == 7
    assert f"encode error: line 2: {said}" in result.err


def test_what_is_there(amqp10: Commands, broker_url: str, address: str) -> None:
    """With `--wait 0` all is received that the broker has, however long it takes to come."""
    amqp10("send", broker_url, address, "a", "b", "c")
    result = amqp10("receive", broker_url, address, "--wait", "0", "--credit", "2")
    assert (result.code, result.out) == (0, "a\nb\nc\n")


def test_browse_leaves_them_there(amqp10: Commands, broker_url: str, address: str) -> None:
    """Browsing twice shows the same, and receiving afterwards takes them."""
    amqp10("send", broker_url, address, "a", "b")
    assert amqp10("browse", broker_url, address).out == "a\nb\n"
    some = amqp10("browse", broker_url, address, "-n", "1")
    assert (some.out, some.err.strip()) == ("a\n", "there are more messages than the 1 shown: --count shows more")
    assert amqp10("browse", broker_url, address, "-n", "2").err == ""
    assert amqp10("receive", broker_url, address, "-n", "2").out == "a\nb\n"


def test_too_few_messages_is_an_error(amqp10: Commands, broker_url: str, address: str) -> None:
    """A count that is not reached within --wait gives code 1 and says how many came."""
    amqp10("send", broker_url, address, "only")
    result = amqp10("receive", broker_url, address, "-n", "2", "--wait", "0.2")
    assert (result.code, result.out) == (1, "only\n")
    assert "only 1 of 2 messages arrived" in result.err


def test_settled_and_anonymous(amqp10: Commands, broker_url: str, address: str) -> None:
    """Sending settled, and to the anonymous terminus, both arrive."""
    assert amqp10("send", broker_url, address, "--settled", "x").err == "1 sent\n"
    assert amqp10("send", broker_url, address, "--anonymous", "y").code == 0
    assert amqp10("receive", broker_url, address, "-n", "2").out == "x\ny\n"


def test_control_characters_are_shown_not_obeyed(amqp10: Commands, broker_url: str, address: str) -> None:
    """A message cannot drive the terminal that shows it."""
    amqp10("send", broker_url, address, "a\x1b[31mred")
    assert amqp10("receive", broker_url, address, "-n", "1").out == "a\\x1b[31mred\n"


def test_wrong_password(amqp10: Commands, broker_url: str) -> None:
    """Code 4, one line, and the password is not in it."""
    result = amqp10("send", broker_url.replace("guest@", "secret@"), "q", "x")
    assert result.code == 4
    assert result.err.startswith("amqp10: authentication failed: ")
    assert result.err.count("\n") == 1
    assert "secret" not in result.err


def test_no_server(amqp10: Commands) -> None:
    """Code 3 and one line when nobody listens."""
    result = amqp10("receive", "amqp://127.0.0.1:1", "q")
    assert result.code == 3
    assert result.err.startswith("amqp10: connection lost: cannot connect to amqp://127.0.0.1:1")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("url", ["localhost", "http://localhost", "amqp://", "amqp://host:port"])
def test_bad_url_is_wrong_usage(amqp10: Commands, url: str) -> None:
    """Code 2, as for every wrong usage."""
    assert amqp10("send", url, "q", "x").code == 2


def test_selector(amqp10: Commands, broker_url: str, address: str) -> None:
    """receive and browse take what a selector lets pass, and leave the rest."""
    for body, region in (("one", "eu"), ("two", "us"), ("three", "eu")):
        assert amqp10("send", broker_url, address, body, "--property", f"region={region}").code == 0
    seen = amqp10("browse", broker_url, address, "--selector", "region = 'us'")
    assert (seen.code, seen.out) == (0, "two\n")
    got = amqp10("receive", broker_url, address, "-n", "2", "--selector", "region = 'eu'")
    assert (got.code, got.out) == (0, "one\nthree\n")
    assert amqp10("receive", broker_url, address, "-n", "1").out == "two\n"


def test_wrong_selector(amqp10: Commands, broker_url: str, address: str) -> None:
    """What the broker says of it is shown, with the place."""
    got = amqp10("receive", broker_url, address, "-n", "1", "--selector", "region =")
    assert got.code == 5
    assert "character 9: expected a value or a name" in got.err


def test_text_of_structured_bodies() -> None:
    """Maps and lists are JSON, with the notes of `--format json` where JSON has no such type."""
    assert body_of(Message({"order": 3, "item": "tea"})) == '{"order": 3, "item": "tea"}'
    assert body_of(Message(["é", None, b"\x00"])) == '["é", null, {"$binary": "AA=="}]'
    assert body_of(Message(7)) == "7"

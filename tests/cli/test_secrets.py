"""Secrets come by file and environment; the command line does not have to show them."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amqp10.cli._options import with_password
from amqp10.net import parse_url
from amqp10.sasl import StoredKeys

Commands = Callable[..., Any]
Starter = Callable[..., tuple["subprocess.Popen[str]", str]]

PASSWORD = "p@ss:w/rd%20 \u00e9"


@pytest.fixture
def url(amqp10: Commands, other_broker: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A broker that knows ann by the keys of a password, and what it prints for them."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    printed = amqp10("hash-password", "--iterations", "4096")
    assert printed.code == 0
    assert PASSWORD not in printed.out
    users = tmp_path / "users.json"
    users.write_text(json.dumps({"users": {"ann": {"keys": printed.out.strip()}}}))
    _, url = other_broker("--users-file", str(users))
    return url.replace("//", "//ann@")


def test_file_and_environment(amqp10: Commands, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command takes the password from a file or the environment, and none without."""
    secret = tmp_path / "secret"
    secret.write_text(f"{PASSWORD}\r\nmore\n")
    assert amqp10("send", url, "q", "one").code == 4
    assert amqp10("send", "--password-file", str(secret), url, "q", "one").code == 0
    ends = ["--from", url, "q", "--to", url, "r"]
    files = ["--from-password-file", str(secret), "--to-password-file", str(secret)]
    assert amqp10("bridge", *ends, *files, "--count", "1").code == 0
    monkeypatch.setenv("AMQP10_PASSWORD", PASSWORD)
    received = amqp10("receive", "--count", "1", url, "r")
    assert (received.code, received.out) == (0, "one\n")


def test_hash_password(amqp10: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed are keys; an empty password has none."""
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\n"))
    printed = amqp10("hash-password", "--iterations", "5000")
    assert {keys.iterations for keys in StoredKeys.parse(printed.out.strip()).keys.values()} == {5000}
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert amqp10("hash-password").code == 2


def test_which_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file comes before the environment, and the URL's own before that; a file beside it is a mistake."""
    secret = tmp_path / "secret"
    secret.write_text("of the file")
    monkeypatch.setenv("P", "of the environment")
    assert parse_url(with_password("amqp://ann@h", str(secret), "P")).password == "of the file"
    assert parse_url(with_password("amqp://ann@h", None, "P")).password == "of the environment"
    assert with_password("amqp://ann:own@h", None, "P") == "amqp://ann:own@h"
    assert with_password("amqp://h", None, "P") == "amqp://h"
    for url in ("amqp://h", "amqp://ann:own@h"):
        with pytest.raises(ValueError, match="needs a URL that has a user and no password"):
            with_password(url, str(secret), "P")
    secret.write_text("")
    with pytest.raises(ValueError, match="the first line must have the secret, but is empty"):
        with_password("amqp://ann@h", str(secret), "P")


def test_no_users_file(amqp10: Commands, tmp_path: Path) -> None:
    """A file that is none is told of in a line."""
    users = tmp_path / "users.json"
    users.write_text("{}")
    ended = amqp10("broker", "--users-file", str(users))
    assert ended.code == 2
    assert "a file of users must have the form" in ended.err

"""Files that an editor begins with a byte order mark (RFC 3629 section 6) mean what they mean without it."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from pathlib import Path

import pytest

from amqp10 import from_environment
from amqp10.broker import User, read_config, read_users

USERS = {"ann": {"password": "secret"}}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broker.toml", 'port = 5\n[users.ann]\npassword_file = "secret"\n'),
        ("broker.json", json.dumps({"port": 5, "users": {"ann": {"password_file": "secret"}}})),
    ],
)
def test_configurations(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(BOM_UTF8 + b"gr\xc3\xbcn\r\n")
    path = tmp_path / name
    path.write_bytes(BOM_UTF8 + text.encode())
    settings = read_config(path)
    assert settings["port"] == 5
    assert settings["users"]["ann"] == User("grün")


def test_the_line_of_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_bytes(BOM_UTF8 + b"port = 5\n# \xff\n")
    with pytest.raises(ValueError, match="line 2: not UTF-8"):
        read_config(path)


def test_users(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_bytes(BOM_UTF8 + json.dumps({"users": USERS}).encode())
    assert read_users(path) == {"ann": User("secret")}


def test_secrets_of_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_bytes(BOM_UTF8 + b"gr\xc3\xbcn\n")
    url, _ = from_environment({"AMQP10_URL": "amqp://ann@host", "AMQP10_PASSWORD_FILE": str(path)})
    assert url == ["amqp://ann:gr%C3%BCn@host"]

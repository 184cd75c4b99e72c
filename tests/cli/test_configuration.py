"""Commands that are told by the environment and by files; a broker that reads its users anew."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amqp10.testing import CertificateAuthority

from ..kit.programs import started
from .conftest import start_broker, stop

pytestmark = pytest.mark.capability("configuration")

Commands = Callable[..., Any]


def test_url_of_the_environment(
    amqp10: Commands, broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-` is AMQP10_URL; the password may be in a file, and options may be variables."""
    (tmp_path / "password").write_text("guest\n")
    (tmp_path / "url").write_text(broker_url.replace(":guest@", "@") + "?dialect=0-9-1\n")
    assert amqp10("send", "-", "configured", "x").code == 2
    monkeypatch.setenv("AMQP10_URL_FILE", str(tmp_path / "url"))
    assert amqp10("send", "-", "configured", "x").code == 4
    monkeypatch.setenv("AMQP10_PASSWORD_FILE", str(tmp_path / "password"))
    checked = amqp10("check", "--json", "-", "configured")
    assert json.loads(checked.out)["dialect"] == "0-9-1"
    assert amqp10("send", "-", "configured", "x").code == 0
    monkeypatch.setenv("AMQP10_RECEIVE_COUNT", "1")
    received = amqp10("receive", broker_url, "configured")
    assert (received.code, received.out) == (0, "x\n")
    monkeypatch.setenv("AMQP10_IDLE_TIMEOUT", "soon")
    wrong = amqp10("send", broker_url, "configured", "x")
    assert wrong.code == 2
    assert "AMQP10_IDLE_TIMEOUT is seconds" in wrong.err


def test_parameters_of_a_url(amqp10: Commands, broker_url: str) -> None:
    """An option comes before them."""
    url = f"{broker_url}?dialect=0-10"
    assert json.loads(amqp10("check", "--json", url).out)["dialect"] == "0-10"
    assert json.loads(amqp10("check", "--json", "--dialect", "1.0", url).out)["dialect"] == "1.0"
    wrong = amqp10("check", f"{broker_url}?heartbeat=1")
    assert wrong.code == 2
    assert "no parameter 'heartbeat'" in wrong.err


def test_a_broker_reads_users_and_certificates_anew(amqp10: Commands, tmp_path: Path) -> None:
    """At SIGHUP; where the file is wrong it says so, and the old ones stay."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    old, new = CertificateAuthority(tmp_path / "old"), CertificateAuthority(tmp_path / "new")
    config = tmp_path / "broker.toml"

    def write(password: str, authority: CertificateAuthority, signed: CertificateAuthority | None = None) -> None:
        files = authority.server("localhost")
        key = files.key if signed is None else signed.server("localhost").key
        config.write_text(
            f'host = "localhost"\nport = 1\nqueues = ["orders"]\n[users.ann]\npassword = "{password}"\n'
            f'[tls]\ncertificate = "{files.certificate}"\nkey = "{key}"\n'
        )

    write("first", old)
    command = [sys.executable, "-m", "amqp10", "broker", "--config", str(config), "--port", "0", "--log-format", "json"]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            url = process.stdout.readline().split()[3].replace("//", "//ann@").replace("127.0.0.1", "localhost")

            def check(password: str, authority: CertificateAuthority) -> int:
                environ = {"AMQP10_PASSWORD": password, "AMQP10_TLS_CA": str(authority.ca)}
                with pytest.MonkeyPatch.context() as patch:
                    for name, value in environ.items():
                        patch.setenv(name, value)
                    code: int = amqp10("check", "--quiet", url, "orders").code
                return code

            def reload() -> dict[str, Any]:
                assert process.stderr is not None
                process.send_signal(signal.SIGHUP)
                while "SIGHUP" not in (said := json.loads(process.stderr.readline()))["message"]:
                    pass  # a login that failed
                return said  # type: ignore[no-any-return]

            assert check("first", old) == 0
            write("second", new)
            assert reload()["level"] == "WARNING"
            assert [check("second", new), check("first", new), check("second", old)] == [0, 4, 3]
            config.write_text("[users")
            said = reload()
            assert said["level"] == "ERROR"
            assert "at end of document" in said["message"] or "line" in said["message"]
            write("third", new, signed=old)  # users that are right, with a key of another certificate
            assert reload()["level"] == "ERROR"
            assert [check("second", new), check("third", new)] == [0, 4]
        finally:
            process.terminate()
            process.communicate()


def test_a_wrong_file(amqp10: Commands, tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("port = 'x'")
    wrong = amqp10("broker", "--config", str(tmp_path / "broker.toml"))
    assert wrong.code == 2
    assert "port: is a whole number, not str" in " ".join(wrong.err.split())


def test_options_come_before_the_file(amqp10: Commands, tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("auto_create = true\nqueues = ['a']\n[users]\nann = {password = 'first'}")
    options = ("--config", str(tmp_path / "broker.toml"), "--no-auto-create", "--user", "ben:second")
    process, url = start_broker(*options)
    try:
        url = url.replace("//", "//ben:second@")
        assert amqp10("check", "--quiet", url, "a").code == 0
        assert amqp10("check", "--quiet", url, "b").code == 5
    finally:
        stop(process)

"""Commands that are told by the environment and by files; a broker that reads its users anew."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amqp10.broker import JwtKey, TokenRules
from amqp10.testing import BackgroundBroker, CertificateAuthority

from ..kit.processes.commands import start_broker, stop
from ..kit.processes.programs import started
from ..kit.token_rig import SECRET, jwt

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
    assert "AMQP10_IDLE_TIMEOUT must be a number of seconds" in wrong.err


def test_token_of_the_environment(amqp10: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token of a file logs in where the URL has no user, with a URL in the command line and in the environment."""
    file = tmp_path / "token"
    claims = {"sub": "ann", "scope": "read:*/*"}
    monkeypatch.setenv("AMQP10_TOKEN_FILE", str(file))
    wrong = amqp10("check", "amqp://127.0.0.1:1")
    assert wrong.code == 2
    assert "AMQP10_TOKEN_FILE" in wrong.err
    rules = TokenRules(jwt=[JwtKey(SECRET)])
    with BackgroundBroker(users={"ben": "hush"}, tokens=rules, queues=["orders"]) as broker:
        monkeypatch.setenv("AMQP10_URL", broker.url)
        as_ben = broker.url.replace("//", "//ben:hush@")
        for end, code in ((time.time() + 600, 0), (time.time() - 600, 4)):
            file.write_text(jwt({**claims, "exp": int(end)}))
            for url in ("-", broker.url):
                assert amqp10("check", "--quiet", url, "orders").code == code
            assert amqp10("check", "--quiet", as_ben, "orders").code == 0
            assert amqp10("check", "--quiet", "--sasl", "ANONYMOUS", broker.url, "orders").code == 5


def test_parameters_of_a_url(amqp10: Commands, broker_url: str) -> None:
    """An option comes before them."""
    url = f"{broker_url}?dialect=0-10"
    assert json.loads(amqp10("check", "--json", url).out)["dialect"] == "0-10"
    assert json.loads(amqp10("check", "--json", "--dialect", "1.0", url).out)["dialect"] == "1.0"
    wrong = amqp10("check", f"{broker_url}?heartbeat=1")
    assert wrong.code == 2
    assert "unknown parameter 'heartbeat'" in wrong.err


def test_a_hangup_when_the_broker_says_that_it_runs() -> None:
    """SIGHUP does not end the process at the moment when its first line is written: users are read anew."""
    program = (
        "import click, os, signal; from amqp10.cli import main; echo = click.echo; "
        "click.echo = lambda text: (echo(text), os.kill(os.getpid(), signal.SIGHUP)); main(['broker', '--port', '0'])"
    )
    with started([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "read anew" in process.stderr.readline()
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM


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
            said = reload()
            assert said["level"] == "WARNING"
            assert (said["amqp_event"], said["amqp_users"], said["amqp_later"]) == ("reloaded", 1, [])
            assert [check("second", new), check("first", new), check("second", old)] == [0, 4, 3]
            config.write_text("[users")
            said = reload()
            assert (said["level"], said["amqp_event"]) == ("ERROR", "reload_failed")
            assert "at end of document" in said["message"] or "line" in said["message"]
            assert said["amqp_error"] in said["message"]
            write("third", new, signed=old)  # users that are right, with a key of another certificate
            assert reload()["level"] == "ERROR"
            assert [check("second", new), check("third", new)] == [0, 4]
            write("second", new)
            config.write_text(f"auto_create = false\nmax_connections = 5\n{config.read_text()}")
            assert reload()["amqp_later"] == ["auto_create", "max_connections"]
        finally:
            process.terminate()
            process.communicate()


@pytest.mark.parametrize("name", ["AMQP10_WORK_CONCURRENCY", None])
def test_a_wrong_value_of_the_environment(name: str | None, amqp10: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable that the value is from, beside the option; of an option, the option alone."""
    arguments = ["work", "amqp10:send", "amqp://h", "q"]
    if name is None:
        arguments += ["--concurrency", "two"]
    else:
        monkeypatch.setenv(name, "two")
    wrong = amqp10(*arguments)
    assert wrong.code == 2
    assert "--concurrency" in wrong.err
    assert ("AMQP10_WORK_CONCURRENCY" in wrong.err) is (name is not None)


def test_a_wrong_file(amqp10: Commands, tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("port = 'x'")
    wrong = amqp10("broker", "--config", str(tmp_path / "broker.toml"))
    assert wrong.code == 2
    assert "port: must be a whole number, not str" in " ".join(wrong.err.split())


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

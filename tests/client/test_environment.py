"""Connections that URLs with parameters, and variables of the environment, describe."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from amqp10 import TLS, Connection, LoginTokens, Reconnect, from_environment
from amqp10.broker import Broker
from amqp10.client.internals import url_settings
from amqp10.tokens import Token, ask
from amqp10.worker import Retries, session_worker_from_environment, worker_from_environment

from ..kit.token_rig import jwt

pytestmark = pytest.mark.capability("configuration")


@pytest.mark.anyio
async def test_parameters_of_a_url() -> None:
    """They hold in place of the arguments; the peer is told what they say."""
    async with Broker() as broker:
        url = f"{broker.url}?container_id=a%20b&idle_timeout=12&channel_max=7&hostname=there&dialect=1.0&reconnect=on"
        async with Connection(url, container_id="in code", dialect="0-9-1") as connection:
            assert (connection.container_id, connection.dialect) == ("a b", "1.0")
            async with connection.sender("q") as sender:
                await sender.send("x")
            assert broker.queue("q").depth == 1
        several = Connection([f"{broker.url}?container_id=c", "amqp://localhost:1?container_id=c"])
        async with several as connection:
            assert connection.container_id == "c"


def test_what_they_say() -> None:
    url, said = url_settings(
        "amqps://h?tls_ca=/ca.pem&tls_certificate=c.pem&tls_key=k.pem&reconnect=false&proxy=http://p"
    )
    assert url == "amqps://h"
    assert said == {
        "tls": TLS(ca="/ca.pem", certificate="c.pem", key="k.pem"),
        "reconnect": None,
        "proxy": "http://p",
    }
    assert url_settings("ws://h/path?token=1") == ("ws://h/path?token=1", {})


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("amqp://u:secret@h?heartbeat=5", "unknown parameter 'heartbeat' in the URL: use idle_timeout"),
        ("amqp://u:secret@h?verify=false", "unknown parameter 'verify'"),
        (
            "amqp://u:secret@h?idle_timeout=5s",
            "the URL's parameter idle_timeout must be a number of seconds, 0 or more, not '5s'",
        ),
        ("amqp://u:secret@h?idle_timeout=nan", "seconds, 0 or more, not 'nan'"),
        ("amqp://u:secret@h?reconnect=perhaps", "reconnect must be true or false, not 'perhaps'"),
        ("amqp://u:secret@h?channel_max=", "channel_max must be a whole number, not ''"),
        ("amqp://u:secret@h?hostname=a&hostname=b", "the parameter hostname twice"),
        ("amqp://u:secret@h?tls_key=k.pem", "a key needs a certificate"),
        ("amqp://u:1?secret@h", "not a URL"),
    ],
)
def test_wrong_parameters(url: str, words: str) -> None:
    """The error names the parameter, and not the password."""
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        Connection(url)
    assert "secret" not in str(caught.value)


def test_urls_that_differ() -> None:
    with pytest.raises(ValueError, match="have the same parameters"):
        Connection(["amqp://h?hostname=a", "amqp://g"])


def test_from_environment(tmp_path: Path) -> None:
    """The URL, the password for its user, and the settings; secrets may be in files."""
    (tmp_path / "url").write_text("amqps://ann@h1 amqps://ann@h2?hostname=x\nmore")
    (tmp_path / "password").write_text("se cret\n")
    environ = {
        "AMQP10_URL_FILE": str(tmp_path / "url"),
        "AMQP10_PASSWORD_FILE": str(tmp_path / "password"),
        "AMQP10_RECONNECT": "true",
        "AMQP10_IDLE_TIMEOUT": "30",
        "AMQP10_TLS_CA": "ca.pem",
        "AMQP10_PROFILE": "",
        "AMQP10_TRACE": "1",
    }
    urls, settings = from_environment(environ)
    assert urls == ["amqps://ann:se%20cret@h1", "amqps://ann:se%20cret@h2?hostname=x"]
    assert settings == {"reconnect": Reconnect(), "idle_timeout": 30.0, "tls": TLS(ca="ca.pem")}


@pytest.mark.anyio
async def test_a_token_in_a_file(tmp_path: Path) -> None:
    """It is read anew each time, for whoever writes the file renews it."""
    file = tmp_path / "token"
    first, second = (jwt({"exp": time.time() + lifetime}) for lifetime in (60, 120))
    file.write_text(first)
    _, settings = from_environment({"AMQP10_URL": "amqps://h", "AMQP10_TOKEN_FILE": str(file)})
    tokens = settings["tokens"]
    assert isinstance(tokens, LoginTokens)
    assert await ask(tokens.source, "") == Token.read(first)
    file.write_text(f"{second}\n")
    assert await ask(tokens.source, "") == Token.read(second)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "set AMQP10_URL, or AMQP10_URL_FILE"),
        ({"AMQP10_URL": " "}, "set AMQP10_URL, or AMQP10_URL_FILE"),
        ({"AMQP10_URL": "amqp://h", "AMQP10_URL_FILE": "f"}, "AMQP10_URL and AMQP10_URL_FILE are both set"),
        ({"AMQP10_URL_FILE": "/no/such"}, "AMQP10_URL_FILE: /no/such cannot be read"),
        ({"AMQP10_URL": "amqp://h", "AMQP10_TOKEN_FILE": "/no/such"}, "AMQP10_TOKEN_FILE: /no/such cannot be read"),
        ({"AMQP10_URL": "amqp://h", "AMQP10_CHANNEL_MAX": "x"}, "AMQP10_CHANNEL_MAX must be a whole number, not 'x'"),
    ],
)
def test_wrong_environment(environ: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        from_environment(environ)


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("\nsecret")
    environ = {"AMQP10_URL": "amqp://ann@h", "AMQP10_PASSWORD_FILE": str(tmp_path / "password")}
    with pytest.raises(ValueError, match="the first line must have the secret, but is empty"):
        from_environment(environ)


def test_of_a_worker() -> None:
    environ = {"AMQP10_WORK_CONCURRENCY": "3", "AMQP10_WORK_ATTEMPTS": "2", "AMQP10_WORK_DELAY": "0.5"}
    assert worker_from_environment(environ) == {
        "concurrency": 3,
        "retries": Retries(attempts=2, initial_delay=0.5),
    }
    assert worker_from_environment({}) == {}
    environ |= {"AMQP10_WORK_SESSIONS": "9", "AMQP10_WORK_IDLE_TIME": "2", "AMQP10_WORK_SESSION_TIME": "60"}
    assert session_worker_from_environment(environ) == {
        "sessions": 9,
        "idle_time": 2,
        "session_time": 60,
        "retries": Retries(attempts=2, initial_delay=0.5),
    }
    assert worker_from_environment({"AMQP10_WORK_MAX_DELAY": "0.5"}) == {
        "retries": Retries(initial_delay=0.5, max_delay=0.5)
    }
    words = "AMQP10_WORK_DELAY must be no more than AMQP10_WORK_MAX_DELAY, which is 300.0 s, not 500.0 s"
    with pytest.raises(ValueError, match=words):
        worker_from_environment({"AMQP10_WORK_DELAY": "500"})
    with pytest.raises(
        ValueError, match="AMQP10_WORK_DRAIN_TIMEOUT must be a number of seconds, 0 or more, not 'long'"
    ):
        worker_from_environment({"AMQP10_WORK_DRAIN_TIMEOUT": "long"})

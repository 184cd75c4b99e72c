"""A server that repeats the login in its words, as one does that quotes what it could not read: no text shows it."""

from __future__ import annotations

import base64
import logging
import struct
import traceback
from collections.abc import Callable

import anyio
import pytest

from amqp10 import AuthenticationFailed, Connection, ConnectionClosed, OAuthBearer, Plain, XOAuth2
from amqp10.broker.internals import memory_streams
from amqp10.errors import AmqpError
from amqp10.sasl import Mechanism, Secrets

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("hostile peers")]

SECRET = "hunter2 'ü"


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def method(code: tuple[int, int], arguments: bytes) -> bytes:
    """A frame of 0-9-1 and its kin, on channel 0."""
    payload = struct.pack(">HH", *code) + arguments
    return struct.pack(">BHI", 1, 0, len(payload)) + payload + b"\xce"


def in_0_9_1(text: bytes) -> bytes:
    start = method((10, 10), b"\0\x09" + bytes(4) + struct.pack(">I", 5) + b"PLAIN" + bytes(4))
    return start + method((10, 50), struct.pack(">H", 403) + short(text) + bytes(4))


def in_0_9_draft(text: bytes) -> bytes:
    """Its frames have a cycle and a weight in the head, and close another code."""

    def frame(code: tuple[int, int], arguments: bytes) -> bytes:
        payload = struct.pack(">HH", *code) + arguments
        return struct.pack(">BBHI", 1, 0, 0, len(payload)) + payload + b"\xce"

    start = frame((10, 10), b"\x09\1" + bytes(4) + struct.pack(">I", 5) + b"PLAIN" + bytes(4))
    return start + frame((10, 60), struct.pack(">H", 403) + short(text) + bytes(4))


def in_0_10(text: bytes) -> bytes:
    def control(code: bytes, fields: bytes) -> bytes:
        return struct.pack(">BBHBBHI", 15, 0, 12 + len(code + fields), 0, 0, 0, 0) + code + fields

    array = b"\x95" + struct.pack(">I", 1) + struct.pack(">H", 5) + b"PLAIN"
    start = control(b"\1\1", b"\6\0" + 2 * (struct.pack(">I", len(array)) + array))
    close = control(b"\1\x0b", b"\3\0" + struct.pack(">H", 320) + short(text))
    return b"AMQP\1\1\0\x0a" + start + close


def in_fast(text: bytes) -> bytes:
    def command(code: int, fields: bytes) -> bytes:
        return struct.pack(">HB", len(fields) + 2, code) + fields + b"\xce"

    return command(10, b"\1" + short(b"PLAIN") + b"\0\0") + command(19, struct.pack(">H", 403) + short(text))


def in_1_0(text: bytes, mechanism: bytes = b"PLAIN") -> bytes:
    def frame(kind: int, code: int, fields: list[bytes]) -> bytes:
        items = bytes([len(fields)]) + b"".join(fields)
        body = b"\0\x53" + bytes([code]) + b"\xc0" + short(items)
        return struct.pack(">IBBH", 8 + len(body), 2, kind, 0) + body

    fields = [b"\xa3" + short(b"amqp:internal-error"), b"\xa1" + short(text)]
    error = b"\0\x53\x1d\xc0" + short(bytes([len(fields)]) + b"".join(fields))
    login = b"AMQP\3\1\0\0" + frame(1, 0x40, [b"\xa3" + short(mechanism)]) + frame(1, 0x44, [b"\x50\0"])
    return login + b"AMQP\0\1\0\0" + frame(0, 0x10, [b"\xa1" + short(b"c")]) + frame(0, 0x18, [error])


SERVERS: dict[str, Callable[[bytes], bytes]] = {
    "0-9-1": in_0_9_1,
    "0-9-draft": in_0_9_draft,
    "0-10": in_0_10,
    "fast": in_fast,
    "1.0": in_1_0,
}


async def texts_of(
    octets: bytes, mechanism: Mechanism, dialect: str, caplog: pytest.LogCaptureFixture
) -> tuple[AmqpError, str]:
    """Return the error of a connection to a server that says this, and all that a program can show of it."""
    caplog.set_level(logging.DEBUG)
    here, there = memory_streams()
    async with there, anyio.create_task_group() as tasks:
        tasks.start_soon(there.send, octets)
        with anyio.fail_after(60), pytest.raises(AmqpError) as caught:
            async with Connection.over(here, secure=True, dialect=dialect, sasl=mechanism, close_timeout=0.2):
                pass
    error = caught.value
    shown = [*traceback.format_exception(error), repr(error), str(vars(error)), caplog.text]
    return error, "\n".join(shown)


@pytest.mark.parametrize("dialect", SERVERS)
async def test_in_a_close(dialect: str, caplog: pytest.LogCaptureFixture) -> None:
    """What else it says is told as it was, in errors and in the trace."""
    octets = SERVERS[dialect](f"bad login user {SECRET}, and ".encode() + base64.b64encode(login()))
    error, shown = await texts_of(octets, Plain("user", SECRET), dialect, caplog)
    assert isinstance(error, ConnectionClosed if dialect == "1.0" else AuthenticationFailed)
    assert "bad login" in str(error)
    assert "<secret>, and <secret>" in str(error)
    for text in (SECRET, repr(SECRET)[1:-1], repr(SECRET.encode())[2:-1], base64.b64encode(login()).decode()):
        assert text not in shown
    assert "amqp10.frames" in caplog.text
    assert "bad login" in caplog.text


def login() -> bytes:
    return f"\0user\0{SECRET}".encode()


@pytest.mark.parametrize(
    "mechanism", [OAuthBearer("hunter2.token"), XOAuth2("user", "hunter2.token")], ids=["OAUTHBEARER", "XOAUTH2"]
)
async def test_of_a_token(mechanism: Mechanism, caplog: pytest.LogCaptureFixture) -> None:
    octets = in_1_0(b"cannot read hunter2.token", mechanism.name.encode())
    error, shown = await texts_of(octets, mechanism, "1.0", caplog)
    assert str(error) == "amqp:internal-error: cannot read <secret>"
    assert "hunter2" not in shown


async def test_among_its_mechanisms(caplog: pytest.LogCaptureFixture) -> None:
    """It learned the password from an earlier connection."""
    error, shown = await texts_of(in_1_0(b"", b"X-hunter2"), Plain("user", "hunter2"), "1.0", caplog)
    assert "X-<secret>" in str(error)
    assert "hunter2" not in shown


@pytest.mark.parametrize(("user", "password"), [("guest", "guest"), ("user", "no"), ("administrator", "administrator")])
async def test_no_secret(user: str, password: str, caplog: pytest.LogCaptureFixture) -> None:
    """A password that is the user's name, or as short as a word, is not looked for: it would only spoil other words."""
    error, _ = await texts_of(in_0_9_1(f"no login of {user}".encode()), Plain(user, password), "0-9-1", caplog)
    assert str(error) == f"no login of {user}"


def test_twice() -> None:
    """What hides a secret is not taken for one, whatever the password is."""
    secrets = Secrets([Plain("me", "secret")])
    assert secrets.hide(secrets.hide("a secret, b'secret'")) == "a <secret>, b'<secret>'"

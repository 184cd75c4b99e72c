"""Which dialect a server speaks: it is asked by headers, and what it says in the clear is not trusted with secrets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from amqp10 import ConnectionLost, InsecureTransport, Unsupported
from amqp10.engine import Dialect, dialect, dialects
from amqp10.net import StreamFacts, TransportOptions, ask, automatic, choose_dialect, connect, parse_url

pytestmark = pytest.mark.anyio

V1_0 = dialect("1.0")
NEWER = replace(V1_0, name="2.0", headers=(b"AMQP\x00\x02\x00\x00",))
OLDER = replace(V1_0, name="0-9-1", headers=(b"AMQP\x00\x00\x09\x01",), greeting=((0, b"\x01"),), tls_header=False)
FAST = dialect("fast")
SASL = b"AMQP\x03\x01\x00\x00"


@pytest.mark.parametrize(
    ("one", "answer", "spoken"),
    [
        (V1_0, b"", None),
        (V1_0, b"AMQP\x03", None),
        (V1_0, SASL, True),
        (V1_0, b"AMQP\x00\x01\x00\x00and more", True),
        (V1_0, b"AMQP\x00\x00\x09\x01", False),
        (V1_0, b"HTTP/1.1 400", False),
        (V1_0, b"\x01", False),
        (OLDER, b"\x01\x00\x00", True),
        (OLDER, SASL, False),
        (OLDER, b"\x80\x01", False),
        (FAST, b"\x00\x0f", None),
        (FAST, b"\x00\x0f\x0a\x01", True),
        (FAST, SASL, False),
        (V1_0, b"\x80\x01", False),
    ],
)
def test_answers(one: Dialect, answer: bytes, spoken: bool | None) -> None:
    """A header of the dialect, or a frame where its servers begin with one, means yes; another header means no."""
    assert one.spoken(answer) is spoken


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is slow to answer on a busy machine is not taken for one that does not speak the dialect."""
    monkeypatch.setattr("amqp10.net._connecting.probe.ask", partial(ask, wait=60.0))


@asynccontextmanager
async def serving(answers: dict[bytes, bytes], at_once: int = 1) -> AsyncIterator[str]:
    """A server that answers each header with what is said here, in single bytes or more at once, and hangs up."""

    async def serve(stream: ByteStream) -> None:
        async with stream:
            header = await stream.receive(8)
            with suppress(anyio.BrokenResourceError):  # who asks has heard enough before the last byte
                answer = answers.get(header, b"")
                for place in range(0, len(answer), at_once):
                    await stream.send(answer[place : place + at_once])

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"amqp://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        tasks.cancel_scope.cancel()


async def chosen(candidates: list[Dialect], url: str, *, secret: bool = False) -> str:
    return (await choose_dialect(candidates, parse_url(url), None, TransportOptions(), secret=secret)).name


async def test_takes_the_highest() -> None:
    """The first that is answered as one who speaks it does, though another one would be, too."""
    async with serving({SASL: SASL, OLDER.headers[0]: b"\x01\x00\x00"}) as url:
        assert await chosen([NEWER, V1_0, OLDER], url) == "1.0"
        assert await chosen([NEWER, OLDER, V1_0], url) == "0-9-1"


async def test_speaks_none() -> None:
    """Who answers with other headers only speaks none of those that were asked for."""
    async with serving({SASL: b"AMQP\x07\x07\x07\x07"}) as url:
        with pytest.raises(Unsupported, match=r"none of the dialects 1\.0, 0-9-1"):
            await chosen([V1_0, OLDER], url)


@pytest.mark.parametrize("answer", [b"AMQP\x02\x01\x00\x00", b"\x15\x03\x03\x00\x02\x02\x0a"])
async def test_a_port_of_tls(answer: bytes) -> None:
    """A server that answers by TLS, in AMQP's header for it or in an alert, is one whose URL begins with amqps."""
    async with serving({SASL: answer}, at_once=8) as url:
        with pytest.raises(Unsupported, match=r"none of the dialects.*TLS.*amqps://"):
            await chosen([V1_0, OLDER], url)


async def test_says_nothing() -> None:
    """Who hangs up on every header may be a gateway whose broker is away: no connection, and not another protocol."""
    async with serving({}) as url:
        with pytest.raises(ConnectionLost, match=r"any AMQP header: if that port speaks TLS.*no AMQP at all$"):
            await chosen([V1_0, OLDER], url)


async def test_a_lower_one_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond loopback, without TLS and with credentials, the claim to speak a lower one only is refused."""

    async def far(*args: object) -> tuple[ByteStream, StreamFacts]:
        stream, facts = await connect(*args)  # type: ignore[arg-type]
        return stream, replace(facts, secure=False)

    monkeypatch.setattr("amqp10.net._connecting.probe.connect", far)
    async with serving({SASL: OLDER.headers[0], OLDER.headers[0]: b"\x01"}) as url:
        with pytest.raises(InsecureTransport, match="'0-9-1'"):
            await chosen([V1_0, OLDER], url, secret=True)
        assert await chosen([V1_0, OLDER], url) == "0-9-1"
    async with serving({SASL: SASL}) as url:
        assert await chosen([V1_0, OLDER], url, secret=True) == "1.0"


async def test_an_answer_that_is_kept_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over TLS, or with credentials, silence is no no: who sits between may cut the connection that asks for more."""
    asked: list[bytes] = []

    async def counting(stream: ByteStream, dialect: Dialect) -> tuple[bool | None, bytes]:
        asked.append(dialect.headers[0])
        return await ask(stream, dialect)

    async def with_tls(*args: object) -> tuple[ByteStream, StreamFacts]:
        stream, facts = await connect(*args)  # type: ignore[arg-type]
        return stream, replace(facts, tls=True)

    monkeypatch.setattr("amqp10.net._connecting.probe.ask", counting)
    async with serving({OLDER.headers[0]: b"\x01"}) as url:
        assert await chosen([V1_0, OLDER], url) == "0-9-1"
        with pytest.raises(ConnectionLost, match=r"does not answer the header of 1\.0"):
            await chosen([V1_0, OLDER], url, secret=True)
        monkeypatch.setattr("amqp10.net._connecting.probe.connect", with_tls)
        asked.clear()
        with pytest.raises(ConnectionLost, match=r"does not answer the header of 1\.0"):
            await chosen([V1_0, OLDER], url)
        assert asked == [SASL, SASL, SASL, OLDER.headers[0]]


async def test_an_answer_that_is_lost_once() -> None:
    """It is asked for again."""
    answers = {OLDER.headers[0]: b"\x01"}
    late: Iterator[bytes] = iter((b"", SASL))

    class Late(dict[bytes, bytes]):
        def get(self, header: bytes, default: object = None) -> bytes:
            return answers.get(header) or next(late)

    async with serving(Late()) as url:
        assert await chosen([V1_0, OLDER], url, secret=True) == "1.0"


def test_what_auto_chooses_from() -> None:
    """No draft, whatever its name; and where a header is to bring TLS, only the dialect that has such a header."""
    draft = replace(V1_0, name="x", automatic=False)
    assert {each.name for each in dialects()} - {each.name for each in automatic(dialects(), TransportOptions())} == {
        "0-9-draft"
    }
    assert automatic([V1_0, OLDER, draft], TransportOptions()) == [V1_0, OLDER]
    assert automatic([V1_0, OLDER, draft], TransportOptions(tls_upgrade=True)) == [V1_0]

"""Servers whose node `$cbs` answers anything, or nothing: links are refused with an error that repeats no token."""

from __future__ import annotations

import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from amqp10 import AuthenticationFailed, CbsTokens, Connection, Token
from amqp10.broker.internals import memory_streams
from amqp10.messaging import AmqpValue, Message
from amqp10.types import Decimal32, Int

from ...kit.hostile.cbs_server import Answers, Server

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

TOKEN = "the-token-that-nobody-may-see"


@asynccontextmanager
async def connected(answers: Answers | None) -> AsyncIterator[Connection]:
    """A client of such a server."""

    async def token(scope: str) -> Token:
        return Token(TOKEN, time.time() + 600)

    tokens = CbsTokens(token, timeout=0.3)
    here, there = memory_streams()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Server(answers).serve, there)
        with anyio.fail_after(60):
            async with Connection.over(here, secure=True, tokens=tokens, close_timeout=1) as connection:
                yield connection
        tasks.cancel_scope.cancel()


def answered(request: Message, status: Any = 202, text: Any = "", **said: Any) -> Message:
    properties = {"status-code": Int(status) if type(status) is int and status < 1000 else status}
    properties["status-description"] = text
    correlation = {"correlation_id": request.message_id} | said
    return Message(AmqpValue(None), application_properties=properties, **correlation)


async def refused(answers: Answers | None) -> str:
    """The error of a link."""
    async with connected(answers) as connection:
        with pytest.raises(AuthenticationFailed) as error:
            async with connection.sender("q"):
                pytest.fail("the peer has not taken the token")
    assert TOKEN not in "".join(traceback.format_exception(error.value))
    return str(error.value)


@pytest.mark.parametrize(
    "answers",
    [
        lambda request: [],
        lambda request: [b"\xff\xff", b""],
        lambda request: [answered(request, correlation_id=b"another's"), answered(request, correlation_id=None)],
        lambda request: [answered(request, correlation_id=b"%d" % number) for number in range(90)],
    ],
    ids=["nothing", "no message", "others", "many others"],
)
async def test_no_answer(answers: Answers) -> None:
    """Nothing that answers the request: the wait has an end, and the error says what was waited for."""
    assert "the peer did not answer in 0.3 s" in await refused(answers)


@pytest.mark.parametrize("status", ["202", 202.0, None, b"\xca", Decimal32("sNaN"), Int(-1), 2**63 - 1, True])
async def test_odd_status(status: Any) -> None:
    """Only a number that says so means that the token was taken."""
    assert "was refused" in await refused(lambda request: [answered(request, status)])


@pytest.mark.parametrize("text", ["x" * 1_000_000, b"\xff" * 100_000, 5])
async def test_odd_description(text: Any) -> None:
    """It is text, and no more than somebody reads."""
    assert len(await refused(lambda request: [answered(request, Int(401), text)])) < 2000


async def test_repeats_the_token() -> None:
    """A peer that repeats the token in its reason does not bring it into errors and logs."""
    said = await refused(lambda request: [answered(request, Int(401), f"not this one: {request.body}")])
    assert "not this one: <token>" in said
    assert "not this one: <token>" in await refused(None)


async def test_answers_twice() -> None:
    """The first answer counts, and the second is nobody's."""
    asked: list[Message] = []

    def answers(request: Message) -> list[Message | bytes]:
        asked.append(request)
        return [answered(request), answered(request, Int(401))]

    async with connected(answers) as connection, connection.sender("q"), connection.sender("r"):
        assert connection.open
    assert len(asked) == 2


async def test_answers_late() -> None:
    """An answer that comes when nobody waits for it is nobody's, whatever it says; the next token is put anew."""
    late: list[Message] = []

    def answers(request: Message) -> list[Message | bytes]:
        late.append(request)
        if len(late) == 1:
            return []
        return [answered(late[0], Int(401), "late"), answered(late[0]), answered(request)]

    async with connected(answers) as connection:
        with pytest.raises(AuthenticationFailed, match=r"the peer did not answer in 0\.3 s"):
            async with connection.sender("q"):
                pytest.fail("the peer has not taken the token")
        async with connection.sender("q"), connection.sender("q"):
            pass
    assert len(late) == 2


async def test_answers_of_before_the_end() -> None:
    """Late answers that say yes, to requests that were given up, let no link in."""
    asked: list[Message] = []

    def answers(request: Message) -> list[Message | bytes]:
        asked.append(request)
        return [answered(each) for each in asked[:-1]]

    async with connected(answers) as connection:
        for _ in range(3):
            with pytest.raises(AuthenticationFailed, match="did not answer"):
                async with connection.sender("q"):
                    pytest.fail("the peer has not taken the token")
    assert len(asked) == 3

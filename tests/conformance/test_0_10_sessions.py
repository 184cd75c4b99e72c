"""AMQP 0-10: what sessions say of their commands, octet by octet, as a client hears the embedded broker."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.dialects.v0_10.wire.commands import (
    DeliveryProperties,
    DtxEnd,
    DtxPrepare,
    DtxRollback,
    DtxSelect,
    DtxStart,
    ExecutionException,
    ExecutionResult,
    MessageFlow,
    MessageReject,
    MessageSubscribe,
    MessageTransfer,
    QueueDeclare,
    QueueDelete,
    QueueQuery,
    QueueQueryResult,
    TxCommit,
    TxSelect,
    Xid,
)
from amqp10.dialects.v0_10.wire.controls import (
    ConnectionOpenOk,
    SessionAttach,
    SessionAttached,
    SessionCompleted,
    SessionConfirmed,
    SessionDetach,
    SessionDetached,
    SessionExpected,
    SessionFlush,
)
from amqp10.dialects.v0_10.wire.frames import encode_control
from amqp10.dialects.v0_10.wire.struct import Command

from ..kit.broker.older_clients import Client010
from ..kit.broker.wire import queue_of


@pytest.fixture
def client() -> Client010:
    """A client with a session."""
    return Client010()


def kinds(said: list[Any]) -> list[type]:
    return [type(each) for each in said]


@pytest.mark.spec("0-10 session.detached", "the control names the session that is detached, or that is not attached")
@pytest.mark.parametrize(("name", "code"), [(b"nobody's", 3), (b"", 3)])
def test_detached_names_the_session(client: Client010, name: bytes, code: int) -> None:
    """A client that detaches a session that is not attached on the channel is told which session that was."""
    assert client.say(SessionDetach(name), channel=7) == [SessionDetached(name, code)]


@pytest.mark.spec("0-10 session.detach", "commands that came before the detach are executed")
@pytest.mark.parametrize("before", [(), (QueueDeclare("other"),), (TxSelect(), TxCommit())])
def test_what_comes_before_a_detach(client: Client010, before: tuple[Command, ...]) -> None:
    """However the commands before still wait as the detach comes, each is completed before its answer."""
    client.served.vhost.declare("q", "queue")
    header = DeliveryProperties(routing_key="q").encode_struct32()
    transfers = [client.encode(MessageTransfer("", 0, 0), header, b"m")] * 2
    detach = encode_control(1, SessionDetach(b"name").encode())
    said = client.put(b"".join([*map(client.encode, before), *transfers, detach]))
    assert queue_of(client.served.vhost, "q").depth == (2 if TxSelect() not in before else 0)
    assert said[-1] == SessionDetached(b"name", 0)
    assert client.do(QueueQuery("q")) == [SessionDetached(b"", 3)]


@pytest.mark.spec("0-10 session.detach", "a session that fails before its detach is answered is detached")
def test_a_failure_before_a_detach(client: Client010) -> None:
    """The client hears both the exception and the answer to its detach, and the channel is free."""
    commands = client.encode(QueueDeclare("a")) + client.encode(QueueDelete("absent"))
    said = client.put(commands + encode_control(1, SessionDetach(b"name").encode()))
    assert [each.error_code for each in said if isinstance(each, ExecutionException)] == [404]
    assert said[-1] == SessionDetached(b"name", 0)
    assert kinds(client.say(SessionAttach(b"second")))[0] is SessionAttached


@pytest.mark.spec("0-10 session.attach", "a channel that is another session's is busy, and the other session goes on")
def test_a_channel_in_use(client: Client010) -> None:
    """The session that was to be attached is named, and the one that is there does what comes next."""
    assert client.say(SessionAttach(b"another")) == [SessionDetached(b"another", 2)]
    assert client.refusal(QueueQuery("q")) is None


@pytest.mark.spec("0-10 session.flush", "a flush is answered when all commands before it are executed")
@pytest.mark.parametrize("flush", [SessionFlush(completed=True), SessionFlush(confirmed=True)])
def test_exceptions_come_before_the_answer_to_a_flush(client: Client010, flush: SessionFlush) -> None:
    """A command that fails is told before the answer, which would say nothing of it, in whatever portions they come."""
    commands = client.encode(QueueDeclare("a")) + client.encode(QueueDelete("absent"))
    said = client.put(commands + encode_control(1, flush.encode()))
    exceptions = [place for place, each in enumerate(said) if isinstance(each, ExecutionException)]
    answers = [place for place, each in enumerate(said) if isinstance(each, SessionConfirmed)]
    assert [said[place].error_code for place in exceptions] == [404]
    assert all(place > exceptions[0] for place in answers)


@pytest.mark.spec("0-10 session.flush", "the answer to completed lists all executed commands")
def test_the_answer_to_a_flush(client: Client010) -> None:
    """Everything before it is in the answer, also what the broker was still busy with as the flush came."""
    commands = client.encode(QueueDeclare("a")) + client.encode(QueueDelete("a"))
    said = client.put(commands + encode_control(1, SessionFlush(completed=True).encode()))
    assert [each.commands for each in said if isinstance(each, SessionCompleted)][-1] == ((0, 1),)
    said = client.say(SessionFlush(expected=True, confirmed=True, completed=True))
    assert kinds(said) == [SessionExpected, SessionConfirmed, SessionCompleted]
    assert said[0].commands == ((2, 2),)


@pytest.mark.spec("0-10 session.flush", "a message is executed when the broker has taken charge of it or refused it")
def test_a_transfer_before_a_flush(client: Client010) -> None:
    """Also the exception that a message to an exchange that is not there costs is told before."""
    transfer = client.encode(MessageTransfer("absent", 0, 0), b"", b"m")
    said = client.put(transfer + encode_control(1, SessionFlush(confirmed=True).encode()))
    assert [each.error_code for each in said if isinstance(each, ExecutionException)] == [404]
    assert SessionConfirmed not in kinds(said)


@pytest.mark.deviation(
    "0-10 connection.open", "without a virtual host it means the default one", "Qpid's Python client never names one"
)
def test_open_without_a_virtual_host() -> None:
    """The field is left out, though the specification requires it: the connection is open."""
    said = Client010(opens=False).put(bytes.fromhex("0f000010000000000000000001070000"))
    assert kinds(said) == [ConnectionOpenOk]


@pytest.mark.deviation("0-10 session.command-point", "an omitted command-offset is 0", "clients omit it")
def test_command_point_without_an_offset(client: Client010) -> None:
    """The next command is the one that was named."""
    assert kinds(client.say(SessionAttach(b"second"), channel=2))[0] is SessionAttached
    one_field = bytes.fromhex("0207 0100 00000005")
    assert client.put(encode_control(2, one_field)) == []
    said = client.put(client.encode(QueueDeclare("b"), channel=2))
    assert [each.commands for each in said if isinstance(each, SessionCompleted)] == [((5, 5),)]


# Messages


@pytest.mark.spec(
    "0-10 message.delivery-properties", "an immediate message that no subscription can take is unroutable"
)
@pytest.mark.parametrize("credit", [None, 0, 1])
@pytest.mark.parametrize("discards", [False, True])
def test_immediate(client: Client010, credit: int | None, discards: bool) -> None:
    """Without a subscription, or with one that has no credit, it is rejected unless it is to be discarded."""
    client.do(QueueDeclare("q"))
    if credit is not None:
        client.do(MessageSubscribe("q", "d", 1, 0))
        client.do(MessageFlow("d", 1, 0xFFFF_FFFF))
        client.do(MessageFlow("d", 0, credit))
    header = DeliveryProperties(routing_key="q", immediate=True, discard_unroutable=discards).encode_struct32()
    said = client.do(MessageTransfer("", 0, 0), header, b"m")
    rejected = [each.code for each in said if isinstance(each, MessageReject)]
    assert rejected == ([] if discards or credit else [1])
    assert (MessageTransfer in kinds(said)) is (credit == 1)
    (found,) = [each.value for each in client.do(QueueQuery("q")) if isinstance(each, ExecutionResult)]
    assert isinstance(found, QueueQueryResult)
    assert found.message_count == 0


@pytest.mark.spec("0-10 execution.exception", "the exception names the command that failed by its class and code")
@pytest.mark.parametrize(
    ("command", "header", "code"),
    [(MessageSubscribe("absent", "d", 0, 0), None, (4, 7)), (MessageTransfer("absent", 0, 0), b"", (4, 1))],
    ids=["subscribe", "transfer"],
)
def test_what_failed(client: Client010, command: Command, header: bytes | None, code: tuple[int, int]) -> None:
    """Also where the broker refuses it after the engine has taken it."""
    said = client.do(command, header, header)
    (failed,) = [each for each in said if isinstance(each, ExecutionException)]
    assert (failed.error_code, failed.class_code, failed.command_code) == (404, *code)


# Branches of distributed transactions

XID = Xid(1, b"global", b"branch")


@pytest.mark.spec("0-10 dtx.start", "a branch that was seen before is joined or resumed, or else not allowed")
@pytest.mark.parametrize("prepared", [False, True])
def test_a_branch_of_another_connection(prepared: bool) -> None:
    """Nobody else can start it, whether it is open or prepared; once it has ended, its xid may be used again."""
    first = Client010()
    vhost = first.served.vhost
    for command in (DtxSelect(), DtxStart(XID), *([DtxEnd(XID), DtxPrepare(XID)] if prepared else [])):
        first.do(command)
    second = Client010(vhost)
    assert second.refusal(DtxSelect()) is None
    assert second.refusal(DtxStart(XID)) == 530
    for command in [DtxRollback(XID)] if prepared else [DtxEnd(XID), DtxRollback(XID)]:
        assert first.refusal(command) is None
    third = Client010(vhost)
    assert [third.refusal(command) for command in (DtxSelect(), DtxStart(XID))] == [None, None]
    third.engine.receive_eof()
    third.served.settle_down()
    fourth = Client010(vhost)
    assert [fourth.refusal(command) for command in (DtxSelect(), DtxStart(XID))] == [None, None]

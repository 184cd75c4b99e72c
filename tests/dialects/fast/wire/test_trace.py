"""What crosses the wire in AMQP/Fast, as lines: every command, no secret."""

from __future__ import annotations

from amqp10.dialects.fast import DIALECT
from amqp10.dialects.fast.wire.command_table import Command
from amqp10.dialects.fast.wire.commands import (
    ConnectionChallenge,
    ConnectionResponse,
    HandleNotify,
    HandleOpen,
    HandlePrepare,
    HandleSend,
)
from amqp10.dialects.fast.wire.frames import INITIATION, encode_command

SAID = INITIATION + encode_command(
    ConnectionResponse(mechanism="PLAIN", responses={"login": "me", "password": "secret"})
)
SENT = encode_command(HandleSend(handle_id=1, fragment_size=300, partial=True), b"x" * 300)


def test_lines() -> None:
    """One a command, in any portions, with what follows it; tables of logins are not shown."""
    for chunk in (1, 5, 1000):
        tracer = DIALECT.tracer(False)
        data = SAID + SENT
        lines = [line for start in range(0, len(data), chunk) for line in tracer.sent(data[start : start + chunk])]
        assert lines == [
            "> initiation AMQP/Fast 1",
            "> connection-response(mechanism='PLAIN', responses=<secret>)",
            "> handle-send(handle_id=1, fragment_size=300, partial=True) + 300 bytes",
        ]
    answer = encode_command(ConnectionChallenge(mechanisms="PLAIN", challenges={"challenge": "secret"}))
    assert tracer.received(answer) == ["< connection-challenge(version=1, mechanisms='PLAIN', challenges=<secret>)"]


def test_bodies() -> None:
    """The beginning of messages is shown if that is asked for."""
    tracer = DIALECT.tracer(True)
    tracer.sent(INITIATION)
    (line,) = tracer.sent(SENT)
    assert line.endswith(f"+ 300 bytes {b'x' * 256!r}...")


def test_tokens() -> None:
    """L9: what goes to and from `$cbs` is not shown, by the handle's name or the message's, in fragments too."""
    tracer = DIALECT.tracer(True)
    tracer.sent(INITIATION)
    tracer.sent(encode_command(HandleOpen(handle_id=1, dest_name="$cbs")))
    tracer.sent(encode_command(HandleOpen(handle_id=2)))

    def shown(command: Command, received: bool = False) -> bool:
        data = encode_command(command, b"Shared")
        (line,) = tracer.received(data) if received else tracer.sent(data)
        assert line.endswith("<secret>") or "Shared" in line
        return "Shared" in line

    tracer.received(encode_command(ConnectionChallenge()))
    assert not shown(HandleSend(handle_id=1, fragment_size=6))
    assert not shown(HandleNotify(handle_id=1, fragment_size=6), received=True)
    assert shown(HandleSend(handle_id=2, fragment_size=6, dest_name="q"))
    assert not shown(HandleSend(handle_id=2, fragment_size=6, dest_name="$cbs"))
    for dest_name in ("$cbs", "q"):
        assert not shown(HandleSend(handle_id=2, fragment_size=6, partial=True))
        assert not shown(HandleSend(handle_id=2, fragment_size=6, dest_name=dest_name))
    assert not shown(HandlePrepare(handle_id=2, fragment_size=6))
    assert shown(HandleSend(handle_id=2, fragment_size=6, dest_name="q"))
    tracer.sent(encode_command(HandleOpen(handle_id=1, dest_name="q")))
    assert shown(HandleSend(handle_id=1, fragment_size=6, partial=True))
    assert shown(HandleSend(handle_id=1, fragment_size=6))
    assert shown(HandlePrepare(handle_id=1, fragment_size=6))


def test_nonsense() -> None:
    """Bytes that are not of this protocol are reported as such, and counted from there on."""
    tracer = DIALECT.tracer(False)
    (line,) = tracer.received(b"\0\3\x0e\1\0")
    assert line.startswith("< no commands from here on: ")
    assert tracer.received(b"more") == ["< 4 bytes"]

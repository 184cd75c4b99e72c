"""What crosses the wire in AMQP/Fast, as lines: every command, no secret."""

from __future__ import annotations

from amqp10.dialects.fast import DIALECT
from amqp10.dialects.fast._commands import ConnectionChallenge, ConnectionResponse, HandleSend
from amqp10.dialects.fast._frames import INITIATION, encode_command

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


def test_nonsense() -> None:
    """What is none of this protocol is said to be so, and counted from there on."""
    tracer = DIALECT.tracer(False)
    (line,) = tracer.received(b"\0\3\x0e\1\0")
    assert line.startswith("< no commands from here on: ")
    assert tracer.received(b"more") == ["< 4 bytes"]

"""What peers can do to who watches them by `amqp10 trace`: time, memory, and files that are none."""

from __future__ import annotations

import io

import pytest

from ...kit.inside.cli import Failure, Frame, Recording, UnsettledNumbers, analyze, command, page, read_trace

SERIAL = 1 << 32


def test_many_unsettled() -> None:
    """Deliveries that are never settled are not looked at for each outcome of others."""
    lines = ["Begin(next_outgoing_id=0)", *(f"Transfer(handle=0, delivery_id={number})" for number in range(15_000))]
    lines = [f"[0] {line}" for line in ("Attach(name='x', handle=0, role=False)", *lines)]
    outcome = "[0] Disposition(role=True, first=20000, last=4000000000, settled=True)"
    frames = [Frame(0, 0.0, 1, True, line) for line in lines]
    frames += [Frame(0, 0.0, 1, False, outcome)] * 15_000
    [analysis] = analyze(frames).values()
    assert max(curve.value for curve in analysis.curves.values()) == 15_000


def test_ranges() -> None:
    """A range may go around the end of the numbers; what is not there is passed over."""
    out = UnsettledNumbers()
    for number in (SERIAL - 2, SERIAL - 1, 0, 1, 7):
        out.add(number, float(number % 10))
    assert out.remove(2, 6) == {}
    assert set(out.remove(SERIAL - 1, 0)) == {SERIAL - 1, 0}
    assert set(out.since) == {SERIAL - 2, 1, 7}
    assert out.remove(0, SERIAL) == {SERIAL - 2: 4.0, 1: 1.0, 7: 7.0}
    assert not out.since


def test_many_destinations_and_handles() -> None:
    """What is granted to many is not looked at for each that completes: ranges of others cost nothing."""
    destinations = [f"[1] message.flow(destination='{number}', unit=0, value=1)" for number in range(2000)]
    handles = [f"handle-open(channel_id=1, handle_id={number})" for number in range(2000)]
    ranges = ", ".join("(5, 9)" for _ in range(300))
    frames = [Frame(0, 0.0, 1, True, line) for line in ("[1] session.attach(name=b's')", *destinations, *handles)]
    frames += [Frame(0, 0.0, 1, True, f"[1] session.completed(commands=({ranges}))")] * 20
    frames += [Frame(0, 0.0, 1, True, "channel-ack(channel_id=1, message_nbr=4294967295)")] * 2000
    [analysis] = analyze(frames).values()
    assert len(analysis.curves) == 2000


@pytest.mark.parametrize(
    "lines",
    [
        ["> handle-notify(handle_id=1, message_nbr=1, delivered=True)", "> channel-ack(message_nbr=9)"],
        [
            "> handle-open(channel_id=1, handle_id=1)",
            "> handle-consume(handle_id=1, prefetch=1)",
            "< handle-notify(handle_id=1, message_nbr=1, delivered=True)",
            "> handle-open(channel_id=1, handle_id=1)",
            "> channel-ack(channel_id=1, message_nbr=1)",
        ],
        ["> [1] message.cancel(destination='x')", "< [1] session.completed(commands=((9, 1),))"],
        ["> [1] session.attach()", "> [1] session.command-point(command_id=99999999999999999999)"],
        [
            "< [1] session.attached()",
            "> [1] message.flow(unit=0, value=99999999999)",
            "> [1] message.flow(unit=0, value=-9)",
            "< [1] message.transfer()",
            "> [1] message.cancel()",
            "> [1] session.completed(commands=((0, 0),))",
        ],
    ],
)
def test_commands_out_of_place(lines: list[str]) -> None:
    """What names nothing that is known, or comes twice, is passed over."""
    frames = [Frame(0, 0.0, 1, line.startswith(">"), line[2:]) for line in lines]
    assert page(frames, "x")


def test_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless streams do not fill the memory: long lines are cut, and there are so many characters of all."""
    monkeypatch.setattr(command, "MAX_CHARACTERS", 100_000)
    file = io.StringIO()
    recording = Recording(file)
    for _ in range(20):
        recording.add(1, ["< [0] Open(container_id='" + "x" * 50_000 + "')"])
    assert sum(len(frame.text) for frame in recording.frames) < 130_000
    assert (len(recording.frames), recording.left_out) == (6, 14)
    assert file.getvalue().count("\n") == 20
    assert "14 further ones were not kept" in page(recording.frames, "x", recording.left_out)


@pytest.mark.parametrize(
    "line",
    [
        '{"t":1e999,"c":1,"d":">","l":"x"}',
        '{"t":NaN,"c":1,"d":">","l":"x"}',
        '{"t":0,"c":1e999,"d":">","l":"x"}',
        '{"t":0,"c":"<b>","d":">","l":"x"}',
        "[" * 100_000,
        "[]",
    ],
    ids=["infinite", "no number", "infinite connection", "no connection", "deep", "no object"],
)
def test_files_that_are_none(line: str) -> None:
    with pytest.raises(Failure, match="line 1 is not from a trace file"):
        read_trace(io.StringIO(line + "\n"))


@pytest.mark.parametrize(
    "text", ["\\ud800", "\\u202e", "<script>", "[99999999] Open()", "[0] Begin(next_outgoing_id=%s)"]
)
def test_texts_of_files(text: str) -> None:
    """A file from elsewhere is shown, not obeyed, as what was seen on the wire is."""
    text = text.replace("%s", "9" * 5000)
    recording = read_trace(io.StringIO(f'{{"t":0,"c":1,"d":">","l":"{text}"}}\n'))
    shown = page(recording.frames, "x")
    assert shown.encode()
    assert not any(bad in shown for bad in ("<script", "\ud800", "\u202e"))

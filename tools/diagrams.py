"""Draw the diagrams of the pages into docs/images/, for light and dark.

A sequence is a list of steps between two peers, and is drawn from top to bottom. `--check` writes nothing, and fails if
a file is not what is said here. tests/test_docs.py holds HELLO to the frames that the program sends.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import NamedTuple

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
STYLE = """\
text { font: 14px sans-serif; fill: #333 }
.head { font-weight: bold; fill: #111 }
.code { font: 13px monospace }
.note { font-style: italic; fill: #666 }
.bad { fill: #b3261e }
line, path, rect { stroke: #999; fill: none }
.right { stroke: #2a7ae2 }
.left { stroke: #1e8e5a }
.cut { stroke: #b3261e; stroke-dasharray: 6 4 }
.box { fill: #8881 }
marker path { stroke: none }
#to-right path { fill: #2a7ae2 }
#to-left path { fill: #1e8e5a }
@media (prefers-color-scheme: dark) {
  text { fill: #ccc }
  .head { fill: #eee }
  .note { fill: #999 }
  .bad { fill: #f28b82 }
  line, path, rect { stroke: #777 }
  .right { stroke: #6aa7f5 }
  .left { stroke: #57c491 }
  .cut { stroke: #f28b82 }
  #to-right path { fill: #6aa7f5 }
  #to-left path { fill: #57c491 }
}"""
MARKERS = "".join(
    f'<marker id="to-{way}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker>'
    for way in ("right", "left")
)


class Right(NamedTuple):
    """A frame from the left peer to the right one, with what the left peer does beside it."""

    text: str
    beside: str = ""


class Left(NamedTuple):
    """A frame from the right peer to the left one."""

    text: str
    beside: str = ""


class Head(NamedTuple):
    """A heading above the steps that follow."""

    text: str


class Note(NamedTuple):
    """What the peers know or do at this point; between their lines."""

    text: str
    bad: bool = False


class Cut(NamedTuple):
    """The transport is lost here."""

    text: str


Step = Right | Left | Head | Note | Cut


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Return words at a place."""
    return f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def drawn(title: str, width: int, height: int, parts: Iterable[str]) -> str:
    """Return a whole file."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f"<defs>{MARKERS}</defs>",
            *parts,
            "</svg>",
            "",
        ]
    )


def sequence(title: str, peers: tuple[str, str], steps: list[Step], beside: int = 0) -> str:
    """Return a sequence of steps; `beside` is the room at the left for what the left peer does."""
    left, right = beside + 50, beside + 590
    middle, width = (left + right) / 2, beside + 640
    parts = [text(left, 18, peers[0], "head", "middle"), text(right, 18, peers[1], "head", "middle")]
    y = 28
    for step in steps:
        match step:
            case Right() | Left():
                y += 34
                way, start, end = ("right", left, right) if isinstance(step, Right) else ("left", right, left)
                parts.append(text(middle, y - 6, step.text, "code", "middle"))
                ends = f'x1="{start}" y1="{y}" x2="{end}" y2="{y}"'
                parts.append(f'<line {ends} class="{way}" marker-end="url(#to-{way})"/>')
                if step.beside:
                    parts.append(text(left - 12, y + 4, step.beside, "code", "end"))
            case Head():
                y += 40
                parts.append(text(middle, y - 4, step.text, "head", "middle"))
            case Note():
                y += 26
                parts.append(text(middle, y - 4, step.text, "note bad" if step.bad else "note", "middle"))
            case Cut():
                y += 36
                parts.append(f'<line x1="{left - 40}" y1="{y}" x2="{right + 40}" y2="{y}" class="cut"/>')
                parts.append(text(middle, y - 8, step.text, "note bad", "middle"))
    y += 20
    lines = [f'<line x1="{x}" y1="28" x2="{x}" y2="{y}"/>' for x in (left, right)]
    return drawn(title, width, y + 6, [*lines, *parts])


HELLO: list[Step] = [
    Left("SaslMechanisms", "Connection(URL)"),
    Right("SaslInit"),
    Left("SaslOutcome"),
    Right("Open"),
    Left("Open"),
    Right("Begin, Attach", 'connection.sender("orders")'),
    Left("Begin, Attach, Flow: credit"),
    Right("Transfer: the message", "sender.send(...)"),
    Left("Disposition: accepted"),
    Right("Detach"),
    Left("Detach"),
    Right("Attach", 'connection.receiver("orders")'),
    Left("Attach"),
    Right("Flow: credit"),
    Left("Transfer: the message"),
    Right("Flow: give the credit back, Disposition: accepted", "delivery.accept()"),
    Left("Flow: no credit is left"),
    Right("Detach"),
    Left("Detach"),
    Right("End, Close"),
    Left("End, Close"),
]
CREDIT: list[Step] = [
    Right("Flow: credit 2", 'receiver("orders", credit=2)'),
    Left("Transfer: message 1"),
    Left("Transfer: message 2"),
    Note("credit 0: the broker sends nothing more, whatever waits in the queue"),
    Right("Flow: credit 1", "receiver.receive()"),
    Left("Transfer: message 3"),
    Right("Disposition: message 1 accepted", "delivery.accept()"),
    Note("the program takes no message: no credit is granted, this link stands still"),
    Note("the engine has read 1024 frames of all links: it opens the window by itself"),
    Right("Flow: window 2048"),
]
SETTLEMENT: list[Step] = [
    Head('at most once: settle_mode="settled"'),
    Right("Transfer: settled"),
    Note("a cut before it arrives: the message is lost", bad=True),
    Head("at least once: the default"),
    Right("Transfer"),
    Left("Disposition: accepted, settled"),
    Note("a cut before this arrives: the sender sends again, it comes twice", bad=True),
    Head('exactly once: receiver_settle_mode="second"'),
    Right("Transfer"),
    Left("Disposition: accepted"),
    Right("Disposition: settled"),
    Note("a cut anywhere: both ends compare what they hold, and go on"),
]
RESUME: list[Step] = [
    Right("Transfer: message 1"),
    Right("Transfer: message 2"),
    Note("the broker has accepted message 1; message 2 is on its way"),
    Cut("the connection is lost"),
    Note("Reconnect: a pause, then a new connection"),
    Right("Open, Begin"),
    Left("Open, Begin"),
    Right("Attach: unsettled 1 and 2"),
    Left("Attach: unsettled 1, accepted"),
    Note("message 1 is safe: send() returns"),
    Right("Transfer: message 2 again"),
    Left("Disposition: message 2 accepted"),
]


def nested() -> str:
    """Return a connection with its sessions and links, and the nodes that the links lead to."""
    parts = [
        text(80, 30, "your program", "head", "middle"),
        text(660, 30, "broker", "head", "middle"),
        '<rect x="20" y="44" width="120" height="246" rx="8" class="box"/>',
        '<rect x="600" y="44" width="120" height="246" rx="8" class="box"/>',
        '<rect x="150" y="44" width="440" height="246" rx="8"/>',
        text(370, 64, "connection: one transport, one login, heartbeats", "head", "middle"),
    ]
    sessions = [
        (76, "session 0: a window of frames in each direction", [("sender", "orders"), ("receiver", "invoices")]),
        (196, "session 1: a window of its own", [("receiver", "audit")]),
    ]
    for y, title, links in sessions:
        height = 32 + 38 * len(links)
        parts.append(f'<rect x="160" y="{y}" width="420" height="{height}" rx="6" class="box"/>')
        parts.append(text(370, y + 18, title, "", "middle"))
        for number, (role, address) in enumerate(links):
            row = y + 52 + 38 * number
            way, start, end = ("right", 128, 612) if role == "sender" else ("left", 612, 128)
            ends = f'x1="{start}" y1="{row}" x2="{end}" y2="{row}"'
            parts.append(f'<line {ends} class="{way}" marker-end="url(#to-{way})"/>')
            parts.append(text(370, row - 6, "link: messages and credit", "note", "middle"))
            parts.append(text(80, row + 5, role, "code", "middle"))
            parts.append(text(665, row + 5, address, "code", "middle"))
    return drawn("A connection holds sessions, a session holds links", 740, 304, parts)


def diagrams() -> dict[str, str]:
    """Return each file's name and text."""
    client, sender = ("your program", "broker"), ("sender", "receiver")
    return {
        "connection.svg": nested(),
        "credit.svg": sequence("Credit and windows", client, CREDIT, beside=240),
        "hello.svg": sequence("The frames of the first program", client, HELLO, beside=240),
        "resume.svg": sequence("Reconnect and resume", ("sender", "broker"), RESUME),
        "settlement.svg": sequence("Settlement, and who may lose what", sender, SETTLEMENT),
    }


def main() -> int:
    """Write the diagrams, or compare them with the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a file is not what is said here")
    arguments = parser.parse_args()
    for name, new in diagrams().items():
        path = IMAGES / name
        if arguments.check and (not path.exists() or path.read_text(encoding="utf-8") != new):
            print(f"{name} is not what tools/diagrams.py draws: run it", file=sys.stderr)
            return 1
        path.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

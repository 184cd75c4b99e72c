"""A trace as one HTML page without scripts or network access, on which text from frames is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from ...engine.trace_analysis import Curve, Findings, Frame, take_apart
from .analysis import analyze

MAX_SHOWN: Final = 20_000
"""The limit of frames on a page; frames with problems go first, then the earliest others."""

WIDTH: Final = 1000
HEIGHT: Final = 80
STYLE: Final = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; color: #222; }
h1, h2 { font-weight: 600; }
.lanes { display: flex; justify-content: space-between; font-weight: 600; border-bottom: 1px solid #bbb; }
details { border-bottom: 1px solid #eee; }
summary { display: grid; grid-template-columns: 6em 1fr; gap: 1em; cursor: pointer; list-style: none; padding: 2px 0; }
summary .time { color: #777; font-variant-numeric: tabular-nums; }
summary .what { display: flex; gap: .6em; font-family: ui-monospace, monospace; overflow: hidden; white-space: nowrap; }
summary .what::before, summary .what::after { content: ""; flex: 1; min-width: 1em; }
.up .what::before { flex: 0; } .up .what::after { border-bottom: 2px solid #2a6; margin-bottom: .5em; }
.down .what::after { flex: 0; } .down .what::before { border-bottom: 2px solid #26a; margin-bottom: .5em; }
.problem summary { background: #fdd; } .problem b { color: #a00; }
table { border-collapse: collapse; margin: .3em 0 1em 7em; font-family: ui-monospace, monospace; font-size: 12px; }
td, th { text-align: left; vertical-align: top; padding: 0 1em 0 0; overflow-wrap: anywhere; }
svg { width: 100%; height: 80px; background: #f7f7f7; } polyline { fill: none; stroke: #26a; stroke-width: 1.5; }
figure { margin: 1em 0; } figcaption { font-size: 12px; color: #555; }
@media (prefers-color-scheme: dark) {
  body { background: #1b1b1b; color: #ddd; } svg { background: #262626; } details { border-color: #333; }
  .problem summary { background: #522; } .problem b { color: #f99; }
}
"""


def page(frames: list[Frame], title: str, left_out: int = 0) -> str:
    """Return the page.

    Args:
        title: the title, which names the server.
        left_out: the number of frames that were not kept.
    """
    analyses = analyze(frames)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        _summary(frames, analyses, left_out),
    ]
    shown = _choose(frames)
    if len(shown) < len(frames):
        parts.append(
            f"<p>{len(frames) - len(shown)} frames without a problem are not shown; the trace file has all.</p>"
        )
    for number, analysis in analyses.items():
        own = [frame for frame in shown if frame.connection == number]
        parts.append(f'<section><h2 id="c{number}">Connection {number}</h2>')
        parts.extend(_curves(analysis.curves.values(), own))
        parts.append('<div class="lanes"><span>client</span><span>server</span></div>')
        parts.extend(map(_frame, own))
        parts.append("</section>")
    parts.append("</body></html>\n")
    return "\n".join(parts)


def _choose(frames: list[Frame]) -> list[Frame]:
    if len(frames) <= MAX_SHOWN:
        return frames
    room = MAX_SHOWN - sum(bool(frame.problems) for frame in frames)
    chosen = []
    for frame in frames:
        if frame.problems:
            chosen.append(frame)
        elif room > 0:
            chosen.append(frame)
            room -= 1
    return chosen[:MAX_SHOWN]


def _summary(frames: list[Frame], analyses: dict[int, Findings], left_out: int) -> str:
    items = []
    for at, frame in enumerate(frames):
        items += [
            f'<li><a href="#f{frame.number}">{frame.time:.3f} s</a>, connection {frame.connection}: '
            f"{escape(problem)}</li>"
            for problem in frame.problems
        ]
        if len(items) > 1000:
            items.append(f"<li>and more, in {len(frames) - at} further frames</li>")
            break
    for number, analysis in analyses.items():
        items += [f"<li>connection {number}: {escape(problem)}</li>" for problem in analysis.problems]
    count = f"{len(frames)} frames on {len(analyses)} connection{'s' * (len(analyses) != 1)}"
    lost = f"; {left_out} further ones were not kept" if left_out else ""
    found = f"<ul>{''.join(items)}</ul>" if items else "<p>Nothing is wrong with them.</p>"
    return f"<p>{count}{lost}. Secrets and bodies are left out.</p><h2>Problems</h2>{found}"


def _curves(curves: Iterable[Curve], frames: list[Frame]) -> Iterable[str]:
    begin = frames[0].time if frames else 0.0
    end = max(frames[-1].time if frames else 0.0, begin + 0.001)
    for curve in curves:
        if len(curve.points) < 2:
            continue
        highest = max(value for _, value in curve.points) or 1
        steps, before = [], curve.points[0][1]
        for time, value in [*curve.points, (end, curve.value)]:
            x = (min(max(time, begin), end) - begin) / (end - begin) * WIDTH
            steps += [(x, before), (x, value)]
            before = value
        line = " ".join(f"{x:.1f},{HEIGHT - 4 - value / highest * (HEIGHT - 8):.1f}" for x, value in steps)
        yield (
            f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img">'
            f'<polyline points="{line}"/></svg>'
            f"<figcaption>{escape(curve.title)}: 0 to {highest}, at the end {curve.value}; "
            f"{begin:.3f} s to {end:.3f} s</figcaption></figure>"
        )


def _frame(frame: Frame) -> str:
    call = take_apart(frame.text)
    kinds = ["up" if frame.sent else "down", *(["problem"] if frame.problems else [])]
    where = f"[{call.channel}] " if call is not None and frame.text.startswith("[") else ""
    what = frame.text if call is None else f"{where}{call.name} {call.rest}".strip()
    problems = "".join(f" <b>{escape(problem)}</b>" for problem in frame.problems)
    rows = (
        [] if call is None else [f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in call.fields.items()]
    )
    return (
        f'<details class="{" ".join(kinds)}" id="f{frame.number}"><summary>'
        f'<span class="time">{frame.time:.4f}</span><span class="what">{escape(what)}{problems}</span></summary>'
        f"<table>{''.join(rows)}</table></details>"
    )

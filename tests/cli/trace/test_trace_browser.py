"""The page of `amqp10 trace` in a real browser: what it shows, what unfolds, and that it neither runs nor fetches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from amqp10 import Connection, MessageRejected
from amqp10.broker import Broker
from amqp10.cli._trace.page import page
from amqp10.engine.trace_analysis import Frame

from ...kit.processes.browser import Page, browsing, find_browser
from ...kit.processes.tracing import tracing
from ...kit.unavailable import unavailable

pytestmark = [
    pytest.mark.capability("frame trace"),
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
]

NASTY = "<script>window.ran = 1</script><img src=x onerror='window.ran = 1'><style>body{display:none}</style>"
IN_SIGHT = """(at => at.top >= -1 && at.bottom <= innerHeight + 1)(
    document.querySelector(':target').getBoundingClientRect())"""
CURVES = """[...document.querySelectorAll('svg')].map(each => {
    const line = each.querySelector('polyline').getBoundingClientRect(), all = each.getBoundingClientRect();
    return [all.width, all.height, line.width, line.top >= all.top - 1 && line.bottom <= all.bottom + 1];
})"""


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    program = find_browser()
    if program is None:
        unavailable("there is no Chromium: apt install chromium-headless-shell")
    with browsing(program) as found:
        yield found


def frames_of(dialect: str) -> list[Frame]:
    """What crosses when messages are sent and received, and one is refused."""

    async def work() -> list[Frame]:
        arguments = {"x-max-length": 3, "x-overflow": "reject-publish"}
        async with Broker(queues={"q": arguments}) as broker, tracing(broker.url) as (url, recording):
            async with Connection(url, dialect=dialect, container_id=NASTY) as connection:
                async with connection.sender("q") as sender:
                    for number in range(3):
                        await sender.send(number)
                    with pytest.raises(MessageRejected):
                        await sender.send(3)
                async with connection.receiver("q", credit=2) as receiver:
                    for _ in range(3):
                        (await receiver.receive()).accept()
        return recording.frames

    return anyio.run(work, backend="trio")


def wrong_with(tab: Page, file: Path) -> list[object]:
    """What the browser complains of, or fetched beside the file."""
    wrong: list[object] = []
    for name, said in tab.events:
        if name in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            wrong.append(said)
        if name == "Network.requestWillBeSent" and said["request"]["url"].partition("#")[0] != file.as_uri():
            wrong.append(said["request"]["url"])
    return wrong


@pytest.mark.parametrize("dialect", ["1.0", "0-9-1", "0-10"])
def test_a_real_trace(tab: Page, dialect: str, tmp_path: Path) -> None:
    """Each frame is there, folded, and unfolds by a click and by the keyboard; a problem leads to its frame."""
    file = tmp_path / "trace.html"
    frames = frames_of(dialect)
    file.write_text(page(frames, f"a trace of {NASTY}"), encoding="utf-8")
    tab.open(file)
    assert tab.read("document.querySelectorAll('details').length") == len(frames)
    assert tab.read("document.querySelectorAll('details[open]').length") == 0
    unfolding = "details:has(td)"
    assert not tab.read(f"document.querySelector('{unfolding} table').checkVisibility()")
    tab.click(f"{unfolding} summary")
    assert tab.read("document.querySelectorAll('details[open]').length") == 1
    assert tab.read(f"document.querySelector('{unfolding} table').checkVisibility()")
    tab.read("document.querySelector('details:last-of-type summary').focus()")
    tab.press_enter()
    assert tab.read("document.querySelectorAll('details[open]').length") == 2

    problem = next(frame for frame in frames if frame.problems)
    tab.click(f'a[href="#f{problem.number}"]')
    assert tab.read("location.hash") == f"#f{problem.number}"
    assert tab.read(IN_SIGHT)

    curves = tab.read(CURVES)
    assert curves
    assert all(width > 500 and height == 80 and line > 0 and inside for width, height, line, inside in curves)
    assert tab.read("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert tab.read("[typeof window.ran, document.querySelectorAll('script, img').length]") == ["undefined", 0]
    assert NASTY in tab.read("document.querySelector('h1').innerText")
    assert wrong_with(tab, file) == []


def test_light_and_dark(tab: Page, tmp_path: Path) -> None:
    """It follows what the reader's system asks for."""
    file = tmp_path / "trace.html"
    file.write_text(page([Frame(0, 0.0, 1, True, "[0] Close()")], "a trace"), encoding="utf-8")
    tab.open(file)
    seen = []
    for scheme in ("light", "dark"):
        tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        seen.append(tab.read("getComputedStyle(document.body).color"))
    assert seen == ["rgb(34, 34, 34)", "rgb(221, 221, 221)"]
    assert wrong_with(tab, file) == []


def test_a_script_in_the_page_would_not_run(tab: Page, tmp_path: Path) -> None:
    """The page's own policy forbids it: should something ever get through, nothing runs and nothing is fetched."""
    file = tmp_path / "trace.html"
    text = page([Frame(0, 0.0, 1, True, "[0] Close()")], "a trace")
    file.write_text(text.replace("<h1>", f"{NASTY}<h1>"), encoding="utf-8")
    tab.open(file)
    assert tab.read("typeof window.ran") == "undefined"
    assert [said for said in wrong_with(tab, file) if "Content Security Policy" in str(said)] != []

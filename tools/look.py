"""Look at the site as a browser shows it: four widths, light and dark.

    pip install playwright                    # and a Chromium: `apt install chromium`, or `playwright install chromium`
    make docs
    npm pack axe-core                         # for --axe: its package/axe.min.js
    python tools/look.py [--shots FOLDER] [--axe FILE] [--only WIDTH-SCHEME] [PAGE ...]

It serves site/ itself, opens each page, and reports what scrolls sideways, what the console says, and what is not
found. `--shots` keeps a picture of each page. `--axe` reports what axe-core finds serious for people who read with a
keyboard, a screen reader or little contrast. It exits with 1 if it reported something.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WIDTHS = (390, 820, 1240, 1440)
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SCHEMES = ("light", "dark")
WIDER = """() => {
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    const beyond = [...document.querySelectorAll('.md-content *')].filter(each =>
        each.getBoundingClientRect().right > innerWidth + 1 && !each.closest('pre, .md-typeset__scrollwrap'));
    const cut = [...document.querySelectorAll('.md-typeset pre > code')].filter(each =>
        innerWidth >= 1200 && each.scrollWidth > each.clientWidth + 1).map(each => each.innerText.split('\\n')
        .reduce((one, other) => other.length > one.length ? other : one));
    const tables = [...document.querySelectorAll('.md-typeset__scrollwrap')].filter(each =>
        innerWidth >= 1200 && each.scrollWidth > each.clientWidth + 1).map(each => each.innerText.slice(0, 60));
    return [wide, beyond.slice(0, 2).map(each => each.outerHTML.slice(0, 120)), cut, tables];
}"""

SERIOUS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
    .filter(each => ["serious", "critical"].includes(each.impact))
    .map(each => `${each.id}: ${each.nodes.length}, first ${each.nodes[0].html.slice(0, 120)}`)"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and writes no log."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def look(page: Any, url: str, name: str, shot: Path | None, axe: str) -> list[str]:
    """Open a page, and return what is wrong with it."""
    wrong: list[str] = []
    page.on("console", lambda each: wrong.append(f"console: {each.text}") if each.type == "error" else None)
    page.on("pageerror", lambda each: wrong.append(f"error: {each}"))
    page.on("response", lambda each: wrong.append(f"{each.status}: {each.url}") if each.status >= 400 else None)
    page.set_default_timeout(180_000)  # a busy machine draws the largest pages in a minute
    page.goto(url + name)
    page.wait_for_timeout(100)
    wide, beyond, cut, tables = page.evaluate(WIDER)
    if wide > 0:
        wrong.append(f"scrolls sideways by {wide} px: {beyond}")
    wrong += [f"a line of code is cut: {each}" for each in cut]
    wrong += [f"a table is wider than the page: {each!r}" for each in tables]
    if axe:
        page.evaluate(axe)
        wrong += page.evaluate(SERIOUS)
    if shot is not None:
        page.screenshot(path=shot, full_page=True)
    return wrong


def main() -> int:
    """Look at the pages that were named, or at all."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="such as build/worker/; every page if none is named")
    parser.add_argument("--site", type=Path, default=ROOT / "site")
    parser.add_argument("--shots", type=Path, help="a folder for pictures")
    parser.add_argument("--axe", type=Path, help="axe.min.js of axe-core")
    every = [f"{width}-{scheme}" for scheme in SCHEMES for width in WIDTHS]
    parser.add_argument("--only", choices=every, action="append", metavar="WIDTH-SCHEME", help="such as 390-dark")
    arguments = parser.parse_args()
    axe = arguments.axe.read_text(encoding="utf-8") if arguments.axe else ""
    found = sorted(path.parent.relative_to(arguments.site).as_posix() for path in arguments.site.rglob("index.html"))
    names = arguments.pages or ["" if each == "." else f"{each}/" for each in found]
    if arguments.shots:
        arguments.shots.mkdir(parents=True, exist_ok=True)
    bad = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(arguments.site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=next(filter(None, map(shutil.which, PROGRAMS)), None))
        for scheme in SCHEMES:
            for width in WIDTHS:
                if f"{width}-{scheme}" not in (arguments.only or every):
                    continue
                context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
                context.route(lambda each: not each.startswith(url), lambda route: route.abort())  # fonts
                for name in names:
                    page = context.new_page()
                    title = f"{name.strip('/').replace('/', '-') or 'index'}-{width}-{scheme}"
                    shot = arguments.shots and arguments.shots / f"{title}.png"
                    wrong = [each for each in look(page, url, name, shot, axe) if "ERR_FAILED" not in each]
                    bad += len(wrong)
                    for each in dict.fromkeys(wrong):
                        print(f"{title}: {each}", flush=True)
                    page.close()
                context.close()
        browser.close()
    server.shutdown()
    print(f"{len(names)} pages, {', '.join(arguments.only or every)}: {bad} faults")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())

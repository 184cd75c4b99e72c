"""Show each example of the site twice, on asyncio and on trio, in tabs that change together: an extension of Markdown.

The examples run on both: they end with `anyio.run(main)`, which is asyncio unless it is told otherwise. A program for
one of the two begins by its own `run`, and so do those in the tabs. tests/test_examples.py runs both forms.
"""

from __future__ import annotations

import re
import sys
import textwrap

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

BLOCK = re.compile(r"^<!-- examples/[\w/]+\.py -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = re.compile(r"^(\s*)anyio\.run\(([\w.]+)(?:, (.*))?\)$", re.MULTILINE)
IMPORT = "import anyio\n"


def asyncio_form(source: str) -> str:
    """Return an example as it begins on asyncio.

    Raises:
        ValueError: it does not end with `anyio.run`.
    """
    source = _begun_by(source, r"\1asyncio.run(\2(\3))")
    first = re.search(r"^(?:import|from) (\w+)", source, re.MULTILINE)
    assert first is not None
    above = "import asyncio\n" if first[1] in sys.stdlib_module_names else "import asyncio\n\n"
    return source[: first.start()] + above + source[first.start() :]


def trio_form(source: str) -> str:
    """Return an example as it begins on trio.

    Raises:
        ValueError: it does not end with `anyio.run`.
    """
    last = source.index(IMPORT) + len(IMPORT)
    while other := re.match(r"import [a-t]\w*\n", source[last:]):  # the others of its paragraph that come before it
        last += other.end()
    return _begun_by(source[:last] + "import trio\n" + source[last:], r"\1trio.run(\2, \3)").replace(", )", ")")


def _begun_by(source: str, run: str) -> str:
    """Return the example with another `run`, and without the import of anyio where nothing else needs that."""
    source, found = RUN.subn(run, source)
    if not found:
        raise ValueError("the example does not end with anyio.run(main)")
    if not re.search(r"\banyio\.(?!\W)", source):
        source = re.sub(r"\n\n\n(?=from |import )", "\n\n", source.replace(IMPORT, "", 1))
    return source


def in_tabs(match: re.Match[str]) -> str:
    """Return the two tabs of an example; one block where it runs without either."""
    source = match[1]
    if "anyio.run(" not in source:
        return match[0]
    tabs = {"asyncio": asyncio_form(source), "trio": trio_form(source)}
    blocks = {name: textwrap.indent(f"```python\n{text.rstrip()}\n```", "    ") for name, text in tabs.items()}
    return "\n\n".join(f'=== "{name}"\n\n{block}' for name, block in blocks.items())


class Tabs(Preprocessor):
    """Puts every example of a page into tabs."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines of the page with its tabs."""
        return BLOCK.sub(in_tabs, "\n".join(lines)).split("\n")


class TabsExtension(Extension):
    """Asks for the tabs before the blocks of code are found."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (a name of Markdown)
        """Python-Markdown calls this once: `fenced_code_block` has the priority 25, and comments are taken at 20."""
        md.preprocessors.register(Tabs(md), "tabs", 28)


def makeExtension() -> TabsExtension:  # noqa: N802 (a name of Markdown)
    """Return the extension; Python-Markdown calls this."""
    return TabsExtension()

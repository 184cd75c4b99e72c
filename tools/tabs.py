"""Show each example of the site twice, on asyncio and on trio, in tabs that change together: an extension of Markdown.

The examples are written for trio. What differs on asyncio is a matter of words, so the other form is made from it, and
tests/test_examples.py runs both.
"""

from __future__ import annotations

import re
import sys
import textwrap

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

BLOCK = re.compile(r"^<!-- examples/[\w/]+\.py -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGES = (
    (r"^import trio\n", ""),
    (r"\btrio\.open_nursery\(\) as nursery\b", "asyncio.TaskGroup() as tasks"),
    (r"\bnursery\.start_soon\((\w+)(?:, (.*))?\)$", r"tasks.create_task(\1(\2))"),
    (r"\btrio\.run\(([\w.]+)(?:, (.*))?\)$", r"asyncio.run(\1(\2))"),
    (r"\btrio\.(Event|sleep)\b", r"asyncio.\1"),
    (r"\n\n\n(?=from |import )", "\n\n"),
)


def asyncio_form(source: str) -> str:
    """Return an example as it is on asyncio.

    Raises:
        ValueError: it uses something of trio that is not in the table above.
    """
    for pattern, replacement in CHANGES:
        source = re.sub(pattern, replacement, source, flags=re.MULTILINE)
    first = re.search(r"^(?:import|from) (\w+)", source, re.MULTILINE)
    if first is None or (left := re.search(r"^.*\btrio\..*", source, re.MULTILINE)):
        raise ValueError(f"no form for asyncio: {left[0].strip() if first else 'no import'}")
    above = "import asyncio\n" if first[1] in sys.stdlib_module_names else "import asyncio\n\n"
    return source[: first.start()] + above + source[first.start() :]


def in_tabs(match: re.Match[str]) -> str:
    """Return the two tabs of an example; one block where it runs without either."""
    source = match[1]
    if "trio.run(" not in source:
        return match[0]
    tabs = {"asyncio": asyncio_form(source), "trio": source}
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

"""The site builds without a warning, and what it says of names is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import amqp10

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_site_builds_without_warnings(tmp_path: Path) -> None:
    """`mkdocs build --strict`: every link, snippet and reference is there."""
    ended = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        env={"PATH": "", "NO_MKDOCS_2_WARNING": "true", "DISABLE_MKDOCS_2_WARNING": "true"},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (tmp_path / "site" / "index.html").is_file()


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.name)
def test_names_in_the_pages_exist(path: Path) -> None:
    """Whatever a page imports from amqp10 can be imported."""
    for names in re.findall(r"^from amqp10 import (.+)$", path.read_text(), re.MULTILINE):
        for name in names.split(","):
            assert hasattr(amqp10, name.strip()), f"{path.name}: amqp10.{name.strip()}"

"""What git tracks."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent

BINARY = {"docs/images/trace.png"}
"""The files that are not text, and are meant to be tracked."""


def test_no_other_file_is_binary() -> None:
    """A file that is not text is tracked only if it is named here: others were left by a program, and added unseen."""
    command = ["git", "ls-files", "--eol"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(listed) > 1000
    assert {line.partition("\t")[2] for line in listed if line.startswith("i/-text")} == BINARY

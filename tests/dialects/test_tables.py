"""The declarations of methods, commands, controls and structs are those of the tables of their dialects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

ROOT = Path(__file__).resolve().parents[2]
WIRE = "src/amqp10/dialects/{}/wire"
MODULES = {
    "v0_9": ("methods.py",),
    "v0_10": ("commands.py", "controls.py"),
    "fast": ("commands.py",),
}


def check(root: Path) -> str:
    """Run `tables.py --check` in the folder `root`; return its output, "" for success."""
    done = subprocess.run(
        [sys.executable, root / "tools" / "tables.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) == (done.stdout + done.stderr == "")
    return done.stdout


def test_up_to_date() -> None:
    """The modules are what `make tables` writes."""
    assert check(ROOT) == ""


@pytest.mark.parametrize("dialect", MODULES)
def test_stale(dialect: str, tmp_path: Path) -> None:
    """A module that was changed by hand is named."""
    copytree(ROOT / "tools", tmp_path / "tools")
    for each in MODULES:
        copytree(ROOT / WIRE.format(each), tmp_path / WIRE.format(each))
    for name in MODULES[dialect]:
        with (tmp_path / WIRE.format(dialect) / name).open("a") as module:
            module.write("# by hand\n")
    lines = check(tmp_path).splitlines()
    assert [line.split()[0].removeprefix(WIRE.format(dialect) + "/") for line in lines] == sorted(
        MODULES[dialect], reverse=True
    )

"""This client with its compiled part, built for the runs of its variant "compiled"."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "compiled"


def installed() -> Path:
    """The folder to import it from, made of this tree as it is.

    Raises:
        SystemExit: it cannot be built here.
    """
    shutil.rmtree(HOME, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(HOME), str(ROOT)]
    print("building the compiled part", file=sys.stderr)
    done = subprocess.run(
        command, env=os.environ | {"AMQP10_COMPILE": "1"}, capture_output=True, text=True, check=False
    )
    wheels = [each for each in HOME.glob("amqp10-*.whl") if not each.name.endswith("-none-any.whl")]
    if not wheels:
        sys.exit(f"{done.stdout}{done.stderr}\nthe compiled part cannot be built here")
    with ZipFile(wheels[0]) as packed:
        packed.extractall(HOME / "amqp10")
    return HOME / "amqp10"

"""The clients of other languages, and a faster counterpart: built from `peers/native` with what the machine has.

Each needs one tool: go for go-amqp, cargo for fe2o3-amqp, npm for rhea, rustc for the counterpart. Versions are
pinned beside the sources. What is built lies in `$AMQP10_BENCH_HOME` (default `~/.cache/amqp10-bench`), nothing here.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "peers" / "native"
HOME = Path(os.environ.get("AMQP10_BENCH_HOME", "~/.cache/amqp10-bench")).expanduser()


@dataclass(frozen=True)
class Program:
    """Something to build and run.

    Attributes:
        language: what it is written in.
        tool: the command that must be there.
        source: its folder in `peers/native`.
        build: the commands, run in a copy of the sources.
        command: what runs it then.
    """

    language: str
    tool: str
    source: str
    build: tuple[tuple[str, ...], ...]
    command: tuple[str, ...]

    @property
    def place(self) -> Path:
        return HOME / self.source

    def ready(self) -> list[str] | None:
        """The command that runs it, built if it has to be; None where that cannot be done, which is said."""
        if shutil.which(self.tool) is None:
            print(f"{self.source}: left out, there is no {self.tool}", file=sys.stderr)
            return None
        stamp = self.place / "built-from"
        digest = self._digest()
        if not stamp.exists() or stamp.read_text() != digest:
            print(f"{self.source}: building", file=sys.stderr)
            self._copy()
            for each in self.build:
                if subprocess.run(each, cwd=self.place, check=False, stdout=sys.stderr).returncode:
                    print(f"{self.source}: left out, it could not be built", file=sys.stderr)
                    return None
            stamp.write_text(digest)
        return [part.replace("PLACE", str(self.place)) for part in self.command]

    def _files(self) -> list[Path]:
        return sorted(path for path in (SOURCES / self.source).rglob("*") if path.is_file())

    def _digest(self) -> str:
        digest = hashlib.sha256(repr(self.build).encode())
        for path in self._files():
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def _copy(self) -> None:
        for path in self._files():
            target = self.place / path.relative_to(SOURCES / self.source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


CLIENTS = {
    "go-amqp": Program("Go", "go", "go", (("go", "build", "-o", "peer", "."),), ("PLACE/peer",)),
    "fe2o3-amqp": Program(
        "Rust", "cargo", "rust", (("cargo", "build", "-q", "--release"),), ("PLACE/target/release/fe2o3-peer",)
    ),
    "rhea": Program(
        "JavaScript", "npm", "rhea", (("npm", "install", "--silent"),), ("node", "PLACE/rhea_peer.js")
    ),
}  # fmt: skip
PINS = {
    "go-amqp": ("go/go.mod", r"go-amqp v([\d.]+)", "Go", ("go", "version")),
    "fe2o3-amqp": ("rust/Cargo.toml", r'fe2o3-amqp = "=([\d.]+)"', "Rust", ("rustc", "--version")),
    "rhea": ("rhea/package.json", r'"rhea": "([\d.]+)"', "Node", ("node", "--version")),
}
"""Where the version of each stands, and what tells that of its language."""


def versions(names: Iterable[str]) -> str:
    """Of clients that are ready, and in brackets of what builds or runs them."""
    told = []
    for name in names:
        file, pattern, language, command = PINS[name]
        pinned = re.search(pattern, (SOURCES / file).read_text())
        its = re.search(r"\d[\d.]+\d", subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        told.append(f"{name} {pinned[1] if pinned else ''} ({language} {its[0] if its else ''})")
    return ", ".join(told)


COUNTERPART = Program(
    "Rust",
    "rustc",
    "counterpart",
    (("rustc", "--edition", "2021", "-O", "-C", "target-cpu=native", "-o", "counterpart", "main.rs"),),
    ("PLACE/counterpart",),
)

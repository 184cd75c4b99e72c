"""PostgreSQL for the tests: the machine's own programs, or Debian's packages of it, run from a folder on fresh data."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...kit.processes.free_ports import free_ports
from ._debian import loader, unpacked
from ._java import HOST, START_SECONDS, STOP_SECONDS, DidNotStart

NAME = "postgresql"
SUITE = "trixie"
PACKAGE = "postgresql-17"
INSTALLED = Path("/usr/lib/postgresql")
"""Where Debian and Ubuntu have its programs, each version in a folder."""
PASSWORD = "secret"
NOBODY = 65534
SETTINGS = ("listen_addresses=" + HOST, "unix_socket_directories=", "fsync=off", "jit=off", "max_connections=50")


@contextmanager
def serving_postgresql() -> Iterator[MortalPostgreSQL]:
    """Run it on fresh data until the block is left, and let it be killed there.

    Raises:
        Unavailable: it cannot be had here.
        DidNotStart: it does not serve; the end of its log is in the message.
    """
    with tempfile.TemporaryDirectory(prefix=f"amqp10-{NAME}-", ignore_cleanup_errors=True) as folder:
        server = MortalPostgreSQL(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()


def programs(folder: Path) -> Path:
    """The folder with the newest installed `postgres`, or with Debian's; in that case below the given one.

    Raises:
        Unavailable: it cannot be had here.
    """
    installed = [path.parent for path in INSTALLED.glob("*/bin/initdb")]
    if installed:
        return max(installed, key=lambda path: int(path.parent.name))
    root = folder / "root"  # a copy, for a user who may not look into the one that was downloaded
    shutil.copytree(unpacked(NAME, PACKAGE, SUITE), root, symlinks=True, ignore=shutil.ignore_patterns("libLLVM*"))
    run = " ".join(loader(root))
    [found] = root.glob("usr/lib/postgresql/*/bin")
    for name in ("initdb", "postgres"):  # one starts the other, from its own folder
        program = found / name
        program.rename(found / f"{name}.elf")
        program.write_text(f'#!/bin/sh\nexec {run} {program}.elf "$@"\n')
        program.chmod(0o755)
    return found


class MortalPostgreSQL:
    """It on a port of loopback, as a user without rights; it can be killed, and started again with its data.

    Args:
        folder: for its data, and its programs if they were downloaded.
    """

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        self._programs = programs(folder)
        (self._port,) = free_ports(1)
        self._data = folder / "data"
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._user: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        password = folder / "password"
        password.write_text(PASSWORD)
        self._data.mkdir(mode=0o700)
        if self._user:  # it refuses to be root
            os.chown(self._data, NOBODY, NOBODY)
        words = ["--username=postgres", "--auth=scram-sha-256", f"--pwfile={password}", "--encoding=UTF8"]
        with self._log.open("ab") as log:
            done = subprocess.run(
                [str(self._programs / "initdb"), *words, "--locale=C", "--no-sync", str(self._data)],
                check=False,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=START_SECONDS,
                **self._user,
            )
        if done.returncode:
            raise DidNotStart(f"{NAME} makes no database; it says:\n{self._log.read_text()[-4000:]}")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres:{PASSWORD}@{HOST}:{self._port}/{database}?connect_timeout=60"

    @property
    def version(self) -> str:
        said = re.search(r"starting PostgreSQL (\S+)", self._log.read_text())
        return said[1] if said is not None else ""

    def start(self) -> None:
        """Start it, and wait until it serves."""
        said = self._log.stat().st_size
        settings = [word for setting in (*SETTINGS, f"port={self._port}") for word in ("-c", setting)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._data), *settings],
                cwd=self._data.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                **self._user,
            )
        deadline = time.monotonic() + START_SECONDS
        while b"database system is ready to accept connections" not in self._log.read_bytes()[said:]:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise DidNotStart(f"{NAME} does not serve; its log ends with:\n{self._log.read_text()[-4000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End it as a crash would: what it has to write stays undone, and its connections break."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # by which its own children end, too
            try:
                self._process.wait(STOP_SECONDS)
            finally:
                self._process.kill()
                self._process.wait()

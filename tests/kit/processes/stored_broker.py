"""A broker with a store, in a process that can be killed and begins again where it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from .free_ports import free_ports


class StoredBroker:
    """`amqp10 broker --store`, at one port for all its lives."""

    def __init__(self, store: Path) -> None:
        self._store = store
        (self._port,) = free_ports(1)
        self.start()

    def start(self) -> None:
        options = ["--port", str(self._port), "--store", str(self._store)]
        command = [sys.executable, "-m", "amqp10", "broker", *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[3]

    def kill(self) -> None:
        """End it by SIGKILL; it had not ended by itself."""
        self._process.kill()
        assert self._process.wait() == -signal.SIGKILL
        assert self._process.stdout is not None
        self._process.stdout.close()

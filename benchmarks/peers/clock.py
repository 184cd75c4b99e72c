"""What every peer shares: its arguments, its clock, its one line of JSON."""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from urllib.parse import urlsplit


class Clock:
    """Counts messages that are done; time and CPU run from the end of the warm-up to the last message.

    Attributes:
        total: the messages of the warm-up and the measured ones.
        body: what each message to be sent carries.
        ca: the PEM file of who to trust, where the URL asks for TLS; else None.
        websocket: the URL asks for a WebSocket.
        latencies: the seconds that each message took, where the peer says so.
        also: more figures for the line.
    """

    def __init__(self, peer: str, modes: tuple[str, ...] = ("send", "recv")) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--url", required=True)
        parser.add_argument("--mode", choices=modes, required=True)
        parser.add_argument("--settled", type=int, default=0)
        parser.add_argument("--count", type=int, default=10_000)
        parser.add_argument("--size", type=int, default=1024)
        parser.add_argument("--warmup", type=int, default=0)
        parser.add_argument("--variant", default="", help="another way to do it, where the peer knows one")
        parser.add_argument("--messages", default="", help="the JSON file with what to send, for real_clients.py")
        parser.add_argument("--links", type=int, default=1)
        given = parser.parse_args()
        self.peer: str = peer
        self.url: str = given.url
        self.mode: str = given.mode
        self.settled = bool(given.settled)
        self.count: int = given.count
        self.size: int = given.size
        self.warmup: int = given.warmup
        self.variant: str = given.variant
        self.messages: str = given.messages
        self.links: int = given.links
        self.latencies: list[float] = []
        self.also: dict[str, float] = {}
        self.total: int = self.warmup + self.count
        self.done: int = 0
        parts = urlsplit(self.url)
        self.ca = os.environ["AMQP10_BENCH_CA"] if parts.scheme == "amqps" else None
        self.websocket = parts.scheme == "ws"
        self.host, self.port, self.address = parts.hostname or "", parts.port or 5672, parts.path.lstrip("/")
        self.body = bytes(index & 255 for index in range(self.size))
        self._began = (0.0, 0.0, 0.0)

    def begin(self) -> None:
        """The link is attached."""
        if not self.warmup:
            self._start()

    def _start(self) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self._began = time.perf_counter(), usage.ru_utime, usage.ru_stime

    def tick(self, count: int = 1) -> bool:
        """So many more are done; true once all are."""
        before: int = self.done
        self.done = after = before + count
        if before < self.warmup <= after:
            self._start()
        return after >= self.total

    def report(self) -> None:
        """Print what was measured."""
        now, usage = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        began, user, system = self._began
        measured = {
            "peer": self.peer,
            "mode": self.mode,
            "settled": int(self.settled),
            "count": self.count,
            "size": self.size,
            "seconds": now - began,
            "cpu_user": usage.ru_utime - user,
            "cpu_sys": usage.ru_stime - system,
            **self.also,
        }
        if counted := sorted(self.latencies[self.warmup :]):
            measured |= {f"p{part}": counted[len(counted) * part // 100] * 1e6 for part in (50, 99)}
        print(json.dumps(measured), flush=True)

"""Ports for what is stopped and begins again at the same one.

A port that the system chose may be given to any other listener, or be the near end of anybody's connection, as soon as
its listener is gone: what comes back finds it taken, or its clients are at another test's broker meanwhile.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

CHOSEN_BY_THE_SYSTEM = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody has, below those that the system chooses for who asks for any."""
    first = int(CHOSEN_BY_THE_SYSTEM.read_text().split()[0]) if CHOSEN_BY_THE_SYSTEM.exists() else 32_768
    candidates = range(12_000, first) if first > 13_000 else range(40_000, 60_000)
    chance = random.SystemRandom()
    with ExitStack() as stack:
        ports: list[int] = []
        while len(ports) < count:
            port = chance.choice(candidates)
            with suppress(OSError):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                ports.append(port)
        return ports

"""How often the tests of breaks, deaths and storms do it: the least that shows it, and more in `make nightly`."""

from __future__ import annotations

import os

SEEDS = range(int(os.environ.get("AMQP10_SEEDS", "1")))
"""Random lives of each test, one a backend."""

KILLS = int(os.environ.get("AMQP10_KILLS", "2"))
"""How often a process is killed in one life: more than once, so that what was restored is killed, too."""

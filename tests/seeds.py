"""How many random lives each test of breaks, deaths and storms has: one a backend, and more in `make nightly`."""

from __future__ import annotations

import os

SEEDS = range(int(os.environ.get("AMQP10_SEEDS", "1")))

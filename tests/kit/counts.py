"""How often the tests that repeat something do it: the least that shows it, and more in the nightly tier.

Each count is an environment variable, `AMQP10_` before its name, which comes before both.
"""

from __future__ import annotations

import os

from .tiers import NIGHTLY


def count(name: str, usual: int, nightly: int) -> int:
    """Return what the environment says, or else what the tier has."""
    return int(os.environ.get(f"AMQP10_{name}", nightly if NIGHTLY else usual))


EXAMPLES = count("EXAMPLES", 50, 500)
"""Examples of each property that Hypothesis looks for; the quick tier has ten."""

SEEDS = range(count("SEEDS", 1, 10))
"""Random lives of each test of breaks, deaths and storms, one a backend."""

KILLS = count("KILLS", 2, 5)
"""How often a process is killed in one life: more than once, so that what was restored is killed, too."""

WALKS = count("WALKS", 150, 10_000)
"""Random walks of two engines."""

RESUMES = count("WALKS", 200, 10_000)
"""Random lives of links that are resumed."""

CONVERSATIONS = count("CONVERSATIONS", 1000, 50_000)
"""Whole conversations of hostile peers, of all tests of a file together."""

REQUESTS = min(3000, count("CONVERSATIONS", 200, 50_000))
"""Requests of a hostile peer of Service Bus to one broker, which keeps what they leave."""

ODD_VALUES = min(3000, count("CONVERSATIONS", 60, 50_000))
"""Conversations of peers that say values of any type, with one broker each kind."""

FUZZED_FRAMES = count("FUZZ", 3000, 200_000)
"""Inputs of the fuzz target for frames."""

FUZZED_VALUES = count("FUZZ", 8000, 200_000)
"""Inputs of the fuzz target for values."""

MUTATED_MESSAGES = count("MESSAGES", 1000, 300_000)
"""Mutated messages of each kind that are read by the compiled plans and by the generic code."""

COMPILED_MESSAGES = count("MESSAGES", 2000, 1_000_000)
"""Messages that a plain and a compiled installation read, each in turn; from 10,000 on under sanitizers, too."""

WORK = count("WORK", 300, 50_000)
"""Messages for workers that are killed; with more of them than usual, on all brokers."""

LIVES = count("LIVES", 20, 3000)
"""Lives of processors that share a hub."""

COMPILE_RUST = count("RUST", 0, 1)
"""Whether the SDK of Azure for Rust is compiled, which takes minutes."""

"""What decoding the messages of `real.py` costs at least: a bare loop of C that makes the objects, and nothing else.

    python benchmarks/floor.py            the same by this package, by it with its compiled part, and by `floor.c`
    python benchmarks/floor.py --quick    one round, without the compiled part

The figures are CPU µs a message, medians of rounds that take turns; every field is made into its object. `make
bench-real` measures them for the docs.
"""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import statistics
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import compiled
import real

import amqp10

SOURCE = Path(__file__).with_name("floor.c")
HOME = compiled.ROOT / "build" / "floor"
ROUNDS, TURNS = 15, 5
DECODED = {"order decode": real.orders, "row decode": real.rows}
FIRST_OF_ORDER = ("message_annotations", "application_properties", "body")
"""The sections with these codes that are compared: 0x72, 0x74, 0x75."""


def built() -> Callable[[bytes], dict[int, Any]] | None:
    """Build `decode` of floor.c, which returns the sections of a message by their codes; None without a C compiler."""
    HOME.mkdir(parents=True, exist_ok=True)
    made = HOME / f"floor{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[:1]
    include = sysconfig.get_paths()["include"]
    try:
        subprocess.run(
            [*compiler, "-O2", "-shared", "-fPIC", f"-I{include}", str(SOURCE), "-o", str(made)],
            check=True,
            stdout=sys.stderr,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"floor.c: left out, it could not be built: {error}", file=sys.stderr)
        return None
    spec = importlib.util.spec_from_file_location("floor", made)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    decode: Callable[[bytes], dict[int, Any]] = module.decode
    check(decode)
    return decode


def check(decode: Callable[[bytes], dict[int, Any]]) -> None:
    """See that what it makes is what was sent."""
    for order in real.orders(20):
        read = decode(real.as_sent(order))
        assert [read[code] for code in (0x72, 0x74, 0x75)] == [order[name] for name in FIRST_OF_ORDER]
        properties = [order.get(name) for name in ("message_id", "subject", "reply_to", "correlation_id")]
        assert [read[0x73][place] for place in (0, 3, 4, 5)] == properties
        assert read[0x73][-1] == order["creation_time"]
    for row in real.rows(20):
        read = decode(real.as_sent(row))
        assert (read[0x73], read[0x77]) == ([row["message_id"]], row["body"])


def figures(with_compiled: Path | None, rounds: int = ROUNDS, turns: int = TURNS) -> dict[str, dict[str, float]]:
    """Measure decoding: by this package, by it with its compiled part where that is built, and by floor.c.

    Returns:
        CPU µs a message by workload, for "amqp10", "amqp10+compiled" and "C".
    """
    decode = built()
    payloads = {name: [real.as_sent(each) for each in make()] for name, make in DECODED.items()}
    measured: dict[str, list[dict[str, float]]] = {"amqp10": [], "amqp10+compiled": [], "C": []}
    for _ in range(turns):
        measured["amqp10"].append(real.measured_by(Path(amqp10.__file__).parents[1], rounds))
        if with_compiled is not None:
            measured["amqp10+compiled"].append(real.measured_by(with_compiled, rounds))
        if decode is not None:
            measured["C"].append({name: real.measure((decode, each), rounds) for name, each in payloads.items()})
    return {
        name: {workload: round(statistics.median(run[workload] for run in runs), 2) for workload in DECODED}
        for name, runs in measured.items()
        if runs
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, without the compiled part")
    quick = parser.parse_args().quick
    found = figures(None, 1, 1) if quick else figures(compiled.installed())
    print(f"| CPU µs a message | {' | '.join(DECODED)} |\n|---|{'--:|' * len(DECODED)}")
    for name, costs in found.items():
        print(f"| {name} | {' | '.join(f'{cost:.2f}' for cost in costs.values())} |")


if __name__ == "__main__":
    main()

"""A short run of the fuzz target for frames, from seeds of every kind of frame."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amqp10.dialects.v1_0.wire.frames import (
    HEARTBEAT,
    TransferTemplate,
    encode_disposition,
    encode_frame,
    encode_sasl_frame,
)
from amqp10.dialects.v1_0.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    End,
    Flow,
    Open,
    SaslInit,
    SaslMechanisms,
    Transfer,
)
from amqp10.messaging import ACCEPTED, Error, Rejected, Source, Target
from amqp10.types import Symbol

from ..kit.counts import FUZZED_FRAMES

pytestmark = pytest.mark.capability("hostile peers")

pytest.importorskip("atheris")

TEMPLATE = TransferTemplate(1, 2)
SEEDS = [
    encode_frame(0, Open("container", "host", 512, 9, 1000, properties={Symbol("product"): "x"})),
    encode_frame(1, Begin(1, 2**32 - 4, 10, 10)) + encode_frame(1, End(Error("amqp:internal-error", "why"))),
    encode_frame(1, Attach("link", 0, True, 1, 1, Source("q", filter={"f": 1}), Target(), {b"t": ACCEPTED})),
    encode_frame(1, Flow(1, 2, 3, 4, 5, 6, 7, 8, True, True)) + encode_frame(1, Detach(5, True)) + HEARTBEAT,
    TEMPLATE.head(7, b"\0\0\0\7", False, 9) + b"\0\x53\x75\xa0\4data",
    TEMPLATE.head(300, b"tag", True, 1, True) + b"a" + TEMPLATE.continuation(1, False) + b"b",
    encode_frame(1, Transfer(0, 1, b"t", 0, state=ACCEPTED, resume=True, batchable=True), b"payload"),
    encode_disposition(1, True, 2, 2**31, True, ACCEPTED) + encode_disposition(1, False, 2, 2, False, Rejected()),
    encode_sasl_frame(SaslMechanisms(("PLAIN", "EXTERNAL"))) + encode_sasl_frame(SaslInit("PLAIN", b"\0u\0p", "host")),
    b"\0\0\0\x10\4\0\0\0" + bytes(8) + encode_frame(0, Close()),
]


@pytest.mark.slow
def test_a_short_run(tmp_path: Path) -> None:
    """Inputs that are mutated from the seeds give frames or one of the two errors, however they are cut."""
    for number, seed in enumerate(SEEDS):
        (tmp_path / str(number)).write_bytes(b"\2" + seed)
        (tmp_path / f"{number}-body").write_bytes(b"\xff" + seed[11:])
    target = Path(__file__).with_name("fuzz_frames.py")
    command = [
        sys.executable,
        str(target),
        str(tmp_path),
        f"-runs={FUZZED_FRAMES}",
        "-seed=10",
        "-max_len=512",
        "-rss_limit_mb=2048",
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    assert f"Done {FUZZED_FRAMES}" in run.stderr

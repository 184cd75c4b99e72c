"""What `amqp10.spark` says where something that it needs is not there."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("pyspark", "pip install 'amqp10[spark]'"),
        ("pyarrow", "pip install 'amqp10[spark]'"),
    ],
)
def test_a_module_that_is_missing(missing: str, said: str) -> None:
    """The extra is named for what it has."""
    program = f"import sys; sys.modules[{missing!r}] = None; import amqp10.spark"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert said in result.stderr.splitlines()[-1]


def test_without_locks() -> None:
    """On Windows, which has no `fcntl`, all but `ack=wal` works, and that is refused before Spark starts a task."""
    program = (
        "import sys; sys.modules['fcntl'] = None; from amqp10.spark._options import Options; import amqp10.spark;"
        "options = Options(url='amqp://localhost', address='q', wal_location='/tmp'); options.require_wal('why')"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "option 'ack' must not be 'wal' on this system" in result.stderr.splitlines()[-1]

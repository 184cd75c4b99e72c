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
        ("fcntl", "import of fcntl"),
    ],
)
def test_a_module_that_is_missing(missing: str, said: str) -> None:
    """The extra is named for what it has, and nothing else: on Windows it is `fcntl` that is not there."""
    program = f"import sys; sys.modules[{missing!r}] = None; import amqp10.spark"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert said in result.stderr.splitlines()[-1]

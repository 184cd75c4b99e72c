"""How Spark finds the format, and what happens where a part of it is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

import pyspark_amqp10
from amqp10.spark import AmqpDataSource


def test_spark_finds_the_source() -> None:
    """It takes the attribute `DefaultSource` of every module named `pyspark_*`."""
    assert pyspark_amqp10.DefaultSource is AmqpDataSource
    assert AmqpDataSource.name() == "amqp"


@pytest.mark.parametrize("missing", ["pyarrow", "pyspark.sql.datasource", "amqp10.spark"])
def test_the_shim_never_raises(missing: str) -> None:
    """An import that failed would break every Python format; the reason comes when somebody uses this one."""
    program = f"""
import sys
sys.modules[{missing!r}] = None
import pyspark_amqp10
source = getattr(pyspark_amqp10, "DefaultSource", None)
if source is not None:
    try:
        source({{}}).schema()
    except ImportError as error:
        print(error)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    if missing != "pyspark.sql.datasource":
        assert "format('amqp') cannot be used" in ended.stdout


def test_without_the_extra_the_import_says_what_to_install() -> None:
    """One line, with the command."""
    program = "import sys; sys.modules['pyarrow'] = None; import amqp10.spark"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200)
    assert "pip install 'amqp10[spark]'" in ended.stderr.splitlines()[-1]

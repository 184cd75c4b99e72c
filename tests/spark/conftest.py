"""One Spark session for all tests of the format, and a broker in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = Path(__file__).parent.parent.parent / "src"


def java_path() -> str:
    return os.pathsep.join((os.path.join(os.environ.get("JAVA_HOME", ""), "bin"), os.environ.get("PATH", "")))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, and two attempts for each task."""
    from pyspark.sql import SparkSession

    if shutil.which("java", path=java_path()) is None:
        pytest.skip("there is no Java: neither at JAVA_HOME nor on the PATH")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SOURCES), os.environ.get("PYTHONPATH", "")]))
    session = (
        SparkSession.builder.master("local[2,2]")
        .appName("amqp10 tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")  # nothing runs long enough for more
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.python.worker.reuse", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker_url() -> Iterator[str]:
    """The embedded broker, with a user guest."""
    process = subprocess.Popen(
        [sys.executable, "-m", "amqp10", "broker", "--port", "0", "--user", "guest:guest"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield process.stdout.readline().split()[3].replace("amqp://", "amqp://guest:guest@")
    process.terminate()
    process.wait(10)
    process.stdout.close()

"""Shared by all tests: both backends for every async test, and one Spark session for the tests that need one."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_CI = os.environ.get("CI", "").lower() in ("true", "1")

# A loaded machine is no failure: what must be quick is measured by the benchmarks. In CI, Hypothesis would take the
# same examples each time.
random = settings.get_profile("default")
patient = settings(random, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("amqp10", patient)
settings.register_profile("quick", patient, max_examples=10)  # of `make check`
PROFILE = os.environ.get("AMQP10_PROFILE", "amqp10")
settings.load_profile(PROFILE)


REAL_BROKERS = ("rabbitmq", "broker_j", "artemis")


def pytest_itemcollected(item: pytest.Item) -> None:
    """With several workers, those that need the same real broker share one, and with that the broker.

    It is a fixture of the test, or named by its class or by a parameter. The few that need two are with the first here.
    """
    if item.get_closest_marker("interop") is None or item.get_closest_marker("xdist_group") is not None:
        return
    assert isinstance(item, pytest.Function)
    named = f"{item.fixturenames} {getattr(item.cls, 'broker', '')} "
    if hasattr(item, "callspec"):
        named += str(item.callspec.params)
    for broker in REAL_BROKERS:
        if re.search(rf"\b{broker}\b", named):
            item.add_marker(pytest.mark.xdist_group(broker))
            return


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A file of tests that is left out for a package that is not installed: that would prove nothing in CI."""
    report = yield
    if IN_CI and report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = f"CI must have it: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The same for a single test."""
    report = yield
    if IN_CI and report.skipped and "could not import" in str(report.longrepr):
        report.outcome = "failed"
        report.longrepr = f"CI must have it: {report.longrepr}"
    return report


@pytest.fixture(params=["trio"] if PROFILE == "quick" else ["trio", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every test that is a coroutine runs on trio and on asyncio; in `make check` on trio only, to be quick."""
    backend: str = request.param
    return backend


ROOT = Path(__file__).parent.parent
SPARK_STARTUP = ROOT / "tests" / "spark" / "startup"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Many tasks at a time, so that they can wait for something to be killed, and two attempts for each."""
    from pyspark.sql import SparkSession

    from amqp10.spark._java import JavaMissing, prepare

    try:
        prepare()
    except JavaMissing as error:
        if IN_CI:
            pytest.fail(f"CI must have it: {error}")
        pytest.skip(str(error))
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT / "src"), str(ROOT), str(SPARK_STARTUP), os.environ.get("PYTHONPATH", "")])
    )
    os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] = "120"  # on a loaded machine; for workers the setting below
    session = (
        SparkSession.builder.master("local[24,2]")
        .appName("amqp10 tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")  # nothing runs long enough for more
        .config("spark.default.parallelism", "2")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.python.worker.reuse", "true")
        .config("spark.python.authenticate.socketTimeout", "120s")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()

"""Shared by all tests: both backends for every async test, and one Spark session for the tests that need one."""

# ruff: noqa: E402

from __future__ import annotations

import faulthandler
import gc
import math
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from functools import cache, wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import HealthCheck, settings
from pytest_rerunfailures import ClientStatusDB, StatusDB
from pytest_timeout import Settings

from amqp10.broker import Broker
from amqp10.sasl import StoredKeys

# What an assertion of a rig found is shown as that of a test is; it has to be said before a rig is imported.
pytest.register_assert_rewrite("tests.kit")

from .kit.client.memory_peer import MemoryPeer
from .kit.counts import EXAMPLES
from .kit.jumping_clock import Backend, jumping, watched
from .kit.left_files import LeftFiles
from .kit.memory_network import MemoryNetwork
from .kit.processes.short_java import SHORT
from .kit.tiers import NIGHTLY, QUICK, is_left_out, mark
from .kit.unavailable import unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import LoadGroupScheduling

ROOT = Path(__file__).parents[1]
IN_CI = os.environ.get("CI", "").lower() in ("true", "1")

# A loaded machine is no failure: what must be quick is measured by the benchmarks.
patient = settings(settings.get_profile("default"), deadline=None, suppress_health_check=[HealthCheck.too_slow])
# In CI the same examples each time, or a change would be refused for a fault that it does not have; new ones are looked
# for everywhere else, and by the nightly tier above all.
repeated = IN_CI and not NIGHTLY
usual = settings(patient, derandomize=repeated, database=None if repeated else patient.database)
settings.register_profile("amqp10", usual, max_examples=EXAMPLES)
settings.register_profile("quick", usual, max_examples=10)  # of `make check`
settings.load_profile("quick" if QUICK else "amqp10")

# The fewest that a client takes: deriving the keys of its users is half of what many a broker here would cost.
Broker.__init__.__kwdefaults__ = {**(Broker.__init__.__kwdefaults__ or {}), "scram_iterations": 4096}
# The other half: users of tests have few passwords, so the brokers of a process share the keys and the salt of each.
StoredKeys.from_password = cache(StoredKeys.from_password)  # type: ignore[method-assign]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Do not even import tests that the tier leaves out."""
    return True if is_left_out(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests by their places, and deselect what the tier leaves out."""
    items.sort(key=lambda item: str(item.path))  # each worker has collected them in an order of its own
    chosen: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (chosen if mark(item) else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = chosen


def pytest_collection_finish() -> None:
    """Leave what collecting has made out of each later search for garbage: a million objects, which stay to the end."""
    gc.enable()
    if hasattr(gc, "freeze"):  # PyPy has neither
        gc.freeze()  # garbage among it, too: to look for that would take each worker half a second
        gc.set_threshold(
            10_000, *gc.get_threshold()[1:]
        )  # with CPython 3.11's 700, searches take a fifteenth of all CPU


def pytest_collection() -> None:
    """Let nobody search for garbage while tests are collected: nearly all that is made stays."""
    gc.disable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadGroupScheduling | None:
    """With `--dist loadgroup`, give the tests to the workers in a time that does not grow with their number."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from .kit.scheduling import Scheduling

    return Scheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Watch what tests leave behind, and let a worker count by itself how often it ran a test.

    The plugin of the count asks the main process before each test, in a message that is read octet by octet, for the
    sake of workers that are replaced when they die. Here that ends the run (`--max-worker-restart=0`).
    """
    config.pluginmanager.register(LeftFiles(ROOT))
    asked = getattr(config, "failures_db", None)
    if isinstance(asked, ClientStatusDB):
        asked.sock.close()
        config.failures_db = StatusDB()  # type: ignore[attr-defined]


KEPT = ("rabbitmq_43", "rabbitmq", "broker_j", "artemis", "qpid_client", "protonj2")


def pytest_itemcollected(item: pytest.Item) -> None:
    """With several workers, those that need the same real broker share one, and with that the broker.

    It is a fixture of the test, or named by its class or by a parameter. The few that need two are with the first here.
    So do those of a client that takes task after task.
    Those of a file about an SDK of Azure share one, too: what its behaviors did is found out for all of them at once,
    and so are its programs built.
    """
    if item.get_closest_marker("xdist_group") is not None:
        return
    if item.path.stem.startswith("test_azure") and item.path.parent.name == "interop":
        item.add_marker(pytest.mark.xdist_group(item.path.stem.removeprefix("test_")))
        return
    if item.get_closest_marker("interop") is None:
        return
    assert isinstance(item, pytest.Function)
    named = f"{item.fixturenames} {getattr(item.cls, 'broker', '')} "
    if hasattr(item, "callspec"):
        named += str(item.callspec.params)
    for each in KEPT:
        if re.search(rf"\b{each}\b", named):
            item.add_marker(pytest.mark.xdist_group(each))
            return


FOLDERS = pytest.StashKey[dict[Path, pytest.Collector | None]]()


@pytest.hookimpl(wrapper=True)
def pytest_collect_directory(
    path: Path, parent: pytest.Collector
) -> Generator[None, pytest.Collector | None, pytest.Collector | None]:
    """Keep one node for each folder: pytest 9.1 gives the fixtures of a `conftest.py` to the first alone.

    It makes others where files of several folders are named, and a test in these would not find its fixtures (its
    issue 14635).
    """
    made = yield
    return parent.session.stash.setdefault(FOLDERS, {}).setdefault(path, made)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A file of tests that is left out for a package that is not installed: that would prove nothing in CI.

    Each of several workers begins with other files. The assertions of a file are rewritten by the first that comes to
    it, which keeps it for all; if all came at once, each would do that, for half a minute of a processor.
    """
    report = yield
    if isinstance(collector, pytest.Dir | pytest.Package) and (found := report.result):
        worker = getattr(collector.config, "workerinput", {"workerid": "gw0", "workercount": 1})
        first = len(found) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        report.result = [*found[first:], *found[:first]]
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


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Escape lone surrogates in what a worker reports, such as captured logs: without that they end its process."""
    return printable((yield))


def printable(reported: Any) -> Any:
    """Return the value with escapes for characters that no encoding of Unicode has, at any depth."""
    if isinstance(reported, str):
        return reported.encode("utf-8", "backslashreplace").decode()
    if isinstance(reported, dict):
        return {printable(key): printable(value) for key, value in reported.items()}
    if isinstance(reported, list | tuple):
        return type(reported)(map(printable, reported))
    return reported


@pytest.fixture(params=["trio"] if QUICK else ["trio", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str | Backend:
    """Every test that is a coroutine runs on trio and on asyncio; in `make check` on trio only, to be quick.

    Marked `in_memory`, what a test listens on and connects to is memory, and the clock jumps: however slow the machine
    is, no limit passes while there is something to do, and what is to take time takes none.
    """
    backend: str = request.param
    if not request.node.get_closest_marker("in_memory"):
        return backend
    MemoryNetwork(request.getfixturevalue("monkeypatch"))
    return jumping(backend)


class OutOfTime(BaseException):
    """A phase of a test has taken too long.

    What pytest-timeout raises is taken by Hypothesis for the fault of an example: it tries that example, and ones like
    it, again and again, and no timer runs any more. Nor does one where a test is run again.
    """


LIMIT = pytest.StashKey[float]()

LOST = 1500
"""Seconds after which the process ends, with all tracebacks: a signal was to end a test, and it was lost."""
WATCHED = pytest.StashKey[tuple[int, float]]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep where errors go, which tests will not write to."""
    session.config.stash[WATCHED] = os.dup(2), -math.inf


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Watch that tests end, by one thread for those of a minute; pytest has one for each (`faulthandler_timeout`).

    On a busy machine a test waits for the end of such a thread longer than it takes itself.
    """
    errors, since = item.config.stash[WATCHED]
    if (now := time.monotonic()) - since > 60 and not endless(item):
        faulthandler.dump_traceback_later(LOST, exit=True, file=errors)
        item.config.stash[WATCHED] = errors, now


def pytest_sessionfinish() -> None:
    """Watch no longer."""
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> bool:
    """Keep the limit, in place of pytest-timeout's own timer."""
    item.stash[LIMIT] = 0 if endless(item) else settings.timeout
    return True


def endless(item: pytest.Item) -> bool:
    """Return whether each test takes as long as it takes, also one with a limit of its own: `-o timeout=0`."""
    limit = item.config.getini("timeout")
    return limit != "" and not float(limit)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Have a signal raise `OutOfTime`, and again each minute: what calls back without a caller drops an exception."""
    limit = item.stash.get(LIMIT, 0)

    def end(*_: object) -> None:
        raise OutOfTime(f"{item.nodeid} has not ended after {limit} s")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit, 60)
    try:
        return (yield)
    except OutOfTime:
        gc.collect()  # what an event loop leaves: CPython 3.11 fails where that happens while a report is made
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


pytest_runtest_call = pytest_runtest_teardown = pytest_runtest_setup


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """End a coroutine that waits too long by its own means, before the timeout ends its event loop.

    Whoever has a clock that jumps is ended where that stands still, too: see `Watch`.
    """
    backend = pyfuncitem.funcargs.get("anyio_backend")
    if not iscoroutinefunction(pyfuncitem.obj):
        return
    if pyfuncitem.get_closest_marker("in_memory") and isinstance(backend, tuple):
        pyfuncitem.obj = watched(pyfuncitem.obj, backend)
    elif isinstance(backend, str):  # no clock of the test's own, whose hours pass at once
        marker = pyfuncitem.get_closest_marker("timeout")
        config = pyfuncitem.config
        timeout = marker.args[0] if marker is not None else config.getoption("timeout") or config.getini("timeout")
        limit = math.inf if endless(pyfuncitem) or not float(timeout) else 0.9 * float(timeout)
        pyfuncitem.obj = limited(pyfuncitem.obj, limit)


def limited(test: Callable[..., Awaitable[None]], seconds: float) -> Callable[..., Awaitable[None]]:
    """That test, which raises `TimeoutError` after that time."""

    @wraps(test)
    async def run(**arguments: object) -> None:
        with anyio.fail_after(seconds):
            await test(**arguments)

    return run


@pytest.fixture
async def memory_peer(anyio_backend: str | Backend, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MemoryPeer]:
    """A scripted peer to which every connection of the test leads."""
    async with MemoryPeer(monkeypatch) as peer:
        yield peer


SPARK_STARTUP = ROOT / "tests" / "kit" / "spark" / "startup"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Many tasks at a time, so that they can wait for something to be killed, and two attempts for each."""
    from pyspark.sql import SparkSession

    from amqp10.spark import JavaMissing, prepare

    try:
        prepare()
    except JavaMissing as error:
        unavailable(str(error))
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT / "src"), str(ROOT), str(SPARK_STARTUP), os.environ.get("PYTHONPATH", "")])
    )
    os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] = "120"  # on a loaded machine; for workers the setting below
    session = (
        SparkSession.builder.master("local[24,2]")
        .appName("amqp10 tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", " ".join(SHORT))
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

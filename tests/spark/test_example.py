"""The worked example runs as its page says."""

from __future__ import annotations

import runpy
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryListener

from ..kit.spark.pipes import depth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parent.parent.parent


class Forgotten(StreamingQueryListener):  # type: ignore[misc]
    """Counts the rows of state that queries have done with."""

    def __init__(self) -> None:
        self.rows = 0
        self.ended = threading.Event()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self.rows += sum(each.numRowsRemoved for each in event.progress.stateOperators)

    def onQueryTerminated(self, event: object) -> None:  # noqa: N802
        self.ended.set()

    def onQueryStarted(self, event: object) -> None: ...  # noqa: N802

    def onQueryIdle(self, event: object) -> None: ...  # noqa: N802


def test_flights(
    spark: SparkSession,
    broker_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The flights of some weeks: their delays in a queue, in files and in a plot; weeks that are over are forgotten."""
    program = str(ROOT / "examples" / "spark" / "flights.py")
    monkeypatch.setattr(sys, "argv", [program, broker_url, str(tmp_path), "20000"])
    monkeypatch.setattr(type(spark), "stop", lambda self: None)  # other tests have the same session
    forgotten = Forgotten()
    spark.streams.addListener(forgotten)
    runpy.run_path(program, run_name="__main__")
    assert forgotten.ended.wait(60)
    spark.streams.removeListener(forgotten)
    assert forgotten.rows > 0
    first, *carriers = capsys.readouterr().out.strip().splitlines()
    assert first == "20000 flights published"
    assert len(carriers) == 3
    assert all(" minutes late" in line for line in carriers)
    assert depth(broker_url, "flights") == 0
    assert depth(broker_url, "delays") > 30
    assert (tmp_path / "delays.svg").read_text().count("<polyline") > 10

"""A driver with one query for each case; killed when all have stopped.

    python -m tests.kit.spark.crash_driver URL FOLDER

Each query has a queue and a folder of its own: see `Case.pipe`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from tests.kit.processes.short_java import SHORT
from tests.kit.spark.crash_cases import COMMIT, LOGS, UNITED, cases, stopped
from tests.kit.spark.crashing_source import POINTS, CrashingSource


def main(url: str, folder: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[64,2]")  # who is stopped stays in its place
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", " ".join(SHORT))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(CrashingSource)
    planned = (*cases((*POINTS, COMMIT)), *UNITED, *LOGS)
    pipes = {case: case.pipe(spark, url, folder) for case in planned}
    for query in stopped(pipes):
        query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

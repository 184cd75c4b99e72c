"""A driver with one query for each point to stop at; killed when all have stopped.

    python -m tests.spark._crash_driver URL FOLDER

Each query has the queue and the folder of its point's name.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from tests.spark._crashing import POINTS, CrashingSource
from tests.spark._pipes import Pipe


def main(url: str, folder: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[8,2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(CrashingSource)
    queries = []
    for point in (*POINTS, "before commit"):
        place = folder / point
        pipe = Pipe(spark, url, point, place)
        frame = pipe.frame("amqp-crashing", stopAt=point, stopFolder=str(place))

        def written(batch: DataFrame, number: int, place: Path = place) -> None:
            batch.write.mode("overwrite").parquet(str(place / "out" / f"batch={number}"))
            (place / "reached").touch()
            while True:  # until killed: the sink has it, Spark has not heard
                input()

        query = pipe.start(frame, written if point == "before commit" else None)
        while query.isActive and not (place / "reached").exists():
            time.sleep(0.1)  # one after the other: Spark gives each the same few seconds to start its process
        queries.append(query)
    for query in queries:
        query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

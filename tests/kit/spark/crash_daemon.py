"""Spark's daemon of Python workers, in an executor where one of them kills itself, once: `spark.python.daemon.module`.

AMQP10_STOP_AT is the point of a task, AMQP10_STOP_FOLDER where it says that it was there. Without them nothing happens.
"""

from __future__ import annotations

import os

from pyspark import daemon
from tests.kit.spark import crashing_source

if __name__ == "__main__":
    crashing_source.current = crashing_source.Stop(
        os.environ.get("AMQP10_STOP_AT", ""), os.environ.get("AMQP10_STOP_FOLDER", ""), deadly=True
    )
    daemon.manager()

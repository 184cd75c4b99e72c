"""Imported first by the Python workers of the tests' Spark, for this folder is on their path.

Spark puts pyspark.zip there, too, and before all else. Out of a zip each worker compiles all of pyspark anew, and Spark
gives it ten seconds, and no setting for that, until it has to be connected: on a machine that is busy it may be late.

Each worker is a fork of a daemon and imports what it needs, which is most of its work here. The daemon does that once.
"""

from __future__ import annotations

import sys

sys.path[:] = [place for place in sys.path if not place.endswith("pyspark.zip")]

daemon = any(word.endswith("daemon") for word in sys.orig_argv)
runs_tasks = sys.orig_argv[-1] == "pyspark.worker"  # the others plan, or commit
if daemon:
    import gc
    from importlib import import_module

    for each in ("amqp10.spark", "anyio._backends._trio", "amqp10.dialects.v1_0"):
        import_module(each)
    if runs_tasks:
        import_module("pyarrow.pandas_compat")
    gc.freeze()  # else each worker's first search for garbage copies all of this

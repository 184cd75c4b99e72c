"""Imported first by the Python workers of the tests' Spark, for this folder is on their path.

Spark puts pyspark.zip there, too, and before all else. Out of a zip each worker compiles all of pyspark anew, and Spark
gives it ten seconds, and no setting for that, until it has to be connected: on a machine that is busy it may be late.
"""

from __future__ import annotations

import sys

sys.path[:] = [place for place in sys.path if not place.endswith("pyspark.zip")]

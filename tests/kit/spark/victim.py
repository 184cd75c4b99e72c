"""A task of Spark's that takes a queue's messages and kills itself: `... OPTIONS WAL POINT`, the first as JSON."""

from __future__ import annotations

import json
import sys

from tests.kit.spark import crashing_source

from amqp10.spark import Options

from ..inside.spark import QueuePartition, Segment, read_partition, struct

if __name__ == "__main__":
    options, wal, point = sys.argv[1:]
    crashing_source.current = crashing_source.Stop(point, wal, deadly=True)
    partition = QueuePartition(Segment(wal, 1, 0), 100, "run")
    list(read_partition(Options.parse(json.loads(options)), struct([("body", "binary")]), partition))

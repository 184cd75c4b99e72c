"""A task of Spark's that takes a queue's messages and kills itself: `... OPTIONS WAL POINT`, the first as JSON."""

from __future__ import annotations

import json
import sys

from tests.spark import _crashing

from amqp10.spark._consume import QueuePartition, consumed
from amqp10.spark._options import Options
from amqp10.spark._schema import struct
from amqp10.spark._segments import Segment

if __name__ == "__main__":
    options, wal, point = sys.argv[1:]
    _crashing.current = _crashing.Stop(point, wal, deadly=True)
    partition = QueuePartition(Segment(wal, 1, 0), 100, "run")
    list(consumed(Options.parse(json.loads(options)), struct([("body", "binary")]), partition))

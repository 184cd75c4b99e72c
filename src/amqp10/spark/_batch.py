"""Batch reads of queues."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ._bridge import pulled
from ._columns import Columns
from ._options import Options
from ._receive import browse
from ._schema import arrow_schema


class BrowseReader(DataSourceReader):
    """Looks at a queue and leaves it as it is: a DataFrame may be evaluated any number of times."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]  # several would all see the same

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self._options
        columns = Columns(arrow_schema(self._schema), options.body_format, {"address": options.address})
        return pulled(lambda emit: browse(options, columns, emit))

"""The data source that Spark finds under the name "amqp"; it chooses the reader or writer of a query.

Spark creates these objects several times, in short-lived processes of the driver, and pickles readers and writers to
the tasks. So nothing here connects, and everything that a task needs is in its options and its partition.
"""

from __future__ import annotations

import uuid
from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ._logs.logs import log_of
from ._logs.readers import LogBatchReader, LogStreamReader
from ._options import Options
from ._queues.batch import BrowseReader, FilteredBrowseReader, TakingReader
from ._queues.stream import QueueStreamReader
from ._rows.schema import check_read, check_written, default_schema
from ._writer import BatchWriter, StreamWriter


class AmqpDataSource(DataSource):
    """The format "amqp" of `spark.read`, `spark.readStream`, `df.write` and `df.writeStream`: queues and logs.

    Spark finds it when the package is installed; `spark.dataSource.register(AmqpDataSource)` registers it by hand.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Made once for a DataFrame, then pickled to every process that evaluates it, however often.
        self.run_id: str = uuid.uuid4().hex

    @classmethod
    def name(cls) -> str:
        return "amqp"

    def schema(self) -> StructType:
        return default_schema(Options.parse(self.options).body_format)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._options_to_read(schema)
        if options.log:
            return LogBatchReader(options, schema)
        if options.ack in ("wal", "accept"):
            return TakingReader(options, schema, self.run_id)
        if options.sessions:
            raise ValueError(
                "amqp: option 'sessions': Service Bus lets nobody browse sessions: read with ack=wal, or ack=accept"
            )
        return (FilteredBrowseReader if options.pushdown else BrowseReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = self._options_to_read(schema)
        if options.log:
            if options.ending_offsets is not None:
                raise ValueError("amqp: option 'endingOffsets' is for batch reads: a stream has no end")
            return LogStreamReader(options, schema)
        if options.ack == "browse":
            raise ValueError(
                "amqp: option 'ack': a stream cannot browse a queue, it would see the same messages again and again"
            )
        return QueueStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(self._options_to_write(schema, overwrite), schema, self.run_id)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return StreamWriter(self._options_to_write(schema, overwrite), schema)

    def _options_to_read(self, schema: StructType) -> Options:
        """Parse the options, and check them with the schema of a read.

        Raises:
            ValueError: an option or a column is wrong.
        """
        options = Options.parse(self.options)
        options.require_address()
        check_read(schema, options)
        if options.log:
            log_of(options)  # checks that this kind of log supports the options
        return options

    def _options_to_write(self, schema: StructType, overwrite: bool) -> Options:
        """Parse the options, and check them with the schema of a write.

        Raises:
            ValueError: an option or a column is wrong, or the mode is not "append".
        """
        options = Options.parse(self.options)
        if overwrite:
            raise ValueError("amqp: mode must be 'append': messages can only be added, never overwritten")
        check_written(schema, options)
        return options

"""AMQP in Apache Spark: `format("amqp")` for batch and Structured Streaming, reading and writing.

Needs the extra `amqp10[spark]`. Spark finds the format by itself, in the module `pyspark_amqp10`: nothing has to be
registered.
"""

try:
    from ._java import JavaMissing as JavaMissing
    from ._java import prepare as prepare
    from ._options import Options as Options
    from ._source import AmqpDataSource as AmqpDataSource
except ImportError as _error:
    if (_error.name or "").partition(".")[0] not in ("pyspark", "pyarrow"):
        raise  # something else is missing
    raise ImportError(
        f"amqp10.spark needs pyspark >= 4.2 and pyarrow: pip install 'amqp10[spark]' ({_error})"
    ) from _error

__all__ = ("AmqpDataSource", "JavaMissing", "Options", "prepare")

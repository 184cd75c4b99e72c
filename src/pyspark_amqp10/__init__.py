"""Where Spark finds `format("amqp")`: it imports every top-level module named `pyspark_*` and takes `DefaultSource`.

Spark does not guard that import: what fails here would fail every lookup of a Python format. So this never raises; what
is missing is said by the source when somebody uses it.
"""

from __future__ import annotations

__all__ = ("DefaultSource",)

try:
    from amqp10.spark import AmqpDataSource as DefaultSource
except Exception as error:
    import contextlib

    _reason = f"format('amqp') cannot be used: {error}"

    with contextlib.suppress(Exception):
        from pyspark.sql.datasource import DataSource

        class DefaultSource(DataSource):  # type: ignore[no-redef]
            """Says why the real one could not be loaded."""

            reason = _reason

            @classmethod
            def name(cls) -> str:
                return "amqp"

            def schema(self) -> str:
                raise ImportError(self.reason)

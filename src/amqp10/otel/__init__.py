"""OpenTelemetry: spans and metrics of connections, with the context of each message (the extra `amqp10[otel]`).

    from amqp10.otel import instrument

    instrument()    # all connections of the process; or instrument(connection)

Without a call of `instrument`, nothing of it is imported, and messages cost no extra steps.
"""

try:
    from ._broker import instrument_broker as instrument_broker
    from ._broker import uninstrument_broker as uninstrument_broker
    from ._context import extract as extract
    from ._context import inject as inject
    from ._instrument import instrument as instrument
    from ._instrument import uninstrument as uninstrument
except ImportError as _error:
    if (_error.name or "").partition(".")[0] != "opentelemetry":
        raise  # something else is missing
    raise ImportError(f"amqp10.otel needs OpenTelemetry: pip install 'amqp10[otel]' ({_error})") from _error

__all__ = ("extract", "inject", "instrument", "instrument_broker", "uninstrument", "uninstrument_broker")


def __dir__() -> tuple[str, ...]:
    return __all__

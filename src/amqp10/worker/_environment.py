"""Settings of a worker from environment variables, with the names of the options of `amqp10 work`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, TypedDict

from .._arguments import checked
from ..client.internals import COUNT, PREFIX, SECONDS, TEXT, Kind, read
from ._policy import Retries
from ._worker import DelayBy

_OF_BOTH: Final[dict[str, Kind]] = {
    "prefetch": COUNT,
    "attempts": COUNT,
    "delay": SECONDS,
    "max_delay": SECONDS,
    "delay_by": TEXT,
    "dead_letters": TEXT,
    "drain_timeout": SECONDS,
}
_OF_WORKER: Final[dict[str, Kind]] = {**_OF_BOTH, "concurrency": COUNT, "delay_queue": TEXT}
_OF_SESSIONS: Final[dict[str, Kind]] = {
    **_OF_BOTH,
    "sessions": COUNT,
    "idle_time": SECONDS,
    "session_time": SECONDS,
}
_OF_RETRIES: Final = {"attempts": "attempts", "delay": "initial_delay", "max_delay": "max_delay"}
_UNSAID: Final = Retries()


class WorkerSettings(TypedDict, total=False):
    """The keyword arguments of `Worker` that environment variables can set."""

    concurrency: int
    prefetch: int
    retries: Retries
    delay_by: DelayBy
    delay_queue: str
    dead_letters: str
    drain_timeout: float


class SessionWorkerSettings(TypedDict, total=False):
    """The keyword arguments of `SessionWorker` that environment variables can set."""

    sessions: int
    idle_time: float
    session_time: float
    prefetch: int
    retries: Retries
    delay_by: DelayBy
    dead_letters: str
    drain_timeout: float


@checked
def worker_from_environment(environ: Mapping[str, str] | None = None) -> WorkerSettings:
    """Return the settings of a worker from environment variables such as `AMQP10_WORK_CONCURRENCY`.

        async with Worker(connection, "orders", handle, **worker_from_environment()) as worker: ...

    Args:
        environ: the variables; None for those of the process.

    Raises:
        ValueError: a variable has an invalid value.
    """
    return _read(_OF_WORKER, environ)  # type: ignore[return-value]


@checked
def session_worker_from_environment(environ: Mapping[str, str] | None = None) -> SessionWorkerSettings:
    """Return the settings of a session worker from environment variables such as `AMQP10_WORK_SESSIONS`.

        async with SessionWorker(bus, "orders", handle, **session_worker_from_environment()) as worker: ...

    Args:
        environ: the variables; None for those of the process.

    Raises:
        ValueError: a variable has an invalid value.
    """
    return _read(_OF_SESSIONS, environ)  # type: ignore[return-value]


def _read(kinds: Mapping[str, Kind], environ: Mapping[str, str] | None) -> dict[str, Any]:
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    retries: dict[str, Any] = {}
    for name, kind in kinds.items():
        variable = f"{PREFIX}WORK_{name.upper()}"
        if text := environ.get(variable):
            value = read(variable, text, kind)
            if name in _OF_RETRIES:
                retries[_OF_RETRIES[name]] = value
            else:
                values[name] = value
    if retries:
        values["retries"] = _retries(**retries)
    return values


def _retries(initial_delay: float | None = None, max_delay: float = _UNSAID.max_delay, **others: Any) -> Retries:
    """Return the policy; the default first pause is limited to the longest pause.

    Raises:
        ValueError: the given first pause exceeds the longest pause.
    """
    if initial_delay is None:
        initial_delay = min(_UNSAID.initial_delay, max_delay)
    elif initial_delay > max_delay:
        longest = f"{PREFIX}WORK_MAX_DELAY, which is {max_delay} s"
        raise ValueError(f"{PREFIX}WORK_DELAY must be no more than {longest}, not {initial_delay} s")
    return Retries(initial_delay=initial_delay, max_delay=max_delay, **others)

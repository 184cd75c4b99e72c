"""A worker: handles the messages of an address, a bounded number at a time, and settles each.

    async with Worker(connection, "orders", handle, concurrency=20) as worker:
        await worker.until_signal()

It uses only the public names of `amqp10.client`, so it works with every dialect.
"""

from ._environment import SessionWorkerSettings as SessionWorkerSettings
from ._environment import WorkerSettings as WorkerSettings
from ._environment import session_worker_from_environment as session_worker_from_environment
from ._environment import worker_from_environment as worker_from_environment
from ._handlers import BatchHandler as BatchHandler
from ._handlers import Handler as Handler
from ._policy import DeadLetter as DeadLetter
from ._policy import Decision as Decision
from ._policy import Retries as Retries
from ._policy import Retry as Retry
from ._sessions import SessionHandler as SessionHandler
from ._sessions import SessionWorker as SessionWorker
from ._worker import DelayBy as DelayBy
from ._worker import Worker as Worker

__all__ = (
    "BatchHandler",
    "DeadLetter",
    "Decision",
    "DelayBy",
    "Handler",
    "Retries",
    "Retry",
    "SessionHandler",
    "SessionWorker",
    "SessionWorkerSettings",
    "Worker",
    "WorkerSettings",
    "session_worker_from_environment",
    "worker_from_environment",
)


def __dir__() -> tuple[str, ...]:
    return __all__

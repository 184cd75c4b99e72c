"""What a checkpoint asks for that is not there any more, or is of another kind."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ..errors import AmqpError

_log = logging.getLogger("amqp10.spark")
CAUSE = "retention has removed messages, or the log was made anew"


class DataLoss(AmqpError):
    """Messages that were to be read are not there any more."""


def report_lost_offsets(partition: str, start: int, end: int, *, fail: bool) -> None:
    """The offsets from `start` to `end`, that one excluded, were to be read and do not come.

    Raises:
        DataLoss: that is to be an error.
    """
    report(f"offsets {start} to {end - 1} of {partition!r} are not there any more", "they are passed over", fail=fail)


def report_missing_partition(missing: str, there: str, *, fail: bool) -> None:
    """A partition of a super stream is not there, though one after it is.

    Raises:
        DataLoss: that is to be an error.
    """
    report(f"there is no partition {missing!r}, but there is {there!r}", "it is left out", "it was deleted", fail=fail)


def report_lost_batch(batch: int, *, fail: bool) -> None:
    """A batch of a queue is repeated that was committed, and what it had is deleted.

    Raises:
        DataLoss: that is to be an error.
    """
    report(
        f"the segments of batch {batch} are deleted",
        "it has no rows",
        "it was committed, and the checkpoint is an older one",
        fail=fail,
    )


def report(fact: str, otherwise: str, cause: str = CAUSE, *, fail: bool) -> None:
    if fail:
        raise DataLoss(f"amqp: {fact}: {cause}. With failOnDataLoss=false {otherwise}")
    _log.warning("%s: %s; %s", fact, cause, otherwise)


def check_checkpoint_kind(offset: Mapping[str, object], *, log: bool) -> None:
    """See that an offset is one of a log, or of a queue.

    Raises:
        ValueError: it is of the other, and so is the checkpoint.
    """
    if all(isinstance(each, dict) for each in offset.values()) != log:
        found, wanted = ("queue", "log") if log else ("log", "queue")
        raise ValueError(
            f"amqp: the checkpoint is that of a {found}, and the query reads a {wanted}: give it one of its own"
        )

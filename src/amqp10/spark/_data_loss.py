"""Reports messages that a checkpoint expects and that are gone, and checkpoints of another kind of source."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ..errors import AmqpError

_log = logging.getLogger("amqp10.spark")
DEFAULT_CAUSE = "retention has removed messages, or the log was made anew"


class DataLoss(AmqpError):
    """Messages that were to be read are gone."""


def report_lost_offsets(partition: str, start: int, end: int, *, fail: bool) -> None:
    """Report that the offsets from `start` to `end`, excluding `end`, are gone.

    Raises:
        DataLoss: `fail` is true.
    """
    report(f"offsets {start} to {end - 1} of {partition!r} are gone", "they are passed over", fail=fail)


def report_missing_partition(missing: str, there: str, *, fail: bool) -> None:
    """Report that a partition of a super stream is gone although a later one exists.

    Raises:
        DataLoss: `fail` is true.
    """
    report(
        f"partition {missing!r} is missing, although {there!r} exists", "it is left out", "it was deleted", fail=fail
    )


def report_lost_batch(batch: int, *, fail: bool) -> None:
    """Report that Spark repeats a committed batch of a queue, whose segments are deleted.

    Raises:
        DataLoss: `fail` is true.
    """
    report(
        f"the segments of batch {batch} are deleted",
        "it has no rows",
        "it was committed, and the checkpoint is an older one",
        fail=fail,
    )


def report(fact: str, otherwise: str, cause: str = DEFAULT_CAUSE, *, fail: bool) -> None:
    """Report a loss, as an error or a warning.

    Args:
        fact: what is gone.
        otherwise: what happens if the loss is only a warning.

    Raises:
        DataLoss: `fail` is true.
    """
    if fail:
        raise DataLoss(f"amqp: {fact}: {cause}. With failOnDataLoss=false {otherwise}")
    _log.warning("%s: %s; %s", fact, cause, otherwise)


def check_checkpoint_kind(offset: Mapping[str, object], *, log: bool) -> None:
    """Check that an offset is that of a log, or with `log=False` that of a queue.

    Raises:
        ValueError: the offset, and so the checkpoint, is of the other kind.
    """
    if all(isinstance(each, dict) for each in offset.values()) != log:
        found, wanted = ("queue", "log") if log else ("log", "queue")
        raise ValueError(
            f"amqp: the checkpoint is that of a {found}, and the query reads a {wanted}: give it one of its own"
        )

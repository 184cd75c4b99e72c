"""Events that come from a hub, and what the service says of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...messaging import Message
from .._moments import moment


@dataclass(frozen=True, slots=True)
class LastEvent:
    """The event that came last to a partition, as it was known when another one was sent here.

    Attributes:
        sequence_number: its number in the partition.
        offset: its place there; None where the service says none.
        enqueued_at: when it came.
        told_at: when the service looked.
    """

    sequence_number: int
    offset: str | None
    enqueued_at: datetime | None
    told_at: datetime | None


class ReceivedEvent:
    """An event, and where it is in its partition.

    Attributes:
        message: what was sent.
        partition: the id of the partition that it is in.
    """

    __slots__ = ("message", "partition")

    def __init__(self, message: Message, partition: str) -> None:
        self.message: Message = message
        self.partition: str = partition

    @property
    def body(self) -> Any:
        """The body of the message."""
        return self.message.body

    @property
    def sequence_number(self) -> int:
        """Its number in the partition, one more than that of the event before it; -1 where the service says none."""
        number = self._said("x-opt-sequence-number")
        return number if isinstance(number, int) else -1

    @property
    def offset(self) -> str | None:
        """Its place in the partition: what a checkpoint keeps. Nothing can be computed with it."""
        offset = self._said("x-opt-offset")
        return None if offset is None else str(offset)

    @property
    def enqueued_at(self) -> datetime | None:
        """When the service took it."""
        return moment(self._said("x-opt-enqueued-time"))

    @property
    def partition_key(self) -> str | None:
        """What chose its partition; None: its sender chose it, or nobody."""
        return self._said("x-opt-partition-key")  # type: ignore[no-any-return]

    @property
    def publisher(self) -> str | None:
        """Who sent it, if that was a publisher."""
        return self._said("x-opt-publisher")  # type: ignore[no-any-return]

    @property
    def last(self) -> LastEvent | None:
        """The last event of the partition, for readers with `track_last`; None for others."""
        said = self.message.delivery_annotations
        number = said.get("last_enqueued_sequence_number")
        if not isinstance(number, int):
            return None
        offset = said.get("last_enqueued_offset")
        return LastEvent(
            number,
            None if offset is None else str(offset),
            moment(said.get("last_enqueued_time_utc")),
            moment(said.get("runtime_info_retrieval_time_utc")),
        )

    def _said(self, name: str) -> Any:
        return self.message.message_annotations.get(name)

    def __repr__(self) -> str:
        return f"<ReceivedEvent {self.sequence_number} of partition {self.partition}>"

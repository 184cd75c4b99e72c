"""Events of a hub, with the annotations of the service."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...messaging import Message
from .._moments import moment


@dataclass(frozen=True, slots=True)
class LastEvent:
    """The last event of a partition, as the service knew it when it sent another event.

    Attributes:
        sequence_number: its number in the partition.
        offset: its offset; None: the service named none.
        enqueued_at: when the service took it.
        told_at: when the service read these values.
    """

    sequence_number: int
    offset: str | None
    enqueued_at: datetime | None
    told_at: datetime | None


class ReceivedEvent:
    """An event, and its place in its partition.

    Attributes:
        message: the message that was sent.
        partition: the id of the partition.
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
        """The number of the event in its partition, counted up by one for each event; -1: the service named none."""
        number = self._annotation("x-opt-sequence-number")
        return number if isinstance(number, int) else -1

    @property
    def offset(self) -> str | None:
        """The place of the event in its partition, which a checkpoint keeps. Only the service can interpret it."""
        offset = self._annotation("x-opt-offset")
        return None if offset is None else str(offset)

    @property
    def enqueued_at(self) -> datetime | None:
        """When the service took the event."""
        return moment(self._annotation("x-opt-enqueued-time"))

    @property
    def partition_key(self) -> str | None:
        """The key that chose the partition; None: the sender chose the partition, or neither did."""
        return self._annotation("x-opt-partition-key")  # type: ignore[no-any-return]

    @property
    def publisher(self) -> str | None:
        """The publisher that sent the event; None: it was not sent by a publisher."""
        return self._annotation("x-opt-publisher")  # type: ignore[no-any-return]

    @property
    def last(self) -> LastEvent | None:
        """The last event of the partition, for a reader with `track_last`; None for any other."""
        annotations = self.message.delivery_annotations
        number = annotations.get("last_enqueued_sequence_number")
        if not isinstance(number, int):
            return None
        offset = annotations.get("last_enqueued_offset")
        return LastEvent(
            number,
            None if offset is None else str(offset),
            moment(annotations.get("last_enqueued_time_utc")),
            moment(annotations.get("runtime_info_retrieval_time_utc")),
        )

    def _annotation(self, name: str) -> Any:
        return self.message.message_annotations.get(name)

    def __repr__(self) -> str:
        return f"<ReceivedEvent {self.sequence_number} of partition {self.partition}>"

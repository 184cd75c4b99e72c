"""The log of workers, `amqp10.worker`."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from typing import Final

from ..net import visible
from ._jobs import Job

_log = logging.getLogger("amqp10.worker")

_MANY_RELEASED: Final = 100
"""Released messages in a row that are worth a warning."""


class Notices:
    """Logs the events of one worker, with its address.

    Args:
        address: returns the address.
    """

    def __init__(self, address: Callable[[], str | None]) -> None:
        self._address = address
        self._released_in_a_row = 0
        self._handled_at_release = 0  # messages handled when the last of these was released
        self._warned_of_releases = False

    def log(
        self,
        event: str,
        level: int,
        text: str,
        job: Job | None = None,
        *,
        exc_info: Exception | None = None,
        **fields: object,
    ) -> None:
        """Log an event, with the address and the message-id.

        Args:
            event: the name of the event, the record's attribute `amqp_event`.
            text: text for people. Control characters are escaped, because parts of it come from others.
            job: the message that the event is about.
            exc_info: the exception whose traceback is shown.
            fields: further attributes of the record, without their prefix `amqp_`.
        """
        if not _log.isEnabledFor(level):
            return
        address = self._address()
        fields = {"event": event, "address": address} | fields
        where = f"{address}: "
        if job is not None:
            fields["message_id"] = message_id = job.message_id
            tag = job.delivery.tag
            where += (
                f"message {message_id}: " if message_id is not None else f"message without id, delivery {tag.hex()}: "
            )
        extra = {f"amqp_{name}": value for name, value in fields.items()}
        _log.log(level, "%s", visible(where + text), extra=extra, exc_info=exc_info, stacklevel=2)

    def stopping(self, number: signal.Signals, stopped: str, running: int, held: int) -> None:
        """Log that a signal ends the worker; `stopped` is what it does no more."""
        text = f"{number.name}: no more {stopped}; handlers: {running}, held for a retry: {held}"
        self.log("worker_stopping", logging.INFO, text, signal=number.name, running=running, held=held)

    def released(self, count: int, before: int, after: int) -> None:
        """Warn once if many outcomes in a row were released: such a message arrives again at once, without an end.

        Args:
            count: the number of messages that were released now.
            before, after: the number of messages handled since the start, before these and now.
        """
        in_a_row = before == self._handled_at_release  # else other outcomes came between
        self._released_in_a_row = count + (self._released_in_a_row if in_a_row else 0)
        self._handled_at_release = after
        if self._released_in_a_row >= _MANY_RELEASED and not self._warned_of_releases:
            self._warned_of_releases = True
            text = (
                f"the handler released {self._released_in_a_row} messages in a row; a released message comes again at "
                "once, uncounted and without limit: to try again later, raise Retry(delay=...)"
            )
            self.log("released_again", logging.WARNING, text, count=self._released_in_a_row)

"""The base of all entities of the emulator: a test can have them refuse messages as a busy service does."""

from __future__ import annotations

from .._errors import Refused
from .._queues.node import Node
from ._conditions import SERVER_BUSY


class AzureNode(Node):
    """A node that can be busy.

    Attributes:
        busy: how many of the next messages, links and requests to refuse.
        refusal: the condition of the refusal.
    """

    settles_at_once = True  # SDKs ask for "second", and never settle
    keeps_records = True
    busy: int = 0
    refusal = SERVER_BUSY

    def check_busy(self) -> None:
        """Refuse as many times as `busy` says.

        Raises:
            Refused: the entity is busy.
        """
        if self.busy:
            self.busy -= 1
            if self.refusal == SERVER_BUSY:
                raise Refused(SERVER_BUSY, f"{self.name!r} is busy: try again in a few seconds")
            raise Refused(self.refusal, f"{self.name!r} refuses this on demand")

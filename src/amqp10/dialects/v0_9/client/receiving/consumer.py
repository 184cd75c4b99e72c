"""The consumers that a receiving link has at the peer, one after the other."""

from __future__ import annotations

from typing import ClassVar, Final

from ....._machine import RECEIVED, Machine
from ....._machine import Step as AnyStep
from ...codes import Fault
from ...states import CONSUMER, ConsumerState, Step

MAX_NAME: Final = 200
"""The greatest number of octets of a link's name in the tags of its consumers."""


class Consumer(Machine[ConsumerState]):
    """The present consumer of a link, as 0-9-1 means the word: what `basic.consume` begins and `basic.cancel` ends.

    Attributes:
        tag: the consumer-tag; no other consumer of the link has it.
        after: the number of the last delivery before the consumer was asked for.
        changing: a consume or cancel was sent, and the peer did not answer it yet.
    """

    noun = "consumer"
    transitions: ClassVar[dict[tuple[ConsumerState, Step], ConsumerState]] = CONSUMER

    def __init__(self, name: str) -> None:
        self.state = ConsumerState.NONE
        self.tag: str = ""
        self.after: int = 0
        self.changing: bool = False
        self._name = name.encode()[:MAX_NAME].decode(errors="ignore")
        self._count = 0

    def start(self, after: int) -> None:
        """Begin a new consumer, whose consume is about to be written."""
        self._count += 1
        self.tag = f"{self._name}.{self._count}" if self._count > 1 else self._name
        self.after = after
        self.advance(Step.SEND_CONSUME)

    def entered(self, state: ConsumerState) -> None:
        self.changing = state in (ConsumerState.STARTING, ConsumerState.CANCELLING)

    def illegal(self, step: AnyStep) -> Exception:
        if step.way == RECEIVED:
            return Fault(503, f"basic.{step.what}, which was not asked for")
        return super().illegal(step)

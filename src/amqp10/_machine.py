"""State machines that are tables: what may be sent and received when, and what state follows.

A dialect names the states of an endpoint and the steps between them, and writes a table of both; so does the client,
for its callers. The endpoint is a `Machine` on that table: `advance` alone changes its state, and `entered` alone sets
what others read of it. That an endpoint ends with what is above it, or by a fault, is a step of its table, too.
docs/reference/states.md is drawn from the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, Final, Generic, TypeVar

from .errors import LocalProtocolError, RemoteProtocolError

S = TypeVar("S", bound=Enum)

SENT: Final = "S"
RECEIVED: Final = "R"
HAPPENED: Final = "H"


class Step(Enum):
    """What moves a machine on. The steps of a dialect are a subclass, with members `NAME = way, what`.

    Attributes:
        way: SENT by this side, RECEIVED from the peer, or HAPPENED, which is legal whenever the table has it.
        what: the frame, method or event, in the specification's word.
    """

    def __init__(self, way: str, what: str) -> None:
        self.way = way
        self.what = what

    def __str__(self) -> str:
        return f"{self.way}:{self.what}"


class Machine(Generic[S]):
    """An endpoint with a state that a table changes.

    Attributes:
        noun: what has the state, as errors name it.
        transitions: (state, step) -> the next state. A step that is not there is illegal.
        state: where the machine is. Only `advance` changes it.
    """

    noun: ClassVar[str]
    transitions: ClassVar[Mapping[tuple[Any, Any], Any]]
    state: S

    def may(self, step: Step) -> bool:
        """Return whether the table has this step for the present state."""
        return (self.state, step) in self.transitions

    def advance(self, step: Step) -> None:
        """Take one step of the table.

        Raises:
            LocalProtocolError: this side may not send that now; the state is as before.
            Exception: the peer may not send that now (see `illegal`); the state is as before.
        """
        state = self.transitions.get((self.state, step))
        if state is None:
            raise self.illegal(step)
        self.state = state
        self.entered(state)

    def entered(self, state: S) -> None:
        """Set the attributes that follow from the state. Called after each step."""

    def illegal(self, step: Step) -> Exception:
        """Return the error for a step that the table does not have."""
        if step.way == RECEIVED:
            return RemoteProtocolError(
                f"the peer sent {step.what} in {self.noun} state {self.state.name}", "amqp:illegal-state"
            )
        return LocalProtocolError(f"{step.what} is not possible in {self.noun} state {self.state.name}")

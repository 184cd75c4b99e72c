"""What the sessions of both roles share: their state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ..._machine import Machine
from ...engine import Session
from .states import SESSION, SessionState


class SessionEndpoint(Session, Machine[SessionState]):
    """One end of a session: on a client a group of channels, on a server one channel."""

    noun = "session"
    transitions: ClassVar[Mapping[tuple[Any, Any], Any]] = SESSION
    state = SessionState.BEGINNING
    begun: bool = False
    strict_window = True

    def entered(self, state: SessionState) -> None:
        self.begun = state is SessionState.BEGUN

    @property
    def sendable(self) -> bool:
        return self.begun

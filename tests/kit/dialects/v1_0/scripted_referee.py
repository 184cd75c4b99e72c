"""What a peer may say."""

from __future__ import annotations

from amqp10.testing import (
    Attach,
    Begin,
    Close,
    Detach,
    End,
    EngineScript,
    Flow,
    Frame,
    Open,
    Transfer,
)


class Referee:
    """Watches what an engine writes: each frame only while what it is about is there (§2.4.6, §2.5.5, §2.6)."""

    def __init__(self, *, opened: bool = True) -> None:
        self.opened = opened
        self.closed = False
        self.handles: dict[int, set[int]] = {}

    def watch(self, script: EngineScript) -> None:
        """Judge everything that the engine has written since."""
        while (item := script.read()) is not None:
            assert isinstance(item, Frame)
            fault = self.fault(item.channel, item.performative)
            assert not fault, f"{fault}: {item}\n{script.trace()}"

    def fault(self, channel: int, frame: object) -> str | None:
        """Return what is wrong with writing this frame now."""
        handles = self.handles.get(channel)
        if self.closed or self.opened is isinstance(frame, Open):
            return "closed" if self.closed else "open again" if self.opened else "not open"
        match frame:
            case Open():
                self.opened = True
            case Close():
                self.closed = True
            case Begin():
                if handles is not None:
                    return "a second begin"
                self.handles[channel] = set()
            case _ if handles is None:
                return "no session"
            case End():
                del self.handles[channel]
            case Attach():
                if frame.handle in handles:
                    return "handle in use"
                handles.add(frame.handle)
            case Detach():
                if frame.handle not in handles:
                    return "not attached"
                handles.remove(frame.handle)
            case Transfer() | Flow():
                if frame.handle is not None and frame.handle not in handles:
                    return "not attached"
        return None

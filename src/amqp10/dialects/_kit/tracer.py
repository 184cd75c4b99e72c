"""What crosses a connection, as lines of text: one for each header or frame. Secrets never get into a line.

A tracer reads the bytes for itself, beside the engine: it costs nothing where nobody traces, and shows what really
crossed, in the order of each direction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from typing import Any, ClassVar, Final

from ...engine import Tracer
from ...errors import AmqpError

SHOWN_BODY: Final = 256
"""Bytes of a body that are shown."""


class Direction(ABC):
    """One way of a connection, cut into what the dialect frames it by."""

    units: ClassVar[str] = "frames"
    _lost = False

    def lines(self, data: bytes) -> Iterator[str]:
        """Yield a line for each frame that `data` completes; once frames cannot be told apart, yield sizes only."""
        if self._lost:
            yield f"{len(data)} bytes"
            return
        try:
            yield from self.read(data)
        except AmqpError as error:
            self._lost = True
            self.forget()
            yield f"no {self.units} from here on: {error}"

    @abstractmethod
    def read(self, data: bytes) -> Iterator[str]:
        """Yield a line for each header or frame that `data` completes.

        Raises:
            AmqpError: the beginning of the next frame is unknown.
        """

    def forget(self) -> None:  # noqa: B027  # most keep it in their reader
        """Drop what is kept of a frame that is not whole: no more are read."""


class BothDirections(Tracer):
    """The tracer of one connection: what this side sends is marked with `>`, what it receives with `<`."""

    def __init__(self, sent: Direction, received: Direction) -> None:
        self._sent = sent
        self._received = received

    def sent(self, data: bytes) -> list[str]:
        return [f"> {line}" for line in self._sent.lines(data)]

    def received(self, data: bytes) -> list[str]:
        return [f"< {line}" for line in self._received.lines(data)]


def show_call(name: str, fields: Iterable[tuple[str, Any]], secret: Collection[str] = ()) -> str:
    """Return `name(field=value, ...)`, without the values of secret fields."""
    shown = (f"{field}={'<secret>' if field in secret else repr(value)}" for field, value in fields)
    return f"{name}({', '.join(shown)})"


def show_body(body: bytes, *, secret: bool = False) -> str:
    """Return how a body begins, or that it is secret; with a blank before."""
    return " <secret>" if secret else f" {body[:SHOWN_BODY]!r}{'...' if len(body) > SHOWN_BODY else ''}"

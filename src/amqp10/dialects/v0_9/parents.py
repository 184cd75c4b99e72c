"""What channels know of the engine that they are on, and the engine and channel 0 of what they serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...engine import ConnectionTerms
    from ...errors import AmqpError
    from .._kit.parents import Batcher
    from .states import Step
    from .wire.method_table import Method
    from .wire.variant import Variant


class ConnectionSession(Protocol):
    """A session, as channel 0 sees it."""

    def over(self, error: AmqpError | None) -> None: ...


class Wire(Protocol):
    """The engine, as its channels see it.

    Attributes:
        channels: all that are open, or that wait for the answer to their close, by number.
        partial: octets of messages that are not whole.
        closing: whether this side's connection.close was sent.
    """

    channels: dict[int, Any]
    partial: int
    closing: bool
    variant: Variant
    terms: ConnectionTerms

    def count_partial(self, change: int) -> bool: ...

    def may(self, step: Step) -> bool: ...

    def advance(self, step: Step) -> None: ...

    def write_method(self, channel: int, method: Method) -> None: ...

    def write_last(self, method: Method) -> None: ...

    def when_handled(self, work: Callable[[], None]) -> None: ...

    def flush_later(self, batcher: Batcher) -> None: ...

    def finish(self, error: AmqpError | None) -> None: ...

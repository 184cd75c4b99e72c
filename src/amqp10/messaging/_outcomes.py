"""The delivery states of messages (§3.4), and the error of a rejection (§2.8.14).

For another outcome, see "How to add…" in CONTRIBUTING.md.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from .._arguments import with_article
from ..types import Composite, Described, composite, field
from ._transactions import Declared, TransactionalState


@composite(0x1D, "amqp:error:list", provides=("error",))
class Error(Composite):
    """The reason why a message was rejected, or a link, session or connection ended (§2.8.14).

    Attributes:
        condition: a symbol such as "amqp:not-found"; §2.8.15-18 list the standard ones.
        description: text for people.
        info: further details by symbol; a `str` key is sent as a symbol.
    """

    condition: str = field("symbol", mandatory=True)
    description: str | None = field("string")
    info: dict[Any, Any] | None = field("map", keys="symbol")


@composite(0x23, "amqp:received:list", provides=("delivery-state",))
class Received(Composite):
    """How far the message has been received; not an outcome (§3.4.1).

    Attributes:
        section_number: the next section to receive, counted from 0.
        section_offset: the next octet of that section to receive.
    """

    section_number: int = field("uint", mandatory=True)
    section_offset: int = field("ulong", mandatory=True)


@composite(0x24, "amqp:accepted:list", provides=("delivery-state", "outcome"))
class Accepted(Composite):
    """The message was processed (§3.4.2)."""


@composite(0x25, "amqp:rejected:list", provides=("delivery-state", "outcome"))
class Rejected(Composite):
    """The message is invalid and was not processed (§3.4.3).

    Attributes:
        error: the reason.

    Raises:
        TypeError: the reason is not an `Error`.
    """

    error: Error | None = field("*", requires="error")

    def __init__(self, error: Error | None = None) -> None:
        if not isinstance(error, Error | None):
            raise TypeError(
                'error must be an Error, such as Error("amqp:decode-error", "why"), or None, not '
                + with_article(type(error).__name__)
            )
        self.error = error


@composite(0x26, "amqp:released:list", provides=("delivery-state", "outcome"))
class Released(Composite):
    """The message was not and will not be processed (§3.4.4).

    Attributes:
        error: the reason, if the peer's dialect can state one; None in 1.0, which cannot.
    """

    error: ClassVar[Error | None] = None


@composite(0x27, "amqp:modified:list", provides=("delivery-state", "outcome"))
class Modified(Composite):
    """The message was not processed, and the sender is to modify it (§3.4.5).

    Attributes:
        delivery_failed: whether to count the attempt in the delivery-count.
        undeliverable_here: whether the sender must not deliver the message on this link again.
        message_annotations: annotations to add to the message, or to replace; a `str` key is sent as a symbol.
    """

    delivery_failed: bool | None = field("boolean")
    undeliverable_here: bool | None = field("boolean")
    message_annotations: dict[Any, Any] | None = field("map", keys="annotation")


class Returned(Released):
    """Released with a reason: a broker of an older dialect returned the message, as no queue takes it (0-9-1 §1.8.3.9).

    It is encoded like, and equal to, any other `Released`.
    """

    __slots__ = ("error",)

    def __init__(self, error: Error) -> None:
        self.error: Error = error  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Released)

    def __hash__(self) -> int:
        return hash(RELEASED)

    def __repr__(self) -> str:
        return f"Returned({self.error!r})"


class Undone(Rejected):
    """A discharge rejected because of a message of the transaction, whose outcome a 0-10 server reports only then.

    It is encoded like, and equal to, any other `Rejected` with the same error.
    """

    __slots__ = ("cause",)

    def __init__(self, error: Error, cause: Rejected | Released) -> None:
        super().__init__(error)
        self.cause: Rejected | Released = cause

    __hash__ = None  # type: ignore[assignment]  # like every mutable composite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rejected) and self.error == other.error

    def __repr__(self) -> str:
        return f"Undone({self.error!r}, {self.cause!r})"


ACCEPTED: Final = Accepted()
RELEASED: Final = Released()

Outcome = Accepted | Rejected | Released | Modified
"""A terminal state of a delivery (§3.4)."""
OUTCOMES: Final = (Accepted, Rejected, Released, Modified)
"""The classes of `Outcome`, in the order of §3.4."""
OUTCOME_NAMES: Final = tuple(str(kind.descriptor_name) for kind in OUTCOMES)
"""The `outcomes` of a source that takes all of them (§3.5.3)."""
DeliveryState = Outcome | Received | Declared | TransactionalState | Described
"""The states that a disposition or transfer may carry, including those of transactions (§4.5.6).

A state of an unknown type, such as an extension's, stays `Described`.
"""

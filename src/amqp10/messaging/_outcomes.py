"""What becomes of a message: the delivery states (§3.4), and the error that a rejection carries (§2.8.14)."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from ..types import Composite, Described, composite, field
from ._transactions import Declared, TransactionalState


@composite(0x1D, "amqp:error:list", provides=("error",))
class Error(Composite):
    """Why a message was rejected, or a link, session or connection ended (§2.8.14).

    Attributes:
        condition: a symbol such as "amqp:not-found"; the specification's are in §2.8.15-18.
        description: text for people.
        info: more of it, by symbol; a `str` key is sent as a symbol.
    """

    condition: str = field("symbol", mandatory=True)
    description: str | None = field("string")
    info: dict[Any, Any] | None = field("map", keys="symbol")


@composite(0x23, "amqp:received:list", provides=("delivery-state",))
class Received(Composite):
    """How far the message has been received; not an outcome (§3.4.1).

    Attributes:
        section_number: the section, counted from 0, that is next to be received.
        section_offset: the first octet of it that was not received.
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
        error: what is wrong with it.
    """

    error: Error | None = field("*", requires="error")


@composite(0x26, "amqp:released:list", provides=("delivery-state", "outcome"))
class Released(Composite):
    """The message was not and will not be processed (§3.4.4).

    Attributes:
        error: why, if the peer's dialect is one that can say it; None in 1.0, which has no place for that.
    """

    error: ClassVar[Error | None] = None


@composite(0x27, "amqp:modified:list", provides=("delivery-state", "outcome"))
class Modified(Composite):
    """The message was not processed, and is to be changed (§3.4.5).

    Attributes:
        delivery_failed: count the attempt in the delivery-count.
        undeliverable_here: do not deliver it on this link again.
        message_annotations: to add to those of the message, or to replace there; a `str` key is sent as a symbol.
    """

    delivery_failed: bool | None = field("boolean")
    undeliverable_here: bool | None = field("boolean")
    message_annotations: dict[Any, Any] | None = field("map", keys="annotation")


class Returned(Released):
    """Released, and why: what a broker of an older dialect says of a message that no queue takes (0-9-1 §1.8.3.9).

    It is encoded as, and equal to, any other `Released`.
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
    """A discharge that was rejected for a message of the transaction, whose outcome the server says only then (0-10).

    It is encoded as, and equal to, any other `Rejected` with that error.
    """

    __slots__ = ("cause",)

    def __init__(self, error: Error, cause: Rejected | Released) -> None:
        super().__init__(error)
        self.cause: Rejected | Released = cause

    __hash__ = None  # type: ignore[assignment]  # as that of all that can change

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
"""What a source lists as its `outcomes` when it takes all of them (§3.5.3)."""
DeliveryState = Outcome | Received | Declared | TransactionalState | Described
"""What a disposition or transfer may carry, the states of transactions (§4.5.6) among it.

A state of no known type, such as an extension's, stays `Described`.
"""

"""Reply codes, and the error conditions that stand for them (0-9-1 §1.3)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ...errors import RemoteProtocolError
from ...messaging import Error
from ...types import Symbol
from .._kit.reply_codes import CODES_0_9, TEXTS_0_9, reply_text

NO_FRAME: Final = 0
"""In place of a reply code for octets that are not a frame: nothing more is sent then, not even a close (§4.2.3)."""
# The codes with which a channel may be closed; the others close the connection.
SOFT: Final = frozenset((310, 311, 312, 313, 403, 404, 405, 406))


class Fault(RemoteProtocolError):
    """The peer broke a rule, which ends the connection, or only the channel if `soft`.

    `code` is the reply code for the peer. With `NO_FRAME` the peer is told nothing, and the transport ends.
    """

    def __init__(self, code: int, text: str, method: tuple[int, int] = (0, 0), *, soft: bool = False) -> None:
        super().__init__(text, condition_of(code))
        self.code = code
        self.method = method
        self.soft = soft

    def plain(self) -> RemoteProtocolError:
        """Return it as the owner is told: reply codes are between the two peers."""
        return RemoteProtocolError(str(self), self.condition)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), soft=self.soft), (self.code, str(self), self.method)


def condition_of(code: int) -> str:
    """Return the condition that a reply code stands for."""
    if code == NO_FRAME:
        return "amqp:connection:framing-error"
    return CODES_0_9.conditions.get(code, f"amqp:reply-{code}")


def code_of(condition: str | None, default: int = 541) -> int:
    """Return the reply code for a condition; `default` if no code stands for it."""
    return CODES_0_9.by_condition.get(str(condition), default)


def text_of(error: Error, code: int = 0) -> str:
    """Return the reply text of an error, at most 255 octets. `code`: a finer code than that of the condition."""
    code = code or code_of(error.condition)
    name = TEXTS_0_9.get(code, f"REPLY_{code}")
    return reply_text(f"{name} - {error.description}" if error.description else name)


def as_error(code: int, text: str, class_id: int = 0, method_id: int = 0) -> Error:
    """Return a peer's reply code and text as an error of AMQP 1.0, with the code itself in its info."""
    info = {Symbol("reply-code"): code}
    if class_id or method_id:
        info |= {Symbol("class-id"): class_id, Symbol("method-id"): method_id}
    return Error(condition_of(code), text or None, info)


def text_of_fault(fault: Fault) -> str:
    """Return the reply text for a fault of the peer."""
    return text_of(Error(fault.condition, str(fault)))


def unknown_method(payload: bytes) -> Fault:
    """Return the fault for a method that the dialect does not have, or that nobody implements."""
    code = int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")
    return Fault(540, f"there is no method {code[1]} of class {code[0]}", code)

"""The policy for a message whose handler failed: retry it after a delay, or dead-letter it with the reason."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final

from .._arguments import check_range, checked
from .._calls import one_line
from ..errors import DecodeError
from ..messaging import Message, Outcome
from ..net import backoff


@checked
class Retry(Exception):
    """Raised by a handler: try the message again, unless this was the last attempt; then it is dead-lettered.

    Args:
        reason: the reason, for the log.
        delay: seconds until the retry; None for the delay of the worker's policy.
    """

    def __init__(self, reason: str = "", *, delay: float | None = None) -> None:
        if delay is not None and not 0 <= delay < math.inf:
            raise ValueError(f"delay must be a number of seconds, 0 or more, not {delay}")
        super().__init__(reason)
        self.delay = delay


MAX_REASON_LENGTH: Final = 4096
MAX_CONDITION_LENGTH: Final = 128
"""The most characters of a dead letter's reason and condition that are sent: an exception may have any text."""


@checked
class DeadLetter(Exception):
    """Raised by a handler to dead-letter a message that nobody can process.

    Args:
        reason: the reason, sent as the description of the error; up to 4,096 characters of it.
        condition: the error condition to send (§2.8.16), in ASCII; up to 128 characters of it.
    """

    def __init__(self, reason: str = "", *, condition: str = "amqp:internal-error") -> None:
        super().__init__(reason)
        self.reason = reason
        self.condition = condition


Decision = Retry | DeadLetter | Outcome
"""The decision on a message whose handler failed: `Retry` with its delay, `DeadLetter` with its reason, or an outcome.
"""


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """The retry policy: retry after a growing pause, and dead-letter the message after the last attempt.

    A `DecodeError` is never retried, because the same bytes would fail again. For other rules, write a subclass and
    override `decide`.

    Attributes:
        attempts: the maximum number of attempts for a message, including attempts of other workers.
        initial_delay, max_delay: the first and the longest pause, in seconds, before `jitter` shortens them.
        multiplier: the factor by which the pause grows with each attempt.
        jitter: the fraction by which a pause may be shortened at random, 0 to 1.
        never: exceptions after which the message is dead-lettered at once.

    Raises:
        ValueError: a number is out of range.
    """

    attempts: int = 5
    initial_delay: float = 1.0
    max_delay: float = 300.0
    multiplier: float = 2.0
    jitter: float = 0.5
    never: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        check_range("attempts", self.attempts, 1)
        if not 0 <= self.initial_delay <= self.max_delay < math.inf:
            raise ValueError(
                "initial_delay and max_delay must satisfy 0 <= initial_delay <= max_delay, "
                f"not {self.initial_delay} and {self.max_delay}"
            )
        check_range("multiplier", self.multiplier, 1)
        check_range("jitter", self.jitter, 0, 1)

    def decide(self, error: Exception, message: Message, attempt: int) -> Decision:
        """Return what happens to a message whose handler raised.

        Args:
            error: the exception raised by the handler.
            attempt: the number of the attempt, counted from 1.
        """
        if isinstance(error, DecodeError):
            return DeadLetter(str(error), condition="amqp:decode-error")
        if isinstance(error, self.never):
            return DeadLetter(described(error))
        if attempt >= self.attempts:
            return DeadLetter(f"{described(error)} (attempt {attempt} of {self.attempts})")
        if isinstance(error, Retry) and error.delay is not None:
            return error
        settings = (self.initial_delay, self.max_delay, self.multiplier, self.jitter)
        return Retry(described(error), delay=backoff(attempt, *settings, random.random()))


def sendable(letter: DeadLetter) -> DeadLetter:
    """Return a dead letter whose reason and condition each dialect can write, and that fit into a frame."""
    reason = str(letter.reason)[:MAX_REASON_LENGTH].encode(errors="backslashreplace").decode()
    condition = str(letter.condition)[:MAX_CONDITION_LENGTH].encode("ascii", "backslashreplace").decode()
    return DeadLetter(reason, condition=condition)


def described(error: Exception) -> str:
    """Return an error in one line, with its class unless it is a `Retry`, and with what to call in place of a method.

    That is a note on the error, which its text does not have.
    """
    text = one_line(error)
    if isinstance(error, AttributeError) and (notes := getattr(error, "__notes__", [])):
        text = f"{text} ({'; '.join(map(str, notes))})"
    if isinstance(error, Retry):
        return text or "the handler asked for another attempt"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__

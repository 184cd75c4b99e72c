"""Errors as calls raise them, each its own."""

from __future__ import annotations

import copy

import anyio

from ..errors import AmqpError


def fresh(cause: AmqpError) -> AmqpError:
    """Return a copy of a cause: each task that raises it needs a traceback, a context and notes of its own."""
    error = copy.copy(cause)
    error.__cause__ = cause.__cause__
    if hasattr(cause, "__notes__"):
        error.__notes__ = list(cause.__notes__)
    return error


def busy(action: str) -> anyio.BusyResourceError:
    """Return the error of a call that another task is in already: anyio's own words would add "this resource"."""
    error = anyio.BusyResourceError(action)
    error.args = (f"another task is already {action}",)
    return error

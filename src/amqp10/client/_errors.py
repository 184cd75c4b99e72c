"""Errors as calls raise them, each its own."""

from __future__ import annotations

import copy

import anyio

from ..errors import AmqpError, EndpointError, RequestRefused
from ..sasl import Secrets


def fresh(cause: AmqpError) -> AmqpError:
    """Return a copy of a cause: each task that raises it needs a traceback, a context and notes of its own."""
    error = copy.copy(cause)
    error.__cause__ = cause.__cause__
    if hasattr(cause, "__notes__"):
        error.__notes__ = list(cause.__notes__)
    return error


def hide_secrets(secrets: Secrets, error: AmqpError) -> None:
    """Hide the secrets of a login in the words of an error, which may be those of the server."""
    if not isinstance(error, EndpointError | RequestRefused):
        error.args = tuple(secrets.hide(each) if isinstance(each, str) else each for each in error.args)
    elif error.description is not None:
        error.description = secrets.hide(error.description)
        error.args = (error.condition, error.description)


def busy(action: str) -> anyio.BusyResourceError:
    """Return the error of a call that another task is in already: anyio's own words would add "this resource"."""
    error = anyio.BusyResourceError(action)
    error.args = (f"another task is already {action}",)
    return error

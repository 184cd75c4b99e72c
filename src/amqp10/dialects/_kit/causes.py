"""Why a link, session or connection ended, as the exception for its owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ...errors import EndpointError, RequestRefused

if TYPE_CHECKING:
    from ...messaging import Error

Cause = TypeVar("Cause", bound=EndpointError | RequestRefused)


def as_exception(kind: type[Cause], error: Error | None) -> Cause:
    """Return an error of the peer as an exception of the type `kind`; None: the peer gave no reason."""
    return kind() if error is None else kind(error.condition, error.description, error.info)


def end_cause(kind: type[Cause], error: Error | None, *, asked: bool) -> Cause | None:
    """Return why the peer ended something; None for an orderly end that this side has asked for."""
    return None if asked and error is None else as_exception(kind, error)

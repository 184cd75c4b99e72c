"""`connection.native` with a type that checkers and editors know."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ..errors import Unsupported

if TYPE_CHECKING:
    from ..client import Connection

API = TypeVar("API")


def native_of(connection: Connection, kind: type[API], spoken: str) -> API:
    """Return `connection.native` if it is of `kind`; `spoken` names the dialects of this kind, for the error.

    Raises:
        Unsupported: the connection speaks another dialect.
    """
    native = connection.native
    if not isinstance(native, kind):
        raise Unsupported(f"the connection speaks {connection.dialect!r}; this API needs {spoken}")
    return native

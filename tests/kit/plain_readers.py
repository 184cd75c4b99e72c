"""The plain readers in place of compiled ones, and the general ones in place of those of shapes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from amqp10.types.codec import READERS

from .inside.codec import fast_messages, fields, read_compound, shapes


@contextmanager
def plain_readers() -> Iterator[None]:
    """Have messages, lists and maps read by the plain readers."""
    usual = READERS[:]
    READERS[:] = [getattr(each, "plain", each) for each in usual]
    if fast_messages is not None:
        fast_messages.leave_all(True)
    try:
        yield
    finally:
        READERS[:] = usual
        if fast_messages is not None:
            fast_messages.leave_all(False)


@contextmanager
def without_shapes() -> Iterator[None]:
    """Have each map and each list of fields read as the first of its kind."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (read_compound, fields, shapes):
            patch.setattr(module, "read_by", lambda *_: None)
        patch.setattr(shapes.Shapes, "note", lambda *_: None)
        yield


@contextmanager
def quick_shapes(*, before: int = 0, looks: int = 1) -> Iterator[None]:
    """Have readers of shapes written at once, as many as are asked for, and none known at first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "_BEFORE", before)
        patch.setattr(shapes, "_LOOKS", looks)
        patch.setattr(shapes, "_WRITTEN_AT_ONCE", 1 << 30)
        forget_shapes()
        yield
    forget_shapes()


def forget_shapes() -> None:
    """Forget all shapes of maps and of properties."""
    for each in (read_compound.map_shapes, fields.PROPERTIES_FIELDS.shapes):
        each.clear()

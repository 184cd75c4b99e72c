"""The plain readers in place of compiled ones, and the general ones in place of those of shapes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from amqp10.messaging import _fields
from amqp10.messaging._compiled import fast
from amqp10.types import _read_compound, _shapes
from amqp10.types._read_primitive import READERS


@contextmanager
def plain_readers() -> Iterator[None]:
    """Have messages, lists and maps read by the plain readers."""
    usual = READERS[:]
    READERS[:] = [getattr(each, "plain", each) for each in usual]
    if fast is not None:
        fast.leave_all(True)
    try:
        yield
    finally:
        READERS[:] = usual
        if fast is not None:
            fast.leave_all(False)


@contextmanager
def without_shapes() -> Iterator[None]:
    """Have each map and each list of fields read as the first of its kind."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (_read_compound, _fields, _shapes):
            patch.setattr(module, "read_by", lambda *_: None)
        patch.setattr(_shapes.Shapes, "note", lambda *_: None)
        yield


@contextmanager
def quick_shapes(*, before: int = 0, looks: int = 1) -> Iterator[None]:
    """Have readers of shapes written at once, as many as are asked for, and none known at first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_shapes, "_BEFORE", before)
        patch.setattr(_shapes, "_LOOKS", looks)
        patch.setattr(_shapes, "_WRITTEN_AT_ONCE", 1 << 30)
        forget_shapes()
        yield
    forget_shapes()


def forget_shapes() -> None:
    """Forget all shapes of maps and of properties."""
    for shapes in (_read_compound.map_shapes, _fields.PROPERTIES_FIELDS.shapes):
        shapes.clear()

"""Leave out of the reference what programs do not call: an extension of Griffe, for mkdocstrings."""

from __future__ import annotations

from typing import Any

import griffe

MADE_BY_OTHERS = (
    "amqp10.client._links",
    "amqp10.client._receiving",
    "amqp10.client._requests",
    "amqp10.client._sending",
    "amqp10.client._session",
    "amqp10.client._transactions",
    "amqp10.engine._deliveries",
)
"""Modules whose objects a connection, or one of its links, makes."""


class Constructors(griffe.Extension):
    """Removes `__init__` from the classes of these modules, and `__dir__` from all; shows `native` as a property."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Griffe calls this for each class, once its members are known."""
        if cls.path.startswith(MADE_BY_OTHERS):
            cls.members.pop("__init__", None)
        cls.members.pop("__dir__", None)
        native = cls.members.get("native")
        if isinstance(native, griffe.Function):  # its decorator is a property to Python and to type checkers
            shown = griffe.Attribute("native", annotation=native.returns, docstring=native.docstring)
            shown.labels.add("property")
            cls.set_member("native", shown)

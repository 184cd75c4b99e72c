"""The property sets of content: flags that say which properties are there, then those (0-9-1 §4.2.6.1)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Final

from ....errors import DecodeError, EncodeError
from ....types import Timestamp
from ..._kit.fields import Field, Fields
from .fields import READERS, WRITERS, read_any_shortstr
from .tables import Tables


def _property(type: str) -> Any:  # noqa: A002  # as in the specification's tables
    return Field("", type, None)


class Properties(Fields):
    """The base of the sets; a property that is None is absent."""

    class_id: ClassVar[int]

    def __init_subclass__(cls, *, class_id: int) -> None:
        super().__init_subclass__()
        cls.class_id = class_id

    def encode(self, tables: Tables) -> bytes:
        """Return flags and values.

        Raises:
            EncodeError: a value is of the wrong type or out of range; the error names the property.
        """
        flags = 0
        out = bytearray(2)
        given = vars(self)
        for index, field in enumerate(self.fields):
            value = given.get(field.name)
            if value is not None:
                flags |= 0x8000 >> index
                try:
                    WRITERS[field.type](out, value, tables)
                except (EncodeError, TypeError, AttributeError) as error:
                    raise EncodeError(f"{field.name}: {error}") from None
        out[:2] = flags.to_bytes(2, "big")
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes, tables: Tables, at: int = 0) -> Any:
        """Return the properties in `data` from `at` to its end.

        Raises:
            DecodeError: they are malformed, a flag has no property, or octets follow them.
        """
        flags, more, known = 0, 1, len(cls.fields)
        words = 0
        while more:  # the lowest bit says that another word of flags follows
            if at + 2 > len(data):
                raise DecodeError("the content header ends within its flags")
            word = int.from_bytes(data[at : at + 2], "big")
            flags, more = flags << 15 | word >> 1, word & 1
            at += 2
            words += 1
            if words > 8:
                raise DecodeError("a content header has more flags than there are properties")
        top = 15 * words - 1
        if flags & ((1 << max(0, top + 1 - known)) - 1):
            raise DecodeError("a content header has a property flag that its class does not define")
        values = {}
        name = ""
        try:
            for index, field in enumerate(cls.fields):
                if flags >> (top - index) & 1:
                    name = field.name
                    read = read_any_shortstr if field.type == "shortstr" else READERS[field.type]
                    values[name], at = read(data, at, tables)
        except IndexError:
            raise DecodeError(f"the content header ends within {name}") from None
        if at != len(data):
            raise DecodeError(f"{len(data) - at} octets follow the properties")
        return cls(**values)


class BasicProperties(Properties, class_id=60):
    content_type: str | None = _property("shortstr")
    content_encoding: str | None = _property("shortstr")
    headers: dict[str, Any] | None = _property("table")
    delivery_mode: int | None = _property("octet")
    priority: int | None = _property("octet")
    correlation_id: str | None = _property("shortstr")
    reply_to: str | None = _property("shortstr")
    expiration: str | None = _property("shortstr")
    message_id: str | None = _property("shortstr")
    timestamp: datetime | Timestamp | None = _property("timestamp")
    type: str | None = _property("shortstr")
    user_id: str | None = _property("shortstr")
    app_id: str | None = _property("shortstr")
    cluster_id: str | None = _property("shortstr")


class FileProperties(Properties, class_id=70):
    content_type: str | None = _property("shortstr")
    content_encoding: str | None = _property("shortstr")
    headers: dict[str, Any] | None = _property("table")
    priority: int | None = _property("octet")
    reply_to: str | None = _property("shortstr")
    message_id: str | None = _property("shortstr")
    filename: str | None = _property("shortstr")
    timestamp: datetime | Timestamp | None = _property("timestamp")
    cluster_id: str | None = _property("shortstr")


class StreamProperties(Properties, class_id=80):
    content_type: str | None = _property("shortstr")
    content_encoding: str | None = _property("shortstr")
    headers: dict[str, Any] | None = _property("table")
    priority: int | None = _property("octet")
    timestamp: datetime | Timestamp | None = _property("timestamp")


class TunnelProperties(Properties, class_id=110):
    headers: dict[str, Any] | None = _property("table")
    proxy_name: str | None = _property("shortstr")
    data_name: str | None = _property("shortstr")
    durable: int | None = _property("octet")
    broadcast: int | None = _property("octet")


SETS: Final = {each.class_id: each for each in (BasicProperties, FileProperties, StreamProperties, TunnelProperties)}
"""The property sets by the number of their class."""

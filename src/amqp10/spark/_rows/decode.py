"""Decodes messages straight into Arrow columns: no message object per row, and only the sections that columns need.

A column is a Python list. It is filled up to the current row only when a value arrives, so that a message without a
header costs nothing in the columns of the header. A row is decoded completely before any value is appended, so that a
malformed message leaves no trace.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from ...client import Delivery
from ...errors import DecodeError
from ...messaging import AmqpSequence, AmqpValue, read_annotations
from ...messaging.sections import (
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    BODY,
    DATA,
    HEADER,
    HEADER_FIELDS,
    MAPS,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    PROPERTIES_FIELDS,
    SectionSpan,
    read_body,
    scan,
)
from ...types import Timestamp
from .malformed import find_sections
from .malformed import read_properties as read_properties
from .text import id_text, to_json, to_text
from .variant import Variants, is_variant, variant_from_json

_HEADER: Final = {"durable": False, "priority": 4, "ttl": None, "delivery_count": 0, "first_acquirer": False}
_PROPERTIES: Final = frozenset(PROPERTIES_FIELDS.defaults)
_MAX_OFFSET: Final = 2**63 - 1

# The largest numbers of the header, and of column types that may be too narrow for them.
_MAX_VALUES: Final = {"priority": 255, "ttl": 2**32 - 1, "delivery_count": 2**32 - 1}
_MAX_OF_TYPE: Final = {pa.int8(): 2**7 - 1, pa.int16(): 2**15 - 1, pa.int32(): 2**31 - 1}

# The range of Python's calendar in every time zone (µs since 1970): timestamps beyond it are clamped.
_FIRST, _LAST = (round(datetime(*day, tzinfo=UTC).timestamp()) * 1_000_000 for day in ((1, 1, 3), (9999, 12, 30)))


def _micros(moment: datetime | Timestamp) -> int:
    """Return microseconds since 1970, as Arrow counts, clamped to what PySpark can collect."""
    micros = moment * 1000 if isinstance(moment, Timestamp) else round(moment.timestamp() * 1000) * 1000
    return max(_FIRST, min(micros, _LAST))


def _signed(number: int) -> int:
    """Reinterpret an unsigned number of 32 bits as a signed one, for a column of 32 bits."""
    return number - (1 << 32) if number >= 1 << 31 else number


class _Map:
    """A column of maps: all keys and all values in two lists, and where each map begins."""

    __slots__ = ("items", "keys", "starts")

    def __init__(self) -> None:
        self.starts: list[int | None] = []
        self.keys: list[str | None] = []
        self.items: list[str | None] = []

    def put(self, row: int, entries: dict[Any, Any]) -> None:
        starts = self.starts
        if len(starts) < row:
            starts.extend([None] * (row - len(starts)))
        starts.append(len(self.keys))
        for key, value in entries.items():
            self.keys.append(key if isinstance(key, str) else to_text(key))
            self.items.append(value if type(value) is str else to_text(value))

    def array(self, rows: int, kind: pa.MapType) -> pa.Array:
        self.starts.extend([None] * (rows - len(self.starts)))
        self.starts.append(len(self.keys))
        offsets = pa.array(self.starts, pa.int32())
        return pa.MapArray.from_arrays(
            offsets, pa.array(self.keys, kind.key_type), pa.array(self.items, kind.item_type), type=kind
        )


class Columns:
    """Builds record batches of one schema from encoded messages.

    Args:
        schema: of the batches, as Spark requires it.
        body_format: the option `bodyFormat`.
        constants: values that are the same in all rows: "address", "partition".
        offset_key: the message annotation that has the offset, for messages of a log.

    Attributes:
        rows: number of rows since the last `take`.
        size: octets of their payloads.
    """

    def __init__(
        self,
        schema: pa.Schema,
        body_format: str = "binary",
        constants: dict[str, Any] | None = None,
        offset_key: str | None = None,
    ) -> None:
        self.schema = schema
        self._raw = body_format == "amqp"
        self._json = body_format == "json"
        self._constants = constants or {}
        self._offset_key = offset_key
        names = set(schema.names)
        self._text_body = "body" in names and pa.types.is_string(schema.field("body").type)
        self._variant_body = "body" in names and is_variant(schema.field("body").type)
        self._wants_header = not names.isdisjoint(_HEADER)
        self._wants_properties = not names.isdisjoint(_PROPERTIES)
        self._wants_application = "application_properties" in names
        self._wants_annotations = "message_annotations" in names or offset_key is not None
        self._keeps_errors = "_decode_error" in names
        self._narrow = [
            (name, _MAX_OF_TYPE[schema.field(name).type])
            for name in _MAX_VALUES.keys() & names
            if _MAX_OF_TYPE.get(schema.field(name).type, _MAX_OFFSET) < _MAX_VALUES[name]
        ]
        self._begin()

    def _begin(self) -> None:
        self.rows = 0
        self.size = 0
        self._lists: dict[str, list[Any]] = {name: [] for name in self.schema.names}
        self._body = self._lists.get("body")
        self._offset = self._lists.get("offset")
        self._header = [(name, self._lists[name], filler) for name, filler in _HEADER.items() if name in self._lists]
        self._properties = [
            (name, self._lists[name], self._converter(name)) for name in self.schema.names if name in _PROPERTIES
        ]
        self._application = self._map("application_properties")
        self._annotations = self._map("message_annotations")

    def _map(self, name: str) -> _Map | Variants:
        wanted = name in self._lists and is_variant(self.schema.field(name).type)
        return Variants() if wanted else _Map()

    def _converter(self, name: str) -> Callable[[Any], Any] | None:
        kind = self.schema.field(name).type
        if name in ("message_id", "correlation_id"):
            return id_text
        if pa.types.is_timestamp(kind):
            return _micros
        if name == "user_id" and pa.types.is_string(kind):
            return lambda value: value.decode("utf-8", "replace")
        if pa.types.is_int32(kind):
            return _signed
        return None

    def add(self, payload: bytes, low: int = 0, high: int = _MAX_OFFSET, flaw: DecodeError | None = None) -> int:
        """Append a message; return its offset in its log, or -1 without one.

        Args:
            payload: the encoded message.
            low, high: the offsets to append, `high` excluded; a message with another offset is not appended.
            flaw: why the message cannot be decoded, if the caller knows already.

        Raises:
            DecodeError: the message is malformed, and there is no column `_decode_error`.
        """
        offset = -1
        annotations = application = header = properties = None
        try:
            if flaw is not None:
                raise flaw
            places = scan(payload)
            if self._wants_annotations and MESSAGE_ANNOTATIONS in places:
                annotations = MAPS[MESSAGE_ANNOTATIONS].read(payload, places[MESSAGE_ANNOTATIONS])
            if self._offset_key is not None:
                if annotations is None or self._offset_key not in annotations:
                    raise DecodeError(f"it has no annotation {self._offset_key}")
                found = annotations[self._offset_key]
                if not isinstance(found, int):
                    raise DecodeError(f"its annotation {self._offset_key} is not a number")
                offset = found
                if not low <= offset < high:
                    return offset
            if self._wants_header and HEADER in places:
                header = self._read_header(payload, places[HEADER])
            if self._wants_properties and PROPERTIES in places:
                properties = PROPERTIES_FIELDS.read(payload, places[PROPERTIES])
            if self._wants_application and APPLICATION_PROPERTIES in places:
                application = MAPS[APPLICATION_PROPERTIES].read(payload, places[APPLICATION_PROPERTIES])
            body = None if self._body is None else self._read_body(payload, places)
        except DecodeError as error:
            if self._offset_key is not None and offset < 0:
                offset = offset_of(payload, self._offset_key)
                if 0 <= offset < low or offset >= high:
                    return offset
            if not self._keeps_errors:
                raise
            body = self._as_it_came(payload)
            annotations, header, properties, application = self._whole_sections(payload)
            self._put("_decode_error", str(error))
        row = self.rows
        if self._body is not None:
            self._body.append(body)
        if self._offset is not None and self._offset_key is not None:
            self._offset.append(offset if offset >= 0 else None)
        if header is not None:
            for name, values, filler in self._header:
                value = getattr(header, name)
                if value != filler:
                    if len(values) < row:
                        values.extend([filler] * (row - len(values)))
                    values.append(value)
        if properties is not None:
            for name, values, convert in self._properties:
                value = getattr(properties, name)
                if value is not None:
                    if len(values) < row:
                        values.extend([None] * (row - len(values)))
                    values.append(value if convert is None else convert(value))
        if application:
            self._application.put(row, application)
        if annotations:
            self._annotations.put(row, annotations)
        self.rows = row + 1
        self.size += len(payload)
        return offset

    def _put(self, name: str, value: Any) -> None:
        values = self._lists[name]
        values.extend([None] * (self.rows - len(values)))
        values.append(value)

    def _read_header(self, payload: bytes, place: SectionSpan) -> Any:
        header = HEADER_FIELDS.read(payload, place)
        for name, most in self._narrow:
            if (getattr(header, name) or 0) > most:
                raise DecodeError(f"its {name} is {getattr(header, name)}, but the column takes numbers up to {most}")
        return header

    def _whole_sections(self, payload: bytes) -> list[Any]:
        """Read the well-formed sections of a malformed message; its message-id detects redelivery."""
        found: list[Any] = [None] * 4
        places = find_sections(payload)
        for at, (wanted, code, read) in enumerate(
            (
                (self._wants_annotations, MESSAGE_ANNOTATIONS, MAPS[MESSAGE_ANNOTATIONS].read),
                (self._wants_header, HEADER, self._read_header),
                (self._wants_properties, PROPERTIES, read_properties),
                (self._wants_application, APPLICATION_PROPERTIES, MAPS[APPLICATION_PROPERTIES].read),
            )
        ):
            if wanted and code in places:
                with suppress(DecodeError):
                    found[at] = read(payload, places[code])
        return found

    def _as_it_came(self, payload: bytes) -> Any:
        """Return the payload as a value of the column `body`, so that nothing of it is lost."""
        if not self._text_body and not self._variant_body:
            return payload
        spelled = b64encode(payload).decode()
        return variant_from_json(to_json(spelled)) if self._variant_body else spelled

    def _read_body(self, payload: bytes, places: dict[int, Any]) -> Any:
        if self._raw:
            return payload
        code = next((code for code in BODY if code in places), None)
        if code is None:
            return None
        body = read_body(payload, code, places[code])
        if code == DATA:
            data = body if type(body) is bytes else bytes(body)
            if self._variant_body:
                return variant_from_json(_utf8(data))
            return _utf8(data) if self._text_body else data
        return self._value(body, code)

    def _value(self, body: Any, code: int) -> Any:
        """Return an amqp-value or amqp-sequence body as a value of the column `body`."""
        if isinstance(body, AmqpValue):
            body = body.value
        if self._variant_body:
            return None if body is None else variant_from_json(to_json(_flatten_sequence(body)))
        if code == AMQP_VALUE and not self._json:
            if body is None:
                return None
            if isinstance(body, str):
                return str(body) if self._text_body else body.encode()
            if type(body) is bytes:
                return _utf8(body) if self._text_body else body
        spelled = to_json(_flatten_sequence(body))
        return spelled if self._text_body else spelled.encode()

    def take(self) -> pa.RecordBatch:
        """Return the rows as a batch, and start an empty one."""
        rows = self.rows
        arrays = [self._array(field, rows) for field in self.schema]
        self._begin()
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, field: pa.Field, rows: int) -> pa.Array:
        if field.name in ("application_properties", "message_annotations"):
            entries = self._application if field.name == "application_properties" else self._annotations
            return entries.array(rows, field.type)
        if field.name in self._constants:
            return pa.repeat(pa.scalar(self._constants[field.name], field.type), rows)
        values = self._lists[field.name]
        values.extend([_HEADER.get(field.name)] * (rows - len(values)))
        return pa.array(values, field.type)


def append_deliveries(columns: Columns, deliveries: Iterable[Delivery], address: str) -> None:
    """Decode deliveries into columns.

    Raises:
        DecodeError: one cannot be decoded, and there is no column `_decode_error`; the message names it.
    """
    delivery = None
    try:
        for delivery in deliveries:
            if delivery.message_format:
                flaw = DecodeError(f"message-format {delivery.message_format} is not that of AMQP messages, 0")
                columns.add(delivery.payload, flaw=flaw)
            else:
                columns.add(delivery.payload)
    except DecodeError as error:
        assert delivery is not None
        raise undecodable_message(delivery, address, error) from error


def undecodable_message(delivery: Delivery, address: str, error: DecodeError) -> DecodeError:
    """Make the error that names the message and says what can be done."""
    return DecodeError(
        f"amqp: a message of {address!r} (delivery-tag {delivery.tag.hex()}, {len(delivery.payload)} octets) cannot be "
        f"decoded: {error}. With a column `_decode_error` STRING in the schema such messages are kept"
    )


def offset_of(payload: bytes, key: str) -> int:
    """Return the offset of a message that may be malformed; -1 if the offset cannot be read."""
    try:
        offset = read_annotations(payload).get(key)
    except DecodeError:
        return -1
    return offset if isinstance(offset, int) else -1


def _flatten_sequence(body: Any) -> Any:
    return [item for part in body for item in part] if isinstance(body, AmqpSequence) else body


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DecodeError("the body is not UTF-8; a column `body` of binary takes it") from None

# cython: boundscheck=False, wraparound=False
"""Read and write whole messages at once. Only a compiled installation has this module (docs/operate/compiled.md).

It handles regular messages, and calls the plain reader or writer of a rare value. It leaves irregular and malformed
messages unchanged to the plain code of `_message`, which alone raises errors.

The code holds the interpreter's lock all the time.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.datetime cimport (
    import_datetime,
    timedelta_days,
    timedelta_microseconds,
    timedelta_new,
    timedelta_seconds,
)
from cpython.dict cimport PyDict_Copy, PyDict_GetItem, PyDict_Next, PyDict_SetItem, PyDict_Size, PyDict_Update, PyDict_Values
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from amqp10.messaging._message cimport Message
from amqp10.types._fast cimport (
    NOT_MINE,
    Buffer,
    Cursor,
    close,
    compound,
    put,
    put_by,
    put_moment,
    put_octets,
    put_text,
    put_unsigned,
    put_uuid,
    put_value,
    release,
    reserve,
    section_end,
    value_at,
    word_at,
    writers,
)

from datetime import datetime, timedelta
from uuid import UUID

from ..types import Array, Described, Symbol, ULong
from ..types.codec import DEFAULT_LIMITS

import_datetime()

cdef object datetime_ = datetime
cdef object timedelta_ = timedelta
cdef object uuid = UUID
cdef object symbol = Symbol
cdef object ulong = ULong
cdef object described = Described
cdef object array = Array
# The plain writers of a property and of a body. `use_writers` sets them.
cdef object property_writers = None
cdef object write_body = None

cdef enum:
    HEADER = 0x70
    DELIVERY_ANNOTATIONS = 0x71
    MESSAGE_ANNOTATIONS = 0x72
    PROPERTIES = 0x73
    APPLICATION_PROPERTIES = 0x74
    DATA = 0x75
    AMQP_VALUE = 0x77
    FOOTER = 0x78
    SECTIONS = 9
    MAX_FIELDS = 13
    DEEPEST = 8  # as types/_fast.pyx

cdef Py_ssize_t LEVELS = DEFAULT_LIMITS.max_depth
cdef Py_ssize_t ELEMENTS = DEFAULT_LIMITS.max_elements


cdef bint idle = False


def use_writers(object of_properties not None, object of_bodies not None):
    """Have properties and bodies of other types written by these."""
    global property_writers, write_body
    property_writers = of_properties
    write_body = of_bodies


def leave_all(bint yes):
    """Leave all messages to the plain code, or stop doing so. Tests compare the two."""
    global idle
    idle = yes


# Reading


@cython.final
@cython.freelist(64)
cdef class Places:
    """The places of the sections of a regular message; `_section_index.scan` returns them as a dict."""

    cdef Py_ssize_t begin[SECTIONS]
    cdef Py_ssize_t end[SECTIONS]  # 0 if there is no such section

    cdef Py_ssize_t end_of(self, int code) noexcept:
        return self.end[code - HEADER]

    def get(self, int code):
        return self[code] if code in self else None

    def items(self):
        return [(code, self[code]) for code in range(HEADER, HEADER + SECTIONS) if code in self]

    def __contains__(self, int code):
        return HEADER <= code <= FOOTER and self.end[code - HEADER] != 0

    def __getitem__(self, int code):
        if code not in self:
            raise KeyError(code)
        return self.begin[code - HEADER], self.begin[code - HEADER] + 3, self.end[code - HEADER]


cdef Places scan(bytes payload):
    """Return the places of the sections of a message, or None if the message is not regular."""
    cdef const unsigned char* p = <const unsigned char*>PyBytes_AS_STRING(payload)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(payload)
    cdef Py_ssize_t at = 0, end
    cdef int code, last = 0
    cdef Places places = Places.__new__(Places)
    memset(places.end, 0, sizeof(places.end))
    while at < size:
        end = section_end(p, at, size, last)
        if end < 0:
            return None
        code = p[at + 2]
        if code != last:
            places.begin[code - HEADER] = at
        places.end[code - HEADER] = end
        last = code
        at = end
    return places if size else None


cdef Places places_of(Message message):
    """Return the places of the sections of a decoded message, or None if the message is not regular."""
    cdef Py_ssize_t size
    if idle:
        return None
    if message._places is None and type(message._source) is bytes:
        places = scan(<bytes>message._source)
        if places is not None:
            size = PyBytes_GET_SIZE(message._source)
            message._parsed = {}
            message._room = [LEVELS, ELEMENTS + (size >> 3)]
            message._places = places
            return places
    return message._places if type(message._places) is Places else None


def places_of_message(Message message not None):
    """Return the places of the sections of a decoded message, or None if the message is not regular.

    Fields are read by this module only if it has found the places itself.
    """
    return places_of(message)


# The constructors that a field of each type may have. Only a message-id may have any type.
cdef dict usual = {
    "boolean": b"\x41\x42",
    "ubyte": b"\x50",
    "uint": b"\x43\x52\x70",
    "binary": b"\xa0\xb0",
    "string": b"\xa1\xb1",
    "symbol": b"\xa3\xb3",
    "timestamp": b"\x83",
    "*": b"\x44\x53\x80\x98\xa0\xa1\xb0\xb1",
}


cdef class Fields:
    """A section that is a list of named fields; made from a `_fields.FieldsSection`."""

    cdef int code
    cdef Py_ssize_t count
    cdef tuple names
    cdef dict nulls
    cdef bint usual[MAX_FIELDS][256]  # whether this code reads the field with that constructor

    def __init__(self, section):
        self.code = section.code
        self.nulls = section.defaults
        self.names = tuple(self.nulls)
        self.count = len(self.names)
        memset(self.usual, 0, sizeof(self.usual))
        for place, field in enumerate(section.declared.fields):
            for code in usual[field.type]:
                self.usual[<int>place][<int>code] = True

    cdef dict read(self, bytes payload, Py_ssize_t at, Py_ssize_t end):
        """Read the list from its constructor at `at` to `end`; return None if the list is not regular."""
        cdef Cursor c
        cdef Py_ssize_t count, place
        cdef unsigned char code
        cdef dict values
        c.data = <PyObject*>payload
        c.p = <const unsigned char*>PyBytes_AS_STRING(payload)
        c.end = end
        if c.p[at] == 0xC0 and end - at >= 3:
            count = c.p[at + 2]
            c.at = at + 3
        elif c.p[at] == 0xD0 and end - at >= 9:
            count = word_at(c.p + at + 5)
            c.at = at + 9
        elif c.p[at] == 0x45:
            count = 0
            c.at = at + 1
        else:
            return None
        if count > self.count:
            return None
        values = PyDict_Copy(self.nulls)
        for place in range(count):
            if c.at >= end:
                return None
            code = c.p[c.at]
            if code == 0x40:
                c.at += 1
                continue
            if not self.usual[place][code]:
                return None
            if code == 0x43:  # a uint or ubyte becomes an int here
                value = 0
                c.at += 1
            elif code == 0x50 or code == 0x52:
                if end - c.at < 2:
                    return None
                value = c.p[c.at + 1]
                c.at += 2
            elif code == 0x70:
                if end - c.at < 5:
                    return None
                value = word_at(c.p + c.at + 1)
                c.at += 5
            else:
                value = value_at(&c, 0)
                if value is NOT_MINE:
                    return None
            PyDict_SetItem(values, self.names[place], value)
        if c.at != end:
            return None
        if self.code == HEADER and values["ttl"] is not None:
            count = values["ttl"]
            values["ttl"] = timedelta_new(
                <int>(count // 86_400_000), <int>(count // 1000 % 86_400), <int>(count % 1000 * 1000)
            )
        return values


cdef dict sections = {}


cdef int read_section(Message message, Fields section, Places places) except -1:
    """Read all fields of a section, except those that the program has set. Return 1 if the section is not regular."""
    cdef dict values, fields
    cdef Py_ssize_t begin = places.begin[section.code - HEADER]
    values = section.read(<bytes>message._source, begin + 3, places.end_of(section.code))
    if values is None:
        return 1
    fields = PyDict_Copy(values)
    PyDict_Update(fields, message._fields)
    message._fields = fields
    (<dict>message._parsed)[section.code] = values
    return 0


cdef dict fields_of(Message message):
    if type(message._fields) is not dict:
        raise AttributeError("a message that was neither made nor decoded has no fields")
    return <dict>message._fields


cdef class Field:
    """A field of the header or properties of a message."""

    cdef str name
    cdef object section, default
    cdef Fields fields
    cdef readonly str __doc__

    def __init__(self, str name, section, str doc):
        self.name = name
        self.section = section
        self.default = section.defaults[name]
        self.fields = sections.setdefault(section.code, Fields(section))
        self.__doc__ = doc

    def __get__(self, instance, owner):
        cdef PyObject* value
        cdef Message message
        cdef Places places
        if instance is None:
            return self
        message = instance
        value = PyDict_GetItem(fields_of(message), self.name)
        if value is not NULL and <object>value is not None:
            return <object>value
        if value is not NULL or message._source is None:
            return self.default
        places = places_of(message)
        if places is not None:
            if not places.end_of(self.fields.code):
                return self.default
            if self.fields.code not in <dict>message._parsed and not read_section(message, self.fields, places):
                return (<dict>message._fields)[self.name]
        return message._read_field(self.name, self.section, self.default)

    def __set__(self, instance, value):
        PyDict_SetItem(fields_of(<Message?>instance), self.name, value)

    def __delete__(self, instance):
        raise AttributeError(f"{self.name} cannot be deleted; None removes it")


cdef object read_map(Message message, int code, Places places):
    """Read a section that is a map; return NOT_MINE if the section is not regular."""
    cdef Cursor c
    cdef unsigned char kind
    cdef bytes payload = message._source
    c.data = <PyObject*>payload
    c.p = <const unsigned char*>PyBytes_AS_STRING(payload)
    c.at = places.begin[code - HEADER] + 4
    c.end = places.end_of(code)
    kind = c.p[c.at - 1]
    if kind != 0xC1 and kind != 0xD1:
        return NOT_MINE
    if code == APPLICATION_PROPERTIES:
        entries = simple_entries(&c, kind)
    else:
        entries = compound(&c, kind, DEEPEST, 0xA3)
    return entries if c.at == c.end else NOT_MINE


cdef object simple_entries(Cursor* c, unsigned char kind):
    """Read a map of text to simple values, or to descriptions of such."""
    cdef PyObject* item
    cdef Py_ssize_t place = 0
    entries = compound(c, kind, 2, 0xA1)
    if entries is not NOT_MINE:
        while PyDict_Next(entries, &place, NULL, &item):
            held = type(<object>item)
            if held is described:
                held = type((<object>item).value)
            if held is list or held is dict or held is array:
                return NOT_MINE
    return entries


cdef class Map:
    """A section of a message that is a map."""

    cdef str name
    cdef int code
    cdef readonly str __doc__

    def __init__(self, str name, int code, str doc):
        self.name = name
        self.code = code
        self.__doc__ = doc

    def __get__(self, instance, owner):
        cdef PyObject* value
        cdef Message message
        cdef dict fields
        cdef Places places
        if instance is None:
            return self
        message = instance
        fields = fields_of(message)
        value = PyDict_GetItem(fields, self.name)
        if value is not NULL and type(<object>value) is dict:
            return <object>value
        if value is NULL and message._source is not None:
            places = places_of(message)
            if places is not None and places.end_of(self.code):
                entries = read_map(message, self.code, places)
                if entries is not NOT_MINE:
                    PyDict_SetItem(fields, self.name, entries)
                    return entries
        return message._read_map(self.name)

    def __set__(self, instance, value):
        PyDict_SetItem(fields_of(<Message?>instance), self.name, value)

    def __delete__(self, instance):
        raise AttributeError(f"{self.name} cannot be deleted; None removes it")


def read_body(Message message not None):
    """Read the body of a decoded message; return whether the body was regular."""
    cdef Cursor c
    cdef Places places = places_of(message)
    cdef bytes payload
    cdef int code
    if places is None:
        return False
    payload = message._source
    code = DATA if places.end_of(DATA) else AMQP_VALUE
    c.end = places.end_of(code)
    if not c.end:
        return False
    c.data = <PyObject*>payload
    c.p = <const unsigned char*>PyBytes_AS_STRING(payload)
    c.at = places.begin[code - HEADER] + 3
    if (c.p[c.at] == 0xA0 or c.p[c.at] == 0xB0) != (code == DATA):  # an amqp-value of binary is not data
        return False
    value = value_at(&c, DEEPEST)
    if value is NOT_MINE or c.at != c.end:
        return False
    message._body = value
    return True


def read_all(Message message not None):
    """Read all sections but the body; return whether they were regular."""
    cdef Places places = places_of(message)
    cdef Fields section
    if places is None:
        return False
    for section in sections.values():
        if places.end_of(section.code) and section.code not in <dict>message._parsed:
            if read_section(message, section, places):
                return False
    for code, name in maps.items():
        if places.end_of(code) and name not in <dict>message._fields:
            entries = read_map(message, code, places)
            if entries is NOT_MINE:
                return False
            PyDict_SetItem(message._fields, name, entries)
    return True


# Writing

cdef dict maps = {
    DELIVERY_ANNOTATIONS: "delivery_annotations",
    MESSAGE_ANNOTATIONS: "message_annotations",
    APPLICATION_PROPERTIES: "application_properties",
    FOOTER: "footer",
}

# The place of each field in the order of writing: header, annotations, properties, application-properties, footer.
cdef enum:
    IN_HEADER = 5
    OF_DELIVERY = 5
    OF_MESSAGE = 6
    FIRST_PROPERTY = 7
    OF_APPLICATION = 20
    IN_FOOTER = 21
    ALL = 22

cdef dict place_of = {
    name: place
    for place, name in enumerate((
        "durable", "priority", "ttl", "first_acquirer", "delivery_count",
        "delivery_annotations", "message_annotations",
        "message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding",
        "absolute_expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id",
        "application_properties", "footer",
    ))
}

cdef enum:
    SCRATCH = 2048


def encode(dict fields not None, object body):
    """Encode a message; return None if the message is not regular."""
    cdef char scratch[SCRATCH]
    cdef Buffer out
    if idle:
        return None
    out.p = out.first = scratch
    out.size = 0
    out.room = SCRATCH
    try:
        return put_message(&out, fields, body)
    finally:
        release(&out)


cdef frozenset usual_bodies = frozenset((str, dict, list, bool, int, float, datetime, UUID, Symbol))


cdef object put_message(Buffer* out, dict fields, object body):
    cdef PyObject* given[ALL]
    cdef PyObject* name
    cdef PyObject* value
    cdef PyObject* where
    cdef list held = PyDict_Values(fields)  # Python code may change the fields meanwhile
    cdef Py_ssize_t place = 0, size
    cdef int least = ALL
    cdef bytes made
    cdef char* p
    memset(given, 0, sizeof(given))
    while PyDict_Next(fields, &place, &name, &value):
        where = PyDict_GetItem(place_of, <object>name)
        if where is NULL:
            return None
        if <object>value is not None:
            given[<int><object>where] = value
    if put_header(out, given):
        return None
    if given[OF_DELIVERY] is not NULL and put_annotations(out, DELIVERY_ANNOTATIONS, <object>given[OF_DELIVERY]):
        return None
    if given[OF_MESSAGE] is not NULL and put_annotations(out, MESSAGE_ANNOTATIONS, <object>given[OF_MESSAGE]):
        return None
    if put_properties(out, given + FIRST_PROPERTY):
        return None
    if given[OF_APPLICATION] is not NULL and put_application(out, <object>given[OF_APPLICATION]):
        return None
    if type(body) is bytes:
        size = PyBytes_GET_SIZE(body)
        if given[IN_FOOTER] is NULL and 255 < size <= 0xFFFF_FFFF:  # copy a long body only once
            put(out, b"\0\x53\x75\xb0", 4)
            reserve(out, 4)
            for place in range(4):
                out.p[out.size + place] = <char>(size >> 24 - 8 * place & 0xFF)
            out.size += 4
            made = PyBytes_FromStringAndSize(NULL, out.size + size)
            p = PyBytes_AS_STRING(made)
            memcpy(p, out.p, out.size)
            memcpy(p + out.size, PyBytes_AS_STRING(body), size)
            return made
        put(out, b"\0\x53\x75", 3)
        if put_octets(out, body):
            return None
    elif body is None or type(body) in usual_bodies:
        put(out, b"\0\x53\x77", 3)
        if put_value(out, body, DEEPEST, writers):
            return None
    else:
        octets = bytearray()
        try:
            write_body(octets, body)
        except Exception:
            return None
        put(out, PyByteArray_AS_STRING(octets), PyByteArray_GET_SIZE(octets))
    if given[IN_FOOTER] is not NULL and put_annotations(out, FOOTER, <object>given[IN_FOOTER]):
        return None
    return PyBytes_FromStringAndSize(out.p, out.size)


cdef int begin_section(Buffer* out, int code, unsigned char kind) except -1:
    """Begin a section that is a list or map; return the place where the list or map begins."""
    reserve(out, 6)
    memcpy(out.p + out.size, b"\0\x53\0\0\0\0", 6)
    out.p[out.size + 2] = <char>code
    out.p[out.size + 3] = <char>kind
    out.size += 6
    return <int>(out.size - 3)


cdef int put_header(Buffer* out, PyObject** given) except -1:
    """Append the header; a field with its default is written as null."""
    cdef Py_ssize_t start = begin_section(out, HEADER, 0xC0)
    cdef Py_ssize_t count = 0
    cdef int place
    for place in range(IN_HEADER):
        if given[place] is NULL:
            continue
        value = <object>given[place]
        kind = type(value)
        if place == 0 or place == 3:
            if kind is not bool:
                return 1
            if value is False:
                continue
            put(out, b"\x40\x40\x40\x40", place - count)
            put(out, b"\x41", 1)
        elif place == 2:
            if kind is not timedelta_:
                return 1
            value = whole_milliseconds(value)
            put(out, b"\x40\x40\x40\x40", place - count)
            if put_unsigned(out, value, 4):
                return 1
        else:
            if kind is not int:
                return 1
            if value == (4 if place == 1 else 0):
                continue
            put(out, b"\x40\x40\x40\x40", place - count)
            if place == 4:
                if put_unsigned(out, value, 4):
                    return 1
            elif 0 <= value < 256:
                reserve(out, 2)
                out.p[out.size] = 0x50
                out.p[out.size + 1] = <char><int>value
                out.size += 2
            else:
                return 1
        count = place + 1
    if not count:
        out.size = start - 3
        return 0
    return close(out, start, count)


cdef object whole_milliseconds(object ttl):
    """Return a timedelta in milliseconds, rounded up."""
    cdef int64_t micros = (<int64_t>timedelta_days(ttl) * 86_400 + timedelta_seconds(ttl)) * 1_000_000
    micros += timedelta_microseconds(ttl)
    return -(-micros // 1000)


cdef int put_properties(Buffer* out, PyObject** given) except -1:
    cdef Py_ssize_t start = begin_section(out, PROPERTIES, 0xC0)
    cdef Py_ssize_t count = 0
    cdef int place, left
    for place in range(MAX_FIELDS):
        if given[place] is NULL:
            continue
        put(out, b"\x40\x40\x40\x40\x40\x40\x40\x40\x40\x40\x40\x40", place - count)
        count = place + 1
        value = <object>given[place]
        kind = type(value)
        if place == 0 or place == 5:  # message-id and correlation-id
            if kind is str:
                left = put_text(out, value, 0xA1)
            elif kind is uuid:
                left = put_uuid(out, value)
            elif kind is int or kind is ulong:
                left = put_unsigned(out, value, 8)
            else:
                left = put_octets(out, value) if kind is bytes else 1
        elif place == 1:
            left = put_octets(out, value) if kind is bytes else 1
        elif place == 8 or place == 9:
            left = put_moment(out, value) if kind is datetime_ else 1
        elif place == 11:
            left = put_unsigned(out, value, 4) if kind is int else 1
        elif kind is str or kind is symbol:
            left = put_text(out, value, 0xA3 if place == 6 or place == 7 else 0xA1)
        else:
            left = 1
        if left:
            return 1
    if not count:
        out.size = start - 3
        return 0
    return close(out, start, count)


cdef int put_annotations(Buffer* out, int code, object entries) except -1:
    """Append annotations or the footer, whose keys are symbols or ulongs."""
    cdef Py_ssize_t start, place = 0, count, more
    cdef PyObject* a_key
    cdef PyObject* a_value
    cdef int left
    if type(entries) is not dict:
        return 1
    more = count = PyDict_Size(entries)
    if not count:
        return 0
    start = begin_section(out, code, 0xC1)
    while PyDict_Next(entries, &place, &a_key, &a_value):
        key = <object>a_key
        value = <object>a_value
        kind = type(key)
        if kind is str or kind is symbol:
            left = put_text(out, key, 0xA3)
        else:
            left = put_unsigned(out, key, 8) if kind is int or kind is ulong else 1
        if left or put_value(out, value, DEEPEST, writers):
            return 1
        more -= 1
    if more or PyDict_Size(entries) != count:
        return 1
    return close(out, start, 2 * count)


cdef int put_application(Buffer* out, object entries) except -1:
    """Append application-properties, a map of text to simple values."""
    cdef Py_ssize_t start, place = 0, count, more
    cdef PyObject* a_key
    cdef PyObject* a_value
    if type(entries) is not dict:
        return 1
    more = count = PyDict_Size(entries)
    if not count:
        return 0
    start = begin_section(out, APPLICATION_PROPERTIES, 0xC1)
    while PyDict_Next(entries, &place, &a_key, &a_value):
        key = <object>a_key
        value = <object>a_value
        if type(key) is not str or put_text(out, key, 0xA1) or put_value(out, value, 0, property_writers):
            return 1
        more -= 1
    if more or PyDict_Size(entries) != count:
        return 1
    return close(out, start, 2 * count)

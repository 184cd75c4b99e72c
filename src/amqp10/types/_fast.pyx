# cython: boundscheck=False, wraparound=False
"""Read and write the usual values at once. Only a compiled installation has this module (docs/operate/compiled.md).

It handles regular values. For a rare one, such as a decimal, it calls the plain reader or writer of that value. For
irregular and malformed ones it changes nothing and returns NOT_MINE. The plain code then begins anew, and raises the
errors.

The code holds the interpreter's lock all the time. A build of Python without that lock takes it again when it imports
this module.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.datetime cimport (
    datetime_day,
    datetime_hour,
    datetime_microsecond,
    datetime_minute,
    datetime_month,
    datetime_new,
    datetime_second,
    datetime_tzinfo,
    datetime_year,
    import_datetime,
)
from cpython.dict cimport PyDict_GetItem, PyDict_Next, PyDict_SetItem, PyDict_Size
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memmove, memset

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1
    unsigned long long PyLong_AsUnsignedLongLong(object number) except? 0xFFFF_FFFF_FFFF_FFFFULL
    bint PyUnicode_IS_ASCII(object text)
    void* PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030D0000
    #define amqp10_from_octets(octets, size) \
        PyLong_FromUnsignedNativeBytes(octets, size, Py_ASNATIVEBYTES_BIG_ENDIAN)
    /* 0 where the number is negative or has more octets. */
    static int amqp10_to_octets(PyObject *number, unsigned char *octets, Py_ssize_t size) {
        Py_ssize_t took = PyLong_AsNativeBytes(number, octets, size,
            Py_ASNATIVEBYTES_BIG_ENDIAN | Py_ASNATIVEBYTES_UNSIGNED_BUFFER | Py_ASNATIVEBYTES_REJECT_NEGATIVE);
        if (took < 0) PyErr_Clear();
        return took >= 0 && took <= size;
    }
    #else
    #define amqp10_from_octets(octets, size) _PyLong_FromByteArray(octets, size, 0, 0)
    static int amqp10_to_octets(PyObject *number, unsigned char *octets, Py_ssize_t size) {
        if (_PyLong_AsByteArray((PyLongObject *)number, octets, size, 0, 0) == 0) return 1;
        PyErr_Clear();
        return 0;
    }
    #endif
    /* An attribute in a slot of its class, by the descriptor of the slot. */
    #define amqp10_slot_set(slot, object, value) Py_TYPE(slot)->tp_descr_set(slot, object, value)
    #define amqp10_slot_get(slot, object) Py_TYPE(slot)->tp_descr_get(slot, object, (PyObject *)Py_TYPE(object))
    #define amqp10_new(type) ((PyTypeObject *)(type))->tp_alloc((PyTypeObject *)(type), 0)
    """
    object amqp10_from_octets(const unsigned char* octets, Py_ssize_t size)
    bint amqp10_to_octets(object number, unsigned char* octets, Py_ssize_t size)
    int amqp10_slot_set(object slot, object instance, object value) except -1
    object amqp10_slot_get(object slot, object instance)
    object amqp10_new(object kind)

from datetime import UTC, datetime
from uuid import UUID, SafeUUID

from ..errors import DecodeError
from ._constructors import CODES
from ._values import Byte, Described, Int, Short, Symbol, UByte, UInt, ULong, UShort

import_datetime()

cdef list ubytes = [UByte(n) for n in range(256)]
cdef list bytes_ = [Byte(n - 256 if n > 127 else n) for n in range(256)]
cdef list uints = [UInt(n) for n in range(256)]
cdef list ulongs = [ULong(n) for n in range(256)]
cdef list ints = [Int(n - 256 if n > 127 else n) for n in range(256)]
cdef object utc = UTC
cdef object datetime_ = datetime
cdef object uuid = UUID
cdef object uuid_int = vars(UUID)["int"]
cdef object uuid_is_safe = vars(UUID)["is_safe"]
cdef object unknown_safety = SafeUUID.unknown

cdef int64_t DAY = 86_400_000
cdef int64_t FIRST = -62_135_596_800_000  # ms after 1970: the beginning of year 1
cdef int64_t LAST = 253_402_300_799_999  # the end of year 9999


# The octets of a value of fixed width, by constructor; -1 for another.
cdef signed char[256] widths
memset(widths, -1, sizeof(widths))
for _code, (_, _width) in CODES.items():
    if _code < 0xA0:
        widths[<int>_code] = _width


# Whether a key of a map may have the constructor here: not where its value has no hash, as a list, or may have none, as a
# decimal, which may be a signaling NaN.
cdef bint[256] is_key
for _code in range(256):
    is_key[<int>_code] = _code in CODES and _code < 0xC0 and _code not in (0x45, 0x74, 0x84, 0x94)


# The tables of keys and symbols by their octets. `use_tables` sets them to those of the plain readers.
cdef dict keys = {}
cdef object symbol_of = None
# The plain readers and writers. `use_tables` and `use_writers` set them.
cdef list readers = []
cdef object writers = None

cdef object NOT_MINE = object()
cdef int DEEPEST = 8  # levels; a compound that is not read at once is tried again at each level above it
cdef Py_ssize_t TRUSTED_ENTRIES = 64  # as in `_read_compound`: an attacker can choose other keys with the same hash

cdef Py_ssize_t KEYS_KEPT = 1024
cdef Py_ssize_t KEY_OCTETS = 64

# A cache of the same keys and symbols by place. A key that is not in it is looked up in the tables. A peer that fills
# the cache with its own keys costs other connections only those lookups.
cdef enum:
    PLACES = 1024

cdef struct Known:
    PyObject* octets  # constructor and length included
    PyObject* value

cdef Known[PLACES] known_at


def use_tables(dict known_keys not None, object symbols not None, list plain_readers not None):
    """Share with the plain readers the table of keys, the function that makes a symbol of octets, and themselves."""
    global keys, symbol_of, readers
    keys = known_keys
    symbol_of = symbols
    readers = plain_readers


def use_writers(object plain_writers not None):
    """Have values of other types written by the writer of their type."""
    global writers
    writers = plain_writers


cdef class Compound:
    """Read a list or map of one constructor, in place of the plain reader."""

    cdef readonly object plain
    cdef unsigned char code

    def __init__(self, unsigned char code, object plain):
        self.code = code
        self.plain = plain

    def __call__(self, bytes data not None, Py_ssize_t at, list room not None):
        cdef Cursor c
        cdef Py_ssize_t levels = room[0]
        if at >= 0:
            c.data = <PyObject*>data
            c.p = <const unsigned char*>PyBytes_AS_STRING(data)
            c.at = at
            c.end = PyBytes_GET_SIZE(data)
            value = compound(&c, self.code, <int>min(levels, DEEPEST), 0)
            if value is not NOT_MINE:
                return value, c.at
        return self.plain(data, at, room)


cdef object compound(Cursor* c, unsigned char code, int levels, unsigned char keys):
    """Read the list or map whose size is next; if `keys` is not 0, all keys have that constructor."""
    cdef Cursor within
    cdef Py_ssize_t count
    within.data = c.data
    within.p = c.p
    if levels <= 0:
        return NOT_MINE
    if code < 0xD0:
        if c.end - c.at < 2:
            return NOT_MINE
        count = c.p[c.at + 1]
        within.at = c.at + 2
        within.end = c.at + 1 + c.p[c.at]
    else:
        if c.end - c.at < 8:
            return NOT_MINE
        count = word_at(c.p + c.at + 4)
        within.at = c.at + 8
        within.end = c.at + 4 + word_at(c.p + c.at)
    if within.end > c.end or count > within.end - within.at:
        return NOT_MINE
    value = entries(&within, count, levels - 1, keys) if code & 1 else items(&within, count, levels - 1)
    if within.at != within.end:
        return NOT_MINE
    c.at = within.end
    return value


cdef object items(Cursor* c, Py_ssize_t count, int levels):
    cdef list found = []
    for _ in range(count):
        item = value_at(c, levels)
        if item is NOT_MINE:
            return NOT_MINE
        found.append(item)
    return found


cdef object entries(Cursor* c, Py_ssize_t count, int levels, unsigned char keys):
    cdef dict found = {}
    cdef unsigned char code
    if count & 1:
        return NOT_MINE
    for _ in range(count >> 1):
        if c.at >= c.end:
            return NOT_MINE
        code = c.p[c.at]
        if keys and code != keys and (keys != 0xA3 or (code != 0x44 and code != 0x53 and code != 0x80)):
            return NOT_MINE  # keys of annotations are symbols or ulongs
        if code == 0xA1 or code == 0xA3:
            key = key_at(c)
        elif (count > 2 * TRUSTED_ENTRIES and code < 0xA0) or not is_key[code]:
            return NOT_MINE
        else:
            key = value_at(c, 0)
        if key is NOT_MINE:
            return NOT_MINE
        value = value_at(c, levels)
        if value is NOT_MINE:
            return NOT_MINE
        PyDict_SetItem(found, key, value)
    return found if 2 * PyDict_Size(found) == count else NOT_MINE


cdef object key_at(Cursor* c):
    """Read a key or symbol that is a short string or symbol."""
    cdef Py_ssize_t at, stop, size
    cdef uint64_t mixed, part
    cdef Known* place
    cdef PyObject* known
    cdef const unsigned char* p = c.p + c.at
    if c.end - c.at < 2:
        return NOT_MINE
    size = 2 + p[1]
    stop = c.at + size
    if stop > c.end or (p[0] != 0xA1 and p[0] != 0xA3):
        return NOT_MINE
    if size > KEY_OCTETS:
        c.at += 1
        return octets_at(c, p[0])
    mixed = size
    for at in range(0, size - 7, 8):
        memcpy(&part, p + at, 8)
        mixed = (mixed ^ part) * 0x9E3779B97F4A7C15ULL
    part = 0
    memcpy(&part, p + (size & ~7), size & 7)
    mixed = (mixed ^ part) * 0x9E3779B97F4A7C15ULL
    place = &known_at[mixed >> 54]
    if place.octets is not NULL and PyBytes_GET_SIZE(<object>place.octets) == size:
        if memcmp(PyBytes_AS_STRING(<object>place.octets), p, size) == 0:
            c.at = stop
            return <object>place.value
    octets = PyBytes_FromStringAndSize(<const char*>p, size)
    known = PyDict_GetItem(keys, octets)
    if known is not NULL:
        key = <object>known
        c.at = stop
    else:
        c.at += 1
        key = octets_at(c, p[0])
        if key is NOT_MINE:
            return NOT_MINE
        if PyDict_Size(keys) >= KEYS_KEPT:
            keys.clear()
        PyDict_SetItem(keys, octets, key)
    keep(place, octets, key)
    return key


cdef void keep(Known* place, object octets, object value) noexcept:
    cdef PyObject* before = place.octets
    cdef PyObject* other = place.value
    Py_INCREF(octets)
    Py_INCREF(value)
    place.octets = <PyObject*>octets
    place.value = <PyObject*>value
    Py_XDECREF(before)
    Py_XDECREF(other)


cdef object value_at(Cursor* c, int levels):
    """Read the value whose constructor is next."""
    cdef unsigned char code
    if c.at >= c.end:
        return NOT_MINE
    code = c.p[c.at]
    if code == 0xA3:
        return key_at(c)
    c.at += 1
    if code >= 0xC0:
        if code == 0xE0 or code == 0xF0:
            return array_at(c, code, levels)
        return compound(c, code, levels, 0) if code <= 0xC1 or code == 0xD0 or code == 0xD1 else NOT_MINE
    if code >= 0xA0:
        return octets_at(c, code)
    if code >= 0x50:
        return fixed_at(c, code)
    if code == 0x40:
        return None
    if code == 0x41:
        return True
    if code == 0x42:
        return False
    if code == 0x43:
        return uints[0]
    if code == 0x44:
        return ulongs[0]
    if code == 0x45:
        return []
    return described(c, levels) if code == 0 else NOT_MINE


cdef object by_plain(Cursor* c, unsigned char code):
    """Read a value that contains no lists or maps by the plain reader for its constructor."""
    cdef Py_ssize_t stop
    try:
        value, end = readers[code](<object>c.data, c.at, [1, 0])
        stop = end
    except Exception:
        return NOT_MINE
    if stop > c.end:
        return NOT_MINE
    c.at = stop
    return value


cdef object array_at(Cursor* c, unsigned char code, int levels):
    """Read an array of numbers or text. Others are read again at each level above them where a value is irregular."""
    cdef Py_ssize_t at = c.at + (2 if code == 0xE0 else 8)
    if levels <= 0 or at >= c.end or c.p[at] < 0x50 or c.p[at] >= 0xC0:
        return NOT_MINE
    return by_plain(c, code)


cdef object described(Cursor* c, int levels):
    if levels <= 0:
        return NOT_MINE
    descriptor = value_at(c, levels - 1)
    if descriptor is NOT_MINE:
        return NOT_MINE
    value = value_at(c, levels - 1)
    return NOT_MINE if value is NOT_MINE else Described(descriptor, value)


cdef object octets_at(Cursor* c, unsigned char code):
    """Read a string, a symbol or a binary value. All three begin with their size."""
    cdef Py_ssize_t stop
    if code < 0xB0:
        if c.end - c.at < 1:
            return NOT_MINE
        stop = c.at + 1 + c.p[c.at]
        c.at += 1
    else:
        if c.end - c.at < 4:
            return NOT_MINE
        stop = c.at + 4 + word_at(c.p + c.at)
        c.at += 4
    if stop > c.end:
        return NOT_MINE
    begin = <const char*>c.p + c.at
    size = stop - c.at
    c.at = stop
    try:
        if code & 0xF == 1:
            return PyUnicode_DecodeUTF8(begin, size, NULL)
        if code & 0xF == 0:
            return PyBytes_FromStringAndSize(begin, size)
        if code & 0xF == 3:
            return symbol_of(PyBytes_FromStringAndSize(begin, size))
    except (UnicodeDecodeError, DecodeError):
        pass
    return NOT_MINE


cdef object fixed_at(Cursor* c, unsigned char code):
    """Read a number, a timestamp or a UUID."""
    cdef const unsigned char* p = c.p + c.at
    cdef int width = 1 << (code >> 4) - 5
    cdef uint64_t bits
    cdef double real
    if c.end - c.at < width:
        return NOT_MINE
    if code == 0x72 or code == 0x73 or code == 0x74 or code == 0x84 or code == 0x94:
        return by_plain(c, code)
    c.at += width
    if code == 0x55:
        return <signed char>p[0]
    elif code == 0x81:
        return <int64_t>number_at(p)
    elif code == 0x82:
        bits = number_at(p)
        memcpy(&real, &bits, 8)
        return real
    elif code == 0x83:
        bits = number_at(p)
        return moment(<int64_t>bits) if FIRST <= <int64_t>bits <= LAST else NOT_MINE
    elif code == 0x98:
        value = amqp10_new(uuid)
        amqp10_slot_set(uuid_int, value, amqp10_from_octets(p, 16))
        amqp10_slot_set(uuid_is_safe, value, unknown_safety)
        return value
    elif code == 0x54:
        return ints[p[0]]
    elif code == 0x53:
        return ulongs[p[0]]
    elif code == 0x52:
        return uints[p[0]]
    elif code == 0x51:
        return bytes_[p[0]]
    elif code == 0x50:
        return ubytes[p[0]]
    elif code == 0x56:
        return NOT_MINE if p[0] > 1 else p[0] == 1
    elif code == 0x60:
        return UShort(p[0] << 8 | p[1])
    elif code == 0x61:
        return Short(<int16_t>(p[0] << 8 | p[1]))
    elif code == 0x70:
        return UInt(word_at(p))
    elif code == 0x71:
        return Int(<int32_t>word_at(p))
    elif code == 0x80:
        return ULong(number_at(p))
    return NOT_MINE


def scan(bytes payload not None):
    """Return for each section of a message its code, begin, begin of the value, and end; None if irregular."""
    cdef const unsigned char* p = <const unsigned char*>PyBytes_AS_STRING(payload)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(payload)
    cdef Py_ssize_t at = 0, begin, end
    cdef int code, last = 0
    cdef dict places = {}
    while at < size:
        end = section_end(p, at, size, last)
        if end < 0:
            return None
        code = p[at + 2]
        begin = at
        if code == last:
            begin = places[code][0]
        places[code] = (begin, begin + 3, end)
        last = code
        at = end
    return places or None


cdef Py_ssize_t section_end(const unsigned char* p, Py_ssize_t at, Py_ssize_t size, int last) noexcept:
    """Return where the section at `at` ends, which follows the section `last`; -1 if it is not regular."""
    cdef Py_ssize_t end
    cdef int code
    cdef unsigned char kind
    if size - at < 4 or p[at] != 0 or p[at + 1] != 0x53:
        return -1
    code = p[at + 2]
    if code < 0x70 or code > 0x78 or (code <= last and (code != last or code not in (0x75, 0x76))):
        return -1
    if last >= 0x75 and code != 0x78 and code != last:
        return -1
    kind = p[at + 3]
    if widths[kind] >= 0:
        end = at + 4 + widths[kind]
    elif size - at >= 5 and (kind == 0xA0 or kind == 0xA1 or kind == 0xA3 or kind == 0xC0 or kind == 0xC1):
        end = at + 5 + p[at + 4]
    elif size - at >= 8 and (kind == 0xB0 or kind == 0xB1 or kind == 0xB3 or kind == 0xD0 or kind == 0xD1):
        end = at + 8 + word_at(p + at + 4)
    else:
        return -1
    return end if end <= size else -1


cdef Py_ssize_t word_at(const unsigned char* p) noexcept:
    """Return four octets as a number."""
    return <Py_ssize_t>(<uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3])


cdef uint64_t number_at(const unsigned char* p) noexcept:
    """Return eight octets as a number."""
    cdef uint64_t number = 0
    cdef int place
    for place in range(8):
        number = number << 8 | p[place]
    return number


cdef object moment(int64_t ms):
    """Return the datetime `ms` after 1970. Years begin in March here, so that a leap day ends its year."""
    cdef int64_t days = ms // DAY
    cdef int rest = <int>(ms - days * DAY)
    cdef int64_t since = days + 719_468  # the first of March of year 0
    cdef int64_t era = since // 146_097
    cdef int64_t day_of_era = since - era * 146_097
    cdef int64_t year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    cdef int64_t day = day_of_era - (365 * year + year // 4 - year // 100)
    cdef int64_t month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year += era * 400 + month // 10
    month += 3 - month // 10 * 12
    return datetime_new(
        <int>year, <int>month, <int>day + 1,
        rest // 3_600_000, rest // 60_000 % 60, rest // 1000 % 60, rest % 1000 * 1000, utc,
    )


cdef int64_t milliseconds(object when):
    """Return a datetime in UTC as ms after 1970."""
    cdef int64_t month = (datetime_month(when) + 9) % 12
    cdef int64_t year = datetime_year(when) - month // 10
    cdef int64_t days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5
    days += datetime_day(when) - 1 - 719_468
    cdef int64_t minutes = days * 1440 + datetime_hour(when) * 60 + datetime_minute(when)
    return minutes * 60_000 + datetime_second(when) * 1000 + datetime_microsecond(when) // 1000


cdef enum:
    SCRATCH = 1024


def encode(value):
    """Encode a value; return None if it is not one of the usual values."""
    cdef char scratch[SCRATCH]
    cdef Buffer out
    out.p = out.first = scratch
    out.size = 0
    out.room = SCRATCH
    try:
        return None if put_value(&out, value, DEEPEST, writers) else PyBytes_FromStringAndSize(out.p, out.size)
    finally:
        release(&out)


# The writers below write to a buffer of C, and return 1 for a value that they do not handle. `put_by` runs Python code,
# which may change a dict or list while they go through it. So they own a reference to what they write.


cdef int reserve(Buffer* out, Py_ssize_t more) except -1:
    """Make room for `more` octets."""
    cdef char* wider
    cdef Py_ssize_t room
    if out.room - out.size >= more:
        return 0
    room = 2 * (out.size + more)
    wider = <char*>malloc(room)
    if wider is NULL:
        raise MemoryError
    memcpy(wider, out.p, out.size)
    release(out)
    out.p = wider
    out.room = room
    return 0


cdef void release(Buffer* out) noexcept:
    if out.p is not out.first:
        free(out.p)
        out.p = out.first


cdef int put(Buffer* out, const char* octets, Py_ssize_t size) except -1:
    reserve(out, size)
    memcpy(out.p + out.size, octets, size)
    out.size += size
    return 0


cdef int put_octet(Buffer* out, unsigned char code) except -1:
    reserve(out, 1)
    out.p[out.size] = <char>code
    out.size += 1
    return 0


cdef int put_number(Buffer* out, unsigned char code, uint64_t number, int width) except -1:
    """Append a constructor and the `width` lowest octets of a number."""
    cdef int place
    cdef char* p
    reserve(out, width + 1)
    p = out.p + out.size
    p[0] = <char>code
    for place in range(width, 0, -1):
        p[place] = <char>(number & 0xFF)
        number >>= 8
    out.size += width + 1
    return 0


cdef int put_sized(Buffer* out, unsigned char code, const char* octets, Py_ssize_t size) except -1:
    """Append a constructor, the size, and the octets."""
    if size < 256:
        put_number(out, code, size, 1)
    elif size <= 0xFFFF_FFFF:
        put_number(out, code + 0x10, size, 4)
    else:
        return 1
    return put(out, octets, size)


cdef int put_octets(Buffer* out, object octets) except -1:
    return put_sized(out, 0xA0, PyBytes_AS_STRING(octets), PyBytes_GET_SIZE(octets))


cdef int put_text(Buffer* out, object text, unsigned char code) except -1:
    """Append a `str` or `Symbol` as a string, 0xA1, or symbol, 0xA3."""
    if PyUnicode_IS_ASCII(text):
        return put_sized(out, code, <const char*>PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text))
    if code == 0xA3:
        return 1
    try:
        octets = PyUnicode_AsUTF8String(text)
    except UnicodeEncodeError:
        return 1
    return put_sized(out, code, PyBytes_AS_STRING(octets), PyBytes_GET_SIZE(octets))


cdef int put_unsigned(Buffer* out, object number, int width) except -1:
    """Append an int as a ulong, width 8, or uint, width 4."""
    cdef uint64_t value
    try:
        value = PyLong_AsUnsignedLongLong(number)
    except OverflowError:
        return 1
    if value == 0:
        return put_octet(out, 0x44 if width == 8 else 0x43)
    if value < 256:
        return put_number(out, 0x53 if width == 8 else 0x52, value, 1)
    if width == 8:
        return put_number(out, 0x80, value, 8)
    return put_number(out, 0x70, value, 4) if value <= 0xFFFF_FFFF else 1


cdef int put_signed(Buffer* out, object number, unsigned char code, int width, int64_t most) except -1:
    """Append an int of fixed width with the constructor `code`."""
    cdef int overflow
    cdef long long value = PyLong_AsLongLongAndOverflow(number, &overflow)
    if overflow or value > most or value < -most - 1:
        return 1
    if width >= 4 and -128 <= value < 128:
        return put_number(out, 0x55 if width == 8 else 0x54, <uint64_t>value, 1)
    return put_number(out, code, <uint64_t>value, width)


cdef int put_narrow(Buffer* out, object number, unsigned char code, int width, int64_t most) except -1:
    """Append a ubyte or ushort."""
    cdef int overflow
    cdef long long value = PyLong_AsLongLongAndOverflow(number, &overflow)
    if overflow or value < 0 or value > most:
        return 1
    return put_number(out, code, <uint64_t>value, width)


cdef int put_uuid(Buffer* out, object item) except -1:
    cdef unsigned char octets[16]
    if not amqp10_to_octets(amqp10_slot_get(uuid_int, item), octets, 16):
        return 1
    put_octet(out, 0x98)
    return put(out, <const char*>octets, 16)


cdef int put_moment(Buffer* out, object item) except -1:
    """Append a datetime."""
    if datetime_tzinfo(item) is utc:
        return put_number(out, 0x83, <uint64_t>milliseconds(item), 8)
    return put_by(writers, out, item)


cdef int put_by(object table, Buffer* out, object item) except -1:
    """Append a value by the plain writer for its type in `table`."""
    cdef bytearray made = bytearray()
    try:
        table[type(item)](made, item)
    except Exception:
        return 1
    return put(out, PyByteArray_AS_STRING(made), PyByteArray_GET_SIZE(made))


cdef int put_value(Buffer* out, object item, int levels, object table) except -1:
    """Append a value. Lists and maps are handled down to `levels` levels; `table` has the writers of other types."""
    cdef double real
    cdef uint64_t bits
    cdef object kind = type(item)
    if kind is str:
        return put_text(out, item, 0xA1)
    if kind is int:
        return put_signed(out, item, 0x81, 8, 0x7FFF_FFFF_FFFF_FFFF)
    if kind is float:
        real = item
        memcpy(&bits, &real, 8)
        return put_number(out, 0x82, bits, 8)
    if item is None:
        return put_octet(out, 0x40)
    if item is True:
        return put_octet(out, 0x41)
    if item is False:
        return put_octet(out, 0x42)
    if kind is datetime_:
        return put_moment(out, item)
    if kind is uuid:
        return put_uuid(out, item)
    if kind is dict:
        return put_map(out, item, levels) if levels > 0 else put_by(table, out, item)
    if kind is list:
        return put_list(out, item, levels) if levels > 0 else put_by(table, out, item)
    if kind is bytes:
        return put_octets(out, item)
    if kind is Symbol:
        return put_text(out, item, 0xA3)
    if kind is UInt:
        return put_unsigned(out, item, 4)
    if kind is ULong:
        return put_unsigned(out, item, 8)
    if kind is Int:
        return put_signed(out, item, 0x71, 4, 0x7FFF_FFFF)
    if kind is UByte:
        return put_narrow(out, item, 0x50, 1, 0xFF)
    if kind is UShort:
        return put_narrow(out, item, 0x60, 2, 0xFFFF)
    if kind is Byte:
        return put_signed(out, item, 0x51, 1, 0x7F)
    if kind is Short:
        return put_signed(out, item, 0x61, 2, 0x7FFF)
    return put_by(table, out, item)


cdef int put_list(Buffer* out, list value, int levels) except -1:
    cdef Py_ssize_t place = 0, start = out.size
    if PyList_GET_SIZE(value) == 0:
        return put_octet(out, 0x45)
    put(out, b"\xc0\0\0", 3)
    while place < PyList_GET_SIZE(value):
        item = <object>PyList_GET_ITEM(value, place)
        if put_value(out, item, levels - 1, writers):
            return 1
        place += 1
    return close(out, start, place)


cdef int put_map(Buffer* out, dict value, int levels) except -1:
    cdef Py_ssize_t place = 0, start = out.size, count = PyDict_Size(value), left = count
    cdef PyObject* a_key
    cdef PyObject* an_item
    put(out, b"\xc1\0\0", 3)
    while PyDict_Next(value, &place, &a_key, &an_item):
        key = <object>a_key
        item = <object>an_item
        if put_value(out, key, 0, writers) or put_value(out, item, levels - 1, writers):
            return 1
        left -= 1
    if left or PyDict_Size(value) != count:
        return 1
    return close(out, start, 2 * count)


cdef int close(Buffer* out, Py_ssize_t start, Py_ssize_t count) except -1:
    """Set size and count of the list or map that began at `start` with a header of three octets."""
    cdef Py_ssize_t size = out.size - start - 2
    cdef int place
    if size < 256 and count < 256:
        out.p[start + 1] = <char>size
        out.p[start + 2] = <char>count
        return 0
    if size + 3 > 0xFFFF_FFFF:
        return 1
    reserve(out, 6)
    memmove(out.p + start + 9, out.p + start + 3, out.size - start - 3)
    out.p[start] = <char>(<unsigned char>out.p[start] + 0x10)
    size += 3
    for place in range(4):
        out.p[start + 1 + place] = <char>(size >> 24 - 8 * place & 0xFF)
        out.p[start + 5 + place] = <char>(count >> 24 - 8 * place & 0xFF)
    out.size += 6
    return 0

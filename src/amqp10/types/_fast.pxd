# What `_fast` has for the compiled reader and writer of whole messages: messaging/_fast.pyx.
from libc.stdint cimport uint64_t

from cpython.object cimport PyObject

# What is read, octets of `data`: `at` is the next octet, `end` the first that does not belong to it.
cdef struct Cursor:
    PyObject* data
    const unsigned char* p
    Py_ssize_t at
    Py_ssize_t end

# What is written: `size` octets at `p`, where `room` are. `first` is where it began; what it grew into is to be freed.
cdef struct Buffer:
    char* p
    char* first
    Py_ssize_t size
    Py_ssize_t room

cdef object NOT_MINE
cdef object writers

cdef object value_at(Cursor* c, int levels)
cdef object compound(Cursor* c, unsigned char code, int levels, unsigned char keys)
cdef Py_ssize_t section_end(const unsigned char* p, Py_ssize_t at, Py_ssize_t size, int last) noexcept
cdef Py_ssize_t word_at(const unsigned char* p) noexcept

# These give 1 for what is not theirs; the buffer has some of it then.
cdef int reserve(Buffer* out, Py_ssize_t more) except -1
cdef void release(Buffer* out) noexcept
cdef int put(Buffer* out, const char* octets, Py_ssize_t size) except -1
cdef int put_by(object table, Buffer* out, object item) except -1
cdef int put_value(Buffer* out, object item, int levels, object table) except -1
cdef int put_text(Buffer* out, object text, unsigned char code) except -1
cdef int put_octets(Buffer* out, object octets) except -1
cdef int put_unsigned(Buffer* out, object number, int width) except -1
cdef int put_uuid(Buffer* out, object item) except -1
cdef int put_moment(Buffer* out, object item) except -1
cdef int close(Buffer* out, Py_ssize_t start, Py_ssize_t count) except -1

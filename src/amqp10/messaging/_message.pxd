# What a compiled build knows beyond _message.py: see docs/operate/compiled.md.
cimport cython


cdef class Message:
    cdef public object _apart, _body, _fields, _parsed, _places, _room, _source


@cython.locals(message=Message)
cpdef decoded(type kind, object payload)

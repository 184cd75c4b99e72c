/* Decodes a message into plain Python objects, in one pass that keeps nothing from one message to the next.

   It is the floor of the compiled part in benchmarks/floor.py: the objects have to be made by whoever decodes. It trusts
   its input, has only the types of benchmarks/real.py, and is no codec. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <datetime.h>
#include <stdint.h>
#include <string.h>

static PyObject *uuid_type, *uuid_safety, *int_name, *is_safe_name;

static uint64_t number(const unsigned char **at, int octets) {
    uint64_t read = 0;
    while (octets--) read = read << 8 | *(*at)++;
    return read;
}

static PyObject *text(const unsigned char **at, Py_ssize_t size) {
    *at += size;
    return PyUnicode_DecodeUTF8((const char *)*at - size, size, NULL);
}

static PyObject *octets(const unsigned char **at, Py_ssize_t size) {
    *at += size;
    return PyBytes_FromStringAndSize((const char *)*at - size, size);
}

/* Milliseconds since 1970, by counting days from a first of March: leap days are then at the end of a year. */
static PyObject *moment(int64_t milliseconds) {
    int64_t day = milliseconds / 86400000, left = milliseconds % 86400000;
    if (left < 0) day--, left += 86400000;
    int64_t since = day + 719468, era = (since >= 0 ? since : since - 146096) / 146097;
    int64_t of_era = since - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100), march = (5 * of_year + 2) / 153;
    int month = (int)(march < 10 ? march + 3 : march - 9);
    return PyDateTimeAPI->DateTime_FromDateAndTime(
        (int)(year + era * 400 + (month <= 2)), month, (int)(of_year - (153 * march + 2) / 5 + 1), (int)(left / 3600000),
        (int)(left / 60000 % 60), (int)(left / 1000 % 60), (int)(left % 1000) * 1000, PyDateTime_TimeZone_UTC,
        PyDateTimeAPI->DateTimeType);
}

static PyObject *uuid(const unsigned char **at) {
    PyObject *high = PyLong_FromUnsignedLongLong(number(at, 8)), *low = PyLong_FromUnsignedLongLong(number(at, 8));
    PyObject *bits = PyLong_FromLong(64), *shifted = PyNumber_Lshift(high, bits), *whole = PyNumber_Or(shifted, low);
    PyObject *made = PyType_GenericAlloc((PyTypeObject *)uuid_type, 0);
    PyObject_GenericSetAttr(made, int_name, whole);
    PyObject_GenericSetAttr(made, is_safe_name, uuid_safety);
    Py_DECREF(high), Py_DECREF(low), Py_DECREF(bits), Py_DECREF(shifted), Py_DECREF(whole);
    return made;
}

static PyObject *value(const unsigned char **at);

static PyObject *list(const unsigned char **at, Py_ssize_t count) {
    PyObject *made = PyList_New(count);
    for (Py_ssize_t place = 0; place < count; place++) PyList_SET_ITEM(made, place, value(at));
    return made;
}

static PyObject *map(const unsigned char **at, Py_ssize_t count) {
    PyObject *made = PyDict_New();
    for (; count > 0; count -= 2) {
        PyObject *key = value(at), *held = value(at);
        PyDict_SetItem(made, key, held);
        Py_DECREF(key), Py_DECREF(held);
    }
    return made;
}

static PyObject *value(const unsigned char **at) {
    int code = *(*at)++;
    uint64_t bits;
    double real;
    switch (code) {
    case 0x40: Py_RETURN_NONE;
    case 0x41: Py_RETURN_TRUE;
    case 0x42: Py_RETURN_FALSE;
    case 0x43: case 0x44: return PyLong_FromLong(0);
    case 0x45: return PyList_New(0);
    case 0x50: case 0x52: case 0x53: return PyLong_FromLong(*(*at)++);
    case 0x51: case 0x54: case 0x55: return PyLong_FromLong((signed char)*(*at)++);
    case 0x56: return PyBool_FromLong(*(*at)++);
    case 0x70: return PyLong_FromUnsignedLong((uint32_t)number(at, 4));
    case 0x71: return PyLong_FromLong((int32_t)number(at, 4));
    case 0x80: return PyLong_FromUnsignedLongLong(number(at, 8));
    case 0x81: return PyLong_FromLongLong((int64_t)number(at, 8));
    case 0x82: bits = number(at, 8); memcpy(&real, &bits, 8); return PyFloat_FromDouble(real);
    case 0x83: return moment((int64_t)number(at, 8));
    case 0x98: return uuid(at);
    case 0xA0: return octets(at, number(at, 1));
    case 0xB0: return octets(at, number(at, 4));
    case 0xA1: case 0xA3: return text(at, number(at, 1));
    case 0xB1: case 0xB3: return text(at, number(at, 4));
    case 0xC0: ++*at; return list(at, number(at, 1));
    case 0xD0: *at += 4; return list(at, number(at, 4));
    case 0xC1: ++*at; return map(at, number(at, 1));
    case 0xD1: *at += 4; return map(at, number(at, 4));
    }
    return PyErr_Format(PyExc_ValueError, "no message of real.py has the constructor 0x%02x", code);
}

/* The sections of a message, each by the code of its descriptor. */
static PyObject *decode(PyObject *self, PyObject *payload) {
    const unsigned char *at = (const unsigned char *)PyBytes_AsString(payload);
    if (at == NULL) return NULL;
    const unsigned char *end = at + PyBytes_GET_SIZE(payload);
    PyObject *sections = PyDict_New();
    while (at < end) {
        PyObject *code = (at += 1, value(&at)), *section = code == NULL ? NULL : value(&at);
        if (section == NULL) {
            Py_XDECREF(code), Py_DECREF(sections);
            return NULL;
        }
        PyDict_SetItem(sections, code, section);
        Py_DECREF(code), Py_DECREF(section);
    }
    return sections;
}

static PyMethodDef methods[] = {{"decode", decode, METH_O, "Decode the sections of a message."}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "floor", NULL, -1, methods};

PyMODINIT_FUNC PyInit_floor(void) {
    PyDateTime_IMPORT;
    PyObject *uuids = PyImport_ImportModule("uuid");
    if (PyDateTimeAPI == NULL || uuids == NULL) return NULL;
    PyObject *safety = PyObject_GetAttrString(uuids, "SafeUUID");
    uuid_type = PyObject_GetAttrString(uuids, "UUID");
    uuid_safety = safety == NULL ? NULL : PyObject_GetAttrString(safety, "unknown");
    int_name = PyUnicode_InternFromString("int");
    is_safe_name = PyUnicode_InternFromString("is_safe");
    return uuid_type == NULL || uuid_safety == NULL ? NULL : PyModule_Create(&module);
}

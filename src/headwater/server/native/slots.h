/* What all compiled paths use: the slots of Python's objects, and bytes in the order of the network. No state. */
#ifndef HEADWATER_SLOTS_H
#define HEADWATER_SLOTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "written for little endian; the way in Python serves"
#endif

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

/* 0 when it is no integer of 64 bits. */
static inline int number(PyObject *held, int64_t *value) {
    if (held == NULL || !PyLong_CheckExact(held)) return 0;
    int overflow;
    *value = PyLong_AsLongLongAndOverflow(held, &overflow);
    return !overflow;
}

/* 0 when the slot has no integer of 64 bits. */
static inline int get(PyObject *object, Py_ssize_t offset, int64_t *value) {
    return number(SLOT(object, offset), value);
}

static inline int put(PyObject *object, Py_ssize_t offset, int64_t value) {
    PyObject *new = PyLong_FromLongLong(value), *old = SLOT(object, offset);
    if (new == NULL) return -1;
    SLOT(object, offset) = new;
    Py_XDECREF(old);
    return 0;
}

static inline void put_object(PyObject *object, Py_ssize_t offset, PyObject *value) {
    PyObject *old = SLOT(object, offset);
    SLOT(object, offset) = Py_NewRef(value);
    Py_XDECREF(old);
}

/* Where the slot of that name lies in objects of the type. */
static inline int look_up(PyTypeObject *type, const char *text, Py_ssize_t *offset) {
    PyObject *found = PyObject_GetAttrString((PyObject *)type, text);
    if (found == NULL) return -1;
    int is_slot = Py_TYPE(found) == &PyMemberDescr_Type;
    if (is_slot) *offset = ((PyMemberDescrObject *)found)->d_member->offset;
    Py_DECREF(found);
    if (!is_slot) PyErr_Format(PyExc_TypeError, "%s.%s is no slot", type->tp_name, text);
    return is_slot ? 0 : -1;
}

/* Bytes, big endian */

static inline int16_t int16_at(const uint8_t *p) { return (int16_t)(p[0] << 8 | p[1]); }
static inline int32_t int32_at(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return (int32_t)__builtin_bswap32(v);
}
static inline int64_t int64_at(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return (int64_t)__builtin_bswap64(v);
}
static inline void put16(uint8_t *p, int16_t value) {
    uint16_t v = __builtin_bswap16((uint16_t)value);
    memcpy(p, &v, 2);
}
static inline void put32(uint8_t *p, int32_t value) {
    uint32_t v = __builtin_bswap32((uint32_t)value);
    memcpy(p, &v, 4);
}
static inline void put64(uint8_t *p, int64_t value) {
    uint64_t v = __builtin_bswap64((uint64_t)value);
    memcpy(p, &v, 8);
}

#endif

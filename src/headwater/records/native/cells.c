/* Binary columns in Arrow's layout: opened and checked. */
#include "cells.h"

bool open_validity(PyObject *validity, int64_t rows, Py_buffer *view) {
    if (validity == Py_None)
        return true;
    if (PyObject_GetBuffer(validity, view, PyBUF_SIMPLE) < 0) {
        view->obj = NULL;
        return false;
    }
    if (view->len >= rows / 8 + (rows % 8 != 0))
        return true;
    PyErr_SetString(PyExc_ValueError, "a validity bitmap too short for the rows");
    return false;
}

/* `first` and `rows` are counts of what is in memory: their sum is checked against the length of the buffer. */
bool open_offsets(
    PyObject *offsets, PyObject *width, PyObject *first, int64_t rows, Py_buffer *view, int *bytes, int64_t *at) {
    long wide = PyLong_AsLong(width);
    *at = PyLong_AsLongLong(first);
    if (PyErr_Occurred())
        return false;
    if ((wide != 4 && wide != 8) || *at < 0) {
        PyErr_SetString(PyExc_ValueError, "offsets have 4 or 8 bytes, and the first row is not before them");
        return false;
    }
    *bytes = (int)wide;
    if (PyObject_GetBuffer(offsets, view, PyBUF_SIMPLE) < 0) {
        view->obj = NULL;
        return false;
    }
    int64_t count = view->len / wide;
    if (count >= 1 && *at <= count - 1 && rows <= count - 1 - *at)
        return true;
    PyErr_SetString(PyExc_ValueError, "too few offsets for the rows");
    return false;
}

bool open_binary(PyObject *column, int64_t rows, binary_column *opened) {
    memset(opened, 0, sizeof *opened);
    if (column == Py_None) {
        opened->is_null = true;
        return true;
    }
    if (!PyTuple_Check(column) || PyTuple_GET_SIZE(column) != 5) {
        PyErr_SetString(PyExc_TypeError, "a BinaryColumn is wanted");
        return false;
    }
    if (!open_offsets(
            PyTuple_GET_ITEM(column, 1), PyTuple_GET_ITEM(column, 3), PyTuple_GET_ITEM(column, 4), rows,
            &opened->offsets, &opened->offset_bytes, &opened->first))
        return false;
    if (!open_validity(PyTuple_GET_ITEM(column, 0), opened->first + rows, &opened->validity))
        return false;
    if (PyObject_GetBuffer(PyTuple_GET_ITEM(column, 2), &opened->data, PyBUF_SIMPLE) < 0) {
        opened->data.obj = NULL;
        return false;
    }
    return true;
}

void close_binary(binary_column *opened) {
    PyBuffer_Release(&opened->validity);
    PyBuffer_Release(&opened->offsets);
    PyBuffer_Release(&opened->data);
}

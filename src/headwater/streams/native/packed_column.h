/* A column in Arrow's layout that is being made: the bytes of all cells, and where each begins (int64, one more than
 * cells). */
#ifndef HEADWATER_PACKED_COLUMN_H
#define HEADWATER_PACKED_COLUMN_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* It has room for as many cells and bytes as it was opened for. */
typedef struct {
    PyObject *offsets, *data;
    Py_ssize_t cells;
    int64_t size_bytes;
} column;

static inline bool open_column(column *made, Py_ssize_t cells, int64_t size_bytes) {
    made->offsets = PyBytes_FromStringAndSize(NULL, 8 * (cells + 1));
    made->data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size_bytes);
    if (made->offsets == NULL || made->data == NULL)
        return false;
    memset(PyBytes_AS_STRING(made->offsets), 0, 8);
    return true;
}

static inline void close_column(column *made) {
    Py_XDECREF(made->offsets);
    Py_XDECREF(made->data);
}

static inline void add_cell(column *to, const char *cell, Py_ssize_t size_bytes) {
    memcpy(PyBytes_AS_STRING(to->data) + to->size_bytes, cell, (size_t)size_bytes);
    to->size_bytes += size_bytes;
    to->cells++;
    memcpy(PyBytes_AS_STRING(to->offsets) + 8 * to->cells, &to->size_bytes, 8);
}

/* (offsets, data), without the room that was left; a new reference. */
static inline PyObject *as_pair(column *made) {
    if (_PyBytes_Resize(&made->offsets, 8 * (made->cells + 1)) < 0 || _PyBytes_Resize(&made->data, (Py_ssize_t)made->size_bytes) < 0)
        return NULL;
    return PyTuple_Pack(2, made->offsets, made->data);
}

/* Of the cells of a list that are bytes, all together. -1: one is neither bytes nor None, which is no error yet. */
static inline int64_t bytes_of(PyObject *cells) {
    int64_t size_bytes = 0;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(cells); at++) {
        PyObject *cell = PyList_GET_ITEM(cells, at);
        if (PyBytes_CheckExact(cell))
            size_bytes += PyBytes_GET_SIZE(cell);
        else if (cell != Py_None)
            return -1;
    }
    return size_bytes;
}

#endif

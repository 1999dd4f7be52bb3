/* columns.BinaryColumn: a binary column in Arrow's layout, read cell by cell. Its owner may be wrong about its size. */
#ifndef HEADWATER_CELLS_H
#define HEADWATER_CELLS_H

#include "codec.h"

typedef struct {
    Py_buffer validity, offsets, data; /* `obj` is NULL in those that are not held */
    int offset_bytes;
    int64_t first;
    bool is_null; /* the whole column */
} binary_column;

bool open_binary(PyObject *column, int64_t rows, binary_column *opened);
void close_binary(binary_column *opened);
bool open_offsets(PyObject *offsets, PyObject *width, PyObject *first, int64_t rows, Py_buffer *view, int *bytes, int64_t *at);
bool open_validity(PyObject *validity, int64_t rows, Py_buffer *view);

static inline bool is_valid(const Py_buffer *validity, int64_t row) {
    return validity->obj == NULL || ((const uint8_t *)validity->buf)[row >> 3] >> (row & 7) & 1;
}

static inline int64_t offset_at(const Py_buffer *offsets, int offset_bytes, int64_t row) {
    int64_t wide;
    int32_t narrow;
    if (offset_bytes == 8) {
        memcpy(&wide, (const uint8_t *)offsets->buf + row * 8, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const uint8_t *)offsets->buf + row * 4, sizeof narrow);
    return narrow;
}

/* False, with an exception, if the offsets point outside of the data. */
static inline bool cell_at(const binary_column *column, int64_t row, cell *found) {
    found->size_bytes = -1;
    if (column->is_null)
        return true;
    row += column->first;
    if (!is_valid(&column->validity, row))
        return true;
    int64_t begin = offset_at(&column->offsets, column->offset_bytes, row);
    int64_t end = offset_at(&column->offsets, column->offset_bytes, row + 1);
    if (begin < 0 || end < begin || end > column->data.len) {
        PyErr_SetString(PyExc_ValueError, "a column whose offsets point outside of its data");
        return false;
    }
    found->data = (const uint8_t *)column->data.buf + begin;
    found->size_bytes = end - begin;
    return true;
}

#endif

/* A batch that grows record by record, and columns in Arrow's layout to take records from. */
#ifndef HEADWATER_WRITER_H
#define HEADWATER_WRITER_H

#include "codec.h"

/* The batch is a bytearray that nobody else sees before it is done: room for the header, then the records. */
typedef struct {
    PyObject *batch; /* NULL: no record yet */
    int64_t used, count, base_timestamp, max_timestamp;
} writer;

/* 1: taken; 0: it would go past limit_bytes, and is not the first; -1: an exception. `headers` is their count and all of
 * them, encoded. Runs no Python code. */
int writer_append(
    writer *self, int64_t limit_bytes, int64_t timestamp, const cell *key, const cell *value, const cell *headers);
PyObject *writer_section(writer *self, int64_t partition); /* and is empty then */
void writer_clear(writer *self);
/* The size of a cell as it is written: its length and its bytes. */
static inline int64_t cell_bytes(const cell *found) {
    return varint_bytes(found->size_bytes) + (found->size_bytes > 0 ? found->size_bytes : 0);
}
uint8_t *put_cell(uint8_t *at, const cell *found);
bool append_cell(growing *memory, const cell *found);
extern const cell no_headers;

/* ---- columns.BinaryColumn ---- */

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

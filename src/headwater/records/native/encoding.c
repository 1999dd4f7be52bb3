/* Columns in Arrow's layout (columns.py) as the records of batches. */
#include "cells.h"
#include "writer.h"

/* ---- headers ---- */

typedef struct {
    bool is_null;
    Py_buffer validity, offsets;
    int offset_bytes;
    int64_t first, header_count;
    binary_column keys, values;
    growing encoded; /* of one row */
} headers_column;

static bool open_headers(PyObject *column, int64_t rows, headers_column *opened) {
    if (column == Py_None) {
        opened->is_null = true;
        return true;
    }
    if (!PyTuple_Check(column) || PyTuple_GET_SIZE(column) != 7) {
        PyErr_SetString(PyExc_TypeError, "a HeadersColumn is wanted");
        return false;
    }
    opened->header_count = PyLong_AsLongLong(PyTuple_GET_ITEM(column, 4));
    if (PyErr_Occurred())
        return false;
    if (opened->header_count < 0) {
        PyErr_SetString(PyExc_ValueError, "fewer than no headers");
        return false;
    }
    return open_offsets(
               PyTuple_GET_ITEM(column, 1), PyTuple_GET_ITEM(column, 2), PyTuple_GET_ITEM(column, 3), rows,
               &opened->offsets, &opened->offset_bytes, &opened->first) &&
           open_validity(PyTuple_GET_ITEM(column, 0), opened->first + rows, &opened->validity) &&
           open_binary(PyTuple_GET_ITEM(column, 5), opened->header_count, &opened->keys) &&
           open_binary(PyTuple_GET_ITEM(column, 6), opened->header_count, &opened->values);
}

static void close_headers(headers_column *opened) {
    PyBuffer_Release(&opened->validity);
    PyBuffer_Release(&opened->offsets);
    close_binary(&opened->keys);
    close_binary(&opened->values);
    let_go(&opened->encoded);
}

static bool encode_row_headers(headers_column *column, int64_t row, cell *headers) {
    *headers = no_headers;
    row += column->first;
    if (column->is_null || !is_valid(&column->validity, row))
        return true;
    int64_t begin = offset_at(&column->offsets, column->offset_bytes, row);
    int64_t end = offset_at(&column->offsets, column->offset_bytes, row + 1);
    if (begin < 0 || end < begin || end > column->header_count) {
        PyErr_SetString(PyExc_ValueError, "a column whose offsets point outside of its headers");
        return false;
    }
    if (begin == end)
        return true;
    growing *encoded = &column->encoded;
    encoded->used = 0;
    if (!reserve(encoded, VARINT_BYTES_MAX))
        return false;
    encoded->used = (size_t)(put_varint(encoded->data, end - begin) - encoded->data);
    for (int64_t i = begin; i < end; i++) {
        cell key, value;
        if (!cell_at(&column->keys, i, &key) || !cell_at(&column->values, i, &value))
            return false;
        if (key.size_bytes < 0 || !is_utf8(key.data, key.data + key.size_bytes)) {
            PyErr_SetString(PyExc_ValueError, "a header without a key, or with one that is not UTF-8");
            return false;
        }
        if (!append_cell(encoded, &key) || !append_cell(encoded, &value))
            return false;
    }
    headers->data = encoded->data;
    headers->size_bytes = (int64_t)encoded->used;
    return true;
}

/* ---- encode_columns ---- */

typedef struct {
    int64_t rows, timestamp, partition_count, limit_bytes;
    binary_column keys, values;
    headers_column headers;
    Py_buffer timestamps, partitions; /* `obj` NULL: `timestamp` for all; any partition */
    writer *writers;                  /* of ANY_PARTITION, then of each partition */
    PyObject *sections;
} encoder;

static bool open_numbers(PyObject *numbers, int64_t rows, int width, Py_buffer *view) {
    if (PyObject_GetBuffer(numbers, view, PyBUF_SIMPLE) < 0) {
        view->obj = NULL;
        return false;
    }
    if (rows <= view->len / width)
        return true;
    PyErr_SetString(PyExc_ValueError, "fewer numbers than rows");
    return false;
}

static bool open_encoder(encoder *self, PyObject *const *args) {
    self->rows = PyLong_AsLongLong(args[0]);
    self->partition_count = PyLong_AsLongLong(args[6]);
    self->limit_bytes = PyLong_AsLongLong(args[7]);
    if (PyErr_Occurred())
        return false;
    if (self->rows < 0 || self->partition_count < 0 || self->partition_count > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a count that is negative or too large");
        return false;
    }
    if (!open_binary(args[1], self->rows, &self->keys) || !open_binary(args[2], self->rows, &self->values) ||
        !open_headers(args[3], self->rows, &self->headers))
        return false;
    if (PyLong_Check(args[4])) {
        self->timestamp = PyLong_AsLongLong(args[4]);
        if (self->timestamp == -1 && PyErr_Occurred())
            return false;
    } else if (!open_numbers(args[4], self->rows, 8, &self->timestamps)) {
        return false;
    }
    if (args[5] == Py_None)
        self->partition_count = 0; /* nobody asks for one */
    else if (!open_numbers(args[5], self->rows, 4, &self->partitions))
        return false;
    self->writers = PyMem_RawCalloc((size_t)self->partition_count + 1, sizeof *self->writers);
    self->sections = PyList_New(0);
    if (self->writers == NULL)
        PyErr_NoMemory();
    return self->writers != NULL && self->sections != NULL;
}

static void close_encoder(encoder *self) {
    close_binary(&self->keys);
    close_binary(&self->values);
    close_headers(&self->headers);
    PyBuffer_Release(&self->timestamps);
    PyBuffer_Release(&self->partitions);
    for (int64_t i = 0; self->writers != NULL && i <= self->partition_count; i++)
        writer_clear(&self->writers[i]);
    PyMem_RawFree(self->writers);
    Py_XDECREF(self->sections);
}

static bool close_section(encoder *self, writer *batch, int64_t partition) {
    PyObject *section = writer_section(batch, partition);
    if (section == NULL)
        return false;
    int failed = PyList_Append(self->sections, section);
    Py_DECREF(section);
    return !failed;
}

static bool encode_row(encoder *self, int64_t row) {
    cell key, value, headers;
    int32_t partition = ANY_PARTITION;
    int64_t timestamp = self->timestamp;
    if (self->partitions.obj != NULL)
        memcpy(&partition, (const uint8_t *)self->partitions.buf + row * 4, sizeof partition);
    if (self->timestamps.obj != NULL)
        memcpy(&timestamp, (const uint8_t *)self->timestamps.buf + row * 8, sizeof timestamp);
    if (partition < ANY_PARTITION || partition >= self->partition_count) {
        PyErr_Format(PyExc_ValueError, "row %lld goes to partition %d, which is not there", (long long)row, partition);
        return false;
    }
    if (!cell_at(&self->keys, row, &key) || !cell_at(&self->values, row, &value) ||
        !encode_row_headers(&self->headers, row, &headers))
        return false;
    writer *batch = &self->writers[partition + 1];
    int taken = writer_append(batch, self->limit_bytes, timestamp, &key, &value, &headers);
    if (taken == 0)
        taken = close_section(self, batch, partition)
                    ? writer_append(batch, self->limit_bytes, timestamp, &key, &value, &headers)
                    : -1;
    return taken > 0;
}

PyObject *py_encode_columns(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    encoder self;
    memset(&self, 0, sizeof self);
    if (!right_count(count, 8, 8, "encode_columns"))
        return NULL;
    bool done = open_encoder(&self, args);
    for (int64_t row = 0; done && row < self.rows; row++)
        done = encode_row(&self, row);
    for (int64_t i = 0; done && i <= self.partition_count; i++)
        done = self.writers[i].count == 0 || close_section(&self, &self.writers[i], i - 1);
    PyObject *sections = done ? Py_NewRef(self.sections) : NULL;
    close_encoder(&self);
    return sections;
}

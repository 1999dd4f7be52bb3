/* Murmur2, as Kafka's Java client has it, and the partitions of a column of keys. */
#include "cells.h"

static uint32_t murmur2(const uint8_t *data, size_t length) {
    const uint32_t multiplier = 0x5BD1E995;
    uint32_t hash = 0x9747B28Cu ^ (uint32_t)length;
    for (; length >= 4; data += 4, length -= 4) {
        uint32_t word = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        word *= multiplier;
        word = (word ^ word >> 24) * multiplier;
        hash = hash * multiplier ^ word;
    }
    if (length > 0) {
        for (size_t i = 0; i < length; i++)
            hash ^= (uint32_t)data[i] << (8 * i);
        hash *= multiplier;
    }
    hash = (hash ^ hash >> 13) * multiplier;
    return hash ^ hash >> 15;
}

PyObject *py_murmur2(PyObject *Py_UNUSED(module), PyObject *data) {
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t hash = murmur2(view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(hash);
}

PyObject *py_partition_keys(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    binary_column keys;
    if (!right_count(count, 3, 3, "partition_keys"))
        return NULL;
    int64_t rows = PyLong_AsLongLong(args[0]), partition_count = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred())
        return NULL;
    if (rows < 0 || rows > PY_SSIZE_T_MAX / 4 || partition_count < 1 || partition_count > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a count that is too small or too large");
        return NULL;
    }
    PyObject *partitions = NULL;
    bool done = open_binary(args[1], rows, &keys);
    if (done)
        partitions = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)rows * 4);
    for (int64_t row = 0; partitions != NULL && row < rows; row++) {
        cell key;
        if (!cell_at(&keys, row, &key)) {
            Py_CLEAR(partitions);
            break;
        }
        int32_t partition = ANY_PARTITION;
        if (key.size_bytes >= 0)
            partition = (int32_t)((murmur2(key.data, (size_t)key.size_bytes) & 0x7FFFFFFF) % partition_count);
        memcpy(PyByteArray_AS_STRING(partitions) + row * 4, &partition, sizeof partition);
    }
    close_binary(&keys);
    return partitions;
}

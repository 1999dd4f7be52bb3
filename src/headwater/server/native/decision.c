/* What coordinators write besides offsets, compiled: the records of a decision.
 *
 * `append_records` is `broker/coordinators/batches.build_decision` and `Partition.append_internal` together, outside of
 * transactions. It gives -1 before anything was changed where the batch does not simply go at the end of the open
 * segment; tests compare it with Python. No state. */
#include "batch.h"

enum { RECORDS_MAX = 1000, BATCH_BYTES_MAX = 1 << 20 };

void decision_prepare(void) { crc32c_prepare(); }

/* The bytes that the records may take at most; 0 where they are not (key, value) of bytes, or too many. */
static Py_ssize_t bytes_at_most(PyObject *records) {
    Py_ssize_t count = PyList_GET_SIZE(records), size = HEADER_BYTES;
    if (count < 1 || count > RECORDS_MAX) return 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *record = PyList_GET_ITEM(records, i);
        if (!PyTuple_Check(record) || PyTuple_GET_SIZE(record) != 2) return 0;
        PyObject *key = PyTuple_GET_ITEM(record, 0), *value = PyTuple_GET_ITEM(record, 1);
        if (!PyBytes_CheckExact(key) || (value != Py_None && !PyBytes_CheckExact(value))) return 0;
        size += 4 * VARINT_BYTES_MAX + 3 + PyBytes_GET_SIZE(key) + (value == Py_None ? 0 : PyBytes_GET_SIZE(value));
        if (size > BATCH_BYTES_MAX) return 0;
    }
    return size;
}

static int64_t write_records(Target *t, PyObject *records, uint8_t *batch, int64_t now_ms) {
    uint8_t *p = batch + HEADER_BYTES;
    Py_ssize_t count = PyList_GET_SIZE(records);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *key = PyTuple_GET_ITEM(PyList_GET_ITEM(records, i), 0);
        PyObject *value = PyTuple_GET_ITEM(PyList_GET_ITEM(records, i), 1);
        int is_none = value == Py_None;
        p = put_pair(p, i, PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), is_none ? NULL : PyBytes_AS_STRING(value),
                     is_none ? 0 : PyBytes_GET_SIZE(value));
    }
    put_header(batch, p - batch, count, now_ms, 0, -1, -1);
    return append_own(t, batch, p - batch, count, now_ms);
}

/* append_records(partition, records, now_ms) */
PyObject *append_records(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    Target t;
    if (count != 3 || !PyList_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "append_records takes a partition, a list of records and the time");
        return NULL;
    }
    int64_t now_ms = PyLong_AsLongLong(args[2]), last_offset = -1;
    if (PyErr_Occurred()) return NULL;
    Py_ssize_t bytes_max = bytes_at_most(args[1]);
    if (bytes_max && find_target(args[0], &t)) {
        uint8_t *batch = PyMem_Malloc((size_t)bytes_max);
        if (batch != NULL) last_offset = write_records(&t, args[1], batch, now_ms);
        PyMem_Free(batch);
    }
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(last_offset);
}

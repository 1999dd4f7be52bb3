/* Records as Python objects: tuples of the caller's class, made without a call into Python.
 *
 * A tuple that holds nothing but bytes, numbers and strings can be part of no cycle. So it is taken off the garbage
 * collector's list at once: a million records would otherwise be walked over again and again.
 */
#include "codec.h"

enum { OFFSET, TIMESTAMP, KEY, VALUE, HEADERS, FIELDS };

typedef struct {
    PyTypeObject *record_type, *header_type; /* header_type NULL: plain pairs */
    PyObject *template;
    Py_ssize_t at[FIELDS];
    bool untrack;
} record_maker;

static PyObject *bytes_or_none(const cell *found) {
    if (found->size_bytes < 0)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)found->data, (Py_ssize_t)found->size_bytes);
}

static PyObject *make_header(const cell *key, const cell *value, PyTypeObject *type) {
    PyObject *items[2] = {
        PyUnicode_DecodeUTF8((const char *)key->data, (Py_ssize_t)key->size_bytes, NULL), bytes_or_none(value)};
    PyObject *pair = tuple_of(type == NULL ? &PyTuple_Type : type, 2, items);
    if (pair != NULL)
        PyObject_GC_UnTrack(pair);
    return pair;
}

static PyObject *make_headers(const raw_record *record, PyTypeObject *type) {
    if (record->header_count == 0)
        return Py_NewRef(classes.empty_tuple);
    PyObject *headers = PyTuple_New((Py_ssize_t)record->header_count);
    if (headers == NULL)
        return NULL;
    const uint8_t *at = record->headers;
    for (Py_ssize_t i = 0; i < (Py_ssize_t)record->header_count; i++) {
        cell key, value;
        at = next_header(at, record->end, &key, &value);
        bool whole = at != NULL && key.size_bytes >= 0; /* a writable payload may change while objects are made */
        PyObject *header =
            whole ? make_header(&key, &value, type) : raise_corrupt(record->offset, "it was written to while it was read");
        if (header == NULL) {
            Py_DECREF(headers);
            return NULL;
        }
        PyTuple_SET_ITEM(headers, i, header);
    }
    PyObject_GC_UnTrack(headers);
    return headers;
}

/* `timestamp` is the object of the record before, used again if the number is the same: it mostly is. */
static PyObject *make_record(const record_maker *maker, const raw_record *record, PyObject *timestamp) {
    PyObject *fields[FIELDS] = {
        PyLong_FromLongLong(record->offset),
        Py_NewRef(timestamp),
        bytes_or_none(&record->key),
        bytes_or_none(&record->value),
        make_headers(record, maker->header_type),
    };
    Py_ssize_t count = PyTuple_GET_SIZE(maker->template);
    PyObject *made = NULL;
    if (fields[OFFSET] && fields[KEY] && fields[VALUE] && fields[HEADERS])
        made = maker->record_type->tp_alloc(maker->record_type, count);
    if (made == NULL) {
        for (int i = 0; i < FIELDS; i++)
            Py_XDECREF(fields[i]);
        return NULL;
    }
    if (maker->untrack)
        PyObject_GC_UnTrack(made);
    for (int i = 0; i < FIELDS; i++)
        PyTuple_SET_ITEM(made, maker->at[i], fields[i]);
    for (Py_ssize_t i = 0; i < count; i++)
        if (PyTuple_GET_ITEM(made, i) == NULL)
            PyTuple_SET_ITEM(made, i, Py_NewRef(PyTuple_GET_ITEM(maker->template, i)));
    return made;
}

static PyObject *make_records(
    const Py_buffer *payload, const batch_facts *facts, int64_t from, int64_t stop, const record_maker *maker) {
    const uint8_t *at = payload->buf, *end = at + payload->len;
    PyObject *timestamp = NULL;
    int64_t timestamp_number = 0;
    Py_ssize_t made = 0;
    const char *why;
    PyObject *list = PyList_New((Py_ssize_t)facts->record_count);
    if (list == NULL)
        return NULL;
    for (int64_t i = 0; i < facts->record_count; i++) {
        raw_record record;
        at = parse_record(at, end, facts, &record, &why);
        if (at == NULL) {
            raise_corrupt(facts->base_offset, why);
            goto failed;
        }
        if (record.offset < from || record.offset >= stop)
            continue;
        if (timestamp == NULL || record.timestamp != timestamp_number) {
            Py_XDECREF(timestamp);
            timestamp_number = record.timestamp;
            timestamp = PyLong_FromLongLong(timestamp_number);
            if (timestamp == NULL)
                goto failed;
        }
        PyObject *object = make_record(maker, &record, timestamp);
        if (object == NULL)
            goto failed;
        PyList_SET_ITEM(list, made++, object);
    }
    if (at != end) {
        raise_corrupt(facts->base_offset, "bytes after the last record");
        goto failed;
    }
    Py_XDECREF(timestamp);
    Py_SET_SIZE(list, made); /* the places behind are empty: records that were left out */
    return list;
failed:
    Py_XDECREF(timestamp);
    Py_DECREF(list);
    return NULL;
}

PyObject *py_read_records(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    batch_facts facts;
    Py_buffer payload;
    if (!right_count(count, 2, 2, "read_records") || PyObject_GetBuffer(args[0], &payload, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *records = NULL;
    PyObject *template = PyTuple_Pack(FIELDS, Py_None, Py_None, Py_None, Py_None, Py_None);
    if (template != NULL && read_facts(args[1], payload.len, &facts)) {
        record_maker maker = {classes.record, NULL, template, {0, 1, 2, 3, 4}, true};
        records = make_records(&payload, &facts, 0, INT64_MAX, &maker);
    }
    Py_XDECREF(template);
    PyBuffer_Release(&payload);
    return records;
}

static bool is_tuple_class(PyObject *object) {
    return PyType_Check(object) && PyType_IsSubtype((PyTypeObject *)object, &PyTuple_Type) &&
           ((PyTypeObject *)object)->tp_itemsize == PyTuple_Type.tp_itemsize;
}

/* A columns.Layout: record type, header type or None, five places; and the template. */
static bool read_maker(PyObject *layout, PyObject *template, record_maker *maker) {
    if (!PyTuple_Check(layout) || PyTuple_GET_SIZE(layout) != 2 + FIELDS || !PyTuple_Check(template) ||
        !is_tuple_class(PyTuple_GET_ITEM(layout, 0)) ||
        (PyTuple_GET_ITEM(layout, 1) != Py_None && !is_tuple_class(PyTuple_GET_ITEM(layout, 1)))) {
        PyErr_SetString(PyExc_TypeError, "a Layout of tuple classes and a tuple are wanted");
        return false;
    }
    maker->record_type = (PyTypeObject *)PyTuple_GET_ITEM(layout, 0);
    PyObject *header_type = PyTuple_GET_ITEM(layout, 1);
    maker->header_type = header_type == Py_None ? NULL : (PyTypeObject *)header_type;
    maker->template = template;
    for (int i = 0; i < FIELDS; i++) {
        maker->at[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(layout, 2 + i));
        if (maker->at[i] == -1 && PyErr_Occurred())
            return false;
        bool twice = false;
        for (int j = 0; j < i; j++)
            twice |= maker->at[j] == maker->at[i];
        if (twice || maker->at[i] < 0 || maker->at[i] >= PyTuple_GET_SIZE(template)) {
            PyErr_SetString(PyExc_ValueError, "a Layout whose fields are not in the template, each in its own place");
            return false;
        }
    }
    maker->untrack = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(template); i++)
        maker->untrack &= !PyObject_IS_GC(PyTuple_GET_ITEM(template, i)) ||
                          PyTuple_GET_ITEM(template, i) == classes.empty_tuple;
    return true;
}

PyObject *py_build_records(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    batch_facts facts;
    record_maker maker;
    Py_buffer payload;
    if (!right_count(count, 6, 6, "build_records"))
        return NULL;
    int64_t from = PyLong_AsLongLong(args[2]), stop = PyLong_AsLongLong(args[3]);
    if (PyErr_Occurred() || !read_maker(args[4], args[5], &maker) ||
        PyObject_GetBuffer(args[0], &payload, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *records = NULL;
    if (read_facts(args[1], payload.len, &facts))
        records = make_records(&payload, &facts, from, stop, &maker);
    PyBuffer_Release(&payload);
    return records;
}

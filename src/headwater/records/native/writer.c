/* A batch that grows record by record; and BatchAppender, which is that for Python. */
#include "writer.h"

#define FIRST_BYTES 1024

const cell no_headers = {(const uint8_t *)"\0", 1};

uint8_t *put_cell(uint8_t *at, const cell *found) {
    at = put_varint(at, found->size_bytes);
    if (found->size_bytes > 0) {
        memcpy(at, found->data, (size_t)found->size_bytes);
        at += found->size_bytes;
    }
    return at;
}

bool append_cell(growing *memory, const cell *found) {
    size_t bytes = (size_t)cell_bytes(found);
    if (!reserve(memory, bytes))
        return false;
    put_cell(memory->data + memory->used, found);
    memory->used += bytes;
    return true;
}

static bool make_room(writer *self, int64_t wanted, int64_t limit_bytes) {
    Py_ssize_t capacity = self->batch == NULL ? 0 : PyByteArray_GET_SIZE(self->batch);
    if (capacity >= wanted)
        return true;
    int64_t size = capacity < FIRST_BYTES ? FIRST_BYTES : (int64_t)capacity * 2;
    if (size > limit_bytes)
        size = limit_bytes;
    if (size < wanted)
        size = wanted;
    if (self->batch != NULL)
        return PyByteArray_Resize(self->batch, (Py_ssize_t)size) == 0;
    self->batch = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (self->batch != NULL)
        memset(PyByteArray_AS_STRING(self->batch), 0, HEADER_BYTES);
    return self->batch != NULL;
}

int writer_append(
    writer *self, int64_t limit_bytes, int64_t timestamp, const cell *key, const cell *value, const cell *headers) {
    int64_t delta = 0, used = self->count ? self->used : HEADER_BYTES;
    if (self->count && __builtin_sub_overflow(timestamp, self->base_timestamp, &delta)) {
        PyErr_SetString(PyExc_ValueError, "a timestamp too far from the first of the batch");
        return -1;
    }
    /* Three sizes of objects that are in memory: their sum does not come near 64 bits. */
    int64_t body = 1 + varint_bytes(delta) + varint_bytes(self->count) + cell_bytes(key) + cell_bytes(value) +
                   headers->size_bytes;
    int64_t wanted = used + varint_bytes(body) + body;
    if (self->count && wanted > limit_bytes)
        return 0;
    if (wanted > DATA_BYTES_MAX) {
        raise_too_large(wanted);
        return -1;
    }
    if (!make_room(self, wanted, limit_bytes))
        return -1;
    uint8_t *at = (uint8_t *)PyByteArray_AS_STRING(self->batch) + used;
    at = put_varint(at, body);
    *at++ = 0; /* attributes: unused so far */
    at = put_varint(at, delta);
    at = put_varint(at, self->count);
    at = put_cell(at, key);
    at = put_cell(at, value);
    memcpy(at, headers->data, (size_t)headers->size_bytes);
    if (self->count == 0)
        self->base_timestamp = self->max_timestamp = timestamp;
    else if (timestamp > self->max_timestamp)
        self->max_timestamp = timestamp;
    self->used = wanted;
    self->count++;
    return 1;
}

PyObject *writer_section(writer *self, int64_t partition) {
    if (self->batch == NULL) {
        if (!make_room(self, HEADER_BYTES, HEADER_BYTES))
            return NULL;
        self->used = HEADER_BYTES;
        self->base_timestamp = self->max_timestamp = -1;
    }
    if (PyByteArray_Resize(self->batch, (Py_ssize_t)self->used) < 0)
        return NULL;
    PyObject *items[5] = {
        PyLong_FromLongLong(partition),
        PyLong_FromLongLong(self->count),
        PyLong_FromLongLong(self->base_timestamp),
        PyLong_FromLongLong(self->max_timestamp),
        self->batch,
    };
    self->batch = NULL;
    writer_clear(self);
    return tuple_of(classes.section, 5, items);
}

void writer_clear(writer *self) {
    Py_XDECREF(self->batch);
    memset(self, 0, sizeof *self);
}

/* ---- BatchAppender ---- */

typedef struct {
    PyObject_HEAD
    writer batch;
    int64_t limit_bytes;
} batch_appender;

/* Bytes or None, held until `view` is released. */
static bool open_cell(PyObject *object, Py_buffer *view, cell *found) {
    view->obj = NULL;
    if (object == Py_None) {
        found->size_bytes = -1;
        return true;
    }
    if (PyBytes_CheckExact(object)) { /* the caller holds it */
        found->data = (const uint8_t *)PyBytes_AS_STRING(object);
        found->size_bytes = PyBytes_GET_SIZE(object);
        return true;
    }
    if (PyObject_GetBuffer(object, view, PyBUF_SIMPLE) < 0) {
        view->obj = NULL;
        return false;
    }
    found->data = view->buf;
    found->size_bytes = view->len;
    return true;
}

static bool encode_header(PyObject *header, growing *encoded) {
    cell key, value;
    Py_buffer view;
    PyObject *pair = PySequence_Tuple(header); /* of our own: a buffer of Python code could change a list under us */
    if (pair == NULL)
        return false;
    bool done = false;
    if (PyTuple_GET_SIZE(pair) != 2) {
        PyErr_SetString(PyExc_ValueError, "a header is a key and a value");
    } else {
        Py_ssize_t key_bytes = 0;
        key.data = (const uint8_t *)PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(pair, 0), &key_bytes);
        key.size_bytes = key_bytes;
        if (key.data != NULL && open_cell(PyTuple_GET_ITEM(pair, 1), &view, &value)) {
            done = append_cell(encoded, &key) && append_cell(encoded, &value);
            PyBuffer_Release(&view);
        }
    }
    Py_DECREF(pair);
    return done;
}

static bool encode_headers(PyObject *headers, growing *encoded) {
    PyObject *list = PySequence_Tuple(headers); /* of our own: what follows may run anybody's code */
    if (list == NULL)
        return false;
    Py_ssize_t count = PyTuple_GET_SIZE(list);
    bool done = reserve(encoded, VARINT_BYTES_MAX);
    if (done)
        encoded->used = (size_t)(put_varint(encoded->data, count) - encoded->data);
    for (Py_ssize_t i = 0; done && i < count; i++)
        done = encode_header(PyTuple_GET_ITEM(list, i), encoded);
    Py_DECREF(list);
    return done;
}

/* Anything that may run Python code comes before the batch is touched. */
static PyObject *append(PyObject *object, PyObject *const *args, Py_ssize_t count) {
    batch_appender *self = (batch_appender *)object;
    Py_buffer key_view = {.obj = NULL}, value_view = {.obj = NULL};
    cell key, value, headers = no_headers;
    growing encoded = {NULL, 0, 0};
    int taken = -1;
    if (!right_count(count, 3, 4, "append"))
        return NULL;
    int64_t timestamp = PyLong_AsLongLong(args[0]);
    if (timestamp == -1 && PyErr_Occurred())
        return NULL;
    bool some = count == 4 && args[3] != classes.empty_tuple;
    if (open_cell(args[1], &key_view, &key) && open_cell(args[2], &value_view, &value) &&
        (!some || encode_headers(args[3], &encoded))) {
        if (some) {
            headers.data = encoded.data;
            headers.size_bytes = (int64_t)encoded.used;
        }
        taken = writer_append(&self->batch, self->limit_bytes, timestamp, &key, &value, &headers);
    }
    PyBuffer_Release(&key_view);
    PyBuffer_Release(&value_view);
    let_go(&encoded);
    return taken < 0 ? NULL : PyLong_FromLongLong(taken ? self->batch.used : 0);
}

static PyObject *section(PyObject *object, PyObject *const *args, Py_ssize_t count) {
    int64_t partition = ANY_PARTITION;
    if (!right_count(count, 0, 1, "section"))
        return NULL;
    if (count == 1) {
        partition = PyLong_AsLongLong(args[0]);
        if (partition == -1 && PyErr_Occurred())
            return NULL;
    }
    return writer_section(&((batch_appender *)object)->batch, partition);
}

static PyObject *appender_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"limit_bytes", NULL};
    long long limit_bytes;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "L:BatchAppender", names, &limit_bytes))
        return NULL;
    batch_appender *self = (batch_appender *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->limit_bytes = limit_bytes;
    return (PyObject *)self;
}

static void appender_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    writer_clear(&((batch_appender *)object)->batch);
    type->tp_free(object);
}

enum { COUNT, SIZE_BYTES, BASE_TIMESTAMP, MAX_TIMESTAMP };

static PyObject *get_field(PyObject *object, void *which) {
    const writer *batch = &((batch_appender *)object)->batch;
    bool empty = batch->count == 0;
    switch ((intptr_t)which) {
    case COUNT:
        return PyLong_FromLongLong(batch->count);
    case SIZE_BYTES:
        return PyLong_FromLongLong(empty ? HEADER_BYTES : batch->used);
    case BASE_TIMESTAMP:
        return PyLong_FromLongLong(empty ? -1 : batch->base_timestamp);
    default:
        return PyLong_FromLongLong(empty ? -1 : batch->max_timestamp);
    }
}

static PyGetSetDef appender_fields[] = {
    {"count", get_field, NULL, NULL, (void *)COUNT},
    {"size_bytes", get_field, NULL, NULL, (void *)SIZE_BYTES},
    {"base_timestamp", get_field, NULL, NULL, (void *)BASE_TIMESTAMP},
    {"max_timestamp", get_field, NULL, NULL, (void *)MAX_TIMESTAMP},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef appender_methods[] = {
    {"append", (PyCFunction)(void (*)(void))append, METH_FASTCALL, "See headwater.records.codec."},
    {"section", (PyCFunction)(void (*)(void))section, METH_FASTCALL, "See headwater.records.codec."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject batch_appender_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "headwater.records._codec.BatchAppender",
    .tp_doc = "The records of one growing batch. See headwater.records.codec.",
    .tp_basicsize = sizeof(batch_appender),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = appender_new,
    .tp_dealloc = appender_dealloc,
    .tp_getset = appender_fields,
    .tp_methods = appender_methods,
};

/* Records of many batches as columns in Arrow's layout (columns.py).
 *
 * Room for a whole batch is made before its records are read, so that the loop over them only writes. The columns of a
 * batch that turns out damaged are cut back to where they were.
 */
#include <stddef.h>

#include "column.h"

typedef struct {
    PyObject_HEAD
    bool wants_headers;
    int64_t row_count, taken_bytes;
    binary_builder key, value, topic;
    growing partition, offset, timestamp, timestamp_type;
    /* headers: `ends` and `has` stay empty until the first one comes */
    int64_t header_count;
    growing ends, has;
    binary_builder header_key, header_value;
} column_builder;

/* How long the columns were before a batch. */
typedef struct {
    int64_t rows, headers, key_nulls, value_nulls, header_value_nulls;
    size_t key_bytes, value_bytes, header_key_bytes, header_value_bytes;
} mark;

/* ---- rows ---- */

static bool append_headers(column_builder *self, const raw_record *record, int64_t row, size_t payload_bytes) {
    if (self->ends.used == 0) {
        size_t bytes = ((size_t)row + 1) * 4; /* all rows before have none */
        if (!reserve(&self->ends, bytes))
            return false;
        memset(self->ends.data, 0, bytes);
        self->ends.used = bytes;
    }
    if (!binary_reserve(&self->header_key, record->header_count, payload_bytes) ||
        !binary_reserve(&self->header_value, record->header_count, payload_bytes) ||
        !stretch_bits(&self->has, row + 1, 0))
        return false;
    const uint8_t *at = record->headers;
    for (int64_t i = 0; i < record->header_count; i++) {
        cell key, value;
        at = next_header(at, record->end, &key, &value);
        if (!binary_append(&self->header_key, &key, self->header_count) ||
            !binary_append(&self->header_value, &value, self->header_count))
            return false;
        self->header_count++;
    }
    set_bit(&self->has, row);
    return true;
}

static inline int64_t micros(int64_t millis) {
    int64_t number;
    if (__builtin_mul_overflow(millis, (int64_t)1000, &number))
        return millis < 0 ? INT64_MIN : INT64_MAX;
    return number;
}

static bool append_row(column_builder *self, const raw_record *record, int64_t row, size_t payload_bytes) {
    if (record->header_count && self->wants_headers && !append_headers(self, record, row, payload_bytes))
        return false;
    if (self->ends.used) {
        if (!reserve(&self->ends, 4))
            return false;
        put_int32(&self->ends, (int32_t)self->header_count);
    }
    put_int64(&self->offset, record->offset);
    put_int64(&self->timestamp, micros(record->timestamp));
    return binary_append(&self->key, &record->key, row) && binary_append(&self->value, &record->value, row);
}

static void cut_back(column_builder *self, const mark *before, int64_t rows_now) {
    binary_cut(&self->key, before->rows, rows_now, before->key_bytes, before->key_nulls);
    binary_cut(&self->value, before->rows, rows_now, before->value_bytes, before->value_nulls);
    self->offset.used = self->timestamp.used = (size_t)before->rows * 8;
    if (self->ends.used) {
        for (int64_t row = before->rows; row < rows_now && row < (int64_t)self->has.used * 8; row++)
            clear_bit(&self->has, row);
        if (before->headers == 0) { /* as if none had ever come */
            self->ends.used = self->has.used = 0;
        } else {
            self->ends.used = ((size_t)before->rows + 1) * 4;
        }
        binary_cut(&self->header_key, before->headers, self->header_count, before->header_key_bytes, 0);
        binary_cut(
            &self->header_value, before->headers, self->header_count, before->header_value_bytes,
            before->header_value_nulls);
        self->header_count = before->headers;
    }
}

/* The rows added; -1 with an exception. */
static int64_t append_rows(column_builder *self, const Py_buffer *payload, const batch_facts *facts, int64_t from, int64_t stop) {
    const uint8_t *at = payload->buf, *end = at + payload->len;
    const mark before = {
        self->row_count,           self->header_count,         self->key.null_count,
        self->value.null_count,    self->header_value.null_count, self->key.data.used,
        self->value.data.used,     self->header_key.data.used, self->header_value.data.used,
    };
    const char *why = NULL;
    int64_t row = self->row_count;
    for (int64_t i = 0; i < facts->record_count; i++) {
        raw_record record;
        at = parse_record(at, end, facts, &record, &why);
        if (at == NULL)
            goto failed;
        if (record.offset < from || record.offset >= stop)
            continue;
        if (!append_row(self, &record, row++, (size_t)payload->len)) {
            why = NULL;
            goto failed;
        }
    }
    if (at == end)
        return row - self->row_count;
    why = "bytes after the last record";
failed:
    cut_back(self, &before, row);
    if (why != NULL)
        raise_corrupt(facts->base_offset, why);
    return -1;
}

/* What is the same in every row of the batch. */
static void append_constants(column_builder *self, int64_t rows, const Py_buffer *topic, int32_t partition, bool append_time) {
    for (int64_t i = 0; i < rows; i++) {
        put_int32(&self->partition, partition);
        put_int32(&self->timestamp_type, append_time);
    }
    uint8_t *at = self->topic.data.data + self->topic.data.used;
    for (int64_t i = 0; i < rows; i++, at += topic->len) {
        if (topic->len)
            memcpy(at, topic->buf, (size_t)topic->len);
        self->topic.data.used += (size_t)topic->len;
        put_int32(&self->topic.offsets, (int32_t)self->topic.data.used);
    }
}

static bool reserve_rows(column_builder *self, int64_t rows, size_t payload_bytes, size_t topic_bytes) {
    size_t count = (size_t)rows;
    return binary_reserve(&self->key, rows, payload_bytes) && binary_reserve(&self->value, rows, payload_bytes) &&
           binary_reserve(&self->topic, rows, topic_bytes * count) && reserve(&self->partition, count * 4) &&
           reserve(&self->timestamp_type, count * 4) && reserve(&self->offset, count * 8) &&
           reserve(&self->timestamp, count * 8);
}

/* -1: there is no room; -2: an exception. */
static int64_t append_checked(
    column_builder *self, const Py_buffer *payload, const Py_buffer *topic, PyObject *header, int32_t partition,
    int64_t from, int64_t stop) {
    batch_facts facts;
    if (!read_facts(header, payload->len, &facts))
        return -2;
    /* One record has 7 bytes at least and there is a payload of them, so that no sum here comes near 64 bits. */
    bool data_fits = payload->len <= DATA_BYTES_MAX - self->taken_bytes;
    bool topic_fits = topic->len == 0 || self->row_count + facts.record_count <= DATA_BYTES_MAX / topic->len;
    if (!data_fits || !topic_fits) {
        if (self->row_count > 0)
            return -1;
        raise_too_large(payload->len);
        return -2;
    }
    if (!reserve_rows(self, facts.record_count, (size_t)payload->len, (size_t)topic->len))
        return -2;
    int64_t rows = append_rows(self, payload, &facts, from, stop);
    if (rows < 0)
        return -2;
    append_constants(self, rows, topic, partition, facts.log_append_time);
    self->row_count += rows;
    if (rows > 0)
        self->taken_bytes += payload->len;
    return rows;
}

static PyObject *append_batch(PyObject *object, PyObject *const *args, Py_ssize_t count) {
    Py_buffer payload, topic;
    if (!right_count(count, 6, 6, "append_batch"))
        return NULL;
    long partition = PyLong_AsLong(args[3]);
    int64_t from = PyLong_AsLongLong(args[4]), stop = PyLong_AsLongLong(args[5]);
    if (!PyErr_Occurred() && (partition < INT32_MIN || partition > INT32_MAX))
        PyErr_SetString(PyExc_OverflowError, "a partition of more than 32 bits");
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &payload, PyBUF_SIMPLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(args[2], &topic, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&payload);
        return NULL;
    }
    int64_t rows = append_checked((column_builder *)object, &payload, &topic, args[1], (int32_t)partition, from, stop);
    PyBuffer_Release(&topic);
    PyBuffer_Release(&payload);
    return rows == -2 ? NULL : PyLong_FromLongLong(rows);
}

/* ---- the end ---- */

static void let_all_go(column_builder *self) {
    binary_builder *binaries[] = {&self->key, &self->value, &self->topic, &self->header_key, &self->header_value};
    growing *others[] = {&self->partition, &self->offset, &self->timestamp, &self->timestamp_type, &self->ends, &self->has};
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
        binary_let_go(binaries[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        let_go(others[i]);
    self->row_count = self->taken_bytes = self->header_count = 0;
}

/* Empties a builder whose memory has another owner now. */
static void forget_all(column_builder *self) {
    size_t head = offsetof(column_builder, row_count);
    memset((char *)self + head, 0, sizeof *self - head);
}

static PyObject *drop_all(PyObject **items, int count) {
    for (int i = 0; i < count; i++)
        Py_XDECREF(items[i]);
    return NULL;
}

static int64_t count_bits(const growing *bitmap) {
    int64_t count = 0;
    for (size_t i = 0; i < bitmap->used; i++)
        count += __builtin_popcount(bitmap->data[i]);
    return count;
}

static PyObject *finish_headers(column_builder *self) {
    if (self->header_count == 0)
        Py_RETURN_NONE;
    PyObject *items[10] = {NULL}, *key[4] = {NULL};
    if (!stretch_bits(&self->has, self->row_count, 0))
        return NULL;
    trim_bits(&self->has, self->row_count);
    items[0] = PyLong_FromLongLong(self->row_count - count_bits(&self->has));
    items[1] = memory_of(&self->has);
    items[2] = memory_of(&self->ends);
    items[3] = PyLong_FromLongLong(self->header_count);
    if (!binary_finish(&self->header_key, self->header_count, key) ||
        !binary_finish(&self->header_value, self->header_count, items + 6)) {
        drop_all(key, 4);
        return drop_all(items, 10);
    }
    Py_DECREF(key[0]);
    Py_DECREF(key[1]);
    items[4] = key[2];
    items[5] = key[3];
    return tuple_of(classes.header_columns, 10, items);
}

/* The builder is emptied first: making objects may run the garbage collector, and with it anybody's code. */
static PyObject *finish(PyObject *object, PyObject *Py_UNUSED(none)) {
    column_builder taken = *(column_builder *)object, *self = &taken;
    forget_all((column_builder *)object);
    PyObject *items[16] = {NULL}, *topic[4] = {NULL}, *columns = NULL;
    items[0] = PyLong_FromLongLong(self->row_count);
    if (binary_finish(&self->key, self->row_count, items + 1) &&
        binary_finish(&self->value, self->row_count, items + 5) &&
        binary_finish(&self->topic, self->row_count, topic)) {
        items[9] = Py_NewRef(topic[2]);
        items[10] = Py_NewRef(topic[3]);
        items[11] = memory_of(&self->partition);
        items[12] = memory_of(&self->offset);
        items[13] = memory_of(&self->timestamp);
        items[14] = memory_of(&self->timestamp_type);
        items[15] = finish_headers(self);
        columns = tuple_of(classes.columns, 16, items);
    } else {
        drop_all(items, 16);
    }
    drop_all(topic, 4);
    let_all_go(self);
    return columns;
}

static PyObject *builder_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"headers", NULL};
    int headers = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|p:ColumnBuilder", names, &headers))
        return NULL;
    column_builder *self = (column_builder *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->wants_headers = headers;
    return (PyObject *)self;
}

static void builder_dealloc(PyObject *object) {
    let_all_go((column_builder *)object);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *get_row_count(PyObject *object, void *Py_UNUSED(closure)) {
    return PyLong_FromLongLong(((column_builder *)object)->row_count);
}

static PyObject *get_data_bytes(PyObject *object, void *Py_UNUSED(closure)) {
    column_builder *self = (column_builder *)object;
    return PyLong_FromSize_t(self->key.data.used + self->value.data.used);
}

static PyGetSetDef builder_fields[] = {
    {"row_count", get_row_count, NULL, NULL, NULL},
    {"data_bytes", get_data_bytes, NULL, "Of keys and values.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef builder_methods[] = {
    {"append_batch", (PyCFunction)(void (*)(void))append_batch, METH_FASTCALL, "See headwater.records.codec."},
    {"finish", finish, METH_NOARGS, "See headwater.records.codec."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject column_builder_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "headwater.records._codec.ColumnBuilder",
    .tp_doc = "Gathers the records of many batches into columns. See headwater.records.codec.",
    .tp_basicsize = sizeof(column_builder),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = builder_new,
    .tp_dealloc = builder_dealloc,
    .tp_getset = builder_fields,
    .tp_methods = builder_methods,
};

/* The hot path of OffsetCommit, compiled: the bytes of a request into what the coordinator decides upon, and its
 * records into the log. The same as `read_commit` and `append_commit` of `broker/handlers/offset_commit_frames.py`, for
 * what is plainly fine; what is not is handed on, before anything was changed. A test compares both. No state. */
#include "batch.h"

enum { FIRST_VERSION = 2, FIRST_WITHOUT_RETENTION = 5, FIRST_WITH_LEADER_EPOCH = 6, FIRST_WITH_INSTANCE = 7 };
enum { FIRST_WITH_THROTTLE = 3, FIRST_FLEXIBLE = 8, FIRST_TOPIC_ID = 10, LAST_VERSION = 10 };
enum { METADATA_BYTES_MAX = 126, PARTS_MAX = 1000, BATCH_BYTES_MAX = 1 << 20, UUID_BYTES = 16 };
enum { KEY_BYTES = 2 + 2 + 2 + 4, VALUE_BYTES_MAX = 2 + 8 + 4 + 1 + METADATA_BYTES_MAX + 8 + 3 + UUID_BYTES };
enum { OFFSET_COMMIT_KEY = 1, OFFSET_COMMIT_VERSION = 4 };

/* Reading: each function gives NULL, or sets `failed`, where the request is not of the shape. */

typedef struct {
    const uint8_t *at, *end;
    int flexible, failed;
} Cursor;

static const uint8_t *take(Cursor *c, Py_ssize_t size) {
    if (c->failed || size < 0 || c->end - c->at < size) {
        c->failed = 1;
        return NULL;
    }
    c->at += size;
    return c->at - size;
}

static int32_t take32(Cursor *c) {
    const uint8_t *p = take(c, 4);
    return p == NULL ? 0 : int32_at(p);
}

static int64_t take64(Cursor *c) {
    const uint8_t *p = take(c, 8);
    return p == NULL ? 0 : int64_at(p);
}

/* -1 for null. Of the flexible encoding only lengths of one byte. */
static Py_ssize_t take_length(Cursor *c) {
    const uint8_t *p = take(c, c->flexible ? 1 : 2);
    if (p == NULL) return -1;
    if (c->flexible && *p > 127) c->failed = 1;
    return c->flexible ? (Py_ssize_t)*p - 1 : int16_at(p);
}

/* NULL for null and for a failure. */
static const uint8_t *take_text(Cursor *c, Py_ssize_t *size) {
    *size = take_length(c);
    if (c->failed || *size == -1) return NULL;
    return take(c, *size);
}

static Py_ssize_t take_count(Cursor *c) {
    if (c->flexible) return take_length(c);
    return take32(c);
}

static void take_no_tags(Cursor *c) {
    if (!c->flexible) return;
    const uint8_t *p = take(c, 1);
    if (p != NULL && *p != 0) c->failed = 1;
}

static PyObject *text(const uint8_t *p, Py_ssize_t size) { return PyUnicode_DecodeUTF8((const char *)p, size, NULL); }

static PyObject *take_part(Cursor *c, long version) {
    Py_ssize_t size;
    int32_t index = take32(c);
    int64_t offset = take64(c);
    int32_t leader_epoch = version >= FIRST_WITH_LEADER_EPOCH ? take32(c) : -1;
    const uint8_t *metadata = take_text(c, &size);
    take_no_tags(c);
    if (c->failed || size > METADATA_BYTES_MAX) return NULL;
    PyObject *noted = text(metadata, metadata == NULL ? 0 : size);
    if (noted == NULL) return NULL;
    return Py_BuildValue("(iLiN)", (int)index, (long long)offset, (int)leader_epoch, noted);
}

static PyObject *take_parts(Cursor *c, long version) {
    Py_ssize_t count = take_count(c);
    if (c->failed || count < 1 || count > PARTS_MAX) return NULL;
    PyObject *parts = PyList_New(count);
    if (parts == NULL) return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *part = take_part(c, version);
        if (part == NULL) {
            Py_DECREF(parts);
            return NULL;
        }
        PyList_SET_ITEM(parts, i, part);
    }
    return parts;
}

/* The answer that says that all went well. */
static PyObject *answer(const uint8_t *topic, Py_ssize_t topic_bytes, PyObject *parts, long version, int32_t correlation_id) {
    int flexible = version >= FIRST_FLEXIBLE;
    Py_ssize_t count = PyList_GET_SIZE(parts);
    Py_ssize_t size = 8 + (version >= FIRST_WITH_THROTTLE ? 4 : 0) + topic_bytes + count * (flexible ? 7 : 6);
    size += flexible ? 1 + 1 + (version < FIRST_TOPIC_ID ? 1 : 0) + 1 + 2 : 4 + 2 + 4;
    PyObject *whole = PyBytes_FromStringAndSize(NULL, size);
    if (whole == NULL) return NULL;
    uint8_t *p = (uint8_t *)PyBytes_AS_STRING(whole);
    put32(p, (int32_t)(size - 4));
    put32(p + 4, correlation_id);
    p += 8;
    if (flexible) *p++ = 0;
    if (version >= FIRST_WITH_THROTTLE) {
        put32(p, 0);
        p += 4;
    }
    if (flexible) {
        *p++ = 2;
        if (version < FIRST_TOPIC_ID) *p++ = (uint8_t)(topic_bytes + 1);
    } else {
        put32(p, 1);
        put16(p + 4, (int16_t)topic_bytes);
        p += 6;
    }
    memcpy(p, topic, (size_t)topic_bytes);
    p += topic_bytes;
    if (flexible) {
        *p++ = (uint8_t)(count + 1);
    } else {
        put32(p, (int32_t)count);
        p += 4;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        put32(p, (int32_t)PyLong_AsLong(PyTuple_GET_ITEM(PyList_GET_ITEM(parts, i), 0)));
        put16(p + 4, 0);
        p += 6;
        if (flexible) *p++ = 0;
    }
    if (flexible) p[0] = p[1] = 0;
    return whole;
}

static int is_ascii(const uint8_t *p, Py_ssize_t size) {
    for (Py_ssize_t i = 0; i < size; i++)
        if (p[i] > 127) return 0;
    return 1;
}

/* NULL, with or without an exception, where it is for the way in Python. */
static PyObject *read_frame(Cursor *c, long version, int32_t correlation_id) {
    Py_ssize_t group_bytes, member_bytes, instance_bytes = -1, topic_bytes = UUID_BYTES;
    const uint8_t *client = take(c, 2), *instance = NULL;
    if (client == NULL) return NULL;
    Py_ssize_t client_bytes = int16_at(client);
    client = take(c, client_bytes > 0 ? client_bytes : 0);
    if (client == NULL || !is_ascii(client, client_bytes)) return NULL; /* what is no text is refused in Python */
    c->flexible = version >= FIRST_FLEXIBLE;
    take_no_tags(c);
    const uint8_t *group = take_text(c, &group_bytes);
    int32_t epoch = take32(c);
    const uint8_t *member = take_text(c, &member_bytes);
    if (version >= FIRST_WITH_INSTANCE) instance = take_text(c, &instance_bytes);
    if (version < FIRST_WITHOUT_RETENTION && take64(c) >= 0) return NULL;
    if (take_count(c) != 1) return NULL;
    const uint8_t *topic = version >= FIRST_TOPIC_ID ? take(c, UUID_BYTES) : take_text(c, &topic_bytes);
    if (c->failed || group == NULL || member == NULL || topic == NULL) return NULL;
    PyObject *parts = take_parts(c, version), *read = NULL;
    take_no_tags(c);
    take_no_tags(c);
    if (parts != NULL && !c->failed && c->at == c->end) {
        PyObject *told = answer(topic, topic_bytes, parts, version, correlation_id);
        PyObject *in_group = told == NULL ? NULL : text(group, group_bytes); /* nothing more once there is an exception */
        PyObject *by = in_group == NULL ? NULL : text(member, member_bytes);
        PyObject *of_instance = by == NULL ? NULL : instance == NULL ? Py_NewRef(Py_None) : text(instance, instance_bytes);
        PyObject *named = of_instance == NULL           ? NULL
                          : version >= FIRST_TOPIC_ID ? PyBytes_FromStringAndSize((const char *)topic, topic_bytes)
                                                      : text(topic, topic_bytes);
        if (named != NULL)
            read = Py_BuildValue("(OiOOOOO)", in_group, (int)epoch, by, of_instance, named, parts, told);
        Py_XDECREF(named);
        Py_XDECREF(of_instance);
        Py_XDECREF(in_group);
        Py_XDECREF(by);
        Py_XDECREF(told);
    }
    Py_XDECREF(parts);
    return read;
}

/* read_commit(frame, at, end, version, correlation_id) */
PyObject *read_commit(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "read_commit takes five arguments");
        return NULL;
    }
    Py_ssize_t at = PyLong_AsSsize_t(args[1]), end = PyLong_AsSsize_t(args[2]);
    long version = PyLong_AsLong(args[3]), correlation_id = PyLong_AsLong(args[4]);
    Py_buffer frame;
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &frame, PyBUF_SIMPLE)) return NULL;
    PyObject *read = NULL;
    if (0 <= at && at <= end && end <= frame.len && FIRST_VERSION <= version && version <= LAST_VERSION) {
        const uint8_t *data = frame.buf;
        Cursor c = {data + at, data + end, 0, 0};
        read = read_frame(&c, version, (int32_t)correlation_id);
    }
    PyBuffer_Release(&frame);
    if (read != NULL) return read;
    if (PyErr_Occurred()) { /* text that is none: the way in Python tells */
        if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) return NULL;
        PyErr_Clear();
    }
    Py_RETURN_NONE;
}

/* Writing */

typedef struct {
    const char *group, *topic;
    Py_ssize_t group_bytes, topic_bytes;
    const uint8_t *topic_id; /* NULL for none */
    int64_t now_ms;
} Commit;

/* One record behind `p`; NULL where the part is none that `read_commit` makes. */
static uint8_t *put_record(uint8_t *p, const Commit *c, PyObject *part, Py_ssize_t delta) {
    long long index, offset, leader_epoch;
    Py_ssize_t metadata_bytes;
    PyObject *noted;
    if (!PyTuple_CheckExact(part) || !PyArg_ParseTuple(part, "LLLU", &index, &offset, &leader_epoch, &noted)) return NULL;
    const char *metadata = PyUnicode_AsUTF8AndSize(noted, &metadata_bytes);
    if (metadata == NULL || metadata_bytes > METADATA_BYTES_MAX) return NULL;
    Py_ssize_t key_bytes = KEY_BYTES + c->group_bytes + c->topic_bytes;
    Py_ssize_t value_bytes = 2 + 8 + 4 + 1 + metadata_bytes + 8 + (c->topic_id == NULL ? 1 : 3 + UUID_BYTES);
    Py_ssize_t body_bytes = 2 + varint_bytes(delta) + varint_bytes(key_bytes) + key_bytes + varint_bytes(value_bytes) +
                            value_bytes + 1;
    p = put_varint(p, body_bytes);
    p[0] = p[1] = 0; /* attributes, timestamp delta */
    p = put_varint(put_varint(p + 2, delta), key_bytes);
    put16(p, OFFSET_COMMIT_KEY);
    put16(p + 2, (int16_t)c->group_bytes);
    memcpy(p + 4, c->group, (size_t)c->group_bytes);
    p += 4 + c->group_bytes;
    put16(p, (int16_t)c->topic_bytes);
    memcpy(p + 2, c->topic, (size_t)c->topic_bytes);
    p += 2 + c->topic_bytes;
    put32(p, (int32_t)index);
    p = put_varint(p + 4, value_bytes);
    put16(p, OFFSET_COMMIT_VERSION);
    put64(p + 2, offset);
    put32(p + 10, (int32_t)leader_epoch);
    p[14] = (uint8_t)(metadata_bytes + 1);
    memcpy(p + 15, metadata, (size_t)metadata_bytes);
    p += 15 + metadata_bytes;
    put64(p, c->now_ms);
    p += 8;
    if (c->topic_id == NULL) {
        *p++ = 0;
    } else {
        p[0] = 1, p[1] = 0, p[2] = UUID_BYTES; /* one tagged field: tag 0, its size */
        memcpy(p + 3, c->topic_id, UUID_BYTES);
        p += 3 + UUID_BYTES;
    }
    *p++ = 0; /* headers */
    return p;
}

/* The last offset; -1: nothing was changed, unless there is an exception. */
static int64_t write_batch(Target *t, const Commit *c, PyObject *parts, uint8_t *batch) {
    uint8_t *p = batch + HEADER_BYTES;
    Py_ssize_t count = PyList_GET_SIZE(parts);
    for (Py_ssize_t i = 0; i < count; i++)
        if ((p = put_record(p, c, PyList_GET_ITEM(parts, i), i)) == NULL) return -1;
    Py_ssize_t size = p - batch;
    put_header(batch, size, count, c->now_ms, 0, -1, -1);
    return append_own(t, batch, size, count, c->now_ms);
}

void commit_prepare(void) { crc32c_prepare(); }

/* append_commit(partition, group_id, topic, topic_id, parts, now_ms) */
PyObject *append_commit(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    static const uint8_t no_topic_id[UUID_BYTES];
    (void)module;
    Commit c;
    Target t;
    if (count != 6 || !PyUnicode_CheckExact(args[1]) || !PyUnicode_CheckExact(args[2]) || !PyBytes_CheckExact(args[3]) ||
        PyBytes_GET_SIZE(args[3]) != UUID_BYTES || !PyList_CheckExact(args[4])) {
        PyErr_SetString(PyExc_TypeError, "append_commit takes a partition, group, topic, topic id, parts and the time");
        return NULL;
    }
    c.group = PyUnicode_AsUTF8AndSize(args[1], &c.group_bytes);
    c.topic = PyUnicode_AsUTF8AndSize(args[2], &c.topic_bytes);
    c.topic_id = (const uint8_t *)PyBytes_AS_STRING(args[3]);
    c.now_ms = PyLong_AsLongLong(args[5]);
    if (PyErr_Occurred()) return NULL;
    if (memcmp(c.topic_id, no_topic_id, UUID_BYTES) == 0) c.topic_id = NULL;
    Py_ssize_t parts = PyList_GET_SIZE(args[4]);
    int64_t last_offset = -1;
    if (parts >= 1 && parts <= PARTS_MAX && c.group_bytes <= INT16_MAX && c.topic_bytes <= INT16_MAX &&
        find_target(args[0], &t)) {
        Py_ssize_t record_bytes_max = 4 * VARINT_BYTES_MAX + 3 + KEY_BYTES + c.group_bytes + c.topic_bytes + VALUE_BYTES_MAX;
        Py_ssize_t bytes_max = HEADER_BYTES + parts * record_bytes_max;
        uint8_t *batch = bytes_max > BATCH_BYTES_MAX ? NULL : PyMem_Malloc((size_t)bytes_max);
        if (batch != NULL) last_offset = write_batch(&t, &c, args[4], batch);
        PyMem_Free(batch);
    }
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(last_offset);
}

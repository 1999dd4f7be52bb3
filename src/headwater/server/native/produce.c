/* The hot path of Produce, compiled: one small batch for one partition, appended and committed in one go.
 *
 * The same as `broker/handlers/produce.handle_frame`, `replication/partition.Partition.append`,
 * `log/log.Log.append_as_leader` and `server/disk.OsFile.append` do together, for the requests that are plainly fine.
 * Whatever is not goes to `handle_frame` in Python, before anything was changed. There the rules are written down; what
 * is here must not differ, and a test compares both.
 *
 * The objects are those of Python, with `__slots__`: `configure` looks up where each slot lies. Nothing is kept here
 * but these places. One thread calls it, the owner of the loop.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>
#include <unistd.h>

#include "../../records/native/crc32c.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "written for little endian; the way in Python serves"
#endif

enum { HEADER_BYTES = 61, LENGTH_PREFIX_BYTES = 12, MAGIC = 2, ORDINARY_ATTRIBUTES_MAX = 4, SIZE_MAX_BYTES = 64 * 1024 };
enum { FIRST_VERSION = 3, FIRST_WITH_START_OFFSET = 5, FIRST_FLEXIBLE = 9, FIRST_TOPIC_ID = 13, LAST_VERSION = 13 };
static const int64_t SEQUENCES = (int64_t)1 << 31;

typedef __int128 wide; /* timestamps are the client's: their differences need not fit 64 bits */

enum type { PARTITION, LOG, SEGMENT, PRODUCERS, PRODUCER, FILE_, TYPES };

/* Every slot that is used: its type, its name in C, its name in Python. */
#define SLOTS(X)                                                                                                        \
    X(PARTITION, partition_log, "log") X(PARTITION, partition_is_alone, "is_alone")                                     \
    X(PARTITION, partition_leader_epoch, "leader_epoch") X(PARTITION, partition_replies, "produce_replies")             \
    X(PARTITION, partition_records_in, "records_in") X(PARTITION, partition_bytes_in, "bytes_in")                       \
    X(PARTITION, partition_high_watermark, "high_watermark") X(PARTITION, partition_waiters, "waiters")                 \
    X(LOG, log_latest_epoch, "latest_epoch") X(LOG, log_failed, "failed") X(LOG, log_bytes_max, "_fast_bytes_max")      \
    X(LOG, log_after_max_ms, "_after_max_ms") X(LOG, log_before_max_ms, "_before_max_ms")                               \
    X(LOG, log_producers, "producers") X(LOG, log_end_offset, "log_end_offset")                                         \
    X(LOG, log_start_offset, "log_start_offset") X(LOG, log_active, "active")                                           \
    X(LOG, log_flush_requested, "flush_requested_offset") X(LOG, log_flush_messages, "_flush_messages")                 \
    X(SEGMENT, segment_size, "size_bytes") X(SEGMENT, segment_limit, "limit_bytes")                                     \
    X(SEGMENT, segment_roll_after, "roll_after_timestamp") X(SEGMENT, segment_last_offset_max, "last_offset_max")       \
    X(SEGMENT, segment_file, "file") X(SEGMENT, segment_used, "recently_used") X(SEGMENT, segment_recent, "recent")     \
    X(SEGMENT, segment_max_timestamp, "max_timestamp") X(SEGMENT, segment_max_offset, "max_timestamp_offset")           \
    X(SEGMENT, segment_since_index, "bytes_since_index") X(SEGMENT, segment_interval, "index_interval_bytes")           \
    X(PRODUCERS, producers_by_id, "producers") X(PRODUCER, producer_next_sequence, "next_sequence")                     \
    X(PRODUCER, producer_epoch, "epoch") X(PRODUCER, producer_first_offset, "transaction_first_offset")                 \
    X(PRODUCER, producer_batches, "batches") X(PRODUCER, producer_last_timestamp, "last_timestamp")                     \
    X(FILE_, file_descriptor, "_descriptor")

#define DECLARE(type, name, text) static Py_ssize_t name;
SLOTS(DECLARE)
#undef DECLARE

static PyTypeObject *types[TYPES];
static PyObject *in_python; /* handle_frame, for everything else */
static PyObject *name_by_wire_name, *name_by_topic_id, *name_now_ms, *name_append, *name_add_index_entry;
static PyObject *name_flush_if_due, *name_progressed, *name_fail;

/* Slots */

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

static int is_a(PyObject *object, enum type type) { return object != NULL && Py_TYPE(object) == types[type]; }

/* 0 when the slot has no integer of 64 bits. */
static int get(PyObject *object, Py_ssize_t offset, int64_t *value) {
    PyObject *held = SLOT(object, offset);
    if (held == NULL || !PyLong_CheckExact(held)) return 0;
    int overflow;
    *value = PyLong_AsLongLongAndOverflow(held, &overflow);
    return !overflow;
}

static int put(PyObject *object, Py_ssize_t offset, int64_t value) {
    PyObject *new = PyLong_FromLongLong(value), *old = SLOT(object, offset);
    if (new == NULL) return -1;
    SLOT(object, offset) = new;
    Py_XDECREF(old);
    return 0;
}

/* Bytes, big endian */

static int16_t int16_at(const uint8_t *p) { return (int16_t)(p[0] << 8 | p[1]); }
static int32_t int32_at(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return (int32_t)__builtin_bswap32(v);
}
static int64_t int64_at(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return (int64_t)__builtin_bswap64(v);
}
static void put32(uint8_t *p, int32_t value) {
    uint32_t v = __builtin_bswap32((uint32_t)value);
    memcpy(p, &v, 4);
}
static void put64(uint8_t *p, int64_t value) {
    uint64_t v = __builtin_bswap64((uint64_t)value);
    memcpy(p, &v, 8);
}

/* The request */

typedef struct {
    const uint8_t *topic;
    Py_ssize_t topic_bytes, records_at, records_bytes;
    int by_id, acks;
    int32_t index;
} Request;

/* One topic, one partition, no transaction, no tags: 1. Anything else: 0. */
static int read_request(const uint8_t *frame, Py_ssize_t at, Py_ssize_t end, long version, Request *r) {
    if (version < FIRST_VERSION || version > LAST_VERSION || end - at < 2) return 0;
    int16_t client_id = int16_at(frame + at);
    at += client_id > 0 ? 2 + client_id : 2;
    if (version < FIRST_FLEXIBLE) {
        if (end - at < 14) return 0;
        const uint8_t *p = frame + at;
        r->acks = int16_at(p + 2);
        r->topic_bytes = int16_at(p + 12);
        if (int16_at(p) != -1 || int32_at(p + 8) != 1 || r->topic_bytes < 0) return 0;
        r->topic = p + 14;
        r->by_id = 0;
        at += 14 + r->topic_bytes;
        if (end - at < 12) return 0;
        if (int32_at(frame + at) != 1) return 0;
        r->index = int32_at(frame + at + 4);
        r->records_bytes = int32_at(frame + at + 8);
        r->records_at = at + 12;
        return r->records_bytes > 0 && r->records_at + r->records_bytes == end;
    }
    if (end - at < 10) return 0;
    const uint8_t *p = frame + at;
    r->acks = int16_at(p + 2);
    if (p[0] != 0 || p[1] != 0 || p[8] != 2) return 0;
    at += 9;
    r->by_id = version >= FIRST_TOPIC_ID;
    if (r->by_id) {
        r->topic = frame + at;
        r->topic_bytes = 16;
        at += 16;
    } else {
        if (frame[at] == 0 || frame[at] > 127) return 0;
        r->topic = frame + at + 1;
        r->topic_bytes = frame[at] - 1;
        at += frame[at];
    }
    if (end - at < 6 || frame[at] != 2) return 0;
    r->index = int32_at(frame + at + 1);
    at += 5;
    uint32_t size = 0;
    for (int shift = 0;; shift += 7) {
        if (at >= end || shift > 21) return 0;
        uint8_t byte = frame[at++];
        size |= (uint32_t)(byte & 127) << shift;
        if (byte < 128) break;
    }
    r->records_at = at;
    r->records_bytes = (Py_ssize_t)size - 1;
    if (r->records_bytes <= 0 || at + r->records_bytes + 3 != end) return 0;
    return !frame[end - 3] && !frame[end - 2] && !frame[end - 1];
}

static PyObject *find_partition(PyObject *broker, const Request *r) {
    PyObject *found = NULL, *topics = PyObject_GetAttr(broker, r->by_id ? name_by_topic_id : name_by_wire_name);
    PyObject *key = PyBytes_FromStringAndSize((const char *)r->topic, r->topic_bytes);
    if (topics != NULL && key != NULL && PyDict_CheckExact(topics)) {
        PyObject *listed = PyDict_GetItemWithError(topics, key);
        if (listed != NULL && PyList_CheckExact(listed) && r->index >= 0 && r->index < PyList_GET_SIZE(listed))
            found = PyList_GET_ITEM(listed, r->index);
    }
    Py_XDECREF(topics);
    Py_XDECREF(key);
    return is_a(found, PARTITION) ? found : NULL; /* borrowed: the partition outlives the request */
}

/* The batch */

typedef struct {
    int32_t length, last_delta, base_sequence;
    int64_t base_timestamp, max_timestamp, producer_id;
    int16_t producer_epoch;
} Batch;

static int read_batch(const uint8_t *p, Py_ssize_t size, PyObject *log, int64_t now_ms, Batch *b) {
    int64_t bytes_max, after_max_ms, before_max_ms;
    if (size < HEADER_BYTES || !get(log, log_bytes_max, &bytes_max) || !get(log, log_after_max_ms, &after_max_ms) ||
        !get(log, log_before_max_ms, &before_max_ms))
        return 0;
    int16_t attributes = int16_at(p + 21);
    b->length = int32_at(p + 8);
    b->last_delta = int32_at(p + 23);
    b->base_timestamp = int64_at(p + 27);
    b->max_timestamp = int64_at(p + 35);
    b->producer_id = int64_at(p + 43);
    b->producer_epoch = int16_at(p + 51);
    b->base_sequence = int32_at(p + 53);
    int32_t count = int32_at(p + 57);
    return (int64_t)b->length + LENGTH_PREFIX_BYTES == size && p[16] == MAGIC && attributes >= 0 &&
           attributes <= ORDINARY_ATTRIBUTES_MAX && size <= bytes_max && count > 0 &&
           (int64_t)count == (int64_t)b->last_delta + 1 && (wide)b->max_timestamp - now_ms <= after_max_ms &&
           (wide)now_ms - b->base_timestamp <= before_max_ms && b->base_timestamp <= b->max_timestamp &&
           crc32c(p + 21, (size_t)(size - 21)) == (uint32_t)int32_at(p + 17);
}

/* The producer that the batch follows on from, borrowed, or NULL if there is none. 0: somebody must look closer. */
static int find_producer(PyObject *log, const Batch *b, PyObject **producer) {
    *producer = NULL;
    if (b->producer_id < 0) return 1;
    PyObject *states = SLOT(log, log_producers), *key = PyLong_FromLongLong(b->producer_id);
    PyObject *by_id = is_a(states, PRODUCERS) ? SLOT(states, producers_by_id) : NULL;
    if (key != NULL && by_id != NULL && PyDict_CheckExact(by_id)) *producer = PyDict_GetItemWithError(by_id, key);
    Py_XDECREF(key);
    int64_t next_sequence, epoch, first_offset;
    return is_a(*producer, PRODUCER) && SLOT(*producer, producer_batches) != NULL &&
           get(*producer, producer_next_sequence, &next_sequence) && get(*producer, producer_epoch, &epoch) &&
           get(*producer, producer_first_offset, &first_offset) && next_sequence == b->base_sequence &&
           epoch == b->producer_epoch && first_offset < 0;
}

static int note_producer(PyObject *producer, const Batch *b, int64_t base_offset, int64_t last_offset) {
    int64_t last_sequence = (int64_t)b->base_sequence + b->last_delta;
    if (last_sequence >= SEQUENCES) last_sequence -= SEQUENCES;
    PyObject *entry = Py_BuildValue("LLLLL", (long long)b->base_sequence, (long long)last_sequence,
                                    (long long)base_offset, (long long)last_offset, (long long)b->max_timestamp);
    if (entry == NULL) return -1;
    PyObject *done = PyObject_CallMethodOneArg(SLOT(producer, producer_batches), name_append, entry);
    Py_DECREF(entry);
    if (done == NULL) return -1;
    Py_DECREF(done);
    if (put(producer, producer_next_sequence, last_sequence < SEQUENCES - 1 ? last_sequence + 1 : 0)) return -1;
    return put(producer, producer_last_timestamp, b->max_timestamp);
}

/* The append */

typedef struct {
    int64_t end_offset, start_offset, size, since_index, interval, max_timestamp, flush_requested, flush_messages;
    int64_t records_in, bytes_in, descriptor;
} State;

/* What is compared and what will be changed; 0 where the batch does not simply go at the end of the open segment. */
static int read_state(PyObject *partition, PyObject *log, PyObject *segment, const Batch *b, Py_ssize_t size, State *s) {
    int64_t limit, roll_after, last_offset_max;
    PyObject *file = SLOT(segment, segment_file), *recent = SLOT(segment, segment_recent);
    if (!is_a(file, FILE_) || recent == NULL || !PyDict_CheckExact(recent)) return 0;
    return get(log, log_end_offset, &s->end_offset) && get(log, log_start_offset, &s->start_offset) &&
           get(log, log_flush_requested, &s->flush_requested) && get(log, log_flush_messages, &s->flush_messages) &&
           get(segment, segment_size, &s->size) && get(segment, segment_limit, &limit) &&
           get(segment, segment_roll_after, &roll_after) && get(segment, segment_last_offset_max, &last_offset_max) &&
           get(segment, segment_since_index, &s->since_index) && get(segment, segment_interval, &s->interval) &&
           get(segment, segment_max_timestamp, &s->max_timestamp) && get(file, file_descriptor, &s->descriptor) &&
           get(partition, partition_records_in, &s->records_in) && get(partition, partition_bytes_in, &s->bytes_in) &&
           s->size + size <= limit && b->max_timestamp <= roll_after && s->end_offset + b->last_delta <= last_offset_max;
}

static int call(PyObject *object, PyObject *name, PyObject *first, PyObject *second) {
    if (PyErr_Occurred()) return -1;
    PyObject *done = PyObject_CallMethodObjArgs(object, name, first, second, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* The segment after the write: what it knows about its end, and every so often an index entry. */
static int note_segment(PyObject *segment, const State *s, const Batch *b, Py_ssize_t size) {
    int64_t last_offset = s->end_offset + b->last_delta;
    PyObject *used = SLOT(segment, segment_used);
    PyObject *offset = PyLong_FromLongLong(s->end_offset), *position = PyLong_FromLongLong(s->size);
    int failed = offset == NULL || position == NULL ||
                 PyDict_SetItem(SLOT(segment, segment_recent), offset, position) ||
                 put(segment, segment_size, s->size + size);
    SLOT(segment, segment_used) = Py_NewRef(Py_True);
    Py_XDECREF(used);
    if (!failed && b->max_timestamp > s->max_timestamp)
        failed = put(segment, segment_max_timestamp, b->max_timestamp) || put(segment, segment_max_offset, last_offset);
    int64_t since_index = s->since_index;
    if (!failed && since_index > s->interval) {
        PyObject *last = PyLong_FromLongLong(last_offset);
        failed = last == NULL || call(segment, name_add_index_entry, last, position);
        Py_XDECREF(last);
        since_index = 0;
    }
    Py_XDECREF(offset);
    Py_XDECREF(position);
    return failed || put(segment, segment_since_index, since_index + size) ? -1 : 0;
}

static int note(PyObject *partition, PyObject *log, PyObject *segment, PyObject *producer, const State *s,
                const Batch *b, Py_ssize_t size) {
    int64_t last_offset = s->end_offset + b->last_delta;
    if (note_segment(segment, s, b, size) || put(log, log_end_offset, last_offset + 1)) return -1;
    if (producer != NULL && note_producer(producer, b, s->end_offset, last_offset)) return -1;
    if (last_offset - s->flush_requested >= s->flush_messages - 1 && call(log, name_flush_if_due, NULL, NULL)) return -1;
    if (put(partition, partition_records_in, s->records_in + b->last_delta + 1) ||
        put(partition, partition_bytes_in, s->bytes_in + size) ||
        put(partition, partition_high_watermark, last_offset + 1))
        return -1;
    PyObject *waiters = SLOT(partition, partition_waiters);
    if (waiters == NULL || !PyDict_CheckExact(waiters) || PyDict_GET_SIZE(waiters)) {
        PyObject *appended = PyLong_FromSsize_t(size);
        int failed = appended == NULL || call(partition, name_progressed, appended, NULL);
        Py_XDECREF(appended);
        return failed;
    }
    return 0;
}

/* 1 when all of it is in the file, 0 when none of it is: then the way in Python meets the same trouble and tells. */
static int write_all(PyObject *log, const State *s, const uint8_t *data, Py_ssize_t size) {
    ssize_t written;
    int failed = 0;
    Py_BEGIN_ALLOW_THREADS
    do written = write((int)s->descriptor, data, (size_t)size);
    while (written < 0 && errno == EINTR);
    if (written >= 0 && written < size) failed = ftruncate((int)s->descriptor, (off_t)s->size);
    Py_END_ALLOW_THREADS
    if (written == size) return 1;
    if (failed) { /* a part of the batch stays in the file: the log takes no more */
        PyObject *problem = PyObject_CallFunction(PyExc_OSError, "is", errno, "a torn write could not be taken back");
        if (problem != NULL) call(log, name_fail, problem, NULL);
        Py_XDECREF(problem);
    }
    return 0;
}

/* The answer */

static PyObject *answer(PyObject *reply, long version, long correlation_id, int64_t base_offset, int64_t start_offset) {
    PyObject *before = PyTuple_GET_ITEM(reply, 2), *behind = PyTuple_GET_ITEM(reply, 3);
    Py_ssize_t before_bytes = PyBytes_GET_SIZE(before), behind_bytes = PyBytes_GET_SIZE(behind);
    Py_ssize_t offsets_bytes = version >= FIRST_WITH_START_OFFSET ? 24 : 16;
    PyObject *whole = PyBytes_FromStringAndSize(NULL, 8 + before_bytes + offsets_bytes + behind_bytes);
    if (whole == NULL) return NULL;
    uint8_t *p = (uint8_t *)PyBytes_AS_STRING(whole);
    put32(p, (int32_t)(PyBytes_GET_SIZE(whole) - 4));
    put32(p + 4, (int32_t)correlation_id);
    memcpy(p + 8, PyBytes_AS_STRING(before), (size_t)before_bytes);
    p += 8 + before_bytes;
    put64(p, base_offset);
    put64(p + 8, -1); /* no log-append time: such topics go another way */
    if (version >= FIRST_WITH_START_OFFSET) put64(p + 16, start_offset);
    memcpy(p + offsets_bytes, PyBytes_AS_STRING(behind), (size_t)behind_bytes);
    return whole;
}

/* What is the same in every answer, borrowed; Py_None for acks=0; NULL if it must be made first. */
static PyObject *find_reply(PyObject *partition, int acks, PyObject *version) {
    if (acks == 0) return Py_None;
    PyObject *replies = SLOT(partition, partition_replies);
    PyObject *reply = replies != NULL && PyDict_CheckExact(replies) ? PyDict_GetItemWithError(replies, version) : NULL;
    if (reply == NULL || !PyTuple_CheckExact(reply) || PyTuple_GET_SIZE(reply) != 4) return NULL;
    return PyBytes_CheckExact(PyTuple_GET_ITEM(reply, 2)) && PyBytes_CheckExact(PyTuple_GET_ITEM(reply, 3)) ? reply : NULL;
}

static int64_t now_ms_of(PyObject *broker) {
    PyObject *now = PyObject_CallMethodNoArgs(broker, name_now_ms);
    int64_t now_ms = now == NULL ? -1 : PyLong_AsLongLong(now);
    Py_XDECREF(now);
    return now_ms;
}

/* The answer; NULL without an exception: nothing was changed, and it is for the way in Python. */
static PyObject *handle(PyObject *broker, uint8_t *frame, Py_ssize_t at, Py_ssize_t end, PyObject *version_object,
                        long correlation_id) {
    Request r;
    Batch b;
    State s;
    PyObject *producer;
    int64_t leader_epoch, latest_epoch;
    long version = PyLong_AsLong(version_object);
    if (!read_request(frame, at, end, version, &r) || r.acks < -1 || r.acks > 1 || r.records_bytes > SIZE_MAX_BYTES)
        return NULL;
    int64_t now_ms = now_ms_of(broker); /* before anything is borrowed: it runs Python, which may let go of it */
    PyObject *partition = now_ms < 0 ? NULL : find_partition(broker, &r);
    if (partition == NULL || SLOT(partition, partition_is_alone) != Py_True) return NULL;
    PyObject *log = SLOT(partition, partition_log), *reply = find_reply(partition, r.acks, version_object);
    if (reply == NULL || !is_a(log, LOG) || SLOT(log, log_failed) != Py_None) return NULL;
    PyObject *segment = SLOT(log, log_active);
    if (!is_a(segment, SEGMENT) || !get(partition, partition_leader_epoch, &leader_epoch) ||
        !get(log, log_latest_epoch, &latest_epoch) || leader_epoch != latest_epoch)
        return NULL;
    uint8_t *records = frame + r.records_at;
    if (!read_batch(records, r.records_bytes, log, now_ms, &b) || !find_producer(log, &b, &producer) ||
        !read_state(partition, log, segment, &b, r.records_bytes, &s))
        return NULL;
    PyObject *held[] = {partition, log, segment, producer, reply}; /* whatever is called may let go of its own */
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) Py_XINCREF(held[i]);
    put64(records, s.end_offset);
    put32(records + 12, (int32_t)leader_epoch);
    PyObject *found = NULL;
    if (write_all(log, &s, records, r.records_bytes) &&
        !note(partition, log, segment, producer, &s, &b, r.records_bytes))
        found = reply == Py_None ? PyBytes_FromStringAndSize(NULL, 0)
                                 : answer(reply, version, correlation_id, s.end_offset, s.start_offset);
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) Py_XDECREF(held[i]);
    return found;
}

/* handle_frame(broker, frame, at, end, version, correlation_id) */
static PyObject *handle_frame(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 6 || in_python == NULL) {
        PyErr_SetString(PyExc_TypeError, "handle_frame takes six arguments, after configure");
        return NULL;
    }
    Py_ssize_t at = PyLong_AsSsize_t(args[2]), end = PyLong_AsSsize_t(args[3]);
    long correlation_id = PyLong_AsLong(args[5]);
    Py_buffer frame;
    if (PyErr_Occurred() || PyObject_GetBuffer(args[1], &frame, PyBUF_WRITABLE)) return NULL;
    PyObject *found = NULL;
    if (0 <= at && at <= end && end <= frame.len)
        found = handle(args[0], frame.buf, at, end, args[4], correlation_id);
    PyBuffer_Release(&frame);
    if (found != NULL || PyErr_Occurred()) return found;
    return PyObject_Vectorcall(in_python, args, (size_t)count, NULL);
}

/* The beginning */

static int look_up(enum type type, const char *text, Py_ssize_t *offset) {
    PyObject *found = PyObject_GetAttrString((PyObject *)types[type], text);
    if (found == NULL) return -1;
    int is_slot = Py_TYPE(found) == &PyMemberDescr_Type;
    if (is_slot) *offset = ((PyMemberDescrObject *)found)->d_member->offset;
    Py_DECREF(found);
    if (!is_slot) PyErr_Format(PyExc_TypeError, "%s.%s is no slot", types[type]->tp_name, text);
    return is_slot ? 0 : -1;
}

/* configure(Partition, Log, Segment, ProducerStates, Producer, OsFile, handle_frame of Python) */
static PyObject *configure(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *given[TYPES], *fallback;
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!O!O", &PyType_Type, &given[0], &PyType_Type, &given[1], &PyType_Type,
                          &given[2], &PyType_Type, &given[3], &PyType_Type, &given[4], &PyType_Type, &given[5],
                          &fallback))
        return NULL;
    for (int i = 0; i < TYPES; i++) Py_XSETREF(types[i], (PyTypeObject *)Py_NewRef(given[i]));
#define LOOK_UP(type, name, text)                                                                                      \
    if (look_up(type, text, &name)) return NULL;
    SLOTS(LOOK_UP)
#undef LOOK_UP
    Py_XSETREF(in_python, Py_NewRef(fallback));
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"configure", configure, METH_VARARGS, "Takes the classes of the hot path, and what to do with everything else."},
    {"handle_frame", (PyCFunction)(void (*)(void))handle_frame, METH_FASTCALL,
     "As `broker.handlers.produce.handle_frame`."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "headwater.server._produce", "The hot path of Produce, compiled.", -1, methods, NULL, NULL,
    NULL, NULL,
};

PyMODINIT_FUNC PyInit__produce(void) {
    crc32c_prepare();
    struct { PyObject **name; const char *text; } names[] = {
        {&name_by_wire_name, "partitions_by_wire_name"}, {&name_by_topic_id, "partitions_by_topic_id"},
        {&name_now_ms, "now_ms"},                        {&name_append, "append"},
        {&name_add_index_entry, "add_index_entry"},      {&name_flush_if_due, "flush_if_due"},
        {&name_progressed, "_progressed"},               {&name_fail, "fail"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (*names[i].name == NULL && (*names[i].name = PyUnicode_InternFromString(names[i].text)) == NULL) return NULL;
    return PyModule_Create(&definition);
}

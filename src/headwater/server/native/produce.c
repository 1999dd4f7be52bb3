/* The hot path of Produce, compiled: one small batch for one partition, appended and committed in one go; in a
 * transaction only if that is open on the partition.
 *
 * The same as `broker/handlers/produce.handle_frame`, `replication/partition.Partition.append`,
 * `log/log.Log.append_as_leader` and `server/disk.OsFile.append` do together, for the requests that are plainly fine.
 * Whatever is not goes to `handle_frame` in Python, before anything was changed. There the rules are written down; what
 * is here must not differ, and a test compares both.
 *
 * Of users with access rules, the rights of their connection come in the place of the broker (rights.h): then only
 * topics that are noted there are written, and nothing in transactions.
 */
#include "append.h"

#include <stddef.h>

static Py_ssize_t rights_broker, rights_generation, rights_deadline, rights_writable;

#include "rights.h"

#include "../../records/native/crc32c.h"

enum { ORDINARY_ATTRIBUTES_MAX = 4, SIZE_MAX_BYTES = 64 * 1024 };
enum { FIRST_VERSION = 3, FIRST_WITH_START_OFFSET = 5, FIRST_FLEXIBLE = 9, FIRST_TOPIC_ID = 13, LAST_VERSION = 13 };

typedef __int128 wide; /* timestamps are the client's: their differences need not fit 64 bits */

static PyObject *in_python; /* handle_frame, for everything else */
static PyTypeObject *rights_type; /* NULL: nobody has any */
static PyObject *name_by_wire_name, *name_by_topic_id, *name_now_ms, *name_image, *name_acl_generation;

/* The request */

typedef struct {
    const uint8_t *topic;
    Py_ssize_t topic_bytes, records_at, records_bytes;
    int by_id, acks, transactional;
    int32_t index;
} Request;

/* One topic, one partition, no tags: 1. Anything else: 0. Behind a transactional id all stands as it does without. */
static int read_request(const uint8_t *frame, Py_ssize_t at, Py_ssize_t end, long version, Request *r) {
    if (version < FIRST_VERSION || version > LAST_VERSION || end - at < 2) return 0;
    int16_t client_id = int16_at(frame + at);
    at += client_id > 0 ? 2 + client_id : 2;
    if (version < FIRST_FLEXIBLE) {
        if (end - at < 14) return 0;
        int16_t id_bytes = int16_at(frame + at);
        r->transactional = id_bytes >= 0;
        if (id_bytes < -1) return 0;
        if (id_bytes > 0) at += id_bytes;
        if (end - at < 14) return 0;
        const uint8_t *p = frame + at;
        r->acks = int16_at(p + 2);
        r->topic_bytes = int16_at(p + 12);
        if (int32_at(p + 8) != 1 || r->topic_bytes < 0) return 0;
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
    uint8_t tags = frame[at], id_and_one = frame[at + 1]; /* one more than the length of the id, 0 without */
    r->transactional = id_and_one != 0;
    if (tags != 0 || id_and_one > 127) return 0;
    if (id_and_one > 0) at += id_and_one - 1;
    if (end - at < 10) return 0;
    const uint8_t *p = frame + at;
    r->acks = int16_at(p + 2);
    if (p[8] != 2) return 0;
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

/* In a transaction if, and only if, the request is. */
static int read_batch(const uint8_t *p, Py_ssize_t size, PyObject *log, int64_t now_ms, int transactional, Batch *b) {
    int64_t bytes_max, after_max_ms, before_max_ms;
    if (size < HEADER_BYTES || !get(log, log_bytes_max, &bytes_max) || !get(log, log_after_max_ms, &after_max_ms) ||
        !get(log, log_before_max_ms, &before_max_ms))
        return 0;
    int attributes = int16_at(p + 21) ^ (transactional ? TRANSACTIONAL : 0); /* what is left is as outside of one */
    b->length = int32_at(p + 8);
    b->last_delta = int32_at(p + 23);
    b->base_timestamp = int64_at(p + 27);
    b->max_timestamp = int64_at(p + 35);
    b->producer_id = int64_at(p + 43);
    b->producer_epoch = int16_at(p + 51);
    b->base_sequence = int32_at(p + 53);
    b->wakes_all = transactional; /* as `Partition.append` does */
    int32_t count = int32_at(p + 57);
    return (int64_t)b->length + LENGTH_PREFIX_BYTES == size && p[16] == MAGIC && attributes >= 0 &&
           attributes <= ORDINARY_ATTRIBUTES_MAX && size <= bytes_max && count > 0 &&
           (int64_t)count == (int64_t)b->last_delta + 1 && (wide)b->max_timestamp - now_ms <= after_max_ms &&
           (wide)now_ms - b->base_timestamp <= before_max_ms && b->base_timestamp <= b->max_timestamp &&
           crc32c(p + 21, (size_t)(size - 21)) == (uint32_t)int32_at(p + 17);
}

/* The producer that the batch follows on from, borrowed, or NULL if there is none. 0: somebody must look closer.
 * A transaction must be open here: the coordinator has been asked about it then. */
static int find_producer(PyObject *log, const Batch *b, int transactional, PyObject **producer) {
    *producer = NULL;
    if (b->producer_id < 0) return !transactional;
    PyObject *states = SLOT(log, log_producers), *key = PyLong_FromLongLong(b->producer_id);
    PyObject *by_id = is_a(states, PRODUCERS) ? SLOT(states, producers_by_id) : NULL;
    if (key != NULL && by_id != NULL && PyDict_CheckExact(by_id)) *producer = PyDict_GetItemWithError(by_id, key);
    Py_XDECREF(key);
    int64_t next_sequence, epoch, first_offset;
    return is_a(*producer, PRODUCER) && SLOT(*producer, producer_batches) != NULL &&
           get(*producer, producer_next_sequence, &next_sequence) && get(*producer, producer_epoch, &epoch) &&
           get(*producer, producer_first_offset, &first_offset) && next_sequence == b->base_sequence &&
           epoch == b->producer_epoch && (first_offset >= 0) == transactional;
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
    PyObject *rights = rights_type != NULL && Py_TYPE(broker) == rights_type ? broker : NULL;
    if (rights != NULL) {
        if (!rights_hold(rights, name_image, name_acl_generation)) return NULL;
        broker = SLOT(rights, rights_broker);
    }
    Request r;
    Batch b;
    Target t;
    PyObject *producer;
    long version = PyLong_AsLong(version_object);
    if (!read_request(frame, at, end, version, &r) || r.acks < -1 || r.acks > 1 || r.records_bytes > SIZE_MAX_BYTES ||
        (r.transactional && (r.acks == 0 || rights != NULL)))
        return NULL;
    int64_t now_ms = now_ms_of(broker); /* before anything is borrowed: it runs Python, which may let go of it */
    PyObject *partition = now_ms < 0 ? NULL : find_partition(broker, &r);
    if (partition == NULL || !find_target(partition, &t)) return NULL;
    if (rights != NULL && !rights_have(SLOT(rights, rights_writable), SLOT(partition, partition_topic_id))) return NULL;
    PyObject *reply = find_reply(partition, r.acks, version_object);
    uint8_t *records = frame + r.records_at;
    if (reply == NULL || !read_batch(records, r.records_bytes, t.log, now_ms, r.transactional, &b) ||
        !find_producer(t.log, &b, r.transactional, &producer) || !read_target(&t, &b, r.records_bytes))
        return NULL;
    Py_INCREF(reply);
    PyObject *found = NULL;
    if (append_batch(&t, producer, &b, records, r.records_bytes) > 0)
        found = reply == Py_None ? PyBytes_FromStringAndSize(NULL, 0)
                                 : answer(reply, version, correlation_id, t.end_offset, t.start_offset);
    Py_DECREF(reply);
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

/* configure(Partition, Log, Segment, ProducerStates, Producer, OsFile, handle_frame of Python) */
static PyObject *configure(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *given[TYPES], *fallback;
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!O!O", &PyType_Type, &given[0], &PyType_Type, &given[1], &PyType_Type,
                          &given[2], &PyType_Type, &given[3], &PyType_Type, &given[4], &PyType_Type, &given[5],
                          &fallback))
        return NULL;
    if (look_up_slots(given)) return NULL;
    Py_XSETREF(in_python, Py_NewRef(fallback));
    Py_RETURN_NONE;
}

/* configure_rights(ConnectionRights) */
static PyObject *configure_rights(PyObject *module, PyObject *type) {
    (void)module;
    if (!PyType_Check(type)) return PyErr_Format(PyExc_TypeError, "configure_rights takes a class");
    PyTypeObject *given = (PyTypeObject *)type;
    if (look_up(given, "broker", &rights_broker) || look_up(given, "generation", &rights_generation) ||
        look_up(given, "deadline_ns", &rights_deadline) || look_up(given, "writable", &rights_writable))
        return NULL;
    Py_XSETREF(rights_type, (PyTypeObject *)Py_NewRef(type));
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"configure_rights", configure_rights, METH_O, "Takes the class of a connection's rights."},
    {"configure", configure, METH_VARARGS, "Takes the classes of the hot path, and what to do with everything else."},
    {"handle_frame", (PyCFunction)(void (*)(void))handle_frame, METH_FASTCALL,
     "As `broker.handlers.produce.handle_frame`."},
    {"read_commit", (PyCFunction)(void (*)(void))read_commit, METH_FASTCALL,
     "As `broker.handlers.offset_commit_frames.read_commit`."},
    {"append_commit", (PyCFunction)(void (*)(void))append_commit, METH_FASTCALL,
     "As `broker.handlers.offset_commit_frames.append_commit`."},
    {"append_records", (PyCFunction)(void (*)(void))append_records, METH_FASTCALL,
     "Appends the records of a decision as one batch."},
    {"configure_transactions", configure_transactions, METH_O, "Takes the class of transactions."},
    {"append_transaction", (PyCFunction)(void (*)(void))append_transaction, METH_FASTCALL,
     "Appends the state of a transaction."},
    {"append_marker", (PyCFunction)(void (*)(void))append_marker, METH_FASTCALL,
     "Appends the marker that ends a transaction."},
    {"commit_transaction", (PyCFunction)(void (*)(void))commit_transaction, METH_FASTCALL,
     "Appends the marker that commits the open transaction of a producer, and notes it."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "headwater.server._produce", "The hot paths of Produce, OffsetCommit and the coordinators, compiled.", -1, methods, NULL, NULL,
    NULL, NULL,
};

PyMODINIT_FUNC PyInit__produce(void) {
    crc32c_prepare();
    commit_prepare();
    decision_prepare();
    transaction_prepare();
    struct { PyObject **name; const char *text; } names[] = {
        {&name_by_wire_name, "partitions_by_wire_name"},
        {&name_by_topic_id, "partitions_by_topic_id"},
        {&name_now_ms, "now_ms"},
        {&name_image, "image"},
        {&name_acl_generation, "acl_generation"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (*names[i].name == NULL && (*names[i].name = PyUnicode_InternFromString(names[i].text)) == NULL) return NULL;
    if (append_prepare()) return NULL;
    return PyModule_Create(&definition);
}

/* What a transaction writes, compiled: the records of its state, and the markers that end it.
 *
 * `append_transaction` is `Transaction.record` of version 1 and its append. `append_marker` is
 * `records.control.build_end_transaction_marker` and its append, without what the log notes about the producer, which
 * is left to Python. `commit_transaction` is all of `Partition.append_marker`, where the marker commits what its
 * producer has open. Each gives -1 before anything was changed where it is not of that kind, or does not simply go at
 * the end of the open segment; tests compare all with Python. No state but the places of the slots. */
#include "batch.h"

enum { MARKER_KEY_BYTES = 4, MARKER_VALUE_BYTES = 6 };
enum { MARKER_BYTES_MAX = HEADER_BYTES + PAIR_BYTES_MAX + MARKER_KEY_BYTES + MARKER_VALUE_BYTES };
enum { VALUE_VERSION = 1, EMPTY = 0, PLAIN_BYTES_MAX = 58, LENGTHS_MAX = 2048, EPOCH_BUMP_VERSION = 2 };

static PyObject *name_clear;

void transaction_prepare(void) { crc32c_prepare(); }

/* The state */

#define TRANSACTION_SLOTS(X)                                                                                           \
    X(key) X(packed_partitions) X(state) X(producer_id) X(previous_producer_id) X(next_producer_id) X(producer_epoch)  \
    X(timeout_ms) X(last_update_ms) X(start_ms) X(client_transaction_version)

#define DEFINE(name) static Py_ssize_t transaction_##name;
TRANSACTION_SLOTS(DEFINE)
#undef DEFINE

static PyTypeObject *transaction_type;

/* configure_transactions(Transaction) */
PyObject *configure_transactions(PyObject *module, PyObject *type) {
    (void)module;
    if (!PyType_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "configure_transactions takes the class");
        return NULL;
    }
#define LOOK_UP(name)                                                                                                  \
    if (look_up((PyTypeObject *)type, #name, &transaction_##name)) return NULL;
    TRANSACTION_SLOTS(LOOK_UP)
#undef LOOK_UP
    if (name_clear == NULL && (name_clear = PyUnicode_InternFromString("clear")) == NULL) return NULL;
    Py_XSETREF(transaction_type, (PyTypeObject *)Py_NewRef(type));
    Py_RETURN_NONE;
}

static uint8_t *put_id_tag(uint8_t *p, uint8_t tag, int64_t id) {
    p[0] = tag, p[1] = 8;
    put64(p + 2, id);
    return p + 10;
}

/* The value behind `p`, PLAIN_BYTES_MAX and its partitions at most; NULL where it is for the way in Python. */
static uint8_t *put_value(uint8_t *p, PyObject *transaction, PyObject *partitions) {
    int64_t id, previous_id, next_id, epoch, timeout_ms, updated_ms, start_ms, client_version;
    PyObject *state = SLOT(transaction, transaction_state);
    if (state == NULL || !PyLong_Check(state)) return NULL;
    long status = PyLong_AsLong(state);
    if (status <= EMPTY || status > INT8_MAX || !get(transaction, transaction_producer_id, &id) ||
        !get(transaction, transaction_previous_producer_id, &previous_id) ||
        !get(transaction, transaction_next_producer_id, &next_id) ||
        !get(transaction, transaction_producer_epoch, &epoch) || epoch != (int16_t)epoch ||
        !get(transaction, transaction_timeout_ms, &timeout_ms) || timeout_ms != (int32_t)timeout_ms ||
        !get(transaction, transaction_last_update_ms, &updated_ms) ||
        !get(transaction, transaction_start_ms, &start_ms) ||
        !get(transaction, transaction_client_transaction_version, &client_version) ||
        client_version != (int16_t)client_version)
        return NULL;
    put16(p, VALUE_VERSION);
    put64(p + 2, id);
    put16(p + 10, (int16_t)epoch);
    put32(p + 12, (int32_t)timeout_ms);
    p[16] = (uint8_t)status;
    memcpy(p + 17, PyBytes_AS_STRING(partitions), (size_t)PyBytes_GET_SIZE(partitions));
    p += 17 + PyBytes_GET_SIZE(partitions);
    put64(p, updated_ms);
    put64(p + 8, start_ms);
    p[16] = (uint8_t)((previous_id != -1) + (next_id != -1) + (client_version != 0)); /* tagged fields */
    p += 17;
    if (previous_id != -1) p = put_id_tag(p, 0, previous_id);
    if (next_id != -1) p = put_id_tag(p, 1, next_id);
    if (client_version != 0) {
        p[0] = 2, p[1] = 2;
        put16(p + 2, (int16_t)client_version);
        p += 4;
    }
    return p;
}

/* append_transaction(partition, transaction, now_ms) */
PyObject *append_transaction(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    Target t;
    uint8_t value[PLAIN_BYTES_MAX + LENGTHS_MAX], batch[HEADER_BYTES + PAIR_BYTES_MAX + PLAIN_BYTES_MAX + LENGTHS_MAX];
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "append_transaction takes a partition, a transaction and the time");
        return NULL;
    }
    int64_t now_ms = PyLong_AsLongLong(args[2]), last_offset = -1;
    if (PyErr_Occurred()) return NULL;
    if (transaction_type != NULL && Py_TYPE(args[1]) == transaction_type && find_target(args[0], &t)) {
        PyObject *key = SLOT(args[1], transaction_key), *partitions = SLOT(args[1], transaction_packed_partitions);
        if (key != NULL && partitions != NULL && PyBytes_CheckExact(key) && PyBytes_CheckExact(partitions) &&
            PyBytes_GET_SIZE(partitions) <= LENGTHS_MAX - PyBytes_GET_SIZE(key)) {
            uint8_t *end = put_value(value, args[1], partitions);
            if (end != NULL) {
                end = put_pair(batch + HEADER_BYTES, 0, PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), value, end - value);
                put_header(batch, end - batch, 1, now_ms, 0, -1, -1);
                last_offset = append_own(&t, batch, end - batch, 1, now_ms);
            }
        }
    }
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(last_offset);
}

/* Markers */

typedef struct {
    int64_t producer_id, now_ms;
    long producer_epoch, coordinator_epoch;
} Marker;

/* 0 with an exception where one of the arguments is no number. */
static int read_marker(Marker *m, PyObject *const *args, PyObject *now_ms) {
    m->producer_id = PyLong_AsLongLong(args[1]);
    m->producer_epoch = PyLong_AsLong(args[2]);
    m->coordinator_epoch = PyLong_AsLong(args[3]);
    m->now_ms = PyLong_AsLongLong(now_ms);
    return !PyErr_Occurred();
}

/* Its offset; -1: nothing was changed, unless there is an exception. */
static int64_t write_marker(Target *t, const Marker *m, int committed) {
    uint8_t batch[MARKER_BYTES_MAX], key[MARKER_KEY_BYTES], value[MARKER_VALUE_BYTES];
    if (m->producer_epoch != (int16_t)m->producer_epoch || m->coordinator_epoch != (int32_t)m->coordinator_epoch)
        return -1;
    put16(key, 0);
    put16(key + 2, (int16_t)committed);
    put16(value, 0);
    put32(value + 2, (int32_t)m->coordinator_epoch);
    uint8_t *end = put_pair(batch + HEADER_BYTES, 0, key, sizeof key, value, sizeof value);
    put_header(batch, end - batch, 1, m->now_ms, TRANSACTIONAL | CONTROL, m->producer_id, (int16_t)m->producer_epoch);
    return append_own(t, batch, end - batch, 1, m->now_ms);
}

/* append_marker(partition, producer_id, producer_epoch, coordinator_epoch, committed, now_ms) */
PyObject *append_marker(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    Target t;
    Marker m;
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "append_marker takes six arguments");
        return NULL;
    }
    int committed = PyObject_IsTrue(args[4]);
    if (!read_marker(&m, args, args[5]) || committed < 0) return NULL;
    int64_t offset = find_target(args[0], &t) ? write_marker(&t, &m, committed) : -1;
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(offset);
}

/* The producer, borrowed, if the marker ends what it has open, and nothing that ended before is still remembered. */
static PyObject *find_open(const Target *t, const Marker *m, int64_t transaction_version, PyObject *key) {
    int64_t epoch, coordinator_epoch, first_offset;
    PyObject *states = SLOT(t->log, log_producers);
    if (!is_a(states, PRODUCERS)) return NULL;
    PyObject *by_id = SLOT(states, producers_by_id), *ongoing = SLOT(states, producers_ongoing);
    PyObject *ended = SLOT(states, producers_ended), *verifying = SLOT(states, producers_verifying);
    if (by_id == NULL || ongoing == NULL || ended == NULL || verifying == NULL || !PyDict_CheckExact(by_id) ||
        !PyDict_CheckExact(ongoing) || !PyDict_CheckExact(ended) || !PyDict_CheckExact(verifying) ||
        PyDict_GET_SIZE(ended))
        return NULL;
    PyObject *producer = PyDict_GetItemWithError(by_id, key);
    if (!is_a(producer, PRODUCER) || SLOT(producer, producer_batches) == NULL ||
        !get(producer, producer_epoch, &epoch) || !get(producer, producer_coordinator_epoch, &coordinator_epoch) ||
        !get(producer, producer_first_offset, &first_offset) || first_offset < 0 ||
        m->coordinator_epoch < coordinator_epoch)
        return NULL;
    int is_of_it = transaction_version >= EPOCH_BUMP_VERSION ? m->producer_epoch > epoch : m->producer_epoch == epoch;
    return is_of_it && PyDict_Contains(ongoing, SLOT(producer, producer_first_offset)) == 1 ? producer : NULL;
}

/* What `ProducerStates.end_transaction` notes. The marker is committed, so nobody has to remember what it ended. */
static int note_end(const Target *t, const Marker *m, PyObject *producer, PyObject *key) {
    PyObject *states = SLOT(t->log, log_producers), *verifying = SLOT(states, producers_verifying);
    int64_t epoch;
    int is_verifying = PyDict_Contains(verifying, key);
    if (is_verifying < 0 || (is_verifying && PyDict_DelItem(verifying, key))) return -1;
    if (get(producer, producer_epoch, &epoch) && epoch != m->producer_epoch) {
        PyObject *done = PyObject_CallMethodNoArgs(SLOT(producer, producer_batches), name_clear);
        if (done == NULL) return -1;
        Py_DECREF(done);
        if (put(producer, producer_epoch, m->producer_epoch) || put(producer, producer_next_sequence, 0)) return -1;
    }
    if (PyDict_DelItem(SLOT(states, producers_ongoing), SLOT(producer, producer_first_offset))) return -1;
    return put(producer, producer_coordinator_epoch, m->coordinator_epoch) ||
           put(producer, producer_last_timestamp, m->now_ms) || put(producer, producer_first_offset, -1);
}

/* commit_transaction(partition, producer_id, producer_epoch, coordinator_epoch, transaction_version, now_ms) */
PyObject *commit_transaction(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    Target t;
    Marker m;
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "commit_transaction takes six arguments");
        return NULL;
    }
    int64_t version = PyLong_AsLongLong(args[4]), offset = -1;
    if (!read_marker(&m, args, args[5])) return NULL;
    PyObject *producer = name_clear != NULL && find_target(args[0], &t) ? find_open(&t, &m, version, args[1]) : NULL;
    if (producer != NULL) {
        Py_INCREF(producer); /* whatever is called may let go of them */
        Py_INCREF(t.log);
        offset = write_marker(&t, &m, 1);
        if (offset >= 0 && !PyErr_Occurred() && note_end(&t, &m, producer, args[1])) offset = -1;
        Py_DECREF(t.log);
        Py_DECREF(producer);
    }
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(offset);
}

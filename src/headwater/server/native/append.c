/* One batch at the end of a log: `Partition.append`, the end of `Log.append_as_leader` and `OsFile.append`, compiled.
 * `append.h` says what each function does. */
#include "append.h"

#include <errno.h>
#include <unistd.h>

static const int64_t SEQUENCES = (int64_t)1 << 31;

#define DEFINE(type, name, text) Py_ssize_t name;
SLOTS(DEFINE)
#undef DEFINE

PyTypeObject *slot_types[TYPES];
static PyObject *name_append, *name_add_index_entry, *name_flush_if_due, *name_progressed, *name_fail;

/* Where it goes */

int find_target(PyObject *partition, Target *t) {
    int64_t latest_epoch;
    if (!is_a(partition, PARTITION) || SLOT(partition, partition_is_alone) != Py_True) return 0;
    t->partition = partition;
    t->log = SLOT(partition, partition_log);
    if (!is_a(t->log, LOG) || SLOT(t->log, log_failed) != Py_None) return 0;
    t->segment = SLOT(t->log, log_active);
    return is_a(t->segment, SEGMENT) && get(partition, partition_leader_epoch, &t->leader_epoch) &&
           get(t->log, log_latest_epoch, &latest_epoch) && t->leader_epoch == latest_epoch;
}

int read_target(Target *t, const Batch *b, Py_ssize_t size) {
    int64_t limit, roll_after, last_offset_max;
    PyObject *partition = t->partition, *log = t->log, *segment = t->segment;
    PyObject *file = SLOT(segment, segment_file), *recent = SLOT(segment, segment_recent);
    if (!is_a(file, FILE_) || recent == NULL || !PyDict_CheckExact(recent)) return 0;
    return get(log, log_end_offset, &t->end_offset) && get(log, log_start_offset, &t->start_offset) &&
           get(log, log_flush_requested, &t->flush_requested) && get(log, log_flush_messages, &t->flush_messages) &&
           get(segment, segment_size, &t->size) && get(segment, segment_limit, &limit) &&
           get(segment, segment_roll_after, &roll_after) && get(segment, segment_last_offset_max, &last_offset_max) &&
           get(segment, segment_since_index, &t->since_index) && get(segment, segment_interval, &t->interval) &&
           get(segment, segment_max_timestamp, &t->max_timestamp) && get(file, file_descriptor, &t->descriptor) &&
           get(partition, partition_records_in, &t->records_in) && get(partition, partition_bytes_in, &t->bytes_in) &&
           t->size + size <= limit && b->max_timestamp <= roll_after && t->end_offset + b->last_delta <= last_offset_max;
}

/* What is noted */

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

static int call(PyObject *object, PyObject *name, PyObject *first, PyObject *second) {
    if (PyErr_Occurred()) return -1;
    PyObject *done = PyObject_CallMethodObjArgs(object, name, first, second, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* The segment after the write: what it knows about its end, and every so often an index entry. */
static int note_segment(PyObject *segment, const Target *t, const Batch *b, Py_ssize_t size) {
    int64_t last_offset = t->end_offset + b->last_delta;
    PyObject *used = SLOT(segment, segment_used);
    PyObject *offset = PyLong_FromLongLong(t->end_offset), *position = PyLong_FromLongLong(t->size);
    int failed = offset == NULL || position == NULL ||
                 PyDict_SetItem(SLOT(segment, segment_recent), offset, position) ||
                 put(segment, segment_size, t->size + size);
    SLOT(segment, segment_used) = Py_NewRef(Py_True);
    Py_XDECREF(used);
    if (!failed && b->max_timestamp > t->max_timestamp)
        failed = put(segment, segment_max_timestamp, b->max_timestamp) || put(segment, segment_max_offset, last_offset);
    int64_t since_index = t->since_index;
    if (!failed && since_index > t->interval) {
        PyObject *last = PyLong_FromLongLong(last_offset);
        failed = last == NULL || call(segment, name_add_index_entry, last, position);
        Py_XDECREF(last);
        since_index = 0;
    }
    Py_XDECREF(offset);
    Py_XDECREF(position);
    return failed || put(segment, segment_since_index, since_index + size) ? -1 : 0;
}

static int note(const Target *t, PyObject *producer, const Batch *b, Py_ssize_t size) {
    PyObject *partition = t->partition, *log = t->log;
    int64_t last_offset = t->end_offset + b->last_delta;
    if (note_segment(t->segment, t, b, size) || put(log, log_end_offset, last_offset + 1)) return -1;
    if (producer != NULL && note_producer(producer, b, t->end_offset, last_offset)) return -1;
    if (last_offset - t->flush_requested >= t->flush_messages - 1 && call(log, name_flush_if_due, NULL, NULL)) return -1;
    if (put(partition, partition_records_in, t->records_in + b->last_delta + 1) ||
        put(partition, partition_bytes_in, t->bytes_in + size) ||
        put(partition, partition_high_watermark, last_offset + 1))
        return -1;
    PyObject *waiters = SLOT(partition, partition_waiters);
    if (waiters == NULL || !PyDict_CheckExact(waiters) || PyDict_GET_SIZE(waiters)) {
        PyObject *appended = PyLong_FromSsize_t(b->wakes_all ? 0 : size);
        int failed = appended == NULL || call(partition, name_progressed, appended, NULL);
        Py_XDECREF(appended);
        return failed;
    }
    return 0;
}

/* 1 when all of it is in the file, 0 when none of it is: then the way in Python meets the same trouble and tells. */
static int write_all(const Target *t, const uint8_t *data, Py_ssize_t size) {
    ssize_t written;
    int failed = 0;
    Py_BEGIN_ALLOW_THREADS
    do written = write((int)t->descriptor, data, (size_t)size);
    while (written < 0 && errno == EINTR);
    if (written >= 0 && written < size) failed = ftruncate((int)t->descriptor, (off_t)t->size);
    Py_END_ALLOW_THREADS
    if (written == size) return 1;
    if (failed) { /* a part of the batch stays in the file: the log takes no more */
        PyObject *problem = PyObject_CallFunction(PyExc_OSError, "is", errno, "a torn write could not be taken back");
        if (problem != NULL) call(t->log, name_fail, problem, NULL);
        Py_XDECREF(problem);
    }
    return 0;
}

int append_batch(Target *t, PyObject *producer, const Batch *b, uint8_t *records, Py_ssize_t size) {
    PyObject *held[] = {t->partition, t->log, t->segment, producer}; /* whatever is called may let go of its own */
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) Py_XINCREF(held[i]);
    put64(records, t->end_offset);
    put32(records + 12, (int32_t)t->leader_epoch);
    int done = write_all(t, records, size);
    if (!done && PyErr_Occurred()) done = -1;
    if (done > 0 && note(t, producer, b, size)) done = -1;
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) Py_XDECREF(held[i]);
    return done;
}

/* The beginning */

int look_up_slots(PyObject *const given[TYPES]) {
    for (int i = 0; i < TYPES; i++) Py_XSETREF(slot_types[i], (PyTypeObject *)Py_NewRef(given[i]));
#define LOOK_UP(type, name, text)                                                                                      \
    if (look_up(slot_types[type], text, &name)) return -1;
    SLOTS(LOOK_UP)
#undef LOOK_UP
    return 0;
}

int append_prepare(void) {
    struct { PyObject **name; const char *text; } names[] = {
        {&name_append, "append"},           {&name_add_index_entry, "add_index_entry"}, {&name_flush_if_due, "flush_if_due"},
        {&name_progressed, "_progressed"}, {&name_fail, "fail"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (*names[i].name == NULL && (*names[i].name = PyUnicode_InternFromString(names[i].text)) == NULL) return -1;
    return 0;
}

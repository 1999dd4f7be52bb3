/* What the paths that write share: the slots of the objects they touch, and one batch at the end of a log.
 *
 * The objects are those of Python, with `__slots__`: `look_up_slots` finds where each slot lies. Nothing is kept but
 * these places. One thread calls it all, the owner of the loop.
 */
#ifndef HEADWATER_APPEND_H
#define HEADWATER_APPEND_H

#include "slots.h"

enum { HEADER_BYTES = 61, LENGTH_PREFIX_BYTES = 12, MAGIC = 2, TRANSACTIONAL = 16 };

enum type { PARTITION, LOG, SEGMENT, PRODUCERS, PRODUCER, FILE_, TYPES };

/* Every slot that is used: its type, its name in C, its name in Python. */
#define SLOTS(X)                                                                                                        \
    X(PARTITION, partition_log, "log") X(PARTITION, partition_is_alone, "is_alone")                                     \
    X(PARTITION, partition_leader_epoch, "leader_epoch") X(PARTITION, partition_replies, "produce_replies")             \
    X(PARTITION, partition_records_in, "records_in") X(PARTITION, partition_bytes_in, "bytes_in")                       \
    X(PARTITION, partition_high_watermark, "high_watermark") X(PARTITION, partition_waiters, "waiters")                 \
    X(PARTITION, partition_topic_id, "topic_id")                                                                        \
    X(LOG, log_latest_epoch, "latest_epoch") X(LOG, log_failed, "failed") X(LOG, log_bytes_max, "_fast_bytes_max")      \
    X(LOG, log_own_bytes_max, "own_bytes_max")                                                                          \
    X(LOG, log_after_max_ms, "_after_max_ms") X(LOG, log_before_max_ms, "_before_max_ms")                               \
    X(LOG, log_producers, "producers") X(LOG, log_end_offset, "log_end_offset")                                         \
    X(LOG, log_start_offset, "log_start_offset") X(LOG, log_active, "active")                                           \
    X(LOG, log_flush_requested, "flush_requested_offset") X(LOG, log_flush_messages, "_flush_messages")                 \
    X(SEGMENT, segment_size, "size_bytes") X(SEGMENT, segment_limit, "limit_bytes")                                     \
    X(SEGMENT, segment_roll_after, "roll_after_timestamp") X(SEGMENT, segment_last_offset_max, "last_offset_max")       \
    X(SEGMENT, segment_file, "file") X(SEGMENT, segment_used, "recently_used") X(SEGMENT, segment_recent, "recent")     \
    X(SEGMENT, segment_max_timestamp, "max_timestamp") X(SEGMENT, segment_max_offset, "max_timestamp_offset")           \
    X(SEGMENT, segment_since_index, "bytes_since_index") X(SEGMENT, segment_interval, "index_interval_bytes")           \
    X(PRODUCERS, producers_by_id, "producers") X(PRODUCERS, producers_ongoing, "ongoing")                               \
    X(PRODUCERS, producers_ended, "ended") X(PRODUCERS, producers_verifying, "verifying")                               \
    X(PRODUCER, producer_coordinator_epoch, "coordinator_epoch") X(PRODUCER, producer_next_sequence, "next_sequence")                     \
    X(PRODUCER, producer_epoch, "epoch") X(PRODUCER, producer_first_offset, "transaction_first_offset")                 \
    X(PRODUCER, producer_batches, "batches") X(PRODUCER, producer_last_timestamp, "last_timestamp")                     \
    X(FILE_, file_descriptor, "_descriptor")

#define DECLARE(type, name, text) extern Py_ssize_t name;
SLOTS(DECLARE)
#undef DECLARE

extern PyTypeObject *slot_types[TYPES];

/* Takes the classes and finds their slots; -1 with an exception where one has other slots than these. */
int look_up_slots(PyObject *const given[TYPES]);
int append_prepare(void);

static inline int is_a(PyObject *object, enum type type) { return object != NULL && Py_TYPE(object) == slot_types[type]; }

/* One batch, and where it goes */

typedef struct {
    int32_t length, last_delta, base_sequence;
    int64_t base_timestamp, max_timestamp, producer_id;
    int16_t producer_epoch;
    int wakes_all; /* whoever waits, however much he waits for: as `Partition.append_internal` does */
} Batch;

typedef struct {
    PyObject *partition, *log, *segment; /* borrowed */
    int64_t leader_epoch;
    int64_t end_offset, start_offset, size, since_index, interval, max_timestamp, flush_requested, flush_messages;
    int64_t records_in, bytes_in, descriptor;
} Target;

/* 1 if what is appended to the partition is committed at once and its log can take it; else 0. */
int find_target(PyObject *partition, Target *t);

/* What is compared and what will be changed; 0 where the batch does not simply go at the end of the open segment. */
int read_target(Target *t, const Batch *b, Py_ssize_t size);

/* Assigns offset and leader epoch, writes, takes note. `producer` is borrowed, or NULL.
 * 1 when it is done; 0 without an exception: nothing was changed; -1 with one, after the write. */
int append_batch(Target *t, PyObject *producer, const Batch *b, uint8_t *records, Py_ssize_t size);

/* commit.c */
void commit_prepare(void);
PyObject *read_commit(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *append_commit(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* decision.c */
void decision_prepare(void);
PyObject *append_records(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* transaction.c */
void transaction_prepare(void);
PyObject *configure_transactions(PyObject *module, PyObject *type);
PyObject *append_transaction(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *append_marker(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *commit_transaction(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
